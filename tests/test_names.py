"""What `import posenc` offers: found in its folders, written down nowhere but for type checkers."""

import compileall
import contextlib
import importlib
import inspect
import re
import shutil
import subprocess
import sys
from pkgutil import resolve_name

import pytest

import posenc
from dev import names
from posenc import _index
from tests.contract.encoding_inputs import ROOT


def run(code: str, *path) -> str:
    """Run a program in an interpreter of its own that finds posenc in `path`; return what it prints."""
    begin = f"import sys; sys.path[:0] = {[str(place) for place in path or [ROOT]]}\n"
    done = subprocess.run([sys.executable, "-c", begin + code], capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_type_checkers_see_every_name():
    """Write them with `make update`."""
    assert names.PATH.read_text(encoding="utf-8") == names.text(), "_typing_exports.py is out of date: make update"


def test_public_names_are_unique():
    """Rename one: `posenc show NAME` must mean one thing."""
    defined = [name for name, _ in _index.definitions()]
    twice = {name for name in defined if defined.count(name) > 1}
    assert not twice, f"{' and '.join(sorted(twice))} defined in two files"


def test_what_stands_at_the_top_is_what_its_file_defines():
    for module, name in names.exports():
        assert getattr(posenc, name) is getattr(importlib.import_module(module), name)
        assert name in dir(posenc)


def test_a_star_brings_classes_their_twins_and_a_few_functions():
    brought = {}
    exec("from posenc import *", brought)
    brought.pop("__builtins__")
    assert set(brought) == {"encodings", *(name for _, name in names.exports())}
    assert {name for name, value in brought.items() if inspect.isclass(value)} == {
        encoding.cls for encoding in posenc.encodings().values()
    }
    few = {name for name in brought if name.islower()} - {encoding.name for encoding in posenc.encodings().values()}
    assert few == {"encodings", *posenc.FUNCTIONS}
    common = "add bias check fire forget grid kernel learned linear music path profiles resize score shard window"
    assert not {*common.split()} & {*brought}


def test_the_docstring_lists_the_functions_at_the_top_and_the_twins_that_are_not():
    mentioned = {*re.findall(r"\w+", posenc.__doc__ or "")}
    assert {*posenc.FUNCTIONS, *posenc.COMMON_WORDS, "encodings"} <= mentioned
    assert not posenc.COMMON_WORDS & {*posenc.__all__}


def test_a_name_that_is_not_at_the_top_is_refused_with_its_place():
    with pytest.raises(AttributeError, match=r"no attribute 'yarn'; it is in posenc\.rotate\.\w+$"):
        posenc.yarn  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute 'nothing'$"):
        posenc.nothing  # noqa: B018
    assert not hasattr(posenc, "__wrapped__")


ORDERS = """
import sys
for first in (
    "",
    "import posenc.attention as module",
    "from posenc.attention import attention_weights",
    "from posenc import attention",
    "from posenc import *",
):
    for name in [name for name in sys.modules if name.partition(".")[0] == "posenc"]:
        del sys.modules[name]
    exec(first)
    import posenc
    import posenc.attention as module
    from posenc import attention
    print(module is attention is posenc.attention is sys.modules["posenc.attention"], type(posenc).__name__)
"""


def test_attention_is_the_module_whatever_was_imported_before():
    assert run(ORDERS).splitlines() == ["True module"] * 5


def modules() -> list[str]:
    """Return the dotted names of all modules of the package that can be imported by others."""
    paths = (path for path in (ROOT / "posenc").rglob("*.py") if not path.stem.startswith("_"))
    return [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths]


def test_no_module_shares_its_public_path_with_a_function():
    """Import the function from its file: `import a.b.c as m` must give the module, whatever was imported before."""
    for name in modules():
        imported = importlib.import_module(name)
        parent, _, child = name.rpartition(".")
        assert getattr(importlib.import_module(parent), child) is imported, f"{name} is hidden by a function"


def test_folders_and_files_are_attributes_of_the_package_before_anything_is_imported():
    code = "import posenc; print(posenc.positions.shard.__name__, posenc.bias.__name__)"
    assert run(code) == "shard posenc.bias"


def test_importing_the_package_imports_neither_torch_nor_numpy():
    code = "import posenc; posenc.encodings(); posenc.__all__; print({'torch', 'numpy'} & set(sys.modules))"
    assert run(code) == "set()"


EVERYWHERE = """
import posenc
from posenc import *
print(posenc.__file__)
print(len(posenc.encodings()), RoPE(8).dim, posenc.encodings()["bias/t5"].module.T5 is T5)
"""


def zipped(folder):
    return shutil.make_archive(str(folder / "app"), "zip", ROOT, "posenc")


def compiled(folder):
    copy = folder / "app" / "posenc"
    shutil.copytree(ROOT / "posenc", copy, ignore=shutil.ignore_patterns("__pycache__"))
    compileall.compile_dir(copy, quiet=1, legacy=True)
    for path in copy.rglob("*.py"):
        path.unlink()
    return copy.parent


@pytest.mark.parametrize("packed", [zipped, compiled])
def test_names_are_found_without_files_of_source(packed, tmp_path):
    where, counted = run(EVERYWHERE, place := packed(tmp_path)).splitlines()
    assert where.startswith(str(place))
    assert counted == f"{len(posenc.encodings())} 8 True"


def test_a_zip_file_shows_and_copies_its_files(tmp_path):
    code = f"from posenc.__main__ import main; main(['copy', 'rope', '-o', {str(tmp_path / 'mine')!r}])"
    run(code, zipped(tmp_path))
    assert (tmp_path / "mine" / "rope.py").read_text().endswith((ROOT / "posenc/rotate/rope.py").read_text())


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (
            'Paper: You et al., 2026, "Where\n       it is from", https://example.org/a, eq. 3.\n',
            ("Where it is from", "You et al.", 2026, "https://example.org/a"),
        ),
        ("Paper: unpublished, You et al., 2026\n", ("unpublished", "You et al.", 2026, "")),
        ("Used:  nobody\n", ("", "", 0, "")),
    ],
)
def test_the_head_of_a_file_says_where_it_comes_from(head, expected, monkeypatch):
    monkeypatch.setattr(_index, "docstring", lambda module: f"Gauss: a bias.\n\n{head}")
    assert _index.paper("posenc.bias.gauss") == expected


def there(name: str) -> bool:
    with contextlib.suppress(ImportError, AttributeError):
        resolve_name(name)
        return True
    return False


def test_what_the_package_says_of_its_names_is_there():
    """Correct the name: a message or a docstring must not send a reader where nothing is."""
    mentioned = {
        (path.name, name)
        for path in (ROOT / "posenc").rglob("*.py")
        for name in re.findall(r"\bposenc(?!\.github)(?:\.[A-Za-z]\w*)+", path.read_text(encoding="utf-8"))
    }
    assert not [f"{file} mentions {name}" for file, name in sorted(mentioned) if not there(name)]


def test_the_package_knows_nothing_of_the_one_for_readers():
    """Import what is in docs/book from pages and tests alone: who installs posenc does not have it."""
    assert not [
        path.name for path in (ROOT / "posenc").rglob("*.py") if "posenc_book" in path.read_text(encoding="utf-8")
    ]
