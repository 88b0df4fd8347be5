"""Change the files of the doors in small ways and see which changes their tests catch: python -m dev.mutants.

A mutant is a file with one change: of an operator, a number, an axis, a comparison, a word of logic, a default, a dtype
or a slice. Three hundred are drawn by a fixed seed, as many from each file, and from a file as many of each kind as can
be. On each run the tests that concern its file, its own and the contract, the quick ones first. On those that pass run
the tests that compile, too. A test that fails without a mutant catches none. The doctor's mutants are drawn by lot,
from all of its files together; on one of a kind's room run the tests of that room, on any other all of the doctor's.

    python -m dev.mutants                     the table, and every mutant that survives
    python -m dev.mutants rotate/rope --all   every mutant of one file
    python -m dev.mutants doctor --count 60

The tests run in copies of the project, each in a fork of a process that has torch, so that most mutants take a second.
"""

import argparse
import ast
import json
import os
import random
import re
import resource
import shutil
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from itertools import islice
from pathlib import Path

import posenc
from dev import EXPENSIVE, ROOT

DOORS = ("add", "rotate", "bias", "score", "models")
DOCTOR = "doctor"
COUNT = 300
WANTED = dict.fromkeys(DOORS, 0.97) | {DOCTOR: 0.9}  # the share that is to be caught
WORKERS = 2
LIMIT = 120  # seconds of processor time, for the tests of a mutant: what does not end is caught
SLOWER = 5  # the doctor's tests may take so many times as long as without a mutant, where that is more than LIMIT
MEMORY = 24 << 30  # bytes of address space: a mutant may ask for more than there is
WARM = ("torch._dynamo", "hypothesis.strategies", "mpmath", "pytest", "transformers.models.llama.modeling_llama")
ENDLESS = "its tests do not end"

