"""Frequencies: RoPE's theta for each pair of channels, as trained or for context extension.

Paper: Peng et al., 2023, "YaRN: Efficient Context Window Extension of Large Language Models",
       https://arxiv.org/abs/2309.00071, sec. 3; the others are named with their functions.
Used:  linear Gemma 3; yarn Qwen, DeepSeek, gpt-oss; longrope Phi; llama3 Llama 3.1 and 4;
       proportional Gemma 4
Cost:  nothing to learn; d/2 numbers, computed once

Key:   d rotary dim, s the new context over the old, L the old context

    theta_i = g_i base^(-2i/d),  i = 0 .. d/2-1
    g_i     = 1/s linear,  s^(-2i/(d-2)) ntk,  1/x_i longrope,  1 - r_i + r_i/s by_parts yarn llama3
    r_i     = clip((high - n_i) / (high - low), 0, 1) llama3,  n_i = L base^(-2i/d) / (2 pi)
            = clip((i - low) / (high - low), 0, 1) by_parts yarn

s is `factor` and n_i the rotations that pair i completes within L. r rises from 0 for
high-frequency pairs, of many rotations, to 1 for low-frequency pairs, of hardly one: in llama3
between its two factors, in yarn between the i of beta_fast and of beta_slow rotations. (YaRN's
paper has the r of llama3; its code, and yarn here and elsewhere, the other.) Each function gives
(theta, attention_factor) for RoPE; the factor multiplies cos and sin, so logits by its square.
"""

import numpy as np
from numpy.typing import ArrayLike


def rope_frequencies(dim: int, base: float = 10_000.0) -> tuple[np.ndarray, float]:
    """Return RoPE's own, base^(-2i/d), and 1.0 (Su et al., arXiv 2104.09864, sec. 3.2.2).

    Examples:
        >>> rope_frequencies(8)[0].round(4).tolist()
        [1.0, 0.1, 0.01, 0.001]
    """
    if dim % 2 or dim < 2:
        raise ValueError(f"frequencies: dim must be even and at least 2, got {dim}")
    if not 1 < base < float("inf"):
        raise ValueError(f"frequencies: base must be finite and above 1, got {base}")
    return base ** (-np.arange(0, dim, 2) / dim), 1.0


def linear(dim: int, factor: float, base: float = 10_000.0) -> tuple[np.ndarray, float]:
    """Divide all by `factor`: position interpolation (Chen et al., arXiv 2306.15595, eq. 4).

    Examples:
        >>> linear(8, factor=2)[0].round(4).tolist()  # half of each frequency
        [0.5, 0.05, 0.005, 0.0005]
    """
    theta, _ = rope_frequencies(dim, base)
    return theta / factor, 1.0


def ntk(dim: int, factor: float, base: float = 10_000.0) -> tuple[np.ndarray, float]:
    """Raise the base, so that the last pair is divided by `factor`: "NTK-aware" (sec. 3.1).

    Examples:
        >>> ratio = ntk(8, factor=8)[0] / rope_frequencies(8)[0]
        >>> ratio.round(3).tolist()  # the first pair stays, the last has 1/8 of its frequency
        [1.0, 0.5, 0.25, 0.125]
    """
    # theta of the last pair is base^(-(d-2)/d)
    return rope_frequencies(dim, base * factor ** (dim / (dim - 2)))


def dynamic_ntk(
    dim: int, factor: float, length: float, original_length: float, base: float = 10_000.0
) -> tuple[np.ndarray, float]:
    """Return `ntk` for a text that grew to `length`, as transformers; sec. 3.3 has factor = 1.

    Keys cached at another length were rotated with other frequencies: `rerotate` them, or cache
    them unrotated. Either is exact in the first layer alone: the keys of deeper layers were
    computed from what attention gave with the old frequencies.

    Examples:
        >>> [float(dynamic_ntk(8, 2, n, 4096)[0][-1].round(6)) for n in (100, 4096, 8192)]
        [0.001, 0.001, 0.000333]
    """
    grown = max(length / original_length, 1.0)
    return ntk(dim, 1 + factor * (grown - 1), base)


