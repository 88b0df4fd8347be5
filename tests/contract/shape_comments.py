"""Shape comments, executed: every `# (b, t, d)` in a file is compared with the array on its line.

`watch(path)` imports a copy of the file in which each commented line reports what it made. Run the copy, then ask
`report.problems()`: the comments that lied, that name an unknown letter, or that no run has reached. `Package` does so
for all files of a package, whose letters its `__init__.py` explains.

    angle = positions[..., None] * theta  # (..., t, d/2)     a letter has one size throughout one call of a function
    return turn(q), turn(k)  # (b, h, t, d), (b, g, s, d)     one shape each; a single shape would hold for both

A comment is a shape if it starts with a parenthesis. An axis is a letter of the docstring's `Key:`, a number, or sums,
products and quotients of these (rounded down); a leading `...` stands for any number of axes.
"""

import ast
import io
import itertools
import re
import tokenize
from dataclasses import dataclass, field
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import CodeType, ModuleType

AXIS = re.compile(r"(\d*[A-Za-z]|\d+)([-+*/](\d*[A-Za-z]|\d+))*")
SHAPES = re.compile(r"#\s*\([^()]*\)(\s*,\s*\([^()]*\))*")
LARGEST_DIVISOR = 16

Shape = list[str]


@dataclass
class Report:
    """What the shape comments of one file say, and what its runs have shown."""

    path: Path
    shapes: dict[int, list[Shape]] = field(default_factory=dict)
    reached: set[int] = field(default_factory=set)
    lies: dict[int, str] = field(default_factory=dict)

    def problems(self) -> list[str]:
        unreached = dict.fromkeys(self.shapes.keys() - self.reached, "is never reached")
        problems = unreached | self.lies
        return [f"{self.path.name}:{line}: {problem}" for line, problem in sorted(problems.items())]

    def see(self, line: int, sizes: dict[str, set[int]], value: object) -> object:
        """Compare `value` with the comment on `line`; the copy calls this where the original only goes on."""
        self.reached.add(line)
        shapes = self.shapes[line]
        values = value if isinstance(value, tuple) else (value,)
        if len(shapes) == 1:
            shapes = shapes * len(values)
        if len(shapes) != len(values):
            self.lies.setdefault(line, f"names {len(shapes)} shapes for {len(values)} values")
        for shape, array in zip(shapes, values, strict=False):
            problem = contradiction(shape, getattr(array, "shape", None), sizes)
            if problem:
                self.lies.setdefault(line, f"says ({', '.join(shape)}), but {problem}")
        return value

    def see_fields(self, record: type, fields: dict[int, str]) -> None:
        """Compare the fields of a NamedTuple with the comments on their lines whenever one is made."""
        make = record.__new__

        def new(cls: type, *values: object, **named: object) -> object:
            made = make(cls, *values, **named)
            sizes = {}
            for line, name in fields.items():
                self.see(line, sizes, getattr(made, name))
            return made

        record.__new__ = new


def watch(path: Path, name: str = "watched") -> tuple[ModuleType, Report]:
    """Import a watched copy of the file at `path` as a module called `name`; return it with its report."""
    code, report = watched_code(Path(path), key_of(Path(path)))
    module = ModuleType(name)
    module.__dict__.update(__file__=str(path), __package__=name.rpartition(".")[0])
    run(code, report, module)
    return module, report


class Package(MetaPathFinder, Loader):
    """Import watched copies of the modules of a package, by its `Key:` and that of each; `reports` says what of."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.key = key_of(folder / "__init__.py")
        self.reports: list[Report] = []

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        """Return where a module of the package is, to be executed by this loader."""
        if name != self.name and not name.startswith(f"{self.name}."):
            return None
        spec = PathFinder.find_spec(name, path)
        if spec and spec.origin:
            spec.loader = self
        return spec

    def exec_module(self, module: ModuleType) -> None:
        """Execute a watched copy of the module's file."""
        path = Path(module.__spec__.origin)
        code, report = watched_code(path, self.key | key_of(path))
        self.reports.append(report)
        run(code, report, module)

    def problems(self) -> list[str]:
        """Return what is wrong with the comments of all modules that were imported."""
        return [problem for report in self.reports for problem in report.problems()]


def run(code: CodeType, report: Report, module: ModuleType) -> None:
    """Execute a watched copy as a module."""
    module.__dict__.update(__see__=report.see, __see_fields__=report.see_fields, __sizes__={})
    exec(code, module.__dict__)


def watched_code(path: Path, key: set[str]) -> tuple[CodeType, Report]:
    """Compile a copy of a file in which each commented line reports its value; the letters of shapes are the key's."""
    report = Report(path)
    source = path.read_text(encoding="utf-8")
    report.shapes = _comments(source, report.lies)
    for line, shapes in report.shapes.items():
        if unknown := {letter for shape in shapes for axis in shape for letter in _letters(axis)} - key:
            report.lies[line] = f"uses {', '.join(sorted(unknown))}, which the Key does not explain"
    watcher = _Watcher(report)
    tree = ast.fix_missing_locations(watcher.visit(ast.parse(source)))
    for line in report.shapes.keys() - watcher.watched:
        report.lies[line] = "stands on no assignment and no return (for a long one: put it on the last line)"
    return compile(tree, str(path), "exec"), report