# Mutants that do what the file does, as they are listed where they survive, and why no test can catch them.
EQUIVALENT = {
    ("bias/t5", "by_offset = self(torch.zeros_like(offsets[{:1 -> 1:}]), offsets)[:, 0]  # (h, o)"):
        "the rows after the first are not read",
    ("models/swin", "for size, coordinate in zip(window, np.indices(window), strict={True -> False}):"):
        "there are as many indices as axes",
    ("rotate/rope", "if dim % 2 or r not in range(2, dim + {1 -> 2}, 2):"):
        "after an even dim the next even number is dim + 2, which is in neither range",
}  # fmt: skip
_TABLE = "def table(self, positions: Tensor, dtype: torch.dtype = torch.{float32 -> float16}) -> tuple[Tensor, Tensor]:"
EQUIVALENT |= {
    (f"rotate/{name}", _TABLE): "it is promoted to float32"
    for name in ("fope", "latent", "lerope", "mrope", "pope", "rope")
}
_RETURNS_IDS = "self.returns_ids = {False -> True}  # whether the last call gave integers: offsets, or ids of buckets"
_KEY_OF_LAYER = (
    "key = (candidate.attention_factor, part.start, part.stop, turn_of(candidate, {0 -> 1}).theta.tobytes())"
)
_USUAL_ORDERS = 'USUAL_ORDERS = {{2 -> 3}: "bt", 3: "btd", 4: "bhtd"}  # of axes, by how many there are'
_DEPTH_FIRST = 'depth_first = names.index(code.roles["depth"]) {< -> <=} names.index(code.roles["rows"])'
_WIDTHS = 'def widths(config: Mapping[str, Any], rope_type: str = {"default" -> "mrope"}) -> set[int]:'
EQUIVALENT |= {
    ("add/conditional", "at_tap = (offset.unsqueeze(-4) == taps.unsqueeze({-2 -> -3})).all(-1)  # (..., c, t, s)"):
        "both are a new axis beside one of size 1",
    ("add/convolution", "near = (at_tap @ x).reshape(t, kernel, groups, {-1 -> -2})  # (t, c, g, i)"):
        "NumPy takes any negative size for -1",
    ("add/learned", "return nn.functional.embedding(positions.{long -> int}(), rows)  # (..., t, d)"):
        "a table of more than 2**31 rows fits nowhere",
    ("bias/alibi", "signed_slope = torch.where(offset {> -> >=} 0, -right, left)  # (..., h, t, s)"):
        "at offset 0 the product with either is 0",
    ("bias/window", "for step, size in zip(offset, window, strict={True -> False}):"):
        "there are as many axes as sizes, which is checked before",
    ("models/axial", "k = np.arange(m) {+ -> -} np.zeros((axes, 1))  # (n, m)"): "plus and minus 0",
    ("models/axial", "place = np.arange(length, dtype=np.{float64 -> float32})[:, None]"):
        "whole numbers below 2**24, and products of them with float64",
    ("models/cached_keys", 'device = "cpu" if k.device.type {== -> !=} "mps" else k.device  # mps lacks float64'):
        "a machine without mps computes on its CPU either way",
    ("models/checkpoints", 'old = turning.reshape(-1, 2) if to == "half" else turning.reshape(2, {-1 -> -2})'):
        "NumPy takes any negative size for -1",
    ("models/from_config", "fields = _fields(config, length or {1 -> 0}, max_length)"):
        "a text of no token is as short as one of a token",
    ("models/from_config", _WIDTHS): "both types have the same widths",
    ("doctor/attention/causality", "if not visible.tril(-1)[{1: -> :}-1].any():"): "no key is behind the first query",
    ("doctor/bias/measure", _RETURNS_IDS): "each call sets it",
    ("doctor/bias/usage", "changed = n // {2 -> 3}"): "any query shows it",
    ("doctor/call/code", _USUAL_ORDERS): "one row of positions serves all texts of ids",
    ("doctor/call/transformers_layer", '"num_key_value_heads": {2 -> 1},'): "a single head of keys serves as well",
    ("doctor/model/checks", 'if model.takes("positions") and {not -> }model.table_rows:'):
        "positions beyond a learned table raise, and far rows of a longer one are finite",
    ("doctor/rotation/against_config", _KEY_OF_LAYER): "frequencies are those of the layer, whatever the width",
    ("doctor/rotation/measure", "for cells in (positions, positions[:{-1 -> -2}], positions[1:]):"):
        "one row more or less shows the same grid",
    ("doctor/table/grid", _DEPTH_FIRST): "two parameters stand at two places",
    ("doctor/table/grid", "PADDED = ((2, 3), (3, {2 -> 1}))  # rows and columns that two masks leave"):
        "other masks serve as well",
    ("doctor/table/usage", "ids = torch.full(({1 -> 2}, T), TOKEN_ID)  # (1, t)"): "two equal texts show what one does",
    ("doctor/table/usage", "changed = _rows_of(record, ids {+ -> -} 1)"): "either id is another one",
    ("models/mrope", "for grid, seconds_per_frame in zip(video_grids, seconds, strict={True -> False})"):
        "there are as many seconds as grids, which is checked before",
    ("models/mrope", "positions = [np.zeros((0, 3), dtype=np.{int64 -> int32})]"): "it is joined to others of int64",
    ("models/mrope", "return np.arange(tokens)[:, None] + np.zeros(3, dtype=np.{int64 -> int32})"):
        "its sum with int64 is int64",
    ("models/mrope", "text = np.zeros((1, 3), dtype=np.{int64 -> int32})"): "it is joined to others of int64",
    ("rotate/axial", "if pairs < {1 -> 0} or dim != 2 * pairs * axes:"): "without pairs, dim would have to be 0",
    ("rotate/fope", 'fine = torch.{float32 -> float16} if waves.device.type == "mps" else torch.float64'):
        "a machine without mps takes float64",
    ("rotate/lerope", "return slice(0, count), slice(count, {2 -> 3} * count)"): "there are 2 * count channels",
    ("rotate/liere", "if block not in range(2, dim + {1 -> 2}) or dim % block:"): "dim + 1 does not divide dim",
    ("score/cope", "low = count.{long -> int}().clamp(0, last)"): "counts end at the last row of the table",
    ("score/path", "ordered, order = n.sort(stable={True -> False})"):
        "sort is stable on a CPU either way",
    ("score/shaw", "row = self._row(m[b, 0, q_idx, {0 -> -1}], n[b, 0, 0, kv_idx])"): "this axis is of size 1",
}  # fmt: skip
_DTYPE = "dtype: torch.dtype = torch.{float32 -> float16}"
EQUIVALENT |= {
    ("rotate/axial", f"self, positions: Tensor | None, {_DTYPE}"): "it is promoted to float32",
    ("rotate/liere", f"def table(self, positions: Tensor | None, {_DTYPE}) -> Tensor:"): "it is promoted to float32",
    ("rotate/xpos", f"def table(self, positions: Tensor, {_DTYPE}) -> Table:"): "it is promoted to float32",
}  # fmt: skip

