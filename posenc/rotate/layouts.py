"""Layouts: move the weights of queries and keys between the two ways to pair channels, without changing a logit.

Paper: Su et al., 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding",
       https://arxiv.org/abs/2104.09864, sec. 3.2.2.
Used:  to load Meta's checkpoints (interleaved) into transformers (half), and the other way
Cost:  one copy of each weight, once

Key:   d head dim, h heads, m model dim, r rank

    half         pairs channel i with i + d/2:   GPT-NeoX, and Llama, Mistral, Qwen, Gemma in transformers
    interleaved  pairs channel 2i with 2i + 1:   RoFormer, GPT-J, Meta's Llama, GLM, Cohere, DeepSeek, Flux

    W_half[i], W_half[i + d/2] = W_interleaved[2i], W_interleaved[2i + 1],  i = 0 .. d/2-1, in each head

so q . k, a sum over channels, stays the same, and pair i turns with theta_i as before. Weights of one layout under
the other run without an error and are wrong. Permute what makes q and k: weight and bias of their projections, norms
over the head, and of a LoRA the factor B; never v. With partial rotation only the first `rotary_dim` channels of a
head move; proportional RoPE pairs channels of the whole head and takes no rotary_dim. Split fused weights first, and
the rotary rows of a head from the rest where they are not its first (DeepSeek).
"""

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

LAYOUTS = ("half", "interleaved")

Array = TypeVar("Array", Tensor, np.ndarray)

_KINDS = ("weight", "bias", "lora_B", "lora_magnitude_vector")


def layout_order(dim: int, to: str, rotary_dim: int | None = None) -> np.ndarray:
    """Return the permutation (d,) with W_new = W_old[order] for the rows of a head: from the other layout `to` this.

    Raises:
        ValueError: If `dim` or `rotary_dim` is not even, or `to` is no layout.

    Examples:
        >>> layout_order(8, "half"), layout_order(8, "interleaved")
        (array([0, 2, 4, 6, 1, 3, 5, 7]), array([0, 4, 1, 5, 2, 6, 3, 7]))
    """
    _check(dim, to, rotary_dim)
    turned = dim if rotary_dim is None else rotary_dim
    order = np.arange(dim)  # (d,)
    shape = (-1, 2) if to == "half" else (2, -1)
    order[:turned] = np.arange(turned).reshape(shape).T.ravel()
    return order  # (d,)


def convert_layout(weight: Array, dim: int, to: str, rotary_dim: int | None = None) -> Array:
    """Return a copy of `weight`, which was in the other layout, with the rows of each head in the layout `to`.

    The heads are counted from the rows, so grouped keys need no special care.

    Args:
        weight: Projection (h*d, m), its bias (h*d,), or a norm (d,); tensor or array of any dtype, which it keeps.
        dim: Width d of a head.
        to: "half" or "interleaved".
        rotary_dim: How many channels of a head turn, if not all.

    Raises:
        ValueError: If the rows are not those of whole heads, or a setting is out of range.

    Examples:
        >>> import torch
        >>> convert_layout(torch.tensor([[0], [0], [1], [1]]), 4, "half").flatten()  # pair 0, then pair 1
        tensor([0, 1, 0, 1])
    """
    return _converted("weight", weight, dim, to, rotary_dim)


def convert_lora(lora_a: Array, lora_b: Array, dim: int, to: str, rotary_dim: int | None = None) -> tuple[Array, Array]:
    """Return the factors of an update B A: A (r, m), the same object, and a copy of B (h*d, r) with its rows moved.

    Raises:
        ValueError: If the ranks differ, and as `convert_layout`.

    Examples:
        >>> a, b = convert_lora(np.ones((1, 16)), np.arange(8)[:, None], 4, "half")  # rank 1, 2 heads
        >>> b.ravel().tolist()
        [0, 2, 1, 3, 4, 6, 5, 7]
    """
    for name, factor in (("lora_a", lora_a), ("lora_b", lora_b)):
        if not isinstance(factor, Tensor | np.ndarray) or factor.ndim != 2:
            raise ValueError(f"layouts: {name} must be a tensor or array of two axes, got {_kind(factor)}")
    if lora_a.shape[0] != lora_b.shape[1]:
        raise ValueError(
            f"layouts: lora_a and lora_b must be (rank, in) and (out, rank), got {_kind(lora_a)} and {_kind(lora_b)}"
        )
    return lora_a, _converted("lora_b", lora_b, dim, to, rotary_dim)


