"""The site's JavaScript modules in an embedded engine, QuickJS, so that Python can call their functions."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import quickjs

SCRIPTS = Path(__file__).parents[2] / "docs/assets/js"
CLOSE: dict[str, Any] = {
    "rtol": 1e-9,
    "atol": 1e-9,
}  # how near the numbers of both languages are, unless a test says otherwise
IMPORT = re.compile(r"""^import (?:\{(?P<names>[^}]*)\} from )?"(?P<path>[^"]+)"$""", re.M)
EXPORT = re.compile(r"^export (?=(?:async )?(?:const|let|function|class) (?P<name>\w+))", re.M)
PRELUDE = """
const modules = {}
// JSON has no infinity and no typed arrays
const plain = (value) => ArrayBuffer.isView(value) ? Array.from(value, plain)
  : Array.isArray(value) ? value.map(plain)
  : typeof value === "number" && !Number.isFinite(value) ? String(value)
  : value && typeof value === "object" ? Object.fromEntries(Object.entries(value).map(([k, v]) => [k, plain(v)]))
  : value
"""


class Script:
    """A module of the site; `script("kernel(5, frequencies(64, 1e4))")` evaluates an expression with its exports."""

    def __init__(self, name: str) -> None:
        self.context = quickjs.Context()
        self.context.set_max_stack_size(2**24)
        self.context.eval(PRELUDE)
        self.loaded: set[Path] = set()
        self.path = (SCRIPTS / name).resolve()
        self._load(self.path)

    def __call__(self, expression: str, **values) -> Any:
        """Return the value of `expression`, in which the names of `values` stand for those values, arrays as lists."""
        constants = "".join(f"const {name} = {json.dumps(value, default=_listed)};" for name, value in values.items())
        code = f"(() => {{ const {{{', '.join(exports(self.path))}}} = modules[{json.dumps(str(self.path))}]; "
        answer = self.context.eval(f"{code}{constants} return JSON.stringify(plain({expression})) }})()")
        return None if answer is None else _numbers(json.loads(answer))

    def _load(self, path: Path) -> None:
        """Evaluate a module after those that it imports, as a function that returns its exports."""
        if path in self.loaded:
            return
        self.loaded.add(path)
        text = path.read_text(encoding="utf-8")
        for match in IMPORT.finditer(text):
            self._load((path.parent / match["path"]).resolve())

        def bound(match: re.Match) -> str:
            names = re.sub(r"(\w+) as (\w+)", r"\1: \2", match["names"] or "")
            return f"const {{{names}}} = modules[{json.dumps(str((path.parent / match['path']).resolve()))}]"

        body = EXPORT.sub("", IMPORT.sub(bound, text))
        names = ", ".join(exports(path))
        self.context.eval(f"modules[{json.dumps(str(path))}] = (() => {{ {body}\n return {{{names}}} }})()")


def exports(path: Path) -> list[str]:
    """Return the names that a module exports."""
    return [match["name"] for match in EXPORT.finditer(path.read_text(encoding="utf-8"))]


def assert_close(ours, expected, **close) -> None:
    """Hold what a script gives, a flat list too, to an array of Python's."""
    expected = np.asarray(expected)
    np.testing.assert_allclose(np.reshape(ours, expected.shape), expected, **CLOSE | close)


def _listed(value):
    """Return an array or number of NumPy or torch as JSON knows it."""
    return value.tolist()


def _numbers(value):
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    if isinstance(value, dict):
        return {name: _numbers(item) for name, item in value.items()}
    return float(value) if value in ("NaN", "Infinity", "-Infinity") else value
