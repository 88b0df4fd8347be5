"""Where position ids come from when they are not 0, 1, 2, ...: padding, packing, augmentation, grids, shards.

Each function returns `positions` for an encoding: integers, or float64 where fractions are meant. Draw shifted and
augmented ones while training only. What is made from numbers alone lies on the default device, or the generator's.

Key:   b batch, t tokens, n axes
"""

import numpy as np
import torch
from torch import Generator, Tensor


def padded_positions(mask: Tensor) -> Tensor:
    """Return the positions (..., t) that count from 0 the real tokens of each row of `mask` (..., t), true or 1 there.

    Hide padding, which gets 0, from attention. The next token stands at mask.sum(-1), as in Hugging Face's generate().

    Examples:
        >>> import torch
        >>> padded_positions(torch.tensor([[0, 0, 1, 1, 1]]))
        tensor([[0, 0, 0, 1, 2]])
    """
    if not _holds(mask, "bool", "int") or mask.ndim < 1:
        raise ValueError(f"positions: mask must be a tensor (..., t) of booleans or integers, got {_kind(mask)}")
    return torch.where(mask.bool(), mask.bool().long().cumsum(-1) - 1, 0)  # (..., t)


def packed_documents(cu_seqlens: Tensor, length: int | None = None) -> Tensor:
    """Return the number of the document that each token of a packed row is of, (t,), to mask one from another.

    `cu_seqlens` are boundaries as FlashAttention takes them: document i holds the tokens cu_seqlens[i] to
    cu_seqlens[i+1] - 1. `length` is t; left out, it is read from the last boundary, which waits for a GPU and breaks
    a compiled graph. Tokens past that boundary count as one more document. Wrong values are noticed on the CPU only.

    Examples:
        >>> import torch
        >>> packed_documents(torch.tensor([0, 3, 5]))
        tensor([0, 0, 0, 1, 1])
    """
    if not _holds(cu_seqlens, "int") or cu_seqlens.ndim != 1 or not len(cu_seqlens):
        raise ValueError(f"positions: cu_seqlens must be a 1-D tensor of integers, 0 first, got {_kind(cu_seqlens)}")
    _check_whole(0, length=0 if length is None else length)
    readable = cu_seqlens.device.type == "cpu" and not torch.compiler.is_compiling()
    if readable and (cu_seqlens[0] != 0 or (cu_seqlens.diff() < 0).any()):
        raise ValueError(f"positions: cu_seqlens must be 0 first and not decrease, got {cu_seqlens.tolist()}")
    places = torch.arange(int(cu_seqlens[-1]) if length is None else length, device=cu_seqlens.device)  # (t,)
    return torch.searchsorted(cu_seqlens.long().contiguous(), places, right=True) - 1  # (t,)


def packed_positions(cu_seqlens: Tensor, length: int | None = None) -> Tensor:
    """Return positions (t,) that start at 0 in each document of a packed row; arguments as for `packed_documents`.

    Offsets within a document are what they were, so a relative encoding needs only the mask.

    Examples:
        >>> import torch
        >>> packed_positions(torch.tensor([0, 3, 5]))
        tensor([0, 1, 2, 0, 1])
    """
    document = packed_documents(cu_seqlens, length)  # (t,)
    return torch.arange(len(document), device=document.device) - cu_seqlens.long()[document]  # (t,)


def random_positions(length: int, longer: int, batch: int | None = None, generator: Generator | None = None) -> Tensor:
    """Draw `length` of the places 0 .. longer-1, each at most once, and return them in order: (t,), or rows (b, t).

    So a model trained on short texts meets the positions of long ones; the paper draws when testing, too.
    Source: Ruoss et al., 2023, https://arxiv.org/abs/2305.16843; its code draws one row for a batch.

    Examples:
        >>> places = random_positions(4, longer=1000)
        >>> bool((places.diff() > 0).all()), bool(places[-1] < 1000)
        (True, True)
    """
    _check_whole(0, length=length)
    _check_whole(length, longer=longer)
    where = _drawing(batch, generator)
    rows = [torch.randperm(longer, generator=generator, device=where)[:length] for _ in range(batch or 1)]
    drawn = torch.stack(rows).sort(dim=-1).values  # (..., t)
    return drawn[0] if batch is None else drawn  # (..., t)


