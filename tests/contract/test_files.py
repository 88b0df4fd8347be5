"""What every file of the package looks like, so that each can be read alone and copied alone."""

import ast
import contextlib
import doctest
import importlib
import inspect
import itertools
import re
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
import torch

import posenc
from posenc import _index
from tests.contract import encoding_inputs, shape_comments, style
from tests.contract.encoding_inputs import POSITIONS, ROOT, Encoding

PACKAGE, BOOK = ROOT / "posenc", ROOT / "docs" / "book"
FILES = sorted([*PACKAGE.rglob("*.py"), *BOOK.rglob("*.py")])
ENCODINGS = {encoding.path for encoding in encoding_inputs.encodings()}
DOOR_FOLDERS = [PACKAGE / name for name in encoding_inputs.CALLS]
OTHERS = [path for path in FILES if path.stem[0] != "_" and path not in ENCODINGS]
IN_A_DOOR = [path for path in FILES if path.stem[0] != "_" and path.parent in DOOR_FOLDERS]

TO_COPY = [path for path in IN_A_DOOR if path.parent.name != "fast"]

BESIDE = {"from_config": {".", "frequencies", "posenc.rotate"}}
"""What a file may import from beside it: what a config says are arguments of the formulas, which are copied with it."""

SPEAKERS = {"doctor": "doctor", "config": "plan", "workbook": "check", "runs": "run", "real": "real"}
"""Whose names errors bear that are raised in a folder: those of the function that a user has called."""

ONE_NAME_EACH = {
    "dim": "d d_model dmodel embed_dim embedding_dim head_dim hidden_dim hidden_size model_dim",
    "heads": "h n_head n_heads nhead nheads num_heads head_count",
    "base": "b rope_base rope_theta theta_base theta_0 max_period",
    "theta": "freq freqs frequency frequencies inv_freq inv_freqs omega omegas thetas",
    "positions": "p pos position position_ids pos_ids query_positions q_positions",
    "key_positions": "k_positions kv_positions positions_k keys_positions",
    "length": "seq_len seqlen seq_length sequence_length n_tokens",
    "max_length": "max_len max_seq_len max_position max_positions max_position_embeddings",
    "q": "query queries",
    "k": "key",
    "v": "value values",
    "causal": "is_causal",
    "mask": "attn_mask attention_mask",
    "dropout": "dropout_p dropout_rate p_dropout drop",
}
INSTEAD = {synonym: name for name, synonyms in ONE_NAME_EACH.items() for synonym in synonyms.split()}

PLAIN_FOLDERS = [f"posenc/{name}" for name in ("add", "rotate", "bias", "score", "models", "config", "doctor", "fast")]
PLAIN = [path for folder in PLAIN_FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
PLAIN += [PACKAGE / f"{name}.py" for name in ("attention", "positions", "_index")]
PLAIN += sorted((BOOK / "posenc_book/runs").rglob("*.py"))

TESTED_FOLDERS = (
    "add",
    "rotate",
    "bias",
    "score",
    "models",
    "config",
    "doctor",
    "fast",
    "contract",
    "dev",
    "in_models",
)
NAMED_FOLDERS = [
    *PLAIN_FOLDERS,
    "docs/book/posenc_book/runs",
    "docs/engine/dev",
    *(f"tests/{name}" for name in TESTED_FOLDERS),
]

over_encodings = pytest.mark.parametrize("encoding", encoding_inputs.encodings(), ids=str)
over_plain_files = pytest.mark.parametrize("path", PLAIN, ids=lambda path: str(path.relative_to(ROOT)))
over_files = pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
over_door_files = pytest.mark.parametrize("path", IN_A_DOOR, ids=lambda path: f"{path.parent.name}/{path.stem}")


def functions_of(path: Path) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]


def public_definitions(path: Path) -> list[ast.FunctionDef | ast.ClassDef]:
    """Return the public functions and classes of a file, and the public methods of the latter."""
    definitions = []
    scopes = [ast.parse(path.read_text())]
    for scope in scopes:
        for node in scope.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                definitions.append(node)
                scopes += [node] if isinstance(node, ast.ClassDef) else []
    return definitions


# Every file of the package


@over_files
def test_the_package_does_not_assert(path):
    """Raise a ValueError: `python -O` takes asserts out."""
    lines = [node.lineno for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Assert)]
    assert not lines, f"{path.name} asserts in lines {lines}"


