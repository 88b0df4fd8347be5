"""Run one page, in a process that does nothing else: everything that could make two runs differ is pinned here."""

import ast
import builtins
import contextlib
import doctest
import faulthandler
import io
import json
import linecache
import os
import random
import re
import sys
import tempfile
import time
import traceback
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from galley.run import figure
from galley.run.limits import end_late, lift_time, limit_memory, limit_time
from galley.run.opened_files import OpenedFiles

MOST_OUTPUT = 1_000_000  # characters a block may print
CODE = ("block", "cell")  # kinds of steps that a page cannot go on without
ASSERTED = "__asserted__"  # a builtin, so that it is none of the page's names
OURS = ("posenc", "posenc_book")  # the packages that a page shows
FORK = "is multi-threaded, use of fork"
narrow_figure: Any = None  # the module: with it Matplotlib is loaded, which the process of a page does alone
# Control characters, but for tab and line feed, and marks that turn the direction of writing: no reader sees them.
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def run_page(job: dict, connection) -> None:
    """Run the steps of `job` and send what came of each: the target of a page's process."""
    trace = open(job["trace"], "w", buffering=1)  # noqa: SIM115  it must outlive this frame, for faulthandler
    faulthandler.enable(trace)
    os.chdir(job["scratch"] if job["alone"] else job["root"])
    _set_style()
    if job["alone"]:
        _hide("galley")
    else:
        _pin_seeds()
    # From here on what is opened is the page's doing; what is loaded before it is the same for all.
    opened = _note_opened_files(job)
    limit_memory(job["memory"])
    end_late(trace)
    runner = _Runner(job, trace)
    # Tracebacks quote the lines of the page from here, since its name is that of a Markdown file.
    linecache.cache[job["filename"]] = _lines(job)
    results = _run_steps(runner, job["steps"])
    lift_time()
    connection.send((results, opened.traces()))
    connection.close()


def _run_steps(runner: "_Runner", steps: list[dict]) -> list[dict]:
    """Run steps in order, up to a block that fails; then those again that met a name before its block."""
    results: list[dict] = []
    for step in steps:
        results.append(runner.run(step))
        if results[-1].get("error") and step["kind"] in CODE:
            # What waited for a later block has no result: that of the failing block says enough.
            return [{} if result.get("early") else result for result in results]
    for n, step in enumerate(steps):
        # A sentence may state what a later block computes.
        if results[n].get("early"):
            results[n] = runner.run(step)
    return results


def _lines(job: dict) -> tuple:
    """Return the page's code at its lines, as linecache keeps it; without a time it is never looked up again."""
    lines: list[str] = []
    for step in job["steps"]:
        if step["kind"] in CODE:
            # Empty lines take the place of the prose between two blocks.
            lines += ["\n"] * (step["line"] - 1 - len(lines)) + [f"{line}\n" for line in step["code"].split("\n")]
    return len(lines), None, lines, job["filename"]


def _note_opened_files(job: dict) -> OpenedFiles:
    """Give the page a scratch folder of its own, and note from now on what it reads."""
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(job["root"], ".galley", "inductor"))
    # The variable for the programs that a page starts, the attribute for a module that has looked it up already.
    os.environ["TMPDIR"] = tempfile.tempdir = job["scratch"]
    opened = OpenedFiles(job)
    sys.addaudithook(opened)
    return opened


def _pin_seeds() -> None:
    """Let random numbers, and sums that threads divide, be the same at every run."""
    import numpy as np
    import torch

    random.seed(0)
    np.random.seed(0)  # noqa: NPY002  pages may use what their readers still use
    torch.manual_seed(0)
    # Torch was loaded by the fork server, before this process had a say.
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))


def _set_style() -> None:
    """Give Matplotlib the look of the house, and load what it draws with: a page may hide the engine from itself."""
    global narrow_figure
    import matplotlib as mpl
    from matplotlib import pyplot as plt

    from galley.run import narrow_figure

    mpl.use("svg", force=True)
    # A matplotlibrc of whoever builds the book must not show.
    mpl.rcdefaults()
    plt.style.use(figure.HOUSE_STYLE)


def _hide(*packages: str) -> dict:
    """Make packages ones that are not installed, and return their modules."""
    hidden = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] in packages}
    sys.modules.update(dict.fromkeys(packages))  # type: ignore[arg-type]  None makes an import fail
    return hidden