def key_of(path: Path) -> set[str]:
    """Return the letters that the docstring of a file explains."""
    return key_letters(ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "")


def key_letters(docstring: str) -> set[str]:
    """Return the letters that the paragraph `Key: b batch, t length` explains."""
    key = re.search(r"^Key:(.*?)(?:\n\s*\n|\Z)", docstring, re.M | re.S)
    return {entry.split()[0] for entry in key[1].split(",") if entry.strip()} if key else set()


def contradiction(shape: Shape, actual: tuple[int, ...] | None, sizes: dict[str, set[int]]) -> str | None:
    """Narrow the `sizes` that letters can have; return what is wrong if `actual` cannot be `shape`."""
    if actual is None:
        return "the value has no shape"
    if shape[:1] == ["..."]:
        shape, actual = shape[1:], actual[max(0, len(actual) - len(shape) + 1) :]
    if len(shape) != len(actual):
        return f"the value is {tuple(actual)}"
    for axis, size in zip(shape, actual, strict=True):
        if not _narrow(axis, size, sizes):
            known = ", ".join(f"{letter} = {min(sizes[letter])}" for letter in _letters(axis) if letter in sizes)
            return f"the value is {tuple(actual)}" + (f" where {known}" if known else "")
    return None


def _narrow(axis: str, size: int, sizes: dict[str, set[int]]) -> bool:
    if axis.isalpha():  # one letter
        if size not in sizes.get(axis, {size}):
            return False
        sizes[axis] = {size}
        return True
    letters = _letters(axis)
    if sum(letter not in sizes for letter in letters) > 1:
        return False  # two unknowns in one axis: nothing could contradict them
    formula = re.sub(r"(\d)([A-Za-z])", r"\1*\2", axis).replace("/", "//")
    code = compile(formula, "<axis>", "eval")
    pools = [sizes.get(letter, range(LARGEST_DIVISOR * (size + 1))) for letter in letters]
    choices = [dict(zip(letters, choice, strict=True)) for choice in itertools.product(*pools)]
    fitting = [choice.values() for choice in choices if size == eval(code, {}, choice)]
    if fitting:
        sizes.update(zip(letters, map(set, zip(*fitting, strict=True)), strict=False))
    return bool(fitting)


def _letters(axis: str) -> list[str]:
    return sorted(set(re.findall("[A-Za-z]", axis.replace("...", ""))))


def _comments(source: str, lies: dict[int, str]) -> dict[int, list[Shape]]:
    """Read the shapes of each line; note in `lies` the comments that start like one and are none."""
    comments = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT or not re.match(r"#\s*\(", token.string):
            continue
        written = SHAPES.match(token.string)
        shapes = [[axis.strip() for axis in inner.split(",")] for inner in re.findall(r"\(([^()]*)\)", token.string)]
        shapes = [shape[:-1] if shape[-1] == "" else shape for shape in shapes]  # (t,) and ()
        axes = [axis for shape in shapes for axis in (shape[1:] if shape[:1] == ["..."] else shape)]
        if written and all(AXIS.fullmatch(axis.replace(" ", "")) for axis in axes):
            comments[token.start[0]] = [[axis.replace(" ", "") for axis in shape] for shape in shapes]
        else:
            lies[token.start[0]] = f"{token.string!r} starts like a shape and is none"
    return comments


class _Watcher(ast.NodeTransformer):
    """Rewrite a module so that each commented assignment and return passes its value to `Report.see`."""

    def __init__(self, report: Report) -> None:
        self.shapes = report.shapes
        self.watched = set()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        node.body.insert(0, ast.parse("__sizes__ = {}").body[0])
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> list[ast.AST]:
        self.generic_visit(node)
        fields = {
            statement.end_lineno: statement.target.id
            for statement in node.body
            if isinstance(statement, ast.AnnAssign) and not statement.value and statement.end_lineno in self.shapes
        }
        self.watched.update(fields)
        return [node, ast.parse(f"__see_fields__({node.name}, {fields})").body[0]] if fields else [node]

    def visit_Assign(self, node: ast.Assign) -> ast.AST | list[ast.AST]:
        return self._after(node, node.targets[0])

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | list[ast.AST]:
        return self._after(node, node.target)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST | list[ast.AST]:
        return self._after(node, node.target)

    def visit_Return(self, node: ast.Return) -> ast.AST:
        if node.end_lineno in self.shapes and node.value:
            node.value = self._see(node.end_lineno, ast.unparse(node.value))
        return node

    def _after(self, node: ast.stmt, target: ast.expr) -> ast.AST | list[ast.AST]:
        if node.end_lineno not in self.shapes or node.value is None:
            return node
        return [node, ast.Expr(self._see(node.end_lineno, ast.unparse(target)))]

    def _see(self, line: int, value: str) -> ast.expr:
        self.watched.add(line)
        return ast.parse(f"__see__({line}, __sizes__, ({value}))", mode="eval").body