def by_parts(
    dim: int,
    factor: float,
    original_length: float,
    base: float = 10_000.0,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
    truncate: bool = True,
) -> tuple[np.ndarray, float]:
    """Keep pairs of `beta_fast` rotations within `original_length`; divide those under `beta_slow`.

    That is "NTK-by-parts" (sec. 3.2). `truncate` rounds the ramp outwards to whole pairs.

    Examples:
        >>> slower = rope_frequencies(128)[0] / by_parts(128, factor=4, original_length=4096)[0]
        >>> slower[::15].round(2).tolist()
        [1.0, 1.0, 1.41, 3.59, 4.0]
    """
    if beta_fast < beta_slow:
        raise ValueError(f"frequencies: beta_fast must be at least {beta_slow}, got {beta_fast}")
    theta, _ = rope_frequencies(dim, base)
    # pair i completes L base^(-2i/d) / (2 pi) rotations: solved for i
    rotations = np.array([beta_fast, beta_slow])
    low, high = dim * np.log(original_length / (2 * np.pi * rotations)) / (2 * np.log(base))
    if truncate:
        low, high = np.floor(low), np.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    # where both ends meet, the ramp is a step
    ramp = ((np.arange(dim // 2) - low) / max(high - low, 0.001)).clip(0, 1)  # (d/2,)
    return theta * (1 - ramp + ramp / factor), 1.0


def yarn(
    dim: int,
    factor: float,
    original_length: float,
    base: float = 10_000.0,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
    truncate: bool = True,
    mscale: float | None = None,
    mscale_all_dim: float | None = None,
) -> tuple[np.ndarray, float]:
    """Return `by_parts`, and the attention factor 0.1 ln s + 1 (sec. 3.4).

    Given mscale and mscale_all_dim, it is (0.1 mscale ln s + 1) / (0.1 mscale_all_dim ln s + 1),
    as in DeepSeek, which then needs `softmax_scale`. One alone has no effect, as in transformers.

    Examples:
        >>> theta, attention_factor = yarn(128, factor=4, original_length=32_768, base=1e6)
        >>> round(attention_factor**2, 3)  # Qwen2.5 at 131,072: what logits are multiplied by
        1.296
    """
    theta, _ = by_parts(dim, factor, original_length, base, beta_fast, beta_slow, truncate)
    # a shorter context than the original needs no sharper softmax
    grown = 0.1 * np.log(max(factor, 1.0))
    attention_factor = grown + 1
    if mscale and mscale_all_dim:
        attention_factor = (mscale * grown + 1) / (mscale_all_dim * grown + 1)
    return theta, float(attention_factor)


def longrope(
    dim: int,
    short_factor: ArrayLike,
    long_factor: ArrayLike,
    length: float,
    original_length: float,
    factor: float,
    base: float = 10_000.0,
) -> tuple[np.ndarray, float]:
    """Divide pair i by long_factor[i] where `length` is past `original_length`, else short_factor.

    Both lists are searched for (Ding et al., arXiv 2402.13753). The attention factor is Phi-3's
    at every length: sqrt(1 + ln(s) / ln(L)), `factor` s the longest context over the original.

    Examples:
        >>> phi = {"short_factor": [1, 1], "long_factor": [1, 4], "factor": 2}
        >>> short, long = (longrope(4, length=n, original_length=64, **phi)[0] for n in (64, 65))
        >>> short.round(4).tolist(), long.round(4).tolist()
        ([1.0, 0.01], [1.0, 0.0025])
    """
    theta, _ = rope_frequencies(dim, base)
    divisor = np.asarray(long_factor if length > original_length else short_factor)  # (d/2,)
    if divisor.shape != theta.shape:
        raise ValueError(
            f"frequencies: short_factor and long_factor must have shape ({dim // 2},), "
            f"got {divisor.shape}"
        )
    attention_factor = np.sqrt(1 + np.log(max(factor, 1.0)) / np.log(original_length))
    return theta / divisor, float(attention_factor)


def llama3(
    dim: int,
    factor: float = 8.0,
    low_freq_factor: float = 1.0,
    high_freq_factor: float = 4.0,
    original_length: float = 8192,
    base: float = 500_000.0,
) -> tuple[np.ndarray, float]:
    """Keep pairs of `high_freq_factor` rotations, divide those below `low_freq_factor`: Llama 3.1.

    Rotations are counted within `original_length`. Llama 4 Scout has both equal, which is a step.

    Examples:
        >>> slower = rope_frequencies(128, base=5e5)[0] / llama3(128)[0]
        >>> slower[24:40:3].round(2).tolist()  # from kept to divided by 8
        [1.0, 1.0, 1.55, 3.68, 8.0, 8.0]
    """
    low, high = low_freq_factor, high_freq_factor
    if high < low:
        raise ValueError(f"frequencies: high_freq_factor must be at least {low}, got {high}")
    theta, _ = rope_frequencies(dim, base)
    rotations = original_length * theta / (2 * np.pi)  # (d/2,)
    # where both factors are equal, the ramp is a step
    ramp = ((high - rotations) / max(high - low, 1e-9)).clip(0, 1)  # (d/2,)
    return theta * (1 - ramp + ramp / factor), 1.0


def proportional(
    dim: int, fraction: float, factor: float = 1.0, base: float = 10_000.0
) -> tuple[np.ndarray, float]:
    """Rotate the `fraction` of pairs of highest frequency, over `factor`; others have theta 0.

    Unlike partial rotation, exponents are those of the head (Barbero et al., arXiv 2410.06205).

    Examples:
        >>> proportional(8, fraction=0.5)[0].round(4).tolist()
        [1.0, 0.1, 0.0, 0.0]
    """
    if not 0 < fraction <= 1:
        raise ValueError(f"frequencies: fraction must be above 0 and at most 1, got {fraction}")
    theta, _ = rope_frequencies(dim, base)
    rotating = np.arange(dim // 2) < int(fraction * dim // 2)  # (d/2,)
    return np.where(rotating, theta / factor, 0.0), 1.0


def softmax_scale(dim: int, factor: float, mscale_all_dim: float = 1.0) -> float:
    """Return DeepSeek's scale of logits under `yarn`: (0.1 mscale_all_dim ln s + 1)^2 / sqrt(d).

    Examples:
        >>> round(softmax_scale(192, factor=40) * 192**0.5, 3)  # DeepSeek-V3, over 1/sqrt(d)
        1.874
    """
    sharper = 0.1 * mscale_all_dim * np.log(max(factor, 1.0)) + 1
    return float(sharper**2 / np.sqrt(dim))
