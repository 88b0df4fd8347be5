"""Position ids other than 0, 1, 2 ..: for padding, packing, grids and context extension.

Each function returns `positions` for an encoding: integers, or float64 where fractions are meant.
Draw random, shifted and augmented ones while training only. What is made from numbers alone lies on
the default device, or the generator's.

Texts longer than those of training can be processed with offsets that are mapped into its range, as
Qwen2.5-1M (dual chunks) and llama.cpp's group attention (Self-Extend) do. Rotate queries and keys
once for each of n maps of logits, and take each pair from its map:

    rotated = [rope(q, k, m, n) for m, n in zip(queries, keys)]
    maps = torch.stack([rotated_q @ rotated_k.mT for rotated_q, rotated_k in rotated])
    logits = chosen_scores(maps, which)

For causal attention: keys ahead of the query get logits as if near. Keys are cached before
rotation, or once for each map.

Key:   b batch, t tokens or queries, s keys, n axes or maps of logits
"""

import torch
from torch import Generator, Tensor


def padded_positions(mask: Tensor) -> Tensor:
    """Return the positions (..., t) that count the real tokens, true or 1 in `mask` (..., t).

    Hide padding, which gets 0, from attention. The next token has position mask.sum(-1), as in
    Hugging Face's generate().

    Examples:
        >>> padded_positions(torch.tensor([[0, 0, 1, 1, 1]]))
        tensor([[0, 0, 0, 1, 2]])
    """
    if mask.is_floating_point():
        raise ValueError(f"positions: mask must be booleans or integers, got {mask.dtype}")
    real = mask.bool()  # (..., t)
    return torch.where(real, real.cumsum(-1) - 1, 0)  # (..., t)


def packed_documents(cu_seqlens: Tensor, length: int | None = None) -> Tensor:
    """Return the number of the document (t,) that each token of a packed row is of.

    `cu_seqlens` are boundaries as FlashAttention takes them: document i holds the tokens
    cu_seqlens[i] to cu_seqlens[i+1] - 1. `length` is t; left out, it is read from the last
    boundary, which waits for a GPU and breaks a compiled graph. Tokens past that boundary count as
    one more document. Wrong values are noticed on the CPU only.

    Examples:
        >>> packed_documents(torch.tensor([0, 3, 5]))
        tensor([0, 0, 0, 1, 1])
    """
    readable = cu_seqlens.device.type == "cpu" and not torch.compiler.is_compiling()
    if readable and (cu_seqlens[0] != 0 or (cu_seqlens.diff() < 0).any()):
        raise ValueError(f"positions: cu_seqlens must be rising from 0, got {cu_seqlens.tolist()}")
    length = int(cu_seqlens[-1]) if length is None else length
    index = torch.arange(length, device=cu_seqlens.device)  # (t,)
    return torch.searchsorted(cu_seqlens.long(), index, right=True) - 1  # (t,)


def document_mask(documents: Tensor) -> Tensor:
    """Return the mask (t, t), or (b, 1, t, t), of tokens (t,) or (b, t) that are of one document.

    Examples:
        >>> document_mask(packed_documents(torch.tensor([0, 1, 3]))).int()
        tensor([[1, 0, 0],
                [0, 1, 1],
                [0, 1, 1]], dtype=torch.int32)
    """
    same = documents[..., :, None] == documents[..., None, :]  # (..., t, t)
    # of a batch, an axis of heads
    return same[:, None] if same.ndim == 3 else same


def packed_positions(cu_seqlens: Tensor, length: int | None = None) -> Tensor:
    """Return positions (t,) that start at 0 in each document of a packed row.

    Arguments are those of `packed_documents`. Offsets within a document are what they were, so a
    relative encoding needs only the mask.

    Examples:
        >>> packed_positions(torch.tensor([0, 3, 5]))
        tensor([0, 1, 2, 0, 1])
    """
    document = packed_documents(cu_seqlens, length)  # (t,)
    index = torch.arange(len(document), device=document.device)  # (t,)
    return index - cu_seqlens.long()[document]  # (t,)


def random_positions(
    length: int, longer: int, batch: int | None = None, generator: Generator | None = None
) -> Tensor:
    """Draw `length` of 0 .. longer-1 as positions, each at most once, in order: (t,) or (b, t).

    So a model trained on short texts is trained on the positions of long ones; the paper draws when
    testing, too.

    Examples:
        >>> positions = random_positions(4, longer=1000)
        >>> bool((positions.diff() > 0).all()), bool(positions[-1] < 1000)
        (True, True)
    """
    if not 0 <= length <= longer:
        raise ValueError(f"positions: length must be 0 to longer, {longer}, got {length}")
    device = generator.device if generator else None
    drawn = [
        torch.randperm(longer, generator=generator, device=device)[:length]
        for _ in range(1 if batch is None else batch)
    ]
    rows = torch.stack(drawn).sort(dim=-1).values
    return rows[0] if batch is None else rows  # (..., t)