@pytest.mark.parametrize("path", [path for path in FILES if path.stem[:2] != "__"], ids=lambda path: path.stem)
def test_every_error_is_a_value_error_that_names_file_argument_condition_and_value(path):
    """Write raise ValueError(f"NAME: dim must be even, got {dim}; features turn in pairs"), NAME being the file's."""
    speakers = {path.stem, *(node.name for node in public_definitions(path))}
    speakers |= {speaker for folder, speaker in SPEAKERS.items() if folder in path.parts}
    form = re.compile(rf"({'|'.join(sorted(speakers))}): [\w {{}}]+ must (be|have) .+, got (None|.*{{}})", re.S)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Raise):
            where = f"{path.name}:{node.lineno}"
            assert isinstance(node.exc, ast.Call), f"{where} raises something other than ValueError(...)"
            assert ast.unparse(node.exc.func) == "ValueError", f"{where} raises {ast.unparse(node.exc.func)}"
            message = template(node.exc.args[0])
            assert form.match(message), f'{where} says {message!r}, not "{path.stem}: … must be …, got {{value}}"'


def template(text: ast.expr) -> str:
    """Return an f-string, or a sentence of posenc.config.sentences that is filled, with `{}` for each value."""
    if isinstance(text, ast.Call) and (filled := re.fullmatch(r"sentences\.(\w+)\.format", ast.unparse(text.func))):
        sentences = importlib.import_module("posenc.config.sentences")  # which not every copy of the project has
        return re.sub(r"\{[^{}]*\}", "{}", getattr(sentences, filled[1]))
    parts = text.values if isinstance(text, ast.JoinedStr) else [text]
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts)


@over_files
def test_functions_have_at_most_25_code_lines(path):
    """Give a part of the function a name of its own; what stands in its signature is not counted."""
    lines = path.read_text().splitlines()
    for node in functions_of(path):
        body = node.body[1:] if ast.get_docstring(node) else node.body
        texts = [lines[n - 1].strip() for n in range(body[0].lineno, node.end_lineno + 1)] if body else []
        code = [text for text in texts if text and not text.startswith("#")]
        assert len(code) <= 25, f"{path.name}:{node.lineno}: {node.name} has {len(code)} code lines"


@pytest.mark.parametrize("path", TO_COPY, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_file_to_copy_uses_plain_operations(path):
    """They serve compile, vmap and export by themselves."""
    assert not style.tricks(path), f"{path.name} uses {', '.join(style.tricks(path))}"


@over_plain_files
def test_one_statement_says_one_thing(path):
    """A reader takes in one step at a time: write two statements."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    doubled = [f"{path.relative_to(ROOT)}:{line} {does}" for line, does in style.two_in_one(tree)]
    assert not doubled, "\n".join(doubled)


@over_plain_files
def test_public_signatures_are_typed(path):
    """Annotate every parameter and result: editors and readers see what a call takes."""
    assert not style.untyped(path), f"{path.name}: {'; '.join(style.untyped(path))}"


@pytest.mark.parametrize("folder", NAMED_FOLDERS)
def test_names_say_what_they_hold(folder):
    """Take the field's word (result, expected, tokens, layout): of a hundred names one may be a filler."""
    names, share = style.filler_names(sorted((ROOT / folder).rglob("*.py")))
    assert share < 0.02, f"{folder}: {share:.1%} of the names bound are filler, such as {', '.join(names[:9])}"


@over_files
def test_modules_public_functions_and_classes_have_docstrings(path):
    """Write a docstring, or start the name with an underscore."""
    assert ast.get_docstring(ast.parse(path.read_text())), f"{path.name} has no docstring on top"
    bare = [node.name for node in public_definitions(path) if not ast.get_docstring(node)]
    assert not bare, f"{path.name}: {' and '.join(bare)} without a docstring"


@over_files
def test_public_arguments_have_the_names_of_the_book(path):
    """One thing has one name in the whole book: rename the argument."""
    for node in functions_of(path):
        if not node.name.startswith("_") or node.name == "__init__":
            for name in [argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)]:
                assert name not in INSTEAD, f"{path.name}:{node.lineno}: call {name} {INSTEAD[name]}"


