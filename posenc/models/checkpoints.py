"""Checkpoints: convert weights of queries and keys between the two layouts of pairs, exactly.

Paper: Su et al., 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding",
       https://arxiv.org/abs/2104.09864, sec. 3.2.2.
Used:  to load Meta's checkpoints, and llama.cpp's of Llama (interleaved), into transformers (half)
Cost:  one copy of each weight, once

Key:   d head dim, h heads, m model dim

    half         pairs i with i + d/2:   GPT-NeoX; Llama, Mistral, Qwen, Gemma in transformers
    interleaved  pairs 2i with 2i + 1:   RoFormer, GPT-J, Meta's Llama, GLM, Cohere, DeepSeek, Flux

    W_half[i], W_half[i + d/2] = W_interleaved[2i], W_interleaved[2i + 1],  i = 0 .. d/2-1

in each head, so q . k, a sum over channels, stays, and pair i keeps theta_i. Weights of one layout
under the other run without an error and are wrong. Permute whatever produces q and k: weight and
bias of their projections, norms over the head, and of a LoRA the factor B, not A; never v. With
partial rotation only the `rotary_dim` channels from `start` on move, as in DeepSeek's heads of 192,
whose last 64 rotate; proportional RoPE pairs those of the whole head. A layer that does not rotate
may be permuted or not, but q and k alike.
"""

import math
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from torch import Tensor

Weight = TypeVar("Weight", np.ndarray, Tensor)

NAMES = ("q_proj", "k_proj", "q_norm", "k_norm")
GGUF_NAMES = ("attn_q", "attn_k", "attn_q_norm", "attn_k_norm")
# how the key of a plain weight ends; a quantized one keeps its rows in another way
ENDINGS = ("weight", "bias", "lora_B", "lora_magnitude_vector")


def layout_order(dim: int, to: str, rotary_dim: int | None = None, start: int = 0) -> np.ndarray:
    """Return the permutation (d,) of a head's rows: W_new = W_old[order], from the other layout.

    The rows that rotate are `rotary_dim`, by default all, from `start` on.

    Raises:
        ValueError: If `to` is none of the two layouts.

    Examples:
        >>> layout_order(8, "half"), layout_order(8, "interleaved")
        (array([0, 2, 4, 6, 1, 3, 5, 7]), array([0, 4, 1, 5, 2, 6, 3, 7]))
    """
    if to not in ("half", "interleaved"):
        raise ValueError(f"checkpoints: to must be 'half' or 'interleaved', got {to!r}")
    r = dim - start if rotary_dim is None else rotary_dim
    turning = np.arange(start, start + r)
    # the old layout has a pair in each row, or the first and the second members in two rows
    old = turning.reshape(-1, 2) if to == "half" else turning.reshape(2, -1)
    order = np.arange(dim)  # (d,)
    order[start : start + r] = old.T.ravel()
    return order  # (d,)


def convert_layout(
    weight: Weight, dim: int, to: str, rotary_dim: int | None = None, start: int = 0
) -> Weight:
    """Return a copy of `weight` that was in the other layout, a tensor or an array of any dtype.

    It is a projection (h*d, m), a LoRA's B (h*d, rank), a bias (h*d,) or a norm (d,). Heads are
    counted from its rows, so grouped keys need no special care.

    Raises:
        ValueError: If `to` is none of the two layouts.

    Examples:
        >>> convert_layout(np.array([[0], [0], [1], [1]]), 4, "half").ravel()  # pair 0, then pair 1
        array([0, 1, 0, 1])
    """
    order = layout_order(dim, to, rotary_dim, start)  # (d,)
    heads = weight.reshape(weight.shape[0] // dim, dim, *weight.shape[1:])
    return heads[:, order].reshape(weight.shape)


def convert_fused(
    weight: Weight,
    dim: int,
    heads: int,
    key_heads: int,
    to: str,
    grouped: bool = False,
    rotary_dim: int | None = None,
    start: int = 0,
) -> Weight:
    """Return a copy of a fused `weight` of queries, keys and values, or its bias; values stay.

    Its rows are those of all `heads` of q, then of all k, then of all v (Phi-3, GLM-4), or, where
    `grouped`, of the queries of a key head, its k and its v, a key head after the other (GPT-NeoX,
    where each head has its own; Falcon, InternLM 2).

    Raises:
        ValueError: If `weight` has not the rows of so many heads.
        ValueError: If `to` is none of the two layouts.

    Examples:
        >>> convert_fused(np.arange(12), 4, heads=1, key_heads=1, to="half")
        array([ 0,  2,  1,  3,  4,  6,  5,  7,  8,  9, 10, 11])
    """
    blocks = heads + 2 * key_heads
    if weight.shape[0] != blocks * dim:
        raise ValueError(
            f"checkpoints: weight must be of {blocks * dim} rows, got {weight.shape[0]}"
        )
    rows = np.arange(blocks * dim).reshape(blocks, dim)
    block = np.arange(blocks)
    rotates = block < heads + key_heads
    if grouped:
        # the last block of each key head is its v
        group = heads // key_heads + 2
        rotates = block % group < group - 1
    rows[rotates] = rows[rotates][:, layout_order(dim, to, rotary_dim, start)]
    return weight[rows.ravel()]


def convert_checkpoint(
    state: Mapping[str, Any],
    dim: int,
    to: str,
    rotary_dim: int | None = None,
    names: tuple[str, ...] = NAMES,
    start: int = 0,
) -> dict[str, Any]:
    """Return a state dict with the weights of queries and keys converted, the rest as it was.

    That is each entry with one of `names` between the dots of its key: weight, bias, LoRA's B and
    DoRA's magnitude; norms may be (d,), (h*d,) or (h, d). LoRA's A and scales of a single number
    stay. Meta's names are wq and wk, llama.cpp's GGUF_NAMES. Leave out parts that do not rotate,
    such as a vision tower.

    Raises:
        ValueError: If no key has one of `names`.
        ValueError: If what is to be converted is no plain weight, such as a quantized one.
        ValueError: If `to` is none of the two layouts.

    Examples:
        >>> rows = np.arange(4)
        >>> state = convert_checkpoint({"q_proj.bias": rows, "v_proj.bias": rows}, 4, "half")
        >>> {key: value.tolist() for key, value in state.items()}
        {'q_proj.bias': [0, 2, 1, 3], 'v_proj.bias': [0, 1, 2, 3]}
    """
    matches = [key for key in state if not {*names}.isdisjoint(key.split("."))]
    if not matches:
        raise ValueError(f"checkpoints: names must be parts of the keys of state, got {names}")
    converted = dict(state)
    for key in matches:
        parts = key.split(".")
        value = state[key]
        # neither has rows of a head; an extra state has no shape at all
        if "lora_A" in parts or math.prod(getattr(value, "shape", ())) == 1:
            continue
        if parts[-1] not in (*ENDINGS, *names):
            raise ValueError(
                f"checkpoints: state must be of plain weights, got {key}; dequantize it"
            )
        # a norm of (h, d) has the channels of a head in its columns
        is_norm = any("norm" in name for name in names if name in parts)
        rows = value.reshape(-1) if is_norm else value
        converted[key] = convert_layout(rows, dim, to, rotary_dim, start).reshape(value.shape)
    return converted
