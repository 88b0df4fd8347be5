"""Call code for the rows of its table, whatever arguments it takes, and measure the first of them.

Code takes positions, an offset or a length; or embeddings, token ids or a mask; or positions as real numbers.
"""

import copy
import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from posenc.doctor.call.code import Code, first_result
from posenc.doctor.numerics import random, relative_difference, worst
from posenc.doctor.safe_call import attempt

B, T = 7, 5  # texts and tokens of a short call: sizes that nothing else has
TOKEN_ID = 5  # of no padding
CODEBOOKS = 4
SHAPES = ((B, T), (T, B), (1, T), (B, 1))  # of a result, with those that faults bring about
CODEBOOK_SHAPES = {"codebooks": ((1, CODEBOOKS),)}
EQUAL = 1e-6  # how far equal numbers may differ
LENGTHS = (300, 128, 64, 16, 5)  # of the measured table: the first that comes in time
SECONDS = 0.1  # for the measured table
INPUT_FORMS: dict[str, Callable[[Tensor], Tensor]] = {  # what is passed for embeddings (b, t, d)
    "embeddings": lambda x: x,
    "ids": lambda x: torch.full(x.shape[:2], TOKEN_ID),
    "channels first": lambda x: x.mT,
    "codebooks": lambda x: torch.full((len(x), CODEBOOKS, x.shape[1]), TOKEN_ID),
    "mask": lambda x: torch.ones(x.shape[:2], dtype=torch.long),
}
COORDINATE_FORMS: tuple[Callable[[Tensor], dict[str, Tensor]], ...] = (  # positions (t,) as what rows are made of
    lambda positions: {"x": positions.float()},
    lambda positions: {"x": positions.float()[None, :, None]},
    lambda positions: {"positions": positions[None, :, None]},
)


class Table:
    """The table as a function of positions, whatever the code takes: rows (t, d).

    `takes_input` tells whether it takes embeddings or what stands for them, and `takes_ids` whether these are integers.
    `position_arguments` can tell the code which rows are due, and `position_argument` is the one that is used:
    "positions", "offset", "coordinates", or "length" where the code returns all rows from position 0 on.
    """

    def __init__(self, code: Code) -> None:
        self.code = code
        self.dim = code.dim
        self.position_arguments = [role for role in ("positions", "offset") if code.takes(role)]
        # Code that counts tokens in a state (Fairseq) uses positions only with one: by length it is called without.
        self.has_state = bool(self.position_arguments) and code.takes("state")
        self.position_argument = "length"
        if self.position_arguments and not self.has_state:
            self.position_argument = self.position_arguments[0]
        self.input_role = "x" if code.takes("x") else "mask"
        self.input_form = self._input_form()
        self.takes_input = self.input_form != ""
        self.takes_ids = self.input_form in ("ids", "codebooks", "mask")
        # None while the usual call, by positions that are whole numbers, is tried.
        self.coordinate_form: Callable[[Tensor], dict[str, Tensor]] | None = None
        self.coordinate_form = self._coordinate_form()
        if self.coordinate_form:
            self.position_arguments = ["coordinates"]
            self.position_argument = "coordinates"

    def of(self, code: Code) -> "Table":
        """Return the table of other code, called in the same form."""
        copied = copy.copy(self)
        copied.code = code
        return copied

    def _input_form(self) -> str:
        """Return the form of input for which rows come back, "" where none does."""
        forms = [form for form in INPUT_FORMS if (form == "mask") == (self.input_role == "mask")]
        for form in forms if self.code.takes(self.input_role) else ():
            result, _ = attempt(self.on, torch.zeros(B, T, self.dim), {"positions": torch.arange(T)}, form)
            if not isinstance(result, Tensor) or result.ndim != 3 or not result.is_floating_point():
                continue
            # Rows may be appended to the embeddings (b, t, d); where channels come first, no code does so.
            widest = self.dim if form == "channels first" else 2 * self.dim
            if result.shape[-1] <= widest and tuple(result.shape[:2]) in (*SHAPES, *CODEBOOK_SHAPES.get(form, ())):
                return form
        return ""

    def _coordinate_form(self) -> Callable[[Tensor], dict[str, Tensor]] | None:
        """Return how positions are passed as real numbers, where the usual call returns no rows."""
        if self.takes_input or (self.position_arguments and attempt(self, T)[0] is not None):
            return None
        for form in COORDINATE_FORMS:
            arguments = form(torch.arange(T))
            if not self.code.takes(*arguments):
                continue
            result, _ = attempt(self.code, **arguments)
            # Axes of size 1 may be anywhere in the result, so that numbers are counted.
            if isinstance(result, Tensor) and result.numel() == T * self.dim:
                return form
        return None

    def __call__(self, t: int, start: int = 0, dtype: torch.dtype = torch.float32, argument: str = "") -> Tensor:
        """Return the rows (t, d) from position `start` on; raises where the code returns several tables."""
        argument = argument or self.position_argument
        arguments = self._arguments(argument, t, start)
        # By its length alone a table has to be made from position 0 on; the rows before `start` are cut.
        before = start if argument == "length" else 0
        if self.takes_input:
            # A mask has an entry for each token of the cache too, which an offset says to leave out.
            covers_cache = self.input_form == "mask" and argument == "offset"
            tokens = t + start if covers_cache else t + before
            result = self.on(torch.zeros(1, tokens, self.dim, dtype=dtype), arguments)
        else:
            result = self.code(**arguments)
        # Cosines and sines for a rotation come as two tables, to neither of which a row of embeddings is added.
        is_pair = isinstance(result, tuple) and len(result) > 1
        if is_pair and len({part.shape for part in result}) == 1:
            raise ValueError(f"doctor: result must be one table, got {len(result)} of one shape: cosines and sines?")
        rows = first_result(result)
        return rows.reshape(-1, rows.shape[-1])[before : before + t]

    def _arguments(self, argument: str, t: int, start: int) -> dict[str, Any]:
        """Return the arguments that ask for rows from position `start` on, or for all of them up to the last."""
        positions = torch.arange(start, start + t)  # (t,)
        if self.coordinate_form:
            return self.coordinate_form(positions)
        if argument == "length":
            return {} if self.takes_input else {"length": start + t}
        state = {"state": {}} if self.has_state else {}
        if argument == "positions":
            return {"positions": positions, **state}
        return {"offset": start, "length": t, **state}

    def on(self, x: Tensor, arguments: dict[str, Any], form: str = "") -> Any:
        """Return the code's result for embeddings (b, t, d), in a form of input: (b, t, d), (1, t, d) or (b, 1, d)."""
        form = form or self.input_form
        tokens_first = self.code.call.order == "tbd"
        content = INPUT_FORMS[form](x.transpose(0, 1) if tokens_first else x)
        result = first_result(self.code(**{self.input_role: content}, **arguments))
        if not isinstance(result, Tensor):
            return result
        # Rows without an axis for texts run along the tokens, unless there is one for each text.
        if result.ndim == 2:
            result = result[:, None] if len(result) == len(x) else result[None]
        elif tokens_first:
            result = result.transpose(0, 1)
        return result.mT if form == "channels first" else result