# What the doctor is free to choose, so that no test holds it: how many positions, channels or draws it tries (numbers
# of five and more, what is random); whether a measure equal to a tolerance, or to half of it, passes; and the dtype in
# which it measures. A small tolerance that grows by one is a mutant. For lists of one length strict=True does nothing.
_REAL = r"(?:-?\d+\.\d+|-?\d+(?:\.\d+)?e-?\d+|[A-Z]{4,})"
_LESS = r"\{[<>]=? -> [<>]=?\}"
FREE = re.compile(
    r"\{-?(?:[5-9]|\d[\d_]+) -> -?\d+\}|\b(?:random\(|seed=)[^()]*\{-?\d+ -> -?\d+\}"
    rf"|{_LESS} (?:\d+ \* )?{_REAL}|{_REAL} {_LESS}|strict=\{{True -> False\}}"
    r"|\{long -> int\d*\}|\{double -> float\}|\{float64 -> float32\}|\{int64 -> int32\}"
)
TOLERANCE = re.compile(r"\{(-?[\d_]+\.\d*|-?\d+(?:\.\d+)?e-?\d+) -> ([^}]+)\}")


# What can be changed

SIGNS = {"+": "-", "-": "+", "*": "/", "/": "*", "**": "*", "//": "*", "%": "*", "@": "*", "&": "|", "|": "&"}
COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
COMPARISONS |= {"is": "is not", "is not": "is", "in": "not in", "not in": "in"}
LOGIC = {"and": "or", "or": "and"}
COARSER = {"float64": "float32", "float32": "float16", "int64": "int32", "long": "int32"}
SHORTER = {"double": "float", "long": "int"}  # x.double(), x.long()
OF_AXES = ("squeeze", "unsqueeze", "flatten", "unflatten", "transpose", "swapaxes", "movedim", "expand_dims", "permute")


@dataclass(frozen=True)
class Mutant:
    """A file of a door with one change."""

    file: str
    line: int
    kind: str
    change: str  # the line, with {what stood there -> what stands there now}
    text: str

    def __str__(self) -> str:
        return f"posenc/{self.file}.py:{self.line}: {self.kind}: `{self.change}`"


