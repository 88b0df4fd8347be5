"""Read a GGUF, the file format of llama.cpp: metadata, and tensors in float32."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf  # pyright: ignore[reportMissingImports]
import numpy as np
import torch
from torch import Tensor

from posenc.rotate.rope import RoPE


def read_gguf(path: str | Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the metadata, as `posenc.plan` takes them, and the tensors in float32, by name.

    Quantized tensors are dequantized; Q4_1, Q5_0, Q8_0, Q4_K and Q6_K were tried. Rows stay in the order of the file:
    those of a Llama's `attn_q` and `attn_k` are in that of interleaved pairs.
    """
    reader = gguf.GGUFReader(path)
    metadata = {name: field.contents() for name, field in reader.fields.items()}
    return metadata, {tensor.name: _float32(tensor) for tensor in reader.tensors}


def frequency_divisors(layers: Sequence[Any], weights: dict[str, Tensor]) -> list[Any]:
    """Return the layers of a plan with their frequencies divided as a tensor of the file says.

    llama.cpp writes what Llama 3 divides its frequencies by, (d/2,), as the tensor `rope_freqs.weight`, not into the
    metadata that a plan is made of.
    """
    divisors = weights.get("rope_freqs.weight")
    if divisors is None:
        return list(layers)
    return [replace(layer, encoding=_divided(layer.encoding, divisors)) for layer in layers]


def _divided(rope: RoPE, divisors: Tensor) -> RoPE:
    theta = np.asarray(rope.theta) / divisors.double().numpy()
    return RoPE(rope.dim, layout=rope.layout, rotary_dim=2 * len(theta), theta=theta)


def _float32(tensor: Any) -> Tensor:
    values = gguf.dequantize(tensor.data, tensor.tensor_type)
    return torch.from_numpy(np.array(values, np.float32))