class TableRecord(NamedTuple):
    """The table as a function, and its first rows (t, d) in float64."""

    table: Table
    rows: Tensor

    @property
    def code(self) -> Code:
        """The examined code."""
        return self.table.code

    def of(self, code: Code) -> Tensor:
        """Return the rows (t, d) of other code, at the same positions."""
        return self.table.of(code)(len(self.rows))


def is_table(table: Table) -> bool:
    """Return whether rows of the width come back, or embeddings to which a row each was added; may raise."""
    if table.takes_input:
        return _adds_rows(table)
    if table.code.needs("x") and table.coordinate_form is None:
        # No form of input returned rows; the error that this may raise tells the user why.
        table.code(x=torch.zeros(B, T, table.dim), positions=torch.arange(T))
        return False
    rows = table(T)
    return tuple(rows.shape) == (T, table.dim) and rows.is_floating_point()


def _adds_rows(table: Table) -> bool:
    """Return whether rows are added to embeddings, and nothing else is done to them."""
    result = table.on(torch.zeros(B, T, table.dim), {"positions": torch.arange(T)})
    # Plain angles grow from 0 in even steps: they are what a rotation turns by, no table to add.
    if any(grows_linearly(rows) and not rows[0].any() for rows in (result, result.transpose(0, 1))):
        return False
    if result.shape[1] == 1:
        return not are_equal(result)  # a row for each text; one that all texts share is no table
    if table.takes_ids:
        return True
    # The result of a token does not depend on the other tokens.
    x, others = random(B, T, table.dim, seed=1), random(B, T, table.dim, seed=2)  # (b, t, d)
    others[-1, -1] = x[-1, -1]
    contents = (x, x, others)
    last, repeated, changed = (table.on(each.clone(), {"positions": torch.arange(T)})[-1, -1] for each in contents)
    # With dropout two equal calls differ as well, so that a difference shows nothing; a later check reports dropout.
    return not (relative_difference(repeated, last) < 1e-5 < relative_difference(changed, last))


def measure_table(table: Table) -> TableRecord:
    """Return the record of the longest table that comes in time; raises what the code raises for the shortest."""
    for length in LENGTHS[:-1]:
        start = time.thread_time()
        rows, failed = attempt(table, length)
        is_in_time = time.thread_time() - start < SECONDS or length < 20
        if not failed and is_in_time:
            return TableRecord(table, rows.detach().double())
    return TableRecord(table, table(LENGTHS[-1]).detach().double())


# Rows


def are_equal(rows: Tensor) -> bool:
    """Return whether all rows (t, ...) are equal."""
    return worst((rows - rows[:1]).abs()) < EQUAL


def grows_linearly(rows: Tensor) -> bool:
    """Return whether rows (t, d) grow by the same from each to the next, as angles do."""
    return bool((rows.double().diff(n=2, dim=0).abs() < 1e-4).all())


def nearest_rows(rows: Tensor) -> tuple[float, int, int]:
    """Return the distance of the nearest two rows of (t, d), and which these are, the first one first."""
    distances = torch.cdist(rows, rows).fill_diagonal_(math.inf)  # (t, t)
    first, second = sorted(divmod(int(distances.argmin()), len(rows)))
    return float(distances.min()), first, second