def shifted_positions(
    length: int, largest: int, batch: int | None = None, generator: Generator | None = None
) -> Tensor:
    """Return 0 .. length-1 moved by a number drawn from 0 .. `largest`: (t,), or rows (b, t).

    So absolute positions mean nothing and offsets remain. Source: Kiyono et al., 2021 (SHAPE),
    https://arxiv.org/abs/2109.05644, where K is `largest`; its code never draws K, and takes K when
    testing.

    Examples:
        >>> shifted_positions(4, largest=1000).diff()  # each offset is what it was
        tensor([1, 1, 1])
    """
    device = generator.device if generator else None
    size = (1,) if batch is None else (batch, 1)
    shift = torch.randint(largest + 1, size, generator=generator, device=device)
    return torch.arange(length, device=device) + shift  # (..., t)


def augmented_positions(
    positions: Tensor,
    global_shift: float = 5.0,
    local_shift: float = 0.5,
    scale: float = 1.03,
    center: bool = False,
    generator: Generator | None = None,
) -> Tensor:
    """Return `positions` (..., t), each row shifted, jittered and scaled at random, in float64.

    p becomes (p + shift + jitter) * factor: a shift for the row within +-global_shift, a jitter for
    each token within +-local_shift (up to half a position it keeps the order), a factor for the row
    between 1/scale and scale, uniform in its logarithm. `center` first subtracts the mean of each
    row. For a batch of one text, expand its positions first.

    Examples:
        >>> bool((augmented_positions(torch.arange(100)).diff() > 0).all())
        True
    """
    p = positions.to("cpu" if positions.device.type == "mps" else positions.device, torch.float64)
    if center:
        p = p - p.mean(dim=-1, keepdim=True)  # (..., t)
    device = generator.device if generator else p.device
    size = (*p.shape[:-1], 2 + p.shape[-1])
    noise = 2 * torch.rand(size, dtype=p.dtype, generator=generator, device=device).to(p) - 1
    shift, exponent, jitter = noise.tensor_split((1, 2), dim=-1)  # (..., 1), (..., 1), (..., t)
    return (p + global_shift * shift + local_shift * jitter) * scale**exponent  # (..., t)


def interpolated_positions(length: int, trained_length: int) -> Tensor:
    """Return `length` positions (t,), in float64, scaled evenly to below `trained_length`.

    Fewer stay whole. Source: Chen et al., 2023 (position interpolation),
    https://arxiv.org/abs/2306.15595, eq. 4.

    Examples:
        >>> interpolated_positions(8, trained_length=4).tolist()
        [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5]
    """
    positions = torch.arange(length, dtype=torch.float64)  # (t,)
    return positions * trained_length / max(length, trained_length)


def grid_positions(*size: int) -> Tensor:
    """Return the coordinates (t, n) of a grid's cells, row by row.

    The last axis runs fastest, as in `flatten`: for images (row, column), for video (frame, row,
    column).

    Examples:
        >>> grid_positions(2, 3).tolist()  # 2 rows of 3 columns
        [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]
    """
    axes = torch.meshgrid(*(torch.arange(cells) for cells in size), indexing="ij")
    return torch.stack(axes, dim=-1).flatten(0, -2)  # (t, n)


def shard_positions(length: int, rank: int, ranks: int, order: str = "contiguous") -> Tensor:
    """Return the positions (t,) that `rank` of `ranks` holds under context parallelism.

    "contiguous": the rank's run of length / ranks tokens. "zigzag": chunks `rank` and
    2 ranks - 1 - `rank` of 2 ranks, so that causal attention costs each the same. Every position is
    held once. Source: Megatron-LM, rope_utils.

    Examples:
        >>> [shard_positions(8, rank, 2, "zigzag").tolist() for rank in (0, 1)]
        [[0, 1, 6, 7], [2, 3, 4, 5]]
    """
    if order not in ("contiguous", "zigzag"):
        raise ValueError(f"positions: order must be 'contiguous' or 'zigzag', got {order!r}")
    if not 0 <= rank < ranks:
        raise ValueError(f"positions: rank must be 0 to {ranks - 1}, got {rank}")
    if order == "contiguous":
        return torch.arange(length).unflatten(0, (ranks, -1))[rank]  # (t,)
    chunks = torch.arange(length).unflatten(0, (2 * ranks, -1))
    return torch.cat([chunks[rank], chunks[2 * ranks - 1 - rank]])  # (t,)


