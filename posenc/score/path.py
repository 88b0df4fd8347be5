"""PaTH: on its way to the query, let each key be reflected by every token that it passes.

Paper: Yang et al., 2025, "PaTH Attention: Position Encoding via Accumulating Householder Transformations",
       https://arxiv.org/abs/2505.16381, sec. 2-3.
Used:  research models; flash-linear-attention has the kernels
Cost:  d^2 + d + 1 learned numbers; a call solves a system of s equations a key head and multiplies (t, s) by (s, s)

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim, m position of a query, n of a key

    H_l           = I - beta_l w_l w_l^T,  |w_l| = 1,  0 <= beta_l <= 2
    s(q, k, m, n) = (q_m^T H_z .. H_a k_n - q_m . k_n) / sqrt(d),  a .. z the tokens with n < position <= m, in order

so softmax(q k / sqrt(d) + s) is the paper's. A token with beta 0 changes nothing, one with beta 2 mirrors. Two mirrors
make a rotation: if tokens take two of them by turns, every second token turns keys as RoPE does. A key ahead of the
query scores 0: causal attention is meant. Tokens at one position act in the order given. Tokens that `mask` hides do
not act. This changes scores where hidden tokens lie between tokens that are seen, as in packed documents whose
positions restart; padding at either end changes none.

There is no loop: what each token takes from each key as it gets there, C, solves the triangular system (I + tril(beta W
W^T, -1)) C = beta W K^T, and the score is -Q W^T C / sqrt(d). All in float64: a reference to read, not a kernel. There
is no score_mod: FlexAttention shows one pair at a time, and a product runs over all tokens between. The paper reads w
and beta from the tokens x, w through a short convolution: pass such.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


def path(
    q: np.ndarray,
    k: np.ndarray,
    positions: np.ndarray,
    key_positions: np.ndarray,
    weight: np.ndarray | None = None,
    gate: np.ndarray | None = None,
    bias: np.ndarray | None = None,
    w: np.ndarray | None = None,
    beta: np.ndarray | None = None,
    mask: np.ndarray | None = None,
) -> np.ndarray:
    """Return the float64 scores (h, t, s) of `q` (h, t, d) and `k` (g, s, d) at `positions` (t,), `key_positions` (s,).

    `w` (h or g, s, d), of any length, and `beta` (h or g, s) are given or read from the keys: w = weight k, with
    `weight` (d, d), and beta = 2 sigmoid(gate . k + bias), with `gate` (d,) and `bias` (1,). `mask`, true where a query
    may look, is broadcast to (h, t, s).
    """
    q, k = _array("q", q, 3), _array("k", k, 3)
    m, n = _array("positions", positions, 1), _array("key_positions", key_positions, 1)
    _check(q, k, q.shape[-1], np.ndarray)
    w, beta = _read(k, weight, gate, bias, w, beta)
    _check_rest(q, k, m, n, w, beta, mask)
    k, w, beta = (np.repeat(x, len(q) // len(x), axis=0) for x in (k, w, beta))  # (h, s, d), (h, s, d), (h, s)
    beta = np.where(True if mask is None else mask, beta[:, None], 0)  # (..., s)
    x = np.zeros((len(q), len(m), 1, 1)) + k[:, None]  # (h, t, s, d)
    for at in np.argsort(n, kind="stable"):
        passed = (n < n[at]) & (n[at] <= m)[:, None]  # (t, s)
        taken = passed * beta[..., at, None] * np.einsum("htsd,hd->hts", x, w[:, at])  # (h, t, s)
        x -= taken[..., None] * w[:, None, None, at]
    return np.einsum("htd,htsd->hts", q, x - k[:, None]) / q.shape[-1] ** 0.5  # (h, t, s)


class PaTH(nn.Module):
    """Score each key by what the tokens between it and the query make of it.

    Read from the keys are w = `weight` k, with `weight` (dim, dim) starting normal with standard deviation 1/sqrt(dim),
    and beta = 2 sigmoid(`gate` . k + `bias`), with `gate` (dim,) and `bias` (1,) starting at zero: beta starts at 1.

    Args:
        dim: Width d of a head.
        readout: Learn to read w and beta from the keys. False learns nothing; each call must be given both.

    Raises:
        ValueError: If an argument is out of range; the message says what to pass instead.

    Examples:
        >>> import torch
        >>> x, beta = torch.ones(1, 1, 3, 1), torch.tensor([[[2.0, 0.0, 2.0]]])
        >>> score = PaTH(1, readout=False)(x, x, w=x, beta=beta)[0, 0]
        >>> 1 + score  # the paper's: the third token mirrors what passes it, the second does not
        tensor([[ 1.,  1.,  1.],
                [ 1.,  1.,  1.],
                [-1., -1.,  1.]])
    """

    def __init__(self, dim: int, readout: bool = True) -> None:
        super().__init__()
        if not isinstance(dim, int | np.integer) or isinstance(dim, bool) or dim < 1:
            raise ValueError(f"path: dim must be a positive integer, got {dim!r}; it is the width of a head")
        if not isinstance(readout, bool):
            raise ValueError(f"path: readout must be True or False, got {readout!r}; False awaits w and beta")
        self.dim, self.readout = int(dim), readout
        if readout:
            self.weight = nn.Parameter(torch.randn(self.dim, self.dim) / self.dim**0.5)
            self.gate = nn.Parameter(torch.zeros(self.dim))
            self.bias = nn.Parameter(torch.zeros(1))

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        positions: Tensor | None = None,
        key_positions: Tensor | None = None,
        w: Tensor | None = None,
        beta: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Return the scores (b, h, t, s) of `q` (b, h, t, d) and `k` (b, g, s, d), h a multiple of g, in q's dtype.

        `positions` (t,) or (b, t) default to the last t of 0 .. s-1, `key_positions` (s,) or (b, s), in any order, to
        those of as many queries, or 0 .. s-1; one row (1, t) serves a batch. `w` (b, h or g, s, d), of any length, and
        `beta` (b, h or g, s) replace those read from the keys. `mask`, true where a query may look, is broadcast to
        (b, h, t, s); hidden tokens do not act. Where it differs from query to query, each query has its own system to
        solve: for short sequences.

        Raises:
            ValueError: If an argument does not fit; the message says what to pass instead.
        """
        _check(q, k, self.dim)
        _check_rest(q, k, positions, key_positions, w, beta, mask)
        if key_positions is None and positions is not None and q.shape[2] == k.shape[2]:
            key_positions = positions
        if not self.readout and (w is None or beta is None):
            raise ValueError(f"path: w and beta must be given where readout=False, got {_kind(w)} and {_kind(beta)}")
        g, m, n = k.shape[1], _places(positions, q, k.shape[-2]), _places(key_positions, k, k.shape[-2])
        x, y = (z.to(n).contiguous().unflatten(1, (g, -1)) for z in (q, k))  # (b, g, h/g, t, d), (b, g, 1, s, d)
        w, beta = self._reflections(g, y, w, beta)
        if mask is not None:
            beta = torch.where(_grouped(mask[(None,) * (4 - mask.ndim)].to(n.device), g), beta, 0)  # (..., s)
        return (_lost(x, y, m, n, w, beta) / -(self.dim**0.5)).flatten(1, 2).to(q)  # (b, h, t, s)

    def _reflections(self, g: int, k: Tensor, w: Tensor | None, beta: Tensor | None) -> tuple[Tensor, Tensor]:
        w = _grouped(w.to(k), g) if w is not None else k @ self.weight.to(k).T  # (..., s, d)
        beta = _grouped(beta.to(k), g) if beta is not None else 2 * (k @ self.gate.to(k) + self.bias.to(k)).sigmoid()
        return nn.functional.normalize(w, dim=-1), beta[..., None, :]  # (..., s, d), (..., 1, s)

    def extra_repr(self) -> str:
        """Return the arguments, for `print(model)`."""
        return f"dim={self.dim}, readout={self.readout}"


