"""Call an attention of any signature on queries, keys and values (b, h, t, d) at known places."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from posenc.diagnosis.call import Code, attempt
from posenc.diagnosis.compare import far, random

T = 12


class Attention:
    """An attention as a function of q, k, v (b, h, t, d), or of x (b, t, d) alone."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self.alone = not code.takes("v")
        self.of_keys = False

    @property
    def placed(self) -> bool:
        """Whether positions of both queries and keys can be told."""
        return self.code.takes("positions") and (self.alone or self.of_keys or self.code.takes("key_positions"))

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, **given: Any) -> Tensor:
        """Return the result (b, h, t, d) for arguments by role."""
        if self.alone:
            made = _first(self.code(x=q.transpose(1, 2).flatten(2), **given))
            return made.unflatten(-1, (q.shape[1], -1)).transpose(1, 2)
        swap = self.code.order == "bthd"
        q, k, v = (part.transpose(1, 2) if swap else part for part in (q, k, v))
        made = _first(self.code(q=q, k=k, v=v, **given))
        return made.transpose(1, 2) if swap else made

    def at(self, q: Tensor, k: Tensor, v: Tensor, start: int = 0, **given: Any) -> Tensor:
        """Return the result for keys from place `start` on and queries at the last, where places can be told."""
        keys = start + torch.arange(k.shape[2])
        queries = keys[k.shape[2] - q.shape[2] :]
        positions = keys if self.of_keys else queries
        return self(q, k, v, positions=positions, key_positions=keys, offset=int(queries[0]), **given)

    def learn_whose_positions(self, q: Tensor, k: Tensor, v: Tensor) -> None:
        """Find out whether positions are those of the queries or of all keys, where the code takes one for both."""
        if self.alone or not self.code.takes("positions") or self.code.takes("key_positions"):
            return
        whole = self.at(q, k, v)[:, :, -3:]
        for self.of_keys in (False, True):
            made, failed = attempt(self.at, q[:, :, -3:], k, v)
            if not failed and far(made, whole) < 1e-4:
                return
        self.of_keys = False


def _first(made: Any) -> Any:
    return made[0] if isinstance(made, tuple) else made


class Case(NamedTuple):
    """What the checks share: the code and its sizes, the attention that it is, whether that is causal."""

    code: Code
    dim: int
    heads: int
    attend: Attention
    causal: bool = False

    def inputs(self, seed: int = 0, t: int = T, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
        """Return random q, k, v."""
        if self.attend.alone:
            x = random(2, self.heads, t, self.dim // self.heads, seed=seed, dtype=dtype)
            return x, x, x
        q, k, v = (random(2, self.heads, t, self.dim, seed=3 * seed + i, dtype=dtype) for i in range(3))
        return q, k, v