class _Capped(io.FileIO):
    """Where everything goes that is written to file 1, by the page and by what it starts, in its order."""

    def write(self, data) -> int:
        # So many bytes hold as many characters in any case; these are counted when the block has ended.
        if os.fstat(1).st_size > 4 * MOST_OUTPUT:
            raise OutputTooLong(f"the block prints more than {MOST_OUTPUT:,} characters")
        return super().write(data)


class OutputTooLong(Exception):
    """A block prints without end."""


class _Runner:
    """Runs the steps of a page in one namespace, and returns of each what JSON can hold."""

    def __init__(self, job: dict, trace) -> None:
        self.filename, self.memory = job["filename"], job["memory"]
        self.trace = trace
        self.sources = tuple(f"{source}{os.sep}" for source in job["sources"])
        self.scope = _new_main()
        self.process = os.getpid()
        self.blocks = 0
        self.asserted = _count_assertions()
        # In place of the files 1 and 2, so that what C code and child processes print is the page's too.
        self.printed = tempfile.TemporaryFile()  # noqa: SIM115  it lives as long as the process
        os.dup2(self.printed.fileno(), 1)
        os.dup2(self.printed.fileno(), 2)
        capped = _Capped(1, "w", closefd=False)
        # Nothing waits in a buffer, so that Python's output stands in order with that of all others.
        self.out = io.TextIOWrapper(capped, "utf-8", "backslashreplace", newline="", write_through=True)  # type: ignore[type-var]

    def run(self, step: dict) -> dict:
        # If the process dies in this step, the build finds its line here.
        self.trace.write(f"at line {step['line']}\n")
        limit_time(step["limit"], self.trace)
        begin = time.perf_counter()
        methods = {"number": self._number, "read": self._formula, "checked": self._formula}
        result = methods.get(step["kind"], self._block)(step)
        return result | {"seconds": time.perf_counter() - begin}

    def _number(self, step: dict) -> dict:
        try:
            with self._no_warning(), contextlib.redirect_stdout(None):
                value = eval(compile(step["code"], self.filename, "eval"), self.scope)
                return {"value": _plain(value)}
        except BaseException as error:
            message = f"{step['code']} raises {type(error).__name__}: {error}"
            return {"error": message, "error_line": step["line"], "early": isinstance(error, NameError)}

    def _formula(self, step: dict) -> dict:
        try:
            with self._no_warning(), contextlib.redirect_stdout(None):
                return {"wrong": _wrong_formula(step, self.scope)}
        except BaseException as error:
            message = f"the check of this formula raises {type(error).__name__}: {error}"
            return {"error": message, "error_line": step["line"], "early": isinstance(error, NameError)}

    @contextlib.contextmanager
    def _no_warning(self) -> Iterator[None]:
        """Raise the first warning that the page causes, when what is done within has ended."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        for warning in filter(self._caused, caught):
            raise warning.category(str(warning.message))

    def _caused(self, warning: warnings.WarningMessage) -> bool:
        """Whether a warning is of the page's doing: libraries also warn of the Python or the machine that they meet.

        Python names the file of the line that a warning is about: the page, a file that it shows, or a library's own.
        From 3.12 on it warns of any fork beside threads, which are those of the engine and of PyTorch.
        """
        return self._is_ours(warning.filename) and FORK not in str(warning.message)

    def _is_ours(self, filename: str) -> bool:
        """Whether a file is the page or one of the package that it shows."""
        return filename == self.filename or filename.startswith(self.sources)

    def _block(self, step: dict) -> dict:
        """Run a block, and return what it printed, drew, asserted and warned of, or the error that it raised."""
        self.blocks += 1
        before = self.asserted[0]
        with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(self.out):
            warnings.simplefilter("always")
            drawn, data, raised = self._attempt(step)
        # A child that the page forked and did not end gets here too: what it printed is the page's.
        if os.getpid() != self.process:
            os._exit(0)
        result = {"stdout": self._take_printed(), "asserts": self.asserted[0] - before}
        result["figures"], result["narrow"] = [wide for wide, _ in drawn], [narrow for _, narrow in drawn]
        result["warnings"] = [f"{w.category.__name__}: {w.message}" for w in caught if self._caused(w)]
        if data:
            result["data"] = data
        judged = self._judge(step, result, raised)
        limit_memory(self.memory)
        return judged

    def _attempt(self, step: dict) -> tuple[list[tuple[str, str]], str, BaseException | None]:
        """Run the code of a block, and return its figures, its data for a live figure, and what it raised."""
        figures: list[tuple[str, str]] = []
        try:
            with _standalone() if "standalone" in step["options"] else contextlib.nullcontext(self.scope) as scope:
                value = self._execute(step, scope)
            figures = self._figures(value, step["options"])
            return figures, self._data(step), None
        # SystemExit and KeyboardInterrupt are the page's failures too.
        except BaseException as error:
            # Where memory is used up, a report of it needs some.
            limit_memory(-1)
            # No figure is left for the next block.
            sys.modules["matplotlib.pyplot"].close("all")
            return figures, "", error

    def _execute(self, step: dict, scope: dict):
        if step["lang"] == "pycon":
            return self._doctest(step, scope)
        # With as many empty lines before it as the page has, an error names the line of the page.
        source = "\n" * (step["line"] - 1) + step["code"]
        tree = ast.fix_missing_locations(_Counted().visit(ast.parse(source, self.filename)))
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, self.filename, "exec", dont_inherit=True), scope)
        if last is None:
            return None
        return eval(compile(ast.Expression(last.value), self.filename, "eval", dont_inherit=True), scope)

    def _doctest(self, step: dict, scope: dict) -> None:
        test = doctest.DocTestParser().get_doctest(step["code"] + "\n", scope, self.filename, None, step["line"] - 1)
        report = io.StringIO()
        runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        results = runner.run(test, out=report.write, clear_globs=False)
        self.asserted[0] += results.attempted
        scope.update(test.globs)
        if results.failed:
            raise AssertionError(report.getvalue())

    def _data(self, step: dict) -> str:
        """Return as JSON what a live figure needs of the page's own numbers."""
        if "data" not in step["options"]:
            return ""
        value = eval(compile(step["options"]["data"], self.filename, "eval"), self.scope)
        return json.dumps(_rounded(value), separators=(",", ":"), ensure_ascii=False, allow_nan=False)

    def _figures(self, value, options: dict) -> list[tuple[str, str]]:
        """Return the figures of a block as SVG, each with the narrow one for a phone, or nothing."""
        from matplotlib import pyplot as plt

        name = f"figure-{self.blocks}"
        wide = [figure.tidy(value._repr_svg_(), name)] if hasattr(value, "_repr_svg_") else []
        drawn = {f"{name}-{n}": plt.figure(n) for n in plt.get_fignums()}
        wide += [figure.draw(each, label) for label, each in drawn.items()]
        # On a phone, too, a script takes the place of a live figure.
        narrow = [""] * len(wide) if "live" in options else self._narrow(wide, drawn, options)
        plt.close("all")
        return list(zip(wide, narrow, strict=True))

    def _narrow(self, wide: list[str], drawn: dict, options: dict) -> list[str]:
        """Return the narrow figures of a block: the option `narrow` changes what was drawn, or gives a drawing."""
        changed = [label for label, each in drawn.items() if narrow_figure.is_wide(each)]
        for label in changed:
            narrow_figure.narrow(drawn[label])
        value: Any = None
        if "narrow" in options:
            value = eval(compile(options["narrow"], self.filename, "eval"), self.scope)
        narrow = [figure.draw(each, f"{label}-n", True) if label in changed else "" for label, each in drawn.items()]
        if hasattr(value, "_repr_svg_"):
            narrow.insert(0, figure.tidy(value._repr_svg_(), f"figure-{self.blocks}-n"))
        return [""] * (len(wide) - len(narrow)) + narrow

    def _take_printed(self) -> str:
        """Return what was printed since the last time."""
        self.printed.seek(0)
        # A character has at most four bytes in UTF-8; one more shows that there are too many.
        text = self.printed.read(4 * MOST_OUTPUT + 4).decode(errors="replace")
        self.printed.seek(0)
        self.printed.truncate()
        return text

    def _judge(self, step: dict, result: dict, raised: BaseException | None) -> dict:
        expected = step["options"].get("raises")
        if len(result["stdout"]) > MOST_OUTPUT:
            raised = raised or OutputTooLong(f"the block prints more than {MOST_OUTPUT:,} characters")
            result["stdout"] = ""
        if raised is None and expected:
            silent = f"the block should raise {expected}; it raises nothing"
            return result | {"error": silent, "error_line": step["line"]}
        if raised is None:
            return self._legible(step, result)
        name = type(raised).__name__
        if expected in (name, "*"):
            result["stdout"] += f"{name}: {raised}\n"
            foreign = {} if self._says_it_itself(raised) else {"foreign": name}
            return self._legible(step, result | foreign)
        return result | {"error": self._explain(raised), "error_line": self._line(raised, step)}

    def _says_it_itself(self, error: BaseException) -> bool:
        """Whether an error is worded by the page, or by a package that it shows: a library's words change."""
        last = traceback.extract_tb(error.__traceback__)[-1]
        return self._is_ours(last.filename) and (last.line or "").startswith(("raise", "assert"))

    def _legible(self, step: dict, result: dict) -> dict:
        if match := CONTROL.search("".join((result["stdout"], *result["figures"]))):
            message = f"the block prints a control character, {match[0]!a}; take it out, or show it by repr()"
            return result | {"error": message, "error_line": step["line"]}
        return result

    def _line(self, error: BaseException, step: dict) -> int:
        frames = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == self.filename]
        # Code that does not parse has run no line.
        if isinstance(error, SyntaxError) and not frames:
            frames = [error.lineno]
        return next(iter(frames), None) or step["line"]

    def _explain(self, error: BaseException) -> str:
        """Return the error with the frames a writer of pages can do something about: the page's and posenc's."""
        # The report of doctest, which opens with a row of stars, shows place, expected and actual output itself.
        if isinstance(error, AssertionError) and str(error).startswith("*" * 10):
            return str(error).strip("*\n")
        linecache.checkcache()
        report = traceback.TracebackException.from_exception(error)
        own_frames = [frame for frame in report.stack if self._is_ours(frame.filename)]
        report.stack = traceback.StackSummary.from_list(own_frames)
        text = "".join(report.format(chain=False)).rstrip()
        # Torch raises a RuntimeError of its own where Python and NumPy raise MemoryError.
        if isinstance(error, MemoryError) or "allocate memory" in str(error):
            advice = "let it need less, or raise memory in [tool.galley]"
            text += f"\na page has {self.memory / 2**30:g} GiB of memory; {advice}"
        return text + ("\na page must not end the interpreter" if isinstance(error, SystemExit) else "")