def shifted_positions(
    length: int, largest: int, batch: int | None = None, generator: Generator | None = None
) -> Tensor:
    """Return 0 .. length-1 moved by a whole number drawn from 0 .. largest, both included: (t,), or rows (b, t).

    So absolute positions mean nothing and offsets remain. Source: Kiyono et al., 2021 (SHAPE),
    https://arxiv.org/abs/2109.05644, where K is `largest`; its code never draws K, and takes K when testing.

    Examples:
        >>> shifted_positions(4, largest=1000).diff()  # each offset is what it was
        tensor([1, 1, 1])
    """
    _check_whole(0, length=length, largest=largest)
    where = _drawing(batch, generator)
    shift = torch.randint(largest + 1, (1,) if batch is None else (batch, 1), generator=generator, device=where)
    return torch.arange(length, device=where) + shift  # (..., t)


def augmented_positions(
    positions: Tensor,
    global_shift: float = 5.0,
    local_shift: float = 0.5,
    scale: float = 1.03,
    center: bool = False,
    generator: Generator | None = None,
) -> Tensor:
    """Return `positions` (..., t), each row shifted, jittered and stretched at random, in float64.

    p becomes (p + shift + jitter) * stretch: a shift for the row within +-global_shift, a jitter for each token within
    +-local_shift (up to half a step it keeps the order), a stretch for the row between 1/scale and scale, uniform in
    its logarithm. `center` first subtracts the mean of each row. For a batch of one text, expand its positions first.
    Source: Likhomanenko et al., 2021 (CAPE), https://arxiv.org/abs/2106.03143; the defaults are those for its texts.

    Examples:
        >>> import torch
        >>> bool((augmented_positions(torch.arange(100)).diff() > 0).all())
        True
    """
    if not _holds(positions, "int", "float") or positions.ndim < 1:
        raise ValueError(f"positions: positions must be a tensor (..., t) of numbers, got {_kind(positions)}")
    for name, bound, least in (("global_shift", global_shift, 0), ("local_shift", local_shift, 0), ("scale", scale, 1)):
        number = isinstance(bound, int | float | np.integer | np.floating) and not isinstance(bound, bool)
        if not number or not least <= bound < np.inf:
            raise ValueError(f"positions: {name} must be a number of at least {least}, got {bound!r}")
    if not isinstance(center, bool):
        raise ValueError(f"positions: center must be True or False, got {center!r}")
    where = _drawing(None, generator)
    p = positions.to("cpu" if positions.device.type == "mps" else positions.device, torch.float64)  # (..., t)
    p = p - p.mean(dim=-1, keepdim=True) if center else p  # (..., t)
    size = (*p.shape[:-1], 2 + p.shape[-1])
    noise = 2 * torch.rand(size, dtype=p.dtype, generator=generator, device=where or p.device).to(p) - 1
    shift, stretch, jitter = noise.tensor_split((1, 2), dim=-1)  # (..., 1), (..., 1), (..., t)
    return (p + global_shift * shift + local_shift * jitter) * scale**stretch  # (..., t)


def interpolated_positions(length: int, trained_length: int) -> Tensor:
    """Return `length` places (t,), in float64, pressed evenly into those below `trained_length`; fewer stay whole.

    Source: Chen et al., 2023 (position interpolation), https://arxiv.org/abs/2306.15595, eq. 4.

    Examples:
        >>> interpolated_positions(8, trained_length=4).tolist()
        [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5]
    """
    _check_whole(0, length=length)
    _check_whole(1, trained_length=trained_length)
    return torch.arange(length, dtype=torch.float64) * trained_length / max(length, trained_length)  # (t,)


def grid_positions(*size: int) -> Tensor:
    """Return the coordinates (t, n) of a grid's cells, row by row.

    The last axis runs fastest, as in `flatten`: for images (row, column), for video (frame, row, column).

    Examples:
        >>> grid_positions(2, 3).tolist()  # 2 rows of 3 columns
        [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]
    """
    if not size or not all(_is_whole(cells) and cells > 0 for cells in size):
        raise ValueError(f"positions: size must be a positive integer for each axis, got {size}; grid_positions(2, 3)")
    axes = torch.meshgrid(*(torch.arange(cells) for cells in size), indexing="ij")
    return torch.stack(axes, dim=-1).flatten(0, -2)  # (t, n)