def _lost(q: Tensor, k: Tensor, m: Tensor, n: Tensor, w: Tensor, beta: Tensor) -> Tensor:
    """Return q . k_n less the paper's product, from the triangular system."""
    m, n = (torch.atleast_2d(places)[:, None, None] for places in (m, n))  # (..., t), (..., s)
    ordered, order = n.sort(dim=-1, stable=True)  # (..., s)
    w = w.gather(-2, order[..., None].expand_as(w))  # (..., s, d)
    beta = beta.gather(-1, order[..., None, :].expand_as(beta))[..., None]  # (..., s, 1)
    chain = beta * (w @ w.mT).tril(-1)[:, :, :, None]  # (..., s, s)
    taken = beta * (w @ k.mT * (ordered[..., None] > n[..., None, :]))[:, :, :, None]  # (..., s, s)
    taken = torch.linalg.solve_triangular(chain, taken, upper=False, unitriangular=True)  # (..., s, s)
    seen = q @ w.mT * (m[..., None] >= ordered[..., None, :])  # (b, g, h/g, t, s)
    return seen @ taken.squeeze(3) if taken.shape[3] == 1 else (seen[..., None, :] @ taken).squeeze(-2)


def _places(positions: Tensor | None, x: Tensor, keys: int) -> Tensor:
    positions = torch.arange(keys - x.shape[-2], keys, device=x.device) if positions is None else positions
    return positions.to("cpu" if x.device.type == "mps" else x.device, torch.float64)  # mps has no float64


