"""What every file of the package looks like, so that each can be read alone and copied alone."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import posenc
from tests import doors, shapes
from tests.doors import POSITIONS, ROOT, Encoding

PACKAGE = ROOT / "posenc"
FILES = sorted(PACKAGE.rglob("*.py"))
ENCODINGS = {encoding.path for encoding in doors.encodings()}
OTHERS = [path for path in FILES if path.stem[0] != "_" and path not in ENCODINGS]
IN_A_DOOR = [path for path in FILES if path.stem[0] != "_" and path.parent.name in doors.CALLS]

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

each = pytest.mark.parametrize("encoding", doors.encodings(), ids=str)
each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
each_in_a_door = pytest.mark.parametrize("path", IN_A_DOOR, ids=lambda path: f"{path.parent.name}/{path.stem}")


def functions_of(path: Path) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]


def public_definitions(path: Path) -> list[ast.FunctionDef | ast.ClassDef]:
    """Return the public functions and classes of a file, and the public methods of the latter."""
    found = []
    scopes = [ast.parse(path.read_text())]
    for scope in scopes:
        for node in scope.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                found.append(node)
                scopes += [node] if isinstance(node, ast.ClassDef) else []
    return found


# Every file of the package


@each_file
def test_the_package_does_not_assert(path):
    assert not [node.lineno for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Assert)]


@pytest.mark.parametrize("path", [path for path in FILES if path.stem[:2] != "__"], ids=lambda path: path.stem)
def test_every_error_is_a_value_error_that_names_file_argument_condition_and_value(path):
    speaker = {"checkup": "doctor", "workbook": "check"}.get(path.parent.name, path.stem)
    form = re.compile(rf"{speaker}: [\w {{}}]+ must be .+, got .*{{}}", re.S)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Raise):
            where = f"{path.name}:{node.lineno}"
            assert isinstance(node.exc, ast.Call), f"{where} raises something other than ValueError(...)"
            assert ast.unparse(node.exc.func) == "ValueError", where
            assert form.match(template(node.exc.args[0])), f"{where}: {template(node.exc.args[0])!r}"


def template(text: ast.expr) -> str:
    """Return an f-string with `{}` for each value."""
    parts = text.values if isinstance(text, ast.JoinedStr) else [text]
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts)


@each_file
def test_functions_have_at_most_25_code_lines(path):
    lines = path.read_text().splitlines()
    for node in functions_of(path):
        docstring = node.body[0] if ast.get_docstring(node) else None
        skipped = range(docstring.lineno, docstring.end_lineno + 1) if docstring else ()
        texts = [lines[n - 1].strip() for n in range(node.lineno, node.end_lineno + 1) if n not in skipped]
        code = [text for text in texts if text and not text.startswith("#")]
        assert len(code) <= 25, f"{path.name}:{node.lineno}: {node.name} has {len(code)} code lines"


@each_file
def test_files_have_at_most_250_lines(path):
    """Examples are not counted: each shows in two lines what a sentence would have to say."""
    read = re.sub(r"^\n( +)Examples:\n(?:\1.+\n)+", "", path.read_text(), flags=re.M)
    assert len(read.splitlines()) <= 250


@each_file
def test_modules_public_functions_and_classes_have_docstrings(path):
    assert ast.get_docstring(ast.parse(path.read_text()))
    assert not [node.name for node in public_definitions(path) if not ast.get_docstring(node)]


@each_file
def test_public_arguments_have_the_names_of_the_book(path):
    for node in functions_of(path):
        if not node.name.startswith("_") or node.name == "__init__":
            for name in [argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)]:
                assert name not in INSTEAD, f"{path.name}:{node.lineno}: call {name} {INSTEAD[name]}"


@pytest.mark.parametrize("path", OTHERS, ids=lambda path: path.stem)
def test_shape_comments_of_other_files_are_true(path):
    module, report = shapes.watch(path, module_name(path))
    if report.shapes:
        own_tests(path).exercise(module)
    assert not report.problems()


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def own_tests(path: Path):
    """Import the tests of a file of the package: tests/<door>/test_<name>.py, or tests/test_<name>.py."""
    place = path.relative_to(PACKAGE)
    return importlib.import_module(".".join(("tests", *place.parts[:-1], f"test_{place.stem}")))


@each_file
def test_public_functions_and_classes_show_an_example(path):
    """The example of a class serves its NumPy twin too, the function that is named like the file."""
    nodes = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    twin = path.stem if any(isinstance(node, ast.ClassDef) for node in nodes) else ""
    public = {node.name for node in nodes if node.name[0] != "_" and node.name != twin}
    if path not in posenc._files():
        public = {name for name, module in posenc.TOOLS.items() if module == module_name(path)}
    shown = {node.name for node in nodes if re.search(r"^Examples:\n +>>> ", ast.get_docstring(node) or "", re.M)}
    assert not public - shown


def test_public_names_are_unique():
    names = [name for name, _ in posenc._names()]
    assert not {name for name in names if names.count(name) > 1}


def test_every_public_name_can_be_imported_from_the_package():
    for name, module in posenc._names():
        assert getattr(posenc, name) is getattr(importlib.import_module(module), name)
        assert name in dir(posenc)


def test_a_star_brings_the_public_names_and_nothing_else():
    brought = {}
    exec("from posenc import *", brought)
    assert set(brought) - {"__builtins__"} == {"encodings", *posenc.TOOLS, *(name for name, _ in posenc._names())}


def test_folders_and_files_are_attributes_of_the_package_before_anything_is_imported():
    code = "import posenc; print(posenc.attention.attention.__name__, posenc.bias.__name__)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert said.stdout.split() == ["attention", "posenc.bias"]


def test_importing_the_package_imports_neither_torch_nor_numpy():
    code = "import sys, posenc; posenc.encodings(); print({'torch', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


# Every file of a door: an encoding, or what serves one


@each_in_a_door
def test_the_docstring_names_source_and_axes(path):
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    assert re.search(r"^Paper: .+ \d{4}, .+https://\S+", docstring, re.M | re.S)
    assert shapes.key_letters(docstring)


@each_in_a_door
def test_the_file_imports_numpy_torch_and_the_standard_library_only(path):
    tree = ast.parse(path.read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {"." * n.level + (n.module or "") for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    assert not {name for name in imported if name.split(".")[0] not in {"numpy", "torch", *sys.stdlib_module_names}}


@each_in_a_door
def test_has_its_own_tests(path):
    assert doors.own_tests_path(f"{path.parent.name}/{path.stem}").exists()


@each_in_a_door
def test_has_a_page_that_imports_it(path):
    pages = [page for page in (ROOT / "docs").rglob("*.md") if "engine" not in page.relative_to(ROOT / "docs").parts]
    name = module_name(path)
    assert [page for page in pages if f"from {name} import" in page.read_text()], f"no page in docs/ imports {name}"


# Every file of an encoding


@each
def test_the_function_is_named_like_the_file(encoding: Encoding):
    assert inspect.isfunction(encoding.function)
    assert encoding.function.__module__ == encoding.module.__name__


@each
def test_the_class_is_named_like_the_file(encoding: Encoding):
    assert [cls.__name__.lower() for cls in encoding.classes] == [encoding.name.replace("_", "")]


@each
def test_the_call_is_that_of_the_door(encoding: Encoding):
    parameters = list(inspect.signature(encoding.classes[0].forward).parameters.values())[1:]
    assert tuple(parameter.name for parameter in parameters[: len(encoding.call)]) == encoding.call
    for parameter in parameters[: len(encoding.call)]:
        required = parameter.name in ("x", "q", "k") or (encoding.door == "bias" and parameter.name == "positions")
        assert parameter.default is (inspect.Parameter.empty if required else None)


@each
def test_the_base_is_a_number_and_theta_are_frequencies(encoding: Encoding):
    for function in (encoding.function, encoding.classes[0]):
        defaults = {name: p.default for name, p in inspect.signature(function).parameters.items()}
        assert isinstance(defaults.get("base", 0), int | float)
        assert defaults.get("theta") in (None, inspect.Parameter.empty)


@each
def test_options_are_spelled_the_same_in_numpy_and_torch(encoding: Encoding):
    cls = encoding.classes[0]
    of_class = dict(inspect.signature(cls.forward).parameters) | dict(inspect.signature(cls).parameters)
    learned = {name for variant in encoding.variants() for name in variant.told("LEARNED", ())}
    given = {"x", "positions", "key_positions", "dim", "heads", *learned}
    for name, parameter in inspect.signature(encoding.function).parameters.items():
        if name not in given:
            assert name in of_class, f"{cls.__name__} has no {name}"
            assert parameter.default == of_class[name].default, f"{name} has two defaults"


@each
def test_the_docstring_says_what_the_gallery_shows(encoding: Encoding):
    docstring = encoding.module.__doc__ or ""
    for heading in ("Paper", "Used", "Cost", "Key"):
        assert re.search(rf"^{heading}: +\S", docstring, re.M), f"no {heading}:"
    assert shapes.key_letters(docstring)


def test_the_head_of_every_file_can_be_read_without_importing_it():
    for key, found in posenc.encodings().items():
        assert found.paper, f"{key}: the docstring says no Paper: authors, year, title in quotes, link"
        assert found.authors, key
        assert 1980 < found.year < 2100
        assert found.url.startswith("https://")
        assert getattr(found.module, found.cls)


@each
def test_the_file_has_shape_comments_all_true_and_all_reached(encoding: Encoding):
    watched, report = shapes.watch(encoding.path, encoding.module.__name__)
    assert report.shapes
    run_everything(replace(encoding, module=watched))
    encoding.told("exercise", lambda module: None)(watched)
    assert not report.problems()


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
        module, tensors = variant.build(), variant.plain(6, given=True)
        accepted = inspect.signature(encoding.classes[0]).parameters
        settings = {"dim": doors.D, "heads": doors.H} | variant.options
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
    encodings = doors.encodings()
    assert copied_alone(encodings, tmp_path) == [encoding.key for encoding in encodings]