# What these files say of shapes is traced by tests of their own, on what only `make peers` installs.
UNTRACED = (PACKAGE / "doctor", BOOK / "posenc_book/real")


@pytest.mark.parametrize(
    "path", [p for p in OTHERS if not any(map(p.is_relative_to, UNTRACED))], ids=lambda path: path.stem
)
def test_shape_comments_of_other_files_are_true(path):
    """Correct the comment `# (t, d)`, or call its line in exercise(module) of the file's own tests."""
    module, report = shape_comments.watch(path, module_name(path))
    if report.shapes:
        own_tests(path).exercise(module)
    assert not report.problems(), "\n".join(report.problems())


def module_name(path: Path) -> str:
    root = BOOK if path.is_relative_to(BOOK) else ROOT
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def own_tests(path: Path):
    """Import the tests of a file: those of posenc/bias/t5.py are tests/bias/test_t5.py."""
    package, *folders, name = module_name(path).split(".")
    tests = ["tests", "book"] if package == "posenc_book" else ["tests"]
    return importlib.import_module(".".join((*tests, *folders, f"test_{name}")))


@over_files
def test_public_functions_and_classes_show_an_example(path):
    """Write `Examples:` and a >>> line into the docstring; that of a class serves its NumPy function too."""
    nodes = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    twin = path.stem if any(isinstance(node, ast.ClassDef) for node in nodes) else ""
    public = {node.name for node in nodes if node.name[0] != "_" and node.name != twin}
    if module_name(path) not in _index.modules():
        face = importlib.import_module(module_name(path.with_name("__init__.py")))
        public &= {*getattr(face, "__all__", ())}
    with_example = {
        node.name for node in nodes if re.search(r"^Examples:\n +>>> ", ast.get_docstring(node) or "", re.M)
    }
    assert not public - with_example, f"{path.name}: {' and '.join(sorted(public - with_example))} without an example"


@over_files
def test_an_example_does_not_print_the_last_bit_of_a_float(path):
    """Round what is no whole number of 1/1024s, `.round(4).tolist()`: another NumPy prints 0.09999999999999999."""
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    for example in itertools.chain.from_iterable(map(examples, nodes)):
        if "round(" not in example.source:
            coarse = [value for value in floats(example.want) if Fraction(value).denominator > 1024]
            assert not coarse, f"{path.name}: {example.source.strip()} prints {coarse}"


def examples(node: ast.ClassDef | ast.FunctionDef) -> list[doctest.Example]:
    return doctest.DocTestParser().get_examples(ast.get_docstring(node) or "")


def floats(printed: str) -> list[float]:
    """Return the floats of a printed tuple, list or dict; arrays and tensors print few digits by themselves."""
    with contextlib.suppress(SyntaxError, ValueError):
        ast.literal_eval(printed.strip())
        constants = [node.value for node in ast.walk(ast.parse(printed.strip())) if isinstance(node, ast.Constant)]
        return [value for value in constants if isinstance(value, float)]
    return []


# Every file of a door: an encoding, or what serves one

HEAD = {
    "Paper": 'authors, year, "title", https://…, equation; or unpublished, authors, year',
    "Used": "the models and libraries that have it",
    "Cost": "what it computes and learns, in words",
    "Key": "b batch, h heads, t queries, s keys, …",
}
"""What the docstring of a file says, each in a paragraph that starts with its heading."""


def lacks(path: Path, heading: str) -> str:
    return f"{path.name}: its docstring has no line `{heading}: {HEAD[heading]}`"


PAPER = re.compile(r"^Paper: +(unpublished, .+?, \d{4}|.+ \d{4}, .+https://\S+)", re.M | re.S)


@pytest.mark.parametrize(
    ("line", "names_a_source"),
    [
        ('Paper: You et al., 2026, "Where it is from",\n       https://example.org/a, eq. 3.', True),
        ("Paper: unpublished, You, 2026", True),
        ("Paper: unpublished, You", False),
        ('Paper: You et al., "Where it is from"', False),
    ],
)
def test_a_source_is_a_paper_or_unpublished(line, names_a_source):
    assert bool(PAPER.search(line)) == names_a_source


@over_door_files
def test_the_docstring_names_source_and_axes(path):
    """Write into the docstring of the file its `Paper:` and the letters of its axes, `Key:`."""
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    assert PAPER.search(docstring), lacks(path, "Paper")
    assert shape_comments.key_letters(docstring), lacks(path, "Key")