def _grouped(x: Tensor, g: int) -> Tensor:
    """Split the axis of h, g or 1 heads into those of key heads and of their queries."""
    return x[:, :, None] if x.shape[1] % g else x.unflatten(1, (g, -1))


def _read(k: np.ndarray, weight: Any, gate: Any, bias: Any, w: Any, beta: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return what `_reflections` does, for the function: w of length 1, and beta, as given or read from the keys."""
    d = k.shape[-1]
    w = k @ _learned("weight", weight, (d, d)).T if w is None else _array("w", w, 3)  # (..., s, d)
    if beta is None:
        logits = k @ _learned("gate", gate, (d,)) + _learned("bias", bias, (1,))  # (..., s)
        beta = 2 * np.exp(-np.logaddexp(0, -logits))  # (..., s)
    w = w / np.maximum(np.linalg.norm(w, axis=-1, keepdims=True), 1e-12)  # (..., s, d)
    return w, _array("beta", beta, 2)  # (..., s, d), (..., s)


def _learned(name: str, given: Any, shape: tuple[int, ...]) -> np.ndarray:
    array = _array(name, given, len(shape))
    if array.shape != shape:
        raise ValueError(f"path: {name} must be numbers {shape}, got {_kind(array)}; or give w and beta")
    return array


def _array(name: str, given: object, axes: int) -> np.ndarray:
    try:
        array = np.asarray(given)
    except (RuntimeError, TypeError, ValueError):  # ragged lists, tensors that NumPy cannot read
        array = np.asarray(None)
    if array.dtype.kind not in "iuf" or array.ndim != axes:
        raise ValueError(f"path: {name} must be numbers in {axes} axes, got {_kind(given)}")
    return array.astype(np.float64)


def _kind(given: object) -> str:
    return f"{getattr(given, 'dtype', type(given).__name__)} {tuple(getattr(given, 'shape', ()))}"


def _check(q: Any, k: Any, dim: int, kind: type = Tensor) -> None:
    """Check tensors, or the function's arrays, which have no batch."""
    b, what = ("b, ", "a floating point tensor") if kind is Tensor else ("", "numbers")
    for name, x, axes in (("q", q, f"{b}h, t, {dim}"), ("k", k, f"{b}g, s, {dim}")):
        real = isinstance(x, kind) and (kind is np.ndarray or (x.is_floating_point() and x.ndim == 4))
        if not real or x.shape[-1] != dim:
            raise ValueError(f"path: {name} must be {what} ({axes}), got {_kind(x)}; split off the heads")
    if q.shape[:-3] != k.shape[:-3] or not k.shape[-3] or q.shape[-3] % k.shape[-3]:
        raise ValueError(f"path: k must be of q's batch with g dividing h, got {_kind(k)} for q {_kind(q)}")


def _check_rest(q: Any, k: Any, positions: Any, key_positions: Any, w: Any, beta: Any, mask: Any) -> None:
    """Check what goes with queries and keys, tensors or arrays as they are."""
    batch, h, t, d = q.shape[:-3], *q.shape[-3:]
    g, s = k.shape[-3:-1]
    for name, given, *fit in (
        ("positions", positions, (t,), (*batch, t), (1, t)),
        ("key_positions", key_positions, (s,), (*batch, s), (1, s)),
        ("w", w, (*batch, h, s, d), (*batch, g, s, d)),
        ("beta", beta, (*batch, h, s), (*batch, g, s)),
    ):
        if given is not None and not (_holds(given, q, "int", "float") and given.shape in fit):
            raise ValueError(f"path: {name} must be numbers {fit[0]} or {fit[1]}, got {_kind(given)}; one a token")
    _check_mask(mask, q, k)


def _check_mask(mask: Any, q: Any, k: Any) -> None:
    if mask is None:
        return
    mask = np.asarray(mask) if isinstance(q, np.ndarray) else mask
    whole = (*q.shape[:-1], k.shape[-2])
    sizes = zip(getattr(mask, "shape", ())[::-1], whole[::-1], strict=False)
    if not _holds(mask, q, "bool") or mask.ndim > q.ndim or any(size not in (1, full) for size, full in sizes):
        raise ValueError(
            f"path: mask must be boolean, broadcastable to {whole}, got {_kind(mask)}; false hides a token"
        )


def _holds(given: Any, like: Any, *words: str) -> bool:
    """Say whether `given` is an array or a tensor, as `like` is, with a dtype of which one of `words` is a part."""
    kind = Tensor if isinstance(like, Tensor) else np.ndarray
    return isinstance(given, kind) and any(word in str(given.dtype) for word in words)