def shard(x: Tensor, rank: int, ranks: int, order: str = "contiguous", dim: int = -2) -> Tensor:
    """Return the tokens of `x`, along axis `dim`, that `rank` holds: those of `shard_positions`.

    Examples:
        >>> shard(grid_positions(3, 2), rank=2, ranks=3).tolist()  # the last 2 of 6 tokens
        [[2, 0], [2, 1]]
    """
    held = shard_positions(x.shape[dim], rank, ranks, order)  # (t,)
    return x.index_select(dim, held.to(x.device))


def unshard(shards: list[Tensor], order: str = "contiguous", dim: int = -2) -> Tensor:
    """Return the whole of which `shards`, by rank, are the parts that `shard` makes along `dim`.

    Examples:
        >>> x = grid_positions(4, 2)
        >>> unshard([shard(x, rank, 2, "zigzag") for rank in (0, 1)], "zigzag").equal(x)
        True
    """
    shapes = {tuple(x.shape) for x in shards}
    if len(shapes) != 1:
        raise ValueError(f"positions: shards must be tensors of one shape, got {shapes}")
    whole, ranks = torch.cat(list(shards), dim=dim), len(shards)
    held = [shard_positions(whole.shape[dim], rank, ranks, order) for rank in range(ranks)]
    return whole.index_select(dim, torch.cat(held).argsort().to(whole.device))


def dual_chunk_positions(
    positions: Tensor, key_positions: Tensor, chunk: int, trained_length: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return positions of queries (3, t) and keys (3, s) for three maps, and `which` (t, s).

    No offset reaches `trained_length`. Keys count within chunks. The first map, within a chunk, is
    the usual one. For the chunk before, queries go on counting past `chunk` up to the last trained
    position, which they keep for all chunks further back. `chosen_scores` joins the maps.

    Examples:
        >>> p = torch.arange(12)
        >>> queries, keys, which = dual_chunk_positions(p, p, 6, trained_length=10)
        >>> keys[0].tolist(), queries[1, 6:].tolist(), queries[2, 6:].tolist()
        ([0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 9, 9], [9, 9, 9, 9, 9, 9])
    """
    if not 0 < chunk < trained_length:
        raise ValueError(f"positions: chunk must be 1 to {trained_length - 1}, got {chunk}")
    same_chunk = positions % chunk
    next_chunk = (same_chunk + chunk).clamp(max=trained_length - 1)
    far = torch.full_like(positions, trained_length - 1)
    keys = (key_positions % chunk).expand(3, -1)  # (3, s)
    chunks_back = (positions // chunk)[:, None] - key_positions // chunk  # (t, s)
    return torch.stack([same_chunk, next_chunk, far]), keys, chunks_back.clamp(0, 2)


def self_extend_positions(
    positions: Tensor, key_positions: Tensor, group: int, neighbors: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return positions of queries (2, t) and keys (2, s) for two maps, and `which` (t, s).

    Keys less than `neighbors` back keep their offsets. Further ones share a position by groups of
    `group`, and queries get positions at which the two maps meet: L trained positions serve
    neighbors + group (L - neighbors) tokens. `chosen_scores` joins the maps.

    Examples:
        >>> queries, keys, which = self_extend_positions(torch.tensor([9]), torch.arange(10), 2, 4)
        >>> chosen_scores(queries[..., None] - keys[:, None], which).tolist()  # the offsets
        [[6, 6, 5, 5, 4, 4, 3, 2, 1, 0]]
    """
    if not 0 < group <= neighbors:
        raise ValueError(f"positions: group must be 1 to neighbors, {neighbors}, got {group}")
    grouped = positions // group + neighbors - neighbors // group
    queries = torch.stack([positions, grouped])  # (2, t)
    keys = torch.stack([key_positions, key_positions // group])  # (2, s)
    offset = positions[:, None] - key_positions  # (t, s)
    return queries, keys, (offset >= neighbors).long()


def chosen_scores(maps: Tensor, which: Tensor) -> Tensor:
    """Return the logits (..., t, s) that take each pair from the map of `maps` (n, ..., t, s).

    `which` (t, s) is the number of the map. One softmax goes over all that is chosen. Kernels that
    hold one map each join their outputs by the sums of exponentials that they return.

    Examples:
        >>> chosen_scores(torch.tensor([[[1, 2]], [[3, 4]]]), torch.tensor([[0, 1]]))
        tensor([[1, 4]])
    """
    return maps.gather(0, which.expand(maps[:1].shape))[0]