class Changes(ast.NodeVisitor):
    """Finds what can be changed in a text; annotations, docstrings and what is said of errors are not looked at."""

    def __init__(self, text: str):
        self.text = text
        self.kind = ""
        self.changes: list[tuple[int, int, str, str]] = []  # begin and end, what takes its place, and the kind
        self.starts = [0]
        for line in text.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        tree = ast.parse(text)
        self.choices = [_choices(node) for node in ast.walk(tree)]
        self.visit(tree)

    def _add(self, begin: int, end: int, becomes: str, kind: str) -> None:
        self.changes.append((begin, end, becomes, self.kind or kind))

    def _within(self, kind: str, *nodes: ast.AST | None) -> None:
        """Visit nodes in which every change is of this kind, unless they lie in others with a kind."""
        before = self.kind
        self.kind = before or kind
        for node in filter(None, nodes):
            self.visit(node)
        self.kind = before

    def _span(self, node: ast.expr) -> tuple[int, int]:
        ends = (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)
        begin, end = (self.starts[line - 1] + self._characters(line, column) for line, column in ends)
        return begin, end

    def _characters(self, line: int, column: int) -> int:
        return len(self.text[self.starts[line - 1] : self.starts[line]].encode()[:column].decode())

    def _between(self, left: ast.expr, right: ast.expr, becomes: dict[str, str], kind: str) -> None:
        """Change the sign that stands between two expressions."""
        begin, end = self._span(left)[1], self._span(right)[0]
        gap = re.sub(r"#.*", lambda comment: " " * len(comment[0]), self.text[begin:end])
        sign = gap.strip("() \n")
        if sign in becomes:
            begin += gap.index(sign)
            self._add(begin, begin + len(sign), becomes[sign], kind)

    def _number(self, node: ast.expr, value: float) -> None:
        for other in (value + 1, value - 1 if isinstance(value, int) else value / 2):
            self._add(*self._span(node), repr(other), "number")

    def visit_Raise(self, node: ast.Raise) -> None: ...

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None: ...

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._within("", node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._within("default", *node.args.defaults, *node.args.kw_defaults)
        self._within("", *node.body)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        self._between(node.left, node.right, SIGNS, "operator")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for left, right in zip([node.left, *node.comparators], node.comparators, strict=False):
            self._between(left, right, COMPARISONS, "comparison")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._between(left, right, LOGIC, "word of logic")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            self._number(node, -node.operand.value)
            return
        begin, _ = self._span(node)
        sign = re.match(r"not\s+|.", self.text[begin:])[0]
        self._add(begin, begin + len(sign), "", "word of logic" if sign[0] == "n" else "operator")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._add(*self._span(node), str(not node.value), "word of logic")
        elif isinstance(node.value, int | float):
            self._number(node, node.value)
        elif isinstance(node.value, str) and self.kind == "default":
            lists = [choices for choices in self.choices if node.value in choices]
            others = [choice for choices in lists for choice in choices if choice != node.value]
            if others:
                self._add(*self._span(node), f'"{others[0]}"', "default")

    def visit_keyword(self, node: ast.keyword) -> None:
        self._within("axis" if node.arg in ("dim", "dims", "axis") else "", node.value)

    def visit_Call(self, node: ast.Call) -> None:
        name = getattr(node.func, "attr", "")
        if name in SHORTER and not node.args:
            _, end = self._span(node.func)
            self._add(end - len(name), end, SHORTER[name], "dtype")
        self.visit(node.func)
        self._within("axis" if name in OF_AXES else "", *node.args)
        self._within("", *node.keywords)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if getattr(node.value, "id", "") in ("np", "torch") and node.attr in COARSER:
            _, end = self._span(node)
            self._add(end - len(node.attr), end, COARSER[node.attr], "dtype")
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.visit(node.value)
        self._within("axis" if getattr(node.value, "attr", "") == "shape" else "", node.slice)

    def visit_Slice(self, node: ast.Slice) -> None:
        if node.lower:
            begin, end = self._span(node.lower)
            colon = self.text.index(":", end)
            self._add(begin, colon + 1, ":" if node.upper else f":{self.text[begin:end]}", "slice")
        elif node.upper:
            begin, end = self._span(node.upper)
            self._add(self.text.rindex(":", 0, begin), end, f"{self.text[begin:end]}:", "slice")
        self.generic_visit(node)


def _choices(node: ast.AST) -> list[str]:
    """Return the strings of a tuple, a list, a set or the keys of a dictionary, from which a setting is chosen."""
    elements = getattr(node, "elts", None) or getattr(node, "keys", None) or []
    return [e.value for e in elements if isinstance(e, ast.Constant) and isinstance(e.value, str)]


def mutants(file: str, text: str) -> list[Mutant]:
    """Return every mutant of a file, those that are equivalent to it among them."""
    result = []
    for begin, end, becomes, kind in Changes(text).changes:
        was = text[begin:end]
        before = text[:begin].rpartition("\n")[2]
        after = text[end:].partition("\n")[0]
        if was != becomes and "\n" not in was:
            change = f"{before}{{{was.strip()} -> {becomes}}}{after}".strip()
            line = text.count("\n", 0, begin) + 1
            result.append(Mutant(file, line, kind, change, text[:begin] + becomes + text[end:]))
    return result


def _runs(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, "mutant", "exec")
    except SyntaxError:
        return False
    return True


def _not_equivalent(file: str, text: str) -> list[Mutant]:
    """Return the mutants of a file that a test should catch."""
    different = [mutant for mutant in mutants(file, text) if (file, mutant.change) not in EQUIVALENT]
    if file.startswith(DOCTOR):
        return [mutant for mutant in different if not free(mutant.change)]
    return different


def free(change: str) -> bool:
    """Tell whether the doctor may choose either way, so that no test should hold it to one."""
    if FREE.search(change):
        return True
    tolerance = TOLERANCE.search(change)
    if tolerance is None:
        return False
    was, becomes = float(tolerance[1]), float(tolerance[2])
    is_halved_tolerance = 0 < was <= 0.1 and becomes == was / 2
    is_larger_number = was >= 5 and becomes == was + 1
    return is_halved_tolerance or is_larger_number


def draw_by_lot(texts: dict[str, str], count: int, seed: int = 0) -> list[Mutant]:
    """Return `count` mutants of all files, each as likely as the others."""
    candidates = [mutant for file, text in texts.items() for mutant in _not_equivalent(file, text)]
    random.Random(seed).shuffle(candidates)
    return list(islice((mutant for mutant in candidates if _runs(mutant.text)), count))


def draw(texts: dict[str, str], count: int, seed: int = 0) -> list[Mutant]:
    """Return `count` mutants or as many as there are, in equal parts of each file, and in a file of each kind."""
    drawn: list[Mutant] = []
    waiting = {}
    for file, text in texts.items():
        candidates = _not_equivalent(file, text)
        random.Random(f"{seed} {file}").shuffle(candidates)
        of_kind: Counter[str] = Counter()
        rounds = {}
        for mutant in candidates:
            of_kind[mutant.kind] += 1
            rounds[mutant] = of_kind[mutant.kind]
        waiting[file] = sorted(candidates, key=rounds.__getitem__, reverse=True)
    while len(drawn) < count and any(waiting.values()):
        for file in [file for file in texts if waiting[file]][: count - len(drawn)]:
            mutant = waiting[file].pop()
            if _runs(mutant.text):
                drawn.append(mutant)
    return drawn


# What catches it


@dataclass
class Task:
    """A run of the tests of a file: on a mutant, up to the first that fails; or on the file as it is, all of them."""

    file: str
    expensive: bool
    mutant: Mutant | None = None

    @property
    def suite(self) -> tuple[str, bool]:
        """Return what decides which tests there are: a file of a door has its own, a room of the doctor has them."""
        return _tests_of(self.file) if self.file.startswith(DOCTOR) else self.file, self.expensive


@dataclass
class Answer:
    """The tests that passed in a run, with their seconds, and those that failed."""

    passed: dict[str, float] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)