def convert_checkpoint(
    state: Mapping[str, Any],
    dim: int,
    to: str,
    rotary_dim: int | None = None,
    names: tuple[str, ...] = ("q_proj", "k_proj", "q_norm", "k_norm"),
) -> dict[str, Any]:
    """Return a copy of a state dict with all that makes queries and keys converted, the rest untouched and shared.

    That is each entry with one of `names` between the dots of its key: weight, bias, LoRA's B and DoRA's magnitude;
    norms may be (d,), (h*d,) or (h, d). LoRA's A and scales of a single number stay. Meta's names are wq and wk.
    Leave out the parts that do not rotate, such as a vision tower with names like these.

    Raises:
        ValueError: If there is no such entry, or one of another kind (a quantized weight, say), which would be half
            converted; and as `convert_layout`.

    Examples:
        >>> rows = np.arange(4)
        >>> made = convert_checkpoint({"q_proj.bias": rows, "v_proj.bias": rows}, 4, "half")
        >>> {key: value.tolist() for key, value in made.items()}
        {'q_proj.bias': [0, 2, 1, 3], 'v_proj.bias': [0, 1, 2, 3]}
    """
    _check(dim, to, rotary_dim)
    if not isinstance(state, Mapping) or not all(isinstance(key, str) for key in state):
        raise ValueError(f"layouts: state must be a state dict, got {_kind(state)}; module.state_dict() makes one")
    if not isinstance(names, tuple | list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"layouts: names must be a tuple of words, got {names!r}; such as ('wq', 'wk')")
    converted = dict(state)
    found = {key: value for key, value in state.items() if not {*names}.isdisjoint(key.split("."))}
    for key, value in found.items():
        if _moves(key, value, names):
            norm = any("norm" in name for name in {*names} & {*key.split(".")})
            flat = value.reshape(-1) if norm else value
            converted[key] = _converted(key, flat, dim, to, rotary_dim).reshape(value.shape)
    if not found:
        some = ", ".join(list(state)[:3])
        raise ValueError(f"layouts: names must be parts of the keys of state, got {names} for {some or 'no keys'} ...")
    return converted


def _moves(key: str, value: Any, names: tuple[str, ...]) -> bool:
    """Tell whether the rows of an entry of queries or keys move."""
    parts = key.split(".")
    if not isinstance(value, Tensor | np.ndarray) or "lora_A" in parts:
        return False
    if parts[-1] in (*_KINDS, *names):
        return True
    if value.size > 1 if isinstance(value, np.ndarray) else value.numel() > 1:
        raise ValueError(
            f"layouts: state must be of weights, biases and LoRA factors under {', '.join(names)}, got {key}; "
            "dequantize it first"
        )
    return False


def _converted(name: str, weight: Any, dim: int, to: str, rotary_dim: int | None) -> Any:
    order = layout_order(dim, to, rotary_dim)  # (d,)
    if not isinstance(weight, Tensor | np.ndarray) or weight.ndim == 0 or weight.shape[0] % dim:
        raise ValueError(
            f"layouts: {name} must be a tensor or array with a multiple of {dim} rows, got {_kind(weight)}; "
            "its first axis is that of the heads' channels"
        )
    rows = (np.arange(0, weight.shape[0], dim)[:, None] + order).ravel()  # (h*d,)
    return weight[rows] if isinstance(weight, np.ndarray) else weight[torch.from_numpy(rows).to(weight.device)]


def _check(dim: int, to: str, rotary_dim: int | None) -> None:
    if not isinstance(dim, int | np.integer) or dim < 2 or dim % 2:
        raise ValueError(f"layouts: dim must be an even integer of at least 2, got {dim!r}; channels turn in pairs")
    if not isinstance(to, str) or to not in LAYOUTS:
        raise ValueError(f"layouts: to must be one of {', '.join(LAYOUTS)}, got {to!r}; it is the layout to come")
    turned = dim if rotary_dim is None else rotary_dim
    if not isinstance(turned, int | np.integer) or not 2 <= turned <= dim or turned % 2:
        raise ValueError(f"layouts: rotary_dim must be even and from 2 to {dim}, got {rotary_dim!r}; None turns all")


def _kind(value: Any) -> str:
    shaped = isinstance(value, Tensor | np.ndarray)
    return f"{type(value).__name__} {tuple(value.shape)}" if shaped else repr(value)[:80]
