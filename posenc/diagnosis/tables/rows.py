"""Call a table of any signature for its rows, whatever it takes: positions, a length, embeddings, or token ids."""

from typing import Any

import torch
from torch import Tensor

from posenc.diagnosis.calling.call import Code, attempt

WORD = 5  # a token id that is no padding


class Table:
    """The table as a function of positions, whatever the code takes: rows (t, d)."""

    def __init__(self, code: Code) -> None:
        self.code, self.dim, self.adds = code, code.dim, code.takes("x")
        self.told_by = next((role for role in ("positions", "offset") if code.takes(role)), "length")
        self.of_ids = self.adds and self._takes_ids()
        self.of_places = self.adds and not self.of_ids and self._takes_places()
        self.alone = self.of_ids
        if self.of_places:
            self.adds, self.told_by = False, "places"

    def _takes_ids(self) -> bool:
        """Tell whether the code asks for token ids (b, t) where embeddings do not do."""
        zeros = torch.zeros(2, 5, self.dim)
        if not attempt(self.code, x=zeros, positions=torch.arange(5))[1]:
            return False
        made, failed = attempt(self.code, x=_ids(zeros), positions=torch.arange(5))
        return not failed and isinstance(made, Tensor) and made.is_floating_point()

    def _takes_places(self) -> bool:
        """Tell whether what is called x are positions (t,), where embeddings do not do."""
        if not attempt(self.code, x=torch.zeros(2, 5, self.dim), positions=torch.arange(5))[1]:
            return False
        made, failed = attempt(self.code, x=torch.arange(5.0))
        return not failed and isinstance(made, Tensor) and tuple(made.shape) == (5, self.dim)

    def __call__(self, start: int, t: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return rows start .. start+t-1; those before `start` are computed too where there is no other way."""
        first = 0
        if self.told_by == "places":
            given: dict[str, Any] = {"x": torch.arange(float(start), float(start + t))}
        elif self.told_by == "positions":
            given = {"positions": torch.arange(start, start + t)}
        elif self.told_by == "offset":
            given = {"offset": start, "length": t}
        else:
            given, first = {} if self.adds else {"length": start + t}, start
        zeros = torch.zeros(1, first + t, self.dim, dtype=dtype)
        made = self.add(zeros, **given) if self.adds else self.code(**given)
        if isinstance(made, tuple) and len({part.shape for part in made}) == 1 < len(made):
            raise ValueError("rows: the code must make one table, got several of one shape: cosines and sines?")
        made = made[0] if isinstance(made, tuple) else made
        return made.reshape(-1, made.shape[-1])[first : first + t]

    def add(self, x: Tensor, **given: Any) -> Tensor:
        """Return the code's result for embeddings (b, t, d)."""
        swap = self.code.way.order == "tbd"
        x = x.transpose(0, 1) if swap else x
        result = self.code(x=_ids(x) if self.of_ids else x, **given)
        result = result[0] if isinstance(result, tuple) else result
        if not isinstance(result, Tensor):
            return result
        if self.of_ids and result.ndim == 2:
            result = result[None].expand(len(x), -1, -1)
        if result.ndim < 3 or len(result) == 1 < len(x):  # the table alone
            self.alone = True
            x = x.transpose(0, 1) if swap else x
            return x + (result if not swap or result.ndim < 3 else result.transpose(0, 1))
        return result.transpose(0, 1) if swap else result


def _ids(x: Tensor) -> Tensor:
    return torch.full(x.shape[:2], WORD)