def _tests_of(file: str) -> str:
    """Return the folder in tests/ whose tests run on a file of the doctor: its room's, if it is that of a kind."""
    room = file.rpartition("/")[0]
    return room if (ROOT / "posenc" / room / "measure.py").exists() else DOCTOR


class Chosen:
    """A pytest plugin: keep the tests that concern a file, sorted by what is known of them."""

    def __init__(self, folder: Path, task: Task, ranks: dict[str, tuple[int, float]]):
        door, _, name = task.file.partition("/")
        tests = folder / "tests" / (_tests_of(task.file) if door == DOCTOR else door)
        self.path = folder / "posenc" / door / f"{name}.py"
        self.own = {tests / f"test_{name}.py"} if door in posenc.DOORS else {*tests.rglob("test_*.py")}
        self.task = task
        self.ranks = ranks
        self.answer = Answer()

    @property
    def limit(self) -> int | None:
        """Return the seconds of processor time that the tests may take; the doctor's file as it is has no limit."""
        if not self.task.file.startswith(DOCTOR):
            return LIMIT
        if self.task.mutant is None:
            return None
        return max(LIMIT, round(SLOWER * sum(seconds for _, seconds in self.ranks.values())))

    def _concerns(self, item) -> bool:
        if self.task.mutant and item.nodeid not in self.ranks:
            return False
        if bool(EXPENSIVE.search(item.name)) != self.task.expensive:
            return False
        params = getattr(getattr(item, "callspec", None), "params", {})
        paths = (params.get("path"), getattr(params.get("encoding"), "path", None), item.path)
        return self.path in paths or item.path in self.own

    def pytest_collection_modifyitems(self, items: list) -> None:
        """Keep what concerns the file; for a mutant, what passes without it."""
        items[:] = sorted(filter(self._concerns, items), key=lambda item: self.ranks.get(item.nodeid, (0, 0.0)))

    def pytest_collectreport(self, report) -> None:
        """Count what cannot be imported as failed."""
        if report.failed:
            self.answer.failed.append(f"{report.nodeid} cannot be imported")

    def pytest_runtest_logreport(self, report) -> None:
        """Note what passes, and what fails."""
        if report.failed:
            self.answer.failed.append(report.nodeid)
        elif report.passed and report.when == "call":
            self.answer.passed[report.nodeid] = report.duration


