"""Profiles: add to each logit a bias by distance, mixed by the query from a few learned curves.

Paper: Thinking Machines Lab, 2026, "Inkling",
       https://huggingface.co/docs/transformers/model_doc/inkling, `InklingRelativeLogits`.
Used:  Inkling and Inkling 2, language models without RoPE; x-transformers offers it
Cost:  one bank (r, e) for all heads and r numbers a query to read; (b, h, t, e) products a call

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim, r rank, e extent

    state(m)      = weight q_m, r numbers for each head; or the `states` given
    s(q, k, m, n) = sum_i state(m)_i bank[i, m - n]    where 0 <= m - n < e, and 0 elsewhere

so a head has as many curves as its queries have states, and all of them lie in the r-dimensional
space of the bank. Beyond the extent, and for a key ahead, nothing is added: distant tokens get the
logit of their content alone. It is Shaw's table of rank r, shared by heads, and for the past only.

Inkling computes the states from the hidden state, x R^T: pass such as `states` (b, h, t, r), and
delete `weight`. What it adds is not divided by sqrt(d), and its sliding layers have extent and
window alike. x-transformers adds a bias to R, which here would go into `states`.
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn


def profiles(
    q: ArrayLike,
    k: ArrayLike,
    positions: ArrayLike,
    key_positions: ArrayLike,
    weight: ArrayLike | None = None,
    bank: ArrayLike | None = None,
    states: ArrayLike | None = None,
) -> np.ndarray:
    """Return, in float64, what is added to the logits (h, t, s) of `q` (h, t, d) for `k` (g, s, d).

    `weight` is (h, r, d) and `bank` (r, e); `states` (h, t, r) replace what `weight` computes.

    Raises:
        ValueError: If positions are fractions, or not (t,) and (s,).
    """
    q = np.asarray(q, np.float64)
    bank = np.asarray(bank, np.float64)
    m = np.asarray(positions, np.float64).reshape(q.shape[1], 1)
    n = np.asarray(key_positions, np.float64).reshape(1, np.shape(k)[1])
    distance = m - n  # (t, s)
    # the curves have numbers for whole distances only
    if (distance % 1).any():
        got = f"{positions} and {key_positions}"
        raise ValueError(f"profiles: positions must be whole numbers, got {got}")
    if states is None:
        states = np.einsum("htd,hrd->htr", q, np.asarray(weight, np.float64))
    near = (distance >= 0) & (distance < bank.shape[1])  # (t, s)
    # any number of the bank will do where nothing is added
    curve = bank[:, np.where(near, distance, 0).astype(int)]  # (r, t, s)
    scores = np.einsum("htr,rts->hts", np.asarray(states, np.float64), curve)
    return np.where(near, scores, 0)  # (h, t, s)


class Profiles(nn.Module):
    """Add to each logit a number for the distance, from a curve that the query mixes from a bank.

    Learned are `weight` (heads, rank, dim), which starts normal with standard deviation
    dim^(-1/2), and `bank` (rank, extent), which starts with 0.02: first curves are nearly flat.

    Args:
        dim: Width d of a head.
        heads: Number of query heads h, each with its own states of one bank.
        rank: Curves r in the bank; Inkling has 16.
        extent: Distances 0 .. extent - 1 that have a number; Inkling has 1,024.

    Raises:
        ValueError: In a call, if omitted positions have no default.
        ValueError: In a call, if positions are fractions, or of another shape.
        ValueError: In a call, if `q` and `k` are not floats of one width.

    Examples:
        >>> encoding = Profiles(dim=2, heads=1, rank=2, extent=3)
        >>> encoding.weight.data[0] = torch.eye(2)  # a state is the query itself
        >>> encoding.bank.data = torch.tensor([[3.0, 2.0, 1.0], [0.0, 0.0, 5.0]])
        >>> q = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])[None, None]
        >>> k, positions = torch.zeros(1, 1, 5, 2), torch.arange(5)
        >>> encoding(q, k, positions[2:], positions)[0, 0].tolist()
        [[1.0, 2.0, 3.0, 0.0, 0.0], [0.0, 5.0, 0.0, 0.0, 0.0], [0.0, 0.0, 6.0, 2.0, 3.0]]
    """

    def __init__(self, dim: int, heads: int, rank: int = 16, extent: int = 1024):
        super().__init__()
        self.weight = nn.Parameter(dim**-0.5 * torch.randn(heads, rank, dim))
        self.bank = nn.Parameter(0.02 * torch.randn(rank, extent))

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        positions: Tensor | None = None,
        key_positions: Tensor | None = None,
        states: Tensor | None = None,
    ) -> Tensor:
        """Return what is added to the logits (b, h, t, s) of `q` (b, h, t, d) for `k` (b, g, s, d).

        Positions are integers, (t,) or (b, t). With t = s > 1, `positions` default to 0 .. t-1;
        with t = s, `key_positions` default to `positions`. `states` (b, h, t, r) replace those
        computed.
        """
        _check_content(q, k)
        m, n = _positions(q, k.shape[2], positions, key_positions)
        curves = self.curves(q, states)
        inside, near = self._inside(m - n)  # (b, 1, t, s), (b, 1, t, s)
        # of the curve of its query each pair takes one number: there is no (r, t, s) to store
        column = inside.expand(*q.shape[:3], -1)  # (b, h, t, s)
        scores = curves.gather(3, column).masked_fill(~near, 0)
        return scores.to(q.dtype)  # (b, h, t, s)

    def curves(self, q: Tensor, states: Tensor | None = None) -> Tensor:
        """Return what each query adds to a key at each distance, (b, h, t, e), in float32 or 64."""
        # products in half precision would lose digits
        wide = q.to(torch.promote_types(q.dtype, torch.float32))
        if states is None:
            states = torch.einsum("bhtd,hrd->bhtr", wide, self.weight.to(wide))
        return torch.einsum("bhtr,re->bhte", states.to(wide), self.bank.to(wide))  # (b, h, t, e)

    def score_mod(
        self,
        q: Tensor,
        k: Tensor,
        positions: Tensor | None = None,
        key_positions: Tensor | None = None,
        states: Tensor | None = None,
    ) -> Callable[..., Tensor]:
        """Return modify(score, b, h, q_idx, kv_idx), which adds the same in FlexAttention."""
        _check_content(q, k)
        m, n = _positions(q, k.shape[2], positions, key_positions)
        curves = self.curves(q, states)

        def _modify(score: Tensor, b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
            inside, near = self._inside(m[b, 0, q_idx, 0] - n[b, 0, 0, kv_idx])
            return torch.where(near, score + curves[b, h, q_idx, inside], score)

        return _modify

    def _inside(self, distance: Tensor) -> tuple[Tensor, Tensor]:
        """Return each distance held within the bank, and whether it was there."""
        inside = distance.clamp(0, self.bank.shape[1] - 1)
        return inside, inside == distance


def _check_content(q: Tensor, k: Tensor) -> None:
    # k's content is unused, so a wrong width would go unnoticed
    if k.shape[3] != q.shape[3] or not q.is_floating_point():
        got = f"{q.dtype} of width {q.shape[3]} and {k.shape[3]}"
        raise ValueError(f"profiles: q and k must be floats of one width, got {got}")


def _positions(
    q: Tensor, s: int, positions: Tensor | None, key_positions: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return the positions of the queries (b, h, t, d) and of `s` keys, to subtract."""
    b, _, t, _ = q.shape
    if positions is None:
        # a lone token is a new one behind a cache, and its position is not 0
        if t != s or t == 1 or key_positions is not None:
            raise ValueError(
                f"profiles: positions must be given for {t} queries and {s} keys, got None; "
                "or transpose(1, 2) if tokens come before heads"
            )
        positions = torch.arange(t, device=q.device)
    if key_positions is None:
        key_positions = positions
    _check("positions", positions, t)
    _check("key_positions", key_positions, s)
    m = positions.long().expand(b, t).reshape(b, 1, t, 1)
    n = key_positions.long().expand(b, s).reshape(b, 1, 1, s)
    # the kernels of FlexAttention read no strides
    return m.contiguous(), n.contiguous()  # (b, 1, t, 1), (b, 1, 1, s)


def _check(name: str, positions: Tensor, length: int) -> None:
    # one position would broadcast over all tokens without an error
    if positions.is_floating_point() or positions.shape[-1:] != (length,):
        got = f"{positions.dtype} {tuple(positions.shape)}"
        shape = f"({length},) or (b, {length})"
        raise ValueError(
            f"profiles: {name} must have shape {shape} and an integer dtype, got {got}"
        )
