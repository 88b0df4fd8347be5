"""Which names a piece of Python binds, imports and takes from around it, read from its source alone.

`symtable` and bytecode give other answers from Python 3.12 on, where comprehensions are part of the scope around them.
"""

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass
class Scope:
    """The names of one scope: those it binds, those it imports, and those that it takes from scopes around it."""

    bound: set[str] = field(default_factory=set)
    imported: set[str] = field(default_factory=set)
    taken: set[str] = field(default_factory=set)
    declared: set[str] = field(default_factory=set)  # global or nonlocal here


def of_module(code: str) -> Scope:
    """Return the names of a module's code; `SyntaxError` where it is none."""
    return _read(ast.parse(code).body)


def _read(nodes: Iterable[ast.AST]) -> Scope:
    """Return the names of the scope that these nodes make up."""
    reader = _Reader()
    for node in nodes:
        reader.visit(node)
    return reader.scope


class _Reader(ast.NodeVisitor):
    """Reads one scope; what lies within it is read by a reader of its own."""

    def __init__(self) -> None:
        self.scope = Scope()

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.scope.taken.add(node.id)
        elif isinstance(node.ctx, ast.Store):
            self.scope.bound.add(node.id)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        # `x += 1` reads x before it binds it; the syntax tree marks its target as bound alone.
        if isinstance(node.target, ast.Name):
            self.scope.taken.add(node.target.id)
        self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        # `import a.b` binds a.
        self.scope.imported |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self.scope.imported |= {alias.asname or alias.name for alias in node.names}

    def visit_Global(self, node: ast.Global) -> None:
        self.scope.declared |= {*node.names}

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        self.scope.declared |= {*node.names}

    # An except clause and the patterns of a match hold the names that they bind as strings, not as nodes.
    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        self._bind(node.name)
        self.generic_visit(node)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        self._bind(node.name)
        self.generic_visit(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        self._bind(node.name)

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        self._bind(node.rest)
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._bind(node.name)
        # Decorators and the annotation of the result are evaluated in the scope around.
        for outside in (*node.decorator_list, node.returns):
            if outside:
                self.visit(outside)
        self._function(node.args, node.body)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)  # type: ignore[arg-type]  the same fields

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._function(node.args, [node.body])

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._bind(node.name)
        for outside in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(outside)
        # Also a name that the class binds itself: its methods do not see it, and take it from the scope around.
        self.scope.taken |= _read(node.body).taken

    def visit_ListComp(self, node: ast.ListComp) -> None:
        self._comprehension(node.generators, [node.elt])

    def visit_SetComp(self, node: ast.SetComp) -> None:
        self._comprehension(node.generators, [node.elt])

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        self._comprehension(node.generators, [node.elt])

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self._comprehension(node.generators, [node.key, node.value])

    def _bind(self, name: str | None) -> None:
        if name:
            self.scope.bound.add(name)

    def _function(self, arguments: ast.arguments, body: Iterable[ast.AST]) -> None:
        """Read a function or a lambda: what its body takes and does not bind itself comes from around it."""
        # Defaults and annotations belong to the scope around.
        self.generic_visit(arguments)
        parameters = {node.arg for node in ast.walk(arguments) if isinstance(node, ast.arg)}
        inner = _read(body)
        # What is declared global or nonlocal is no local name, although the body may bind it.
        local = (parameters | inner.bound | inner.imported) - inner.declared
        self.scope.taken |= inner.taken - local

    def _comprehension(self, generators: list[ast.comprehension], results: list[ast.expr]) -> None:
        # What the first loop goes over is evaluated in the scope around, so that `[n for n in n]` takes n from there.
        first = generators[0].iter
        self.visit(first)
        parts = [part for g in generators for part in (g.target, g.iter, *g.ifs) if part is not first]
        inner = _read([*parts, *results])
        loop_variables = set[str]().union(*(_read([generator.target]).bound for generator in generators))
        self.scope.taken |= inner.taken - loop_variables
        # Any other name that it binds is that of a walrus, which belongs to the scope around.
        self.scope.bound |= inner.bound - loop_variables
