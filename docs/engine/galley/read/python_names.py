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
        if isinstance(node.target, ast.Name):
            self.scope.taken.add(node.target.id)
        self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        self.scope.imported |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self.scope.imported |= {alias.asname or alias.name for alias in node.names}

    def visit_Global(self, node: ast.Global) -> None:
        self.scope.declared |= {*node.names}

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        self.scope.declared |= {*node.names}

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
        self.generic_visit(arguments)  # defaults and annotations belong to the scope around
        parameters = {node.arg for node in ast.walk(arguments) if isinstance(node, ast.arg)}
        inner = _read(body)
        own = (parameters | inner.bound | inner.imported) - inner.declared
        self.scope.taken |= inner.taken - own

    def _comprehension(self, generators: list[ast.comprehension], results: list[ast.expr]) -> None:
        first = generators[0].iter  # evaluated in the scope around
        self.visit(first)
        parts = [part for g in generators for part in (g.target, g.iter, *g.ifs) if part is not first]
        inner = _read([*parts, *results])
        own = set[str]().union(*(_read([generator.target]).bound for generator in generators))
        self.scope.taken |= inner.taken - own
        self.scope.bound |= inner.bound - own  # those of a walrus