class Court:
    """Runs tests of mutants, so many at once, each in a copy of the project."""

    def __init__(self, root: Path, texts: dict[str, str], place: Path, workers: int = WORKERS):
        self.texts = texts
        self.folders = [_copy(root, place / str(number)) for number in range(workers)]
        self.known: dict[tuple[str, bool], dict[str, float]] = {}  # the tests that pass without a mutant
        self.catches: Counter[str] = Counter()
        _warm()

    def judge(self, drawn: list[Mutant]) -> dict[Mutant, str]:
        """Return the mutants that are caught, each with the test that it fails."""
        caught: dict[Mutant, str] = {}
        for expensive in (False, True):
            left = [mutant for mutant in drawn if mutant not in caught]
            self._learn(sorted({mutant.file for mutant in left}), expensive)
            tasks = [Task(mutant.file, expensive, mutant) for mutant in left]
            for task, answer in self.run([task for task in tasks if self.known[task.suite]]):
                if answer.failed and task.mutant:
                    caught[task.mutant] = answer.failed[0]
                    self.catches[answer.failed[0]] += 1
                print("caught:" if answer.failed else "passes:", task.mutant, file=sys.stderr, flush=True)
        return caught

    def _learn(self, files: list[str], expensive: bool) -> None:
        """Learn which tests pass without a mutant, and how long they take."""
        suites = {task.suite: task for task in (Task(file, expensive) for file in files)}
        for task, answer in self.run([*suites.values()]):
            self.known[task.suite] = answer.passed
            if failed := answer.failed:
                print(f"{task.suite[0]}: {len(failed)} tests fail without a mutant; left out are such as {failed[0]}")
        silent = [suite[0] for suite in suites if not expensive and not self.known[suite]]
        if silent:
            raise SystemExit(f"mutants: no test passes of {', '.join(silent)}")

    def run(self, tasks: list[Task]) -> Iterator[tuple[Task, Answer]]:
        """Yield each task with its answer, in the order in which they end."""
        waiting = tasks[::-1]
        free = [*self.folders]
        running = {}
        while waiting or running:
            if waiting and free:
                task, folder = waiting.pop(), free.pop()
                running[self._begin(task, folder)] = task, folder
                continue
            child, _ = os.wait()
            task, folder = running.pop(child)
            (folder / "posenc" / f"{task.file}.py").write_text(self.texts[task.file], encoding="utf-8")
            yield task, _answer(task, folder)
            free.append(folder)

    def _begin(self, task: Task, folder: Path) -> int:
        """Start the tests in a fork; return its id."""
        known = self.known.get(task.suite, {})
        chosen = Chosen(folder, task, {test: (-self.catches[test], seconds) for test, seconds in known.items()})
        (folder / "answer.json").unlink(missing_ok=True)
        sys.stdout.flush()
        child = os.fork()
        if not child:
            try:
                _run_tests(chosen, folder)
                (folder / "answer.json").write_text(json.dumps(vars(chosen.answer)), encoding="utf-8")
            finally:
                os._exit(0)
        return child


def _copy(root: Path, folder: Path) -> Path:
    folder.mkdir()
    for path in root.iterdir():
        if path.name in ("posenc", "tests"):
            shutil.copytree(path, folder / path.name, ignore=shutil.ignore_patterns("__pycache__"))
        elif not path.name.startswith("."):
            (folder / path.name).symlink_to(path)
    return folder