def _wrong_formula(step: dict, scope: dict) -> list[str]:
    """Return what is wrong with a formula, evaluated in the page's names."""
    from galley.run import formula_bindings  # only where there is one

    if step["kind"] == "checked":
        return formula_bindings.denies(step["code"], scope)
    return formula_bindings.faults(step["options"]["tex"], step["code"], scope)


@contextlib.contextmanager
def _standalone() -> Iterator[dict]:
    """An empty folder and no posenc: what a reader has who only copied the block."""
    hidden = _hide(*OURS)
    page = sys.modules["__main__"]
    home = Path.cwd()
    with tempfile.TemporaryDirectory() as empty:
        os.chdir(empty)
        try:
            yield _new_main()
        finally:
            os.chdir(home)
            for package in OURS:
                del sys.modules[package]
            sys.modules.update(hidden, __main__=page)


def _new_main() -> dict:
    """Return the names of a new main module: where pickle and typing look for what a page defines."""
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    return vars(main)


def _count_assertions() -> list[int]:
    """Let each assertion call a function, and return the number of calls."""
    import torch

    calls = [0]

    def asserted() -> None:
        # In a function that torch compiles the count would be compiled too, and break its graph.
        if not torch.compiler.is_dynamo_compiling():
            calls[0] += 1

    setattr(builtins, ASSERTED, asserted)
    return calls