def shard_positions(length: int, rank: int, ranks: int, order: str = "contiguous") -> Tensor:
    """Return the positions (t,) that `rank` of `ranks` holds of `length` tokens under context parallelism.

    "contiguous": the rank's run of length / ranks tokens. "zigzag": chunks `rank` and 2 ranks - 1 - `rank` of 2 ranks,
    so that causal attention costs each the same. Every position is held once. Source: Megatron-LM, rope_utils.

    Examples:
        >>> [shard_positions(8, rank, 2, "zigzag").tolist() for rank in (0, 1)]
        [[0, 1, 6, 7], [2, 3, 4, 5]]
    """
    _check_whole(0, length=length, rank=rank)
    _check_whole(1, ranks=ranks)
    if rank >= ranks:
        raise ValueError(f"positions: rank must be below ranks, {ranks}, got {rank}")
    if not isinstance(order, str) or order not in ("contiguous", "zigzag"):
        raise ValueError(f"positions: order must be one of contiguous, zigzag, got {order!r}")
    chunks, held = (ranks, (rank,)) if order == "contiguous" else (2 * ranks, (rank, 2 * ranks - 1 - rank))
    if length % chunks:
        raise ValueError(f"positions: length for {ranks} ranks must be a multiple of {chunks}, got {length}; pad it")
    return torch.cat([torch.arange(length).unflatten(0, (chunks, length // chunks))[chunk] for chunk in held])  # (t,)


def shard(x: Tensor, rank: int, ranks: int, order: str = "contiguous", dim: int = -2) -> Tensor:
    """Return the tokens of `x`, along axis `dim`, that `rank` holds: those of `shard_positions`.

    Examples:
        >>> shard(grid_positions(3, 2), rank=2, ranks=3).tolist()  # the last 2 of 6 tokens
        [[2, 0], [2, 1]]
    """
    _check_axis(x, dim)
    return x.index_select(dim, shard_positions(x.shape[dim], rank, ranks, order).to(x.device))


def unshard(shards: list[Tensor], order: str = "contiguous", dim: int = -2) -> Tensor:
    """Return the whole of which `shards`, by rank, are the parts that `shard` makes along axis `dim`.

    Examples:
        >>> x = grid_positions(4, 2)
        >>> unshard([shard(x, rank, 2, "zigzag") for rank in (0, 1)], "zigzag").equal(x)
        True
    """
    parts = list(shards) if isinstance(shards, list | tuple) else []
    if not parts or any(not isinstance(x, Tensor) or x.shape != parts[0].shape for x in parts):
        raise ValueError(f"positions: shards must be a list of tensors of one shape, got {[_kind(x) for x in parts]}")
    _check_axis(parts[0], dim)
    whole = torch.cat(parts, dim=dim)
    held = [shard_positions(whole.shape[dim], rank, len(parts), order) for rank in range(len(parts))]
    return whole.index_select(dim, torch.cat(held).argsort().to(whole.device))


def _kind(given: object) -> str:
    size = f"of length {len(given)}" if isinstance(given, list | tuple) else tuple(getattr(given, "shape", ()))
    got = f"{'numpy array ' * isinstance(given, np.ndarray)}{getattr(given, 'dtype', type(given).__name__)} {size}"
    return got if isinstance(given, Tensor) else f"{got}; torch.as_tensor makes a tensor of a list or an array"


def _holds(given: object, *kinds: str) -> bool:
    return isinstance(given, Tensor) and any(kind in str(given.dtype) for kind in kinds)


def _is_whole(number: object) -> bool:
    return isinstance(number, int | np.integer) and not isinstance(number, bool)


def _check_whole(least: int, **numbers: int) -> None:
    for name, number in numbers.items():
        if not _is_whole(number) or number < least:
            raise ValueError(f"positions: {name} must be an integer of at least {least}, got {number!r}")


def _check_axis(x: Tensor, dim: int) -> None:
    if not isinstance(x, Tensor):
        raise ValueError(f"positions: x must be a tensor, got {_kind(x)}")
    if not _is_whole(dim) or not -x.ndim <= dim < x.ndim:
        raise ValueError(f"positions: dim must be an axis of the {x.ndim} of x, got {dim!r}")


def _drawing(batch: int | None, generator: Generator | None) -> torch.device | None:
    """Check what drawing takes; return where to draw, None for the default."""
    _check_whole(1, batch=1 if batch is None else batch)
    if generator is not None and not isinstance(generator, Generator):
        raise ValueError(f"positions: generator must be a torch.Generator, got {generator!r}")
    return generator.device if generator else None
