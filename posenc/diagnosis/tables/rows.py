"""Call a table of any signature for its rows, whatever it takes: positions, a length, embeddings, token ids, a mask."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from posenc.diagnosis.calling.attempt import attempt
from posenc.diagnosis.calling.call import Code, first_of

WORD = 5  # a token id that is no padding
CODEBOOKS = 4
GIVEN: dict[str, Callable[[Tensor], Tensor]] = {  # what is handed in for embeddings (b, t, d)
    "embeddings": lambda x: x,
    "ids": lambda x: torch.full(x.shape[:2], WORD),
    "channels first": lambda x: x.transpose(1, 2),
    "codebooks": lambda x: torch.full((len(x), CODEBOOKS, x.shape[1]), WORD),
    "mask": lambda x: torch.ones(x.shape[:2], dtype=torch.long),
}
PLACES: dict[str, Callable[[Tensor], Tensor]] = {"(t,)": lambda at: at, "(b, t, 1)": lambda at: at[None, :, None]}
B, T = 3, 5


class Table:
    """The table as a function of positions, whatever the code takes: rows (t, d)."""

    def __init__(self, code: Code) -> None:
        self.code, self.dim, self.swap = code, code.dim, code.way.order == "tbd"
        self.told = [role for role in ("positions", "offset") if code.takes(role)]
        self.state = {"state": {}} if self.told and code.takes("state") else {}
        self.told_by = self.told[0] if self.told and not self.state else "length"
        self.role = "x" if code.takes("x") else "mask"
        self.form = next((form for form in GIVEN if self._takes(form)), "")
        self.adds = self.form != ""
        self.of_ids = self.form in ("ids", "codebooks", "mask")
        self.alone = self.of_ids
        self.places = ("", "") if self.adds else self._places()
        if self.places[1]:
            self.told_by = "places"

    def of(self, code: Code) -> "Table":
        """Return the table of other code, called in the same way."""
        other = copy.copy(self)
        other.code = code
        return other

    def _takes(self, form: str) -> bool:
        """Tell whether rows come back where this is handed in."""
        if (form == "mask") != (self.role == "mask") or not self.code.takes(self.role):
            return False
        places = {"positions": torch.arange(T)}
        made, _ = attempt(self._made, torch.zeros(B, T, self.dim), form, places)
        if not isinstance(made, Tensor) or not made.is_floating_point() or made.shape[-1] > 4 * self.dim:
            return False
        if form == "channels first" and made.shape[-1] != self.dim:
            return False
        others = ((1, CODEBOOKS),) if form == "codebooks" else ()
        return tuple(made.shape[:2]) in ((B, T), (T, B), (1, T), (B, 1), *others) and made.ndim == 3

    def _places(self) -> tuple[str, str]:
        """Return which argument takes positions as numbers, and their form, where the usual call gives no rows."""
        if self.told and attempt(self, 0, T)[0] is not None:
            return "", ""
        for role, at in (("positions", torch.arange(T)), ("x", torch.arange(float(T)))):
            for form, given in PLACES.items() if self.code.takes(role) else ():
                made, _ = attempt(self.code, **{role: given(at)})
                if isinstance(made, Tensor) and made.numel() == T * self.dim:
                    return role, form
        return "", ""

    def __call__(self, start: int, t: int, dtype: torch.dtype = torch.float32, told_by: str = "") -> Tensor:
        """Return rows start .. start+t-1; those before `start` are computed too where there is no other way."""
        told_by, first = told_by or self.told_by, 0
        if told_by == "places":
            role, form = self.places
            at = torch.arange(start, start + t)
            given: dict[str, Any] = {role: PLACES[form](at.float() if role == "x" else at)}
        elif told_by == "positions":
            given = {"positions": torch.arange(start, start + t)}
        elif told_by == "offset":
            given = {"offset": start, "length": t}
        else:
            given, first = {} if self.adds else {"length": start + t}, start
        given |= self.state if told_by in self.told else {}
        behind = start if self.form == "mask" and told_by == "offset" else 0  # a mask tells of the past too
        zeros = torch.zeros(1, behind + first + t, self.dim, dtype=dtype)
        made = self.add(zeros, **given) if self.adds else self.code(**given)
        if isinstance(made, tuple) and len({part.shape for part in made}) == 1 < len(made):
            why = f"{len(made)} of one shape: cosines and sines?"
            raise ValueError(f"doctor: the result must be one table, got {why}")
        made = first_of(made)
        return made.reshape(-1, made.shape[-1])[first : first + t]

    def add(self, x: Tensor, **given: Any) -> Tensor:
        """Return the code's result for embeddings (b, t, d)."""
        result = self._made(x, self.form, given)
        if not isinstance(result, Tensor) or result.ndim < 3 or not len(result) == 1 < len(x):
            return result
        self.alone = True
        return result.expand(len(x), -1, -1) if self.of_ids else x + result

    def _made(self, x: Tensor, form: str, given: dict[str, Any]) -> Any:
        """Return what the code gives for embeddings (b, t, d), as (b, t, d), (1, t, d) or (b, 1, d)."""
        handed = GIVEN[form](x.transpose(0, 1) if self.swap else x)
        result = first_of(self.code(**{self.role: handed}, **given))
        if not isinstance(result, Tensor):
            return result
        if result.ndim == 2:
            b, t = x.shape[:2]
            result = result[:, None] if len(result) == b != t else result[None]
        elif self.swap:
            result = result.transpose(0, 1)
        return result.transpose(1, 2) if form == "channels first" else result