@over_door_files
def test_the_file_imports_numpy_torch_and_the_standard_library_only(path):
    """Import NumPy, torch and the standard library alone, no file beside it: a copied file must run."""
    tree = ast.parse(path.read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {"." * n.level + (n.module or "") for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    imported -= BESIDE.get(path.stem, set())
    other = {name for name in imported if name.split(".")[0] not in {"numpy", "torch", *sys.stdlib_module_names}}
    assert not other, f"{path.name} imports {' and '.join(sorted(other))}"


@over_door_files
def test_has_its_own_tests(path):
    """Write tests/DOOR/test_NAME.py: values by hand or from the paper, and what encoding_inputs.py must be told."""
    own = encoding_inputs.own_tests_path(f"{path.parent.name}/{path.stem}")
    assert own.exists(), f"there is no {own.relative_to(ROOT)}"


@over_door_files
def test_has_a_page_that_imports_it(path):
    """`make update` writes its card into docs/gallery.md, which imports it; a chapter may follow."""
    pages = [page for page in (ROOT / "docs").rglob("*.md") if "engine" not in page.relative_to(ROOT / "docs").parts]
    name = module_name(path)
    assert [page for page in pages if f"from {name} import" in page.read_text()], f"no page in docs/ imports {name}"


# Every file of an encoding


@over_encodings
def test_the_function_is_named_like_the_file(encoding: Encoding):
    """The file defines a NumPy function of its own name: the formula, in float64."""
    function = getattr(encoding.module, encoding.name, None)
    here = inspect.isfunction(function) and function.__module__ == encoding.module.__name__
    assert here, f"{encoding.path.name} defines no function {encoding.name}"


@over_encodings
def test_the_class_is_named_like_the_file(encoding: Encoding):
    """The file defines one public torch class, named like the file but for capitals and underscores."""
    names = [cls.__name__ for cls in encoding.classes]
    fitting = [name.lower() for name in names] == [encoding.name.replace("_", "")]
    assert fitting, f"{encoding.path.name} defines the public classes {names}, not one that is named like the file"


@over_encodings
def test_the_call_is_that_of_the_door(encoding: Encoding):
    """forward takes the arguments of its door, in this order; tests/contract/encoding_inputs.py lists them as CALLS."""
    parameters = list(inspect.signature(encoding.classes[0].forward).parameters.values())[1:]
    names = tuple(parameter.name for parameter in parameters[: len(encoding.call)])
    assert names == encoding.call, f"forward takes {', '.join(names)}; its door, {', '.join(encoding.call)}"
    for parameter in parameters[: len(encoding.call)]:
        required = parameter.name in ("x", "q", "k") or (encoding.door == "bias" and parameter.name == "positions")
        right = parameter.default is (inspect.Parameter.empty if required else None)
        assert right, f"{parameter.name} of forward must {'have no default' if required else 'be None by default'}"


@over_encodings
def test_the_base_is_a_number_and_theta_are_frequencies(encoding: Encoding):
    """`base` is the number whose powers are wavelengths, such as 10,000; `theta` are frequencies, by default None."""
    for function in (encoding.function, encoding.classes[0]):
        defaults = {name: p.default for name, p in inspect.signature(function).parameters.items()}
        base, theta = defaults.get("base", 0), defaults.get("theta")
        assert isinstance(base, int | float), f"base of {function.__name__} is by default {base!r}, no number"
        assert theta in (None, inspect.Parameter.empty), f"theta of {function.__name__} is by default {theta!r}"


@over_encodings
def test_options_are_spelled_the_same_in_numpy_and_torch(encoding: Encoding):
    """Class and NumPy function take the same options, with the same names and defaults."""
    cls = encoding.classes[0]
    of_class = dict(inspect.signature(cls.forward).parameters) | dict(inspect.signature(cls).parameters)
    learned = {name for variant in encoding.variants() for name in variant.declared("LEARNED", ())}
    of_every_call = {"x", "positions", "key_positions", "dim", "heads", *learned}
    for name, parameter in inspect.signature(encoding.function).parameters.items():
        if name not in of_every_call:
            assert name in of_class, f"{cls.__name__} has no {name}, which {encoding.name}(…) takes"
            two = f"{parameter.default!r} in {encoding.name}(…) and {of_class[name].default!r} in {cls.__name__}"
            assert parameter.default == of_class[name].default, f"{name} has two defaults: {two}"


@over_encodings
def test_the_docstring_says_what_the_gallery_shows(encoding: Encoding):
    """Write into the docstring of the file: `Paper:`, `Used:` (by whom), `Cost:` and `Key:` (the letters of axes)."""
    docstring = encoding.module.__doc__ or ""
    for heading in HEAD:
        assert re.search(rf"^{heading}: +\S", docstring, re.M), lacks(encoding.path, heading)


def test_the_head_of_every_file_can_be_read_without_importing_it():
    """Write `Paper: authors, year, "title", https://…` into the docstring of the file."""
    for key, encoding in posenc.encodings().items():
        path = PACKAGE / f"{key}.py"
        assert encoding.paper, lacks(path, "Paper")
        assert encoding.authors, lacks(path, "Paper")
        assert 1980 < encoding.year < 2100, f"{lacks(path, 'Paper')}: the year is {encoding.year}"
        linked = encoding.url.startswith("https://") or encoding.paper == "unpublished"
        assert linked, f"{lacks(path, 'Paper')}: the link is {encoding.url!r}"
        assert hasattr(encoding.module, encoding.cls), f"{key}: the file defines no {encoding.cls}"


@over_encodings
def test_the_file_has_shape_comments_all_true_and_all_reached(encoding: Encoding):
    """Comment what makes or reshapes an array: `# (b, h, t, d)`, in the letters of `Key:`; the tests compare it.

    They call the class as its door does; what else must run, exercise(module) in the test file of the encoding calls.
    """
    watched, report = shape_comments.watch(encoding.path, encoding.module.__name__)
    assert report.shapes, f"{encoding.path.name} has no shape comment"
    run_everything(replace(encoding, module=watched))
    encoding.declared("exercise", lambda module: None)(watched)
    assert not report.problems(), "\n".join(report.problems())


def run_everything(encoding: Encoding) -> None:
    """Call class and twin as the contract does: each variant, positions left out, shared and batched."""
    for variant in encoding.variants():
        module = variant.build()
        variant.results(module, variant.plain(6))
        for kind in ("start", "batched"):
            arguments = variant.arguments(POSITIONS[kind])
            variant.results(module, variant.tensors(arguments))
            variant.expected(arguments, module)


ALONE = """
import importlib, sys, torch
sys.modules.update(posenc=None, tests=None)  # importing them fails
for case in torch.load(sys.argv[1], weights_only=False):
    sys.path[:0] = [case["folder"]]
    module = getattr(importlib.import_module(case["name"]), case["cls"])(**case["settings"]).eval()
    module.load_state_dict(case["state"])
    torch.testing.assert_close(module(**case["tensors"]), case["expected"])
    sys.path.remove(case["folder"])
    del sys.modules[case["name"]]
    print(case["key"])
"""


def copied_alone(encodings: list[Encoding], folder: Path) -> list[str]:
    """Copy each file to an empty folder and run it in a new interpreter; return the keys of those that ran."""
    cases = []
    for encoding in encodings:
        variant, place = encoding.variants()[0], folder / encoding.door / encoding.name
        place.mkdir(parents=True)
        (place / encoding.path.name).write_text(encoding.path.read_text())
        module, tensors = variant.build(), variant.plain(6, with_positions=True)
        accepted = inspect.signature(encoding.classes[0]).parameters
        settings = {"dim": encoding_inputs.D, "heads": encoding_inputs.H} | variant.options
        cases.append(
            {
                "key": encoding.key,
                "folder": str(place),
                "name": encoding.name,
                "cls": type(module).__name__,
                "settings": {name: value for name, value in settings.items() if name in accepted},
                "state": dict(module.state_dict()),
                "tensors": tensors,
                "expected": module(**tensors),
            }
        )
    torch.save(cases, folder / "cases.pt")
    command = [sys.executable, "-I", "-c", ALONE, str(folder / "cases.pt")]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_every_file_can_be_copied_and_run_where_posenc_is_not(tmp_path):
    """A file runs alone, in an empty folder: it imports no other file and reads none."""
    encodings = encoding_inputs.encodings()
    assert copied_alone(encodings, tmp_path) == [encoding.key for encoding in encodings]
