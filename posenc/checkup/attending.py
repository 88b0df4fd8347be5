"""Call an attention of any signature on queries, keys and values (b, h, t, d) at known places."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from posenc.checkup.patient import Patient, attempt, far, random

T = 12


class Attend:
    """An attention as a function of q, k, v (b, h, t, d), or of x (b, t, d) alone."""

    def __init__(self, patient: Patient) -> None:
        self.patient = patient
        self.alone = not patient.takes("v")
        self.of_keys = False

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, **given: Any) -> Tensor:
        """Return the result (b, h, t, d) for arguments by role."""
        if self.alone:
            x = q.transpose(1, 2).flatten(2)
            made = _first(self.patient(x=x, **given))
            return made.unflatten(-1, (q.shape[1], -1)).transpose(1, 2)
        swap = self.patient.order == "bthd"
        q, k, v = (part.transpose(1, 2) if swap else part for part in (q, k, v))
        made = _first(self.patient(q=q, k=k, v=v, **given))
        return made.transpose(1, 2) if swap else made

    def at(self, q: Tensor, k: Tensor, v: Tensor, start: int = 0, **given: Any) -> Tensor:
        """Return the result for keys from place `start` on and queries at the last, where places can be told."""
        keys = start + torch.arange(k.shape[2])
        queries = keys[k.shape[2] - q.shape[2] :]
        named = {"positions": keys if self.of_keys else queries, "key_positions": keys, "offset": int(queries[0])}
        return self(q, k, v, **{role: named[role] for role in named if self.patient.takes(role)}, **given)

    def learn_whose_positions(self, q: Tensor, k: Tensor, v: Tensor) -> None:
        """Find out whether positions are those of the queries or of all keys, where the code takes one for both."""
        if self.alone or not self.patient.takes("positions") or self.patient.takes("key_positions"):
            return
        whole = self.at(q, k, v)[:, :, -3:]
        for self.of_keys in (False, True):
            made, failed = attempt(self.at, q[:, :, -3:], k, v)
            if not failed and far(made, whole) < 1e-4:
                return
        self.of_keys = False

    @property
    def placed(self) -> bool:
        """Whether positions of both queries and keys can be told."""
        return self.patient.takes("positions") and (self.alone or self.of_keys or self.patient.takes("key_positions"))


def _first(made: Any) -> Any:
    return made[0] if isinstance(made, tuple) else made


class Case(NamedTuple):
    """What the checks share: the attention, a width and a number of heads, whether it is causal."""

    attend: Attend
    dim: int
    heads: int
    causal: bool

    def inputs(self, seed: int = 0, t: int = T, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
        """Return random q, k, v."""
        if self.attend.alone:
            x = random(2, self.heads, t, self.dim // self.heads, seed=seed, dtype=dtype)
            return x, x, x
        q, k, v = (random(2, self.heads, t, self.dim, seed=3 * seed + i, dtype=dtype) for i in range(3))
        return q, k, v