class _Counted(ast.NodeTransformer):
    """Puts a call before each assertion; the assertion itself stays as it is, and where it is."""

    def visit_Assert(self, node: ast.Assert) -> list[ast.stmt]:
        call = ast.Expr(ast.Call(ast.Name(ASSERTED, ast.Load()), [], []))
        return [ast.copy_location(call, node), node]


def _rounded(value):
    """Return a value as JSON holds it: arrays as lists, and of each number nine digits, which is what a float32 has."""
    if isinstance(value, dict):
        return {str(name): _rounded(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    # Arrays of NumPy and tensors of torch have this method.
    if hasattr(value, "tolist"):
        return _rounded(value.tolist())
    return float(f"{value:.9g}") if isinstance(value, float) else value


def _plain(value) -> list | str | bool:
    """Return a value as JSON can hold it: text, or a flat list of numbers."""
    if isinstance(value, str | bool):
        return value
    import numpy as np

    # NumPy takes no tensor that has a gradient.
    if hasattr(value, "detach"):
        value = value.detach()
    array = np.asarray(value)
    if array.dtype == bool and array.ndim == 0:
        return bool(array)
    if not (np.issubdtype(array.dtype, np.number) or array.dtype == bool):
        raise TypeError(f"a bound number must be a number or a sequence of numbers, got {type(value).__name__}")
    return [float(item) for item in array.ravel()]
