"""PaTH: on its way to the query, let each key be reflected by every token that it passes.

Paper: Yang et al., 2025, "PaTH Attention: Position Encoding via Accumulating Householder Transformations",
       https://arxiv.org/abs/2505.16381, sec. 2-3.
Used:  research models; flash-linear-attention has the kernels
Cost:  d^2 + d + 1 learned numbers; a call solves a system of s equations a key head and multiplies (t, s) by (s, s)

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim

    H_l           = I - beta_l w_l w_l^T,  |w_l| = 1,  0 <= beta_l <= 2
    s(q, k, m, n) = (q_m^T H_z .. H_a k_n - q_m . k_n) / sqrt(d),  a .. z the tokens with n < position <= m, in order

so softmax(q k / sqrt(d) + s) is the paper's. Where beta is 0 nothing changes, where it is 2 a token mirrors: two
mirrors by turns are RoPE on every other token. A key ahead of the query scores 0: causal attention is meant. Tokens at
one position act in the order given. Tokens that `mask` hides do not act. That matters only where they stand between
tokens that are seen, as in packed documents whose positions restart; padding at either end never does.

There is no loop: what each token takes from each key as it gets there, C, solves the triangular system
(I + tril(beta W W^T, -1)) C = beta W K^T, and the score is -Q W^T C / sqrt(d). All in float64: a reference to read, not
a kernel. The paper reads w and beta from the tokens x, w through a short convolution: pass such.
"""

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
    q, k, m, n = (np.asarray(x) for x in (q, k, positions, key_positions))
    w, beta, mask = (None if x is None else np.asarray(x) for x in (w, beta, mask))
    _check(None, q, k, m, n, w, beta, mask, kind=np.ndarray)
    k = k.astype(np.float64)  # (g, s, d)
    u, beta = _read(k, weight, gate, bias, w, beta)
    k, u, beta = (np.repeat(x, len(q) // len(x), axis=0) for x in (k, u, beta))  # (h, s, d), (h, s, d), (h, s)
    seen = np.broadcast_to(True if mask is None else mask, (len(q), len(m), len(n)))  # (h, t, s)
    x = np.zeros((len(q), len(m), 1, 1)) + k[:, None]  # (h, t, s, d)
    for at in np.argsort(n, kind="stable"):
        passed = (n < n[at]) & (n[at] <= m)[:, None] & seen[:, :, at, None]  # (h, t, s)
        taken = passed * beta[:, at, None, None] * np.einsum("htsd,hd->hts", x, u[:, at])  # (h, t, s)
        x -= taken[..., None] * u[:, None, None, at]
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

    Example:
        >>> import torch
        >>> x, beta = torch.ones(1, 1, 3, 1), torch.tensor([[[2.0, 0.0, 2.0]]])
        >>> (
        ...     1 + PaTH(1, readout=False)(x, x, w=x, beta=beta)[0, 0]
        ... )  # the third token mirrors what passes, the second not
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
        0 .. s-1. `w` (b, h or g, s, d), of any length, and `beta` (b, h or g, s) replace those read from the keys.
        `mask`, true where a query may look, is broadcast to (b, h, t, s); hidden tokens do not act. Where it differs
        from query to query, each query has its own system to solve: for short sequences.

        Raises:
            ValueError: If an argument does not fit; the message says what to pass instead.
        """
        _check(self.dim, q, k, positions, key_positions, w, beta, mask)
        if not self.readout and (w is None or beta is None):
            raise ValueError(f"path: w and beta must be given where readout=False, got {_said(w)} and {_said(beta)}")
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


def _read(k: np.ndarray, weight, gate, bias, w, beta) -> tuple[np.ndarray, np.ndarray]:
    """Return what `_reflections` does, for the function."""
    d = k.shape[-1]
    for name, given, shape in (("weight", weight, (d, d)), ("gate", gate, (d,)), ("bias", bias, (1,))):
        array = np.asarray(given)
        if (w if name == "weight" else beta) is None and (array.shape != shape or array.dtype.kind not in "fiu"):
            raise ValueError(f"path: {name} must be numbers {shape}, got {_said(array)}; or give w and beta")
    w = k @ np.asarray(weight).T if w is None else w  # (..., s, d)
    beta = 2 * np.exp(-np.logaddexp(0, -k @ np.asarray(gate) - bias)) if beta is None else beta  # (..., s)
    return w / np.maximum(np.linalg.norm(w, axis=-1, keepdims=True), 1e-12), beta  # (..., s, d), (..., s)


def _said(given: object) -> str:
    return f"{getattr(given, 'dtype', type(given).__name__)} {tuple(getattr(given, 'shape', ()))}"


def _is(given, kind: type, dtypes: str) -> bool:
    return isinstance(given, kind) and any(word in str(given.dtype) for word in dtypes.split(" or "))


def _check(dim, q, k, positions, key_positions, w, beta, mask, kind: type = Tensor) -> None:
    """Check tensors, or the function's arrays, which have no batch and may hold integers."""
    b, numbers = ("b, ", "float") if kind is Tensor else ("", "float or int")
    for name, x, axes in (("q", q, f"{b}h, t, {dim or 'd'}"), ("k", k, f"{b}g, s, {dim or 'd'}")):
        if not _is(x, kind, numbers) or x.ndim != (4 if b else 3) or x.shape[-1] != (dim or q.shape[-1]):
            raise ValueError(f"path: {name} must be {numbers} ({axes}), got {_said(x)}; split the width into heads")
    if q.shape[:-3] != k.shape[:-3] or not k.shape[-3] or q.shape[-3] % k.shape[-3]:
        raise ValueError(f"path: k must be of q's batch, with g dividing h, got {_said(k)} for q {_said(q)}")
    *lead, h, t, s, g, d = *q.shape[:-1], k.shape[-2], k.shape[-3], q.shape[-1]
    for name, given, shapes in (
        ("positions", positions, [(t,), (*lead, t)]),
        ("key_positions", key_positions, [(s,), (*lead, s)]),
        ("w", w, [(*lead, h, s, d), (*lead, g, s, d)]),
        ("beta", beta, [(*lead, h, s), (*lead, g, s)]),
    ):
        if given is not None and not (_is(given, kind, "float or int") and tuple(given.shape) in shapes):
            raise ValueError(f"path: {name} must be numbers {shapes[0]} or {shapes[1]}, got {_said(given)}")
    sizes = zip(getattr(mask, "shape", ())[::-1], (s, t, h, *lead), strict=False)
    fits = _is(mask, kind, "bool") and mask.ndim <= q.ndim and all(size in (1, whole) for size, whole in sizes)
    if mask is not None and not fits:
        raise ValueError(f"path: mask must be boolean, broadcastable to {(*lead, h, t, s)}, got {_said(mask)}")
