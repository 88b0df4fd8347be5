"""Call a table of any signature for its rows, whatever it takes: positions, a length, embeddings, token ids, a mask."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from posenc.doctor.attempt import attempt
from posenc.doctor.call.code import Code, first_result

B, T = 7, 5  # texts and tokens of what is handed in
WORD = 5  # a token id that is no padding
CODEBOOKS = 4
GIVEN: dict[str, Callable[[Tensor], Tensor]] = {  # what is handed in for embeddings (b, t, d)
    "embeddings": lambda x: x,
    "ids": lambda x: torch.full(x.shape[:2], WORD),
    "channels first": lambda x: x.mT,
    "codebooks": lambda x: torch.full((len(x), CODEBOOKS, x.shape[1]), WORD),
    "mask": lambda x: torch.ones(x.shape[:2], dtype=torch.long),
}
PLACES: tuple[Callable[[Tensor], dict[str, Tensor]], ...] = (  # positions (t,) as numbers that something is made of
    lambda at: {"x": at.float()},
    lambda at: {"x": at.float()[None, :, None]},
    lambda at: {"positions": at[None, :, None]},
)


class Table:
    """The table as a function of positions, whatever the code takes: rows (t, d)."""

    def __init__(self, code: Code) -> None:
        self.code, self.dim, self.swap = code, code.dim, code.call.order == "tbd"
        self.told = [role for role in ("positions", "offset") if code.takes(role)]
        self.state = {"state": {}} if self.told and code.takes("state") else {}
        self.told_by = self.told[0] if self.told and not self.state else "length"
        self.role = "x" if code.takes("x") else "mask"
        self.form = next((form for form in GIVEN if self._takes(form)), "")
        self.adds = self.form != ""
        self.of_ids = self.form in ("ids", "codebooks", "mask")
        self.alone = False
        self.places: Callable[[Tensor], dict[str, Tensor]] | None = None
        if not self.adds:
            self.places = self._places()
        if self.places:
            self.told, self.told_by = ["places"], "places"

    def of(self, code: Code) -> "Table":
        """Return the table of other code, called in the same way."""
        other = copy.copy(self)
        other.code = code
        return other

    def zeros(self) -> Tensor:
        """Return embeddings of nothing (b, t, d)."""
        return torch.zeros(B, T, self.dim)

    def _takes(self, form: str) -> bool:
        """Tell whether rows come back where this is handed in."""
        if (form == "mask") != (self.role == "mask") or not self.code.takes(self.role):
            return False
        made, _ = attempt(self._result, self.zeros(), form, {"positions": torch.arange(T)})
        if not isinstance(made, Tensor) or not made.is_floating_point() or made.ndim != 3:
            return False
        widest = self.dim if form == "channels first" else 2 * self.dim  # a table that is appended
        cut = ((1, CODEBOOKS),) if form == "codebooks" else ()
        return made.shape[-1] <= widest and tuple(made.shape[:2]) in ((B, T), (T, B), (1, T), (B, 1), *cut)

    def _places(self) -> Callable[[Tensor], dict[str, Tensor]] | None:
        """Return how positions are handed in as numbers, where the usual call gives no rows."""
        if self.told and attempt(self, T)[0] is not None:
            return None
        for places in PLACES:
            given = places(torch.arange(T))
            made = attempt(self.code, **given)[0] if self.code.takes(*given) else None
            if isinstance(made, Tensor) and made.numel() == T * self.dim:
                return places
        return None

    def __call__(self, t: int, start: int = 0, dtype: torch.dtype = torch.float32, told_by: str = "") -> Tensor:
        """Return rows start .. start+t-1; those before `start` are computed too where there is no other way."""
        told_by = told_by or self.told_by
        first = start if told_by == "length" else 0
        past = start if self.form == "mask" and told_by == "offset" else first  # a mask tells of the past too
        given = self._given(told_by, start, t) | (self.state if told_by in self.told else {})
        zeros = torch.zeros(past + t, self.dim, dtype=dtype)[None]
        made = self.add(zeros, **given) if self.adds else self.code(**given)
        if isinstance(made, tuple) and len({part.shape for part in made}) == 1 < len(made):
            why = f"{len(made)} of one shape: cosines and sines?"
            raise ValueError(f"doctor: the result must be one table, got {why}")
        made = first_result(made)
        return made.reshape(-1, made.shape[-1])[first : first + t]

    def _given(self, told_by: str, start: int, t: int) -> dict[str, Any]:
        """Return the arguments that ask for rows start .. start+t-1, or for all up to them."""
        at = torch.arange(start, start + t)
        if self.places:
            return self.places(at)
        if told_by == "positions":
            return {"positions": at}
        if told_by == "offset":
            return {"offset": start, "length": t}
        return {} if self.adds else {"length": start + t}

    def add(self, x: Tensor, **given: Any) -> Tensor:
        """Return the code's result for embeddings (b, t, d)."""
        result = self._result(x, self.form, given)
        if self.of_ids or not len(result) == 1 < len(x):
            return result
        self.alone = True
        return x + result

    def _result(self, x: Tensor, form: str, given: dict[str, Any]) -> Any:
        """Return what the code gives for embeddings (b, t, d), as (b, t, d), (1, t, d) or (b, 1, d)."""
        handed = GIVEN[form](x.transpose(0, 1) if self.swap else x)
        result = first_result(self.code(**{self.role: handed}, **given))
        if not isinstance(result, Tensor):
            return result
        if result.ndim == 2:
            result = result[:, None] if len(result) == len(x) else result[None]
        elif self.swap:
            result = result.transpose(0, 1)
        return result.mT if form == "channels first" else result