def _warm() -> None:
    """Import what takes seconds, once for all forks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in WARM:
            try:
                import_module(name)
            except ImportError:  # a peer that is not installed; the tests that need it are skipped
                continue


def _run_tests(chosen: Chosen, folder: Path) -> None:
    """Run the tests of one task, in a fork that ends with it."""
    if chosen.limit is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (chosen.limit, chosen.limit))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    output = os.open(folder / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    if chosen.task.mutant:
        chosen.path.write_text(chosen.task.mutant.text, encoding="utf-8")
    os.chdir(folder)
    for name in [name for name in sys.modules if name.partition(".")[0] in ("posenc", "tests")]:
        del sys.modules[name]
    sys.path.insert(0, str(folder))
    sys.dont_write_bytecode = True  # two texts of one size, written within a second, would be taken for one
    posenc = import_module("posenc")
    concerned = {key: encoding for key, encoding in posenc.encodings().items() if key == chosen.task.file}
    if concerned:
        posenc.encodings = lambda: concerned  # tests are made for this one alone
    _do_not_shrink()
    options = "-o addopts= -p no:terminal -p no:cacheprovider -p no:xdist --assert=plain --doctest-modules"
    options += " --import-mode=importlib --strict-markers --rootdir . -c pyproject.toml"
    of_all = ["tests/contract/test_contract.py", "tests/contract/test_files.py"] if concerned else []
    where = [*of_all, *map(str, sorted(chosen.own)), str(chosen.path)]
    first = ["--exitfirst"] if chosen.task.mutant else []
    import_module("pytest").main([*options.split(), "-m", "not slow and not full", *first, *where], plugins=[chosen])


def _do_not_shrink() -> None:
    """Let Hypothesis report the first failure that it draws: only whether a test fails counts."""
    hypothesis = import_module("hypothesis")
    phases = [phase for phase in hypothesis.Phase if phase.name in ("explicit", "generate")]
    hypothesis.settings.register_profile("quick", phases=phases)
    hypothesis.settings.load_profile("quick")


def _answer(task: Task, folder: Path) -> Answer:
    path = folder / "answer.json"
    if path.exists():
        return Answer(**json.loads(path.read_text(encoding="utf-8")))
    if task.mutant is None:
        raise SystemExit(f"the tests of {task.file} do not end: {(folder / 'output.txt').read_text(encoding='utf-8')}")
    return Answer(failed=[ENDLESS])


# The report


def table(drawn: list[Mutant], caught: dict[Mutant, str]) -> str:
    """Return the table as Markdown, and below it the mutants that survive, and those whose tests do not end."""
    lines = ["| File | mutants | caught |", "|---|--:|--:|"]
    for file in sorted({mutant.file for mutant in drawn}):
        here = [mutant in caught for mutant in drawn if mutant.file == file]
        lines.append(f"| {file} | {len(here)} | {sum(here)} |")
    lines += [f"| **all** | {len(drawn)} | {len(caught)} ({len(caught) / len(drawn):.1%}) |", ""]
    lines += [f"- survives: {mutant}" for mutant in drawn if mutant not in caught]
    return "\n".join(lines + [f"- {ENDLESS}: {mutant}" for mutant, failed in caught.items() if failed == ENDLESS])


def read(root: Path, names: list[str]) -> dict[str, str]:
    """Return the texts of the files of the doors, or of the files and folders that are named, by folder/name."""
    package = root / "posenc"
    paths = [path for door in DOORS for path in sorted((package / door).glob("[!_]*.py"))]
    paths += sorted((package / DOCTOR).rglob("*.py"))
    texts = {str(path.relative_to(package).with_suffix("")): path.read_text(encoding="utf-8") for path in paths}
    known = {*texts, *(file.rpartition("/")[0] for file in texts)}
    if unknown := set(names) - known:
        raise SystemExit(f"mutants: a file must be one of {', '.join(texts)}, got {', '.join(sorted(unknown))}")
    wanted = tuple(names or DOORS)
    return {file: text for file, text in texts.items() if f"{file}/".startswith(tuple(f"{name}/" for name in wanted))}


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Print the table; return 1 where too few are caught."""
    parser = argparse.ArgumentParser("python -m dev.mutants", description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", metavar="folder/name", help="by default every file of the doors")
    parser.add_argument("--count", type=int, default=COUNT, help="how many mutants")
    parser.add_argument("--all", action="store_true", help="every mutant of these files")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    begin = time.perf_counter()
    texts = read(root, options.files)
    count = sys.maxsize if options.all else options.count
    if all(file.startswith(DOCTOR) for file in texts):
        drawn = draw_by_lot(texts, count, options.seed)
    else:
        drawn = draw(texts, count, options.seed)
    with tempfile.TemporaryDirectory() as place:
        caught = Court(root, texts, Path(place)).judge(drawn)
    print(table(drawn, caught))
    seconds = time.perf_counter() - begin
    print(f"{seconds:.0f} seconds, {seconds / len(drawn):.1f} a mutant")
    wanted = sum(WANTED[mutant.file.partition("/")[0]] for mutant in drawn)
    return 0 if len(caught) >= wanted else 1


if __name__ == "__main__":
    sys.exit(main())
