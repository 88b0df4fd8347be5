"""Frequencies: set how fast each pair of a rotary encoding turns, as trained or stretched to a longer context.

Paper: Peng et al., 2023, "YaRN: Efficient Context Window Extension of Large Language Models",
       https://arxiv.org/abs/2309.00071, sec. 3; those of the others stand with their functions.
Used:  linear Gemma 3; yarn Qwen, DeepSeek, gpt-oss; longrope Phi; llama3 Llama 3.1 and 4; proportional Gemma 4
Cost:  nothing to learn; d/2 numbers, computed once

Key:   d rotated width, t positions, s the new context over the old, L the old context

    theta_i = g_i base^(-2i/d),  i = 0 .. d/2-1
    g_i     = 1/s linear,  s^(-2i/(d-2)) ntk,  1 - r_i + r_i/s by_parts yarn llama3,  1/x_i longrope
    r_i     = clip((high - turns_i) / (high - low), 0, 1) llama3,  turns_i = L base^(-2i/d) / (2 pi)
            = clip((i - low) / (high - low), 0, 1) by_parts yarn

where s is `factor`. So r rises from 0 for pairs that turn often to 1 for pairs that hardly turn, and ntk keeps the
fastest pair and divides the slowest by exactly s. The low and high of llama3 are low_freq_factor and high_freq_factor;
those of yarn are the i that turn beta_fast and beta_slow times within L. dynamic_ntk is ntk with s = 1 + factor (length
/ L - 1), as in transformers; YaRN's sec. 3.3 has factor = 1. longrope's x_i, searched for, are `short_factor` or
`long_factor`. Each function returns (theta, attention_factor): the factor multiplies cos and sin, so logits by its
square. YaRN's paper has the r of llama3; its code, and yarn here and elsewhere, have the other.
"""

import contextlib
import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

Frequencies = tuple[np.ndarray, float]


def rope_frequencies(dim: int, base: float = 10_000.0) -> Frequencies:
    """Return RoPE's own frequencies base^(-2i/d), and 1.0 (Su et al., arXiv 2104.09864, sec. 3.2.2).

    Examples:
        >>> rope_frequencies(8)[0].round(4).tolist()
        [1.0, 0.1, 0.01, 0.001]
    """
    _check(locals())
    return float(base) ** (-2 * np.arange(dim // 2) / dim), 1.0


def linear(dim: int, factor: float, base: float = 10_000.0) -> Frequencies:
    """Divide every frequency by `factor`: position interpolation (Chen et al., arXiv 2306.15595, eq. 4).

    Examples:
        >>> linear(8, factor=2)[0].round(4).tolist()  # each pair at half its speed
        [0.5, 0.05, 0.005, 0.0005]
    """
    _check(locals())
    return rope_frequencies(dim, base)[0] / factor, 1.0


def ntk(dim: int, factor: float, base: float = 10_000.0) -> Frequencies:
    """Make the base factor^(d/(d-2)) times as large: "NTK-aware" interpolation (YaRN's paper, sec. 3.1).

    Examples:
        >>> ratio = ntk(8, factor=8)[0] / rope_frequencies(8)[0]
        >>> ratio.round(3).tolist()  # the fastest pair stays, the slowest turns 8 times slower
        [1.0, 0.5, 0.25, 0.125]
    """
    _check(locals())
    if dim < 4:
        raise ValueError(f"frequencies: dim must be at least 4 for ntk, got {dim}; its exponent divides by d - 2")
    return rope_frequencies(dim, base)[0] * float(factor) ** (-2 * np.arange(dim // 2) / (dim - 2)), 1.0


def dynamic_ntk(dim: int, factor: float, length: float, original_length: float, base: float = 10_000.0) -> Frequencies:
    """Return `ntk` for a text that has grown to `length`, past the `original_length` (YaRN's paper, sec. 3.3).

    Keys cached at another length turned with other frequencies: `rerotate` them, or cache them unrotated. Either is
    exact in the first layer alone, since what deeper layers cached came of attention with the old frequencies.

    Examples:
        >>> [float(dynamic_ntk(8, 2, length, 4096)[0][-1].round(6)) for length in (100, 4096, 8192)]
        [0.001, 0.001, 0.000333]
    """
    _check(locals())
    return ntk(dim, 1 + factor * (max(length / original_length, 1.0) - 1), base)


def by_parts(dim: int, factor: float, original_length: float, base: float = 10_000.0, **ramp: Any) -> Frequencies:
    """Return `yarn` without its attention factor: "NTK-by-parts" (sec. 3.2); beta_fast, beta_slow, truncate alike.

    Examples:
        >>> slower = rope_frequencies(128)[0] / by_parts(128, factor=4, original_length=4096)[0]
        >>> slower[::15].round(2).tolist()
        [1.0, 1.0, 1.41, 3.59, 4.0]
    """
    if {*ramp} - {"beta_fast", "beta_slow", "truncate"}:
        raise ValueError(f"frequencies: ramp must be of beta_fast, beta_slow and truncate, got {', '.join(ramp)}")
    return yarn(dim, factor, original_length, base, **ramp, attention_factor=1.0)


def yarn(
    dim: int,
    factor: float,
    original_length: float,
    base: float = 10_000.0,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
    truncate: bool = True,
    attention_factor: float | None = None,
    mscale: float | None = None,
    mscale_all_dim: float | None = None,
) -> Frequencies:
    """Keep pairs that turn `beta_fast` times within `original_length`; divide those below `beta_slow` by `factor`.

    `truncate` rounds the ramp between them outwards to whole pairs. The attention factor is 0.1 ln s + 1 (sec. 3.4);
    given mscale and mscale_all_dim, (0.1 mscale ln s + 1) / (0.1 mscale_all_dim ln s + 1), as in DeepSeek, which then
    needs `softmax_scale`. Of one without the other it takes no notice, as transformers.

    Examples:
        >>> theta, attention_factor = yarn(128, factor=4.0, original_length=32_768, base=1e6)  # Qwen2.5 at 131,072
        >>> f"pair 30 slowed {1e6 ** (-60 / 128) / theta[30]:.3f} times, logits times {attention_factor**2:.3f}"
        'pair 30 slowed 1.447 times, logits times 1.296'
    """
    _check(locals(), optional=("attention_factor", "mscale", "mscale_all_dim"))
    if beta_fast < beta_slow:
        raise ValueError(f"frequencies: beta_fast must be at least beta_slow, got {beta_fast} < {beta_slow}")
    low, high = (dim * np.log(original_length / (2 * np.pi * b)) / (2 * np.log(base)) for b in (beta_fast, beta_slow))
    low, high = max(np.floor(low) if truncate else low, 0.0), min(np.ceil(high) if truncate else high, dim - 1.0)
    ramp = ((np.arange(dim // 2) - low) / max(high - low, 0.001)).clip(0, 1)  # (d/2,)
    grown = 0.1 * np.log(max(factor, 1.0))
    usual = (mscale * grown + 1) / (mscale_all_dim * grown + 1) if mscale and mscale_all_dim else grown + 1
    return rope_frequencies(dim, base)[0] * (1 - ramp + ramp / factor), float(attention_factor or usual)


def longrope(
    dim: int,
    short_factor: Any,
    long_factor: Any,
    length: float,
    original_length: float,
    factor: float,
    attention_factor: float | None = None,
    base: float = 10_000.0,
) -> Frequencies:
    """Divide pair i by long_factor[i] where `length` is above `original_length`, else by short_factor[i].

    Source: Ding et al., arXiv 2402.13753. The attention factor is Phi-3's at every length, unless given:
    sqrt(1 + ln(factor) / ln(original_length)), where `factor` is the longest context over the original.

    Examples:
        >>> phi = {"short_factor": [1, 1], "long_factor": [1, 4], "original_length": 4096, "factor": 2}
        >>> [longrope(4, length=length, **phi)[0].tolist() for length in (4096, 4097)]
        [[1.0, 0.01], [1.0, 0.0025]]
    """
    _check(locals(), optional=("attention_factor",))
    chosen = np.asarray(long_factor if length > original_length else short_factor, np.float64)  # (d/2,)
    usual = np.sqrt(1 + np.log(max(factor, 1.0)) / np.log(original_length))
    return rope_frequencies(dim, base)[0] / chosen, float(attention_factor or usual)


def llama3(
    dim: int,
    factor: float = 8.0,
    low_freq_factor: float = 1.0,
    high_freq_factor: float = 4.0,
    original_length: float = 8192,
    base: float = 500_000.0,
) -> Frequencies:
    """Keep pairs that turn `high_freq_factor` times within `original_length`; divide those below `low_freq_factor`.

    As Llama 3.1 does; where the two are equal (Llama 4 Scout), each pair is either kept or divided.

    Examples:
        >>> slower = rope_frequencies(128, base=5e5)[0] / llama3(128)[0]
        >>> slower[24:40:3].round(2).tolist()  # from kept to divided by 8
        [1.0, 1.0, 1.55, 3.68, 8.0, 8.0]
    """
    _check(locals())
    low, high, theta = low_freq_factor, high_freq_factor, rope_frequencies(dim, base)[0]
    if high < low:
        raise ValueError(f"frequencies: high_freq_factor must be at least low_freq_factor, got {high} < {low}")
    turns = original_length * theta / (2 * np.pi)  # (d/2,)
    ramp = ((high - turns) / (high - low)).clip(0, 1) if high > low else 1.0 * (turns < low)  # (d/2,)
    return theta * (1 - ramp + ramp / factor), 1.0


def proportional(dim: int, fraction: float, factor: float = 1.0, base: float = 10_000.0) -> Frequencies:
    """Turn the fastest `fraction` of the pairs, slowed by `factor`; the others have frequency 0.

    Pairs and exponents are those of the whole head, unlike in partial rotation (Barbero et al., arXiv 2410.06205).

    Examples:
        >>> proportional(8, fraction=0.5)[0].round(4).tolist()
        [1.0, 0.1, 0.0, 0.0]
    """
    _check(locals())
    return np.where(np.arange(dim // 2) < int(fraction * dim // 2), rope_frequencies(dim, base)[0] / factor, 0.0), 1.0


def from_config(config: Any, dim: int, length: float | None = None, max_length: float | None = None) -> Frequencies:
    """Return the frequencies of a Hugging Face config: the object, the dict of config.json, or its rope_parameters.

    Reads rope_parameters or rope_scaling as transformers 5.23 does, but yarn's truncate counts in a part as well, and
    what single models read: the other names in `_OURS`, rotary_dim (MiniMax-M2, GPT-J), alpha (Hunyuan), long_mscale
    (Phi-3.5-MoE), rope_ratio (ChatGLM3, GLM-4: times the base), and that half a head of chatglm turns. Of several parts
    pass one: `config["text_config"]`, `config | {"rope_parameters": config["rope_parameters"][layer]}`, {"rope_theta":
    config["rope_local_base_freq"]}. `dim` is the width of a head, or qk_rope_head_dim where no partial_rotary_factor
    takes a share of the head: DeepSeek-V2 and V3, unlike V4, Mistral 4 and dots3. For a share below 1 theta is shorter
    than dim/2: give RoPE rotary_dim=2 * len(theta); 21 of 42 channels make 11 pairs. A rope_scaling alone does not say
    its base, which is then 10,000: {"rope_theta": 5e5} | config["rope_scaling"]. `length` counts the tokens so far, for
    dynamic and longrope; None is one of training. `max_length` is max_position_embeddings, or max_seq_len: the longest,
    for dynamic that of training.

    Examples:
        >>> config = {"rope_theta": 1e6, "rope_scaling": {"type": "linear", "factor": 2.0}}
        >>> from_config(config, dim=4)[0].round(6).tolist()
        [0.5, 0.0005]
    """
    given = {name: value for name, value in (("length", length), ("max_length", max_length)) if value is not None}
    said: dict[str, Any] = {"rotary_dim": dim} | _settings(config, dim) | given | {"dim": dim}
    function: Any = _TYPES.get(str(said["type"]))
    if function is None:
        known, kind = ", ".join(_TYPES), said["type"]
        raise ValueError(f"frequencies: config must be of a rope_type in {known}, got {kind!r}; for axial see Axial")
    said["original_length"] = (function is not dynamic_ntk and said["original_length"]) or said.get("max_length")
    sizes = ("rotary_dim", "length", "fraction", "base", "rope_ratio", "max_length", "original_length")
    needed = ("max_length",) if function is dynamic_ntk and not said.get("alpha") else ()
    _check({"dim": dim} | {name: said.get(name) for name in sizes if name in needed or said.get(name) is not None})
    width = int(dim * said["fraction"]) if said["fraction"] else said["rotary_dim"]
    odd = function not in (yarn, dynamic_ntk, proportional) and width % 2  # as if of width + 1, with the same theta
    said["base"] = (said["base"] * said.get("rope_ratio", 1)) ** (1 + odd / max(width, 1))
    if function in (yarn, longrope) and "max_length" in said:
        said.setdefault("factor", said["max_length"] / said["original_length"])
    if function is longrope and "long_mscale" in said and said["original_length"]:  # in place of the attention factor
        said["attention_factor"] = said.get(("short_mscale", "long_mscale")[said["length"] > said["original_length"]])
    if function is dynamic_ntk and said.get("alpha"):  # Hunyuan's "dynamic" does not depend on the length
        function, said["factor"] = ntk, said["alpha"]
    said |= {"dim": dim if function is proportional else width + odd, "fraction": said["fraction"] or 1.0}
    takes = inspect.signature(function).parameters
    needs = {name: None for name in takes if function is llama3 or takes[name].default is inspect.Parameter.empty}
    return function(**needs | {name: said[name] for name in takes if name in said})


def attention_temperature(positions: np.ndarray, original_length: float = 8192, strength: float = 0.1) -> np.ndarray:
    """Return 1 + strength ln(1 + floor((p + 1) / L)), by which Llama 4 multiplies the queries that it does not rotate.

    L is `original_length`; positions before 0 count as 0. Ministral 3 has p for p + 1: pass it `positions` - 1.

    Examples:
        >>> attention_temperature([0, 8191, 100_000]).round(3).tolist()
        [1.0, 1.069, 1.256]
    """
    _check(locals())
    return 1 + strength * np.log1p(((np.asarray(positions, float) + 1) // original_length).clip(min=0))  # (..., t)


def softmax_scale(dim: int, factor: float, mscale_all_dim: float = 1.0) -> float:
    """Return DeepSeek's scale of the logits under `yarn`: (0.1 mscale_all_dim ln s + 1)^2 / sqrt(dim).

    Examples:
        >>> round(softmax_scale(192, factor=40) * 192**0.5, 3)  # DeepSeek-V3, over 1/sqrt(d)
        1.874
    """
    _check(locals())
    return float((0.1 * mscale_all_dim * np.log(max(factor, 1.0)) + 1) ** 2 / np.sqrt(dim))


_TYPES: dict[str, Any] = {"default": rope_frequencies, "linear": linear, "dynamic": dynamic_ntk, "longrope": longrope}
_TYPES |= {"su": longrope, "mrope": rope_frequencies, "yarn": yarn, "llama3": llama3, "proportional": proportional}
_BASE = ("rotary_emb_base", "rotary_embedding_base", "rotary_base", "global_rope_theta", "rope_theta")  # last wins
_FRACTION = ("rotary_percent", "rotary_pct", "rope_pct", "rope_percent", "rotary_emb_fraction", "partial_rotary_factor")
_OURS = {"type": "type", "rope_type": "type"} | dict.fromkeys(_BASE, "base") | dict.fromkeys(_FRACTION, "fraction")
_OURS |= {"max_seq_len": "max_length", "max_position_embeddings": "max_length"}
_OURS |= {"original_max_position_embeddings": "original_length"}


def _settings(config: Any, dim: Any) -> dict[str, Any]:
    config = config.to_dict() if hasattr(config, "to_dict") else config  # an object of transformers
    get = config.get if isinstance(config, Mapping) else lambda _: None
    rope = get("rope_scaling") or get("rope_parameters") or config
    inner = rope.items() if isinstance(rope, Mapping) else ()
    parts = [name for name, part in inner if isinstance(part, Mapping) and {*_OURS} & {*part}]
    if parts or not isinstance(rope, Mapping):
        got = f"parts {', '.join(map(str, parts))}; pick one" if parts else f"{rope!r:.200}"
        raise ValueError(f"frequencies: config must be a dict for one kind of layer, got {got}")
    if "factor" in rope and not {"type", "rope_type"} & ({*rope} | {*config}):
        raise ValueError(f"frequencies: config must be of a rope_type where it has a factor, got {rope!r:.200}")
    for name in ("layer_rope_theta", "partial_rotary_factors"):  # a number a layer
        layers: Any = get(name)
        if isinstance(layers, list | tuple) and any(each != layers[0] for each in layers):
            raise ValueError(f"frequencies: config must be for one kind of layer, got {name} {layers}; pass its own")
    said = {"type": "default", "base": 1e4, "length": 1, "fraction": 0.5 if get("model_type") == "chatglm" else None}
    for source in (config, rope):  # the inner dict wins, but for the original length, as in transformers
        known = {name: value for name, value in source.items() if value is not None}
        said |= {name: known[name] for name in known.keys() - {"dim", "length", *_OURS.values()}}
        said |= {ours: known[theirs] for theirs, ours in _OURS.items() if theirs in known}
    turning = said.get("qk_rope_head_dim", dim)
    if not said["fraction"] and turning is not dim and not np.array_equal(turning, dim):
        raise ValueError(f"frequencies: dim must be the config's qk_rope_head_dim, {turning}, got {dim}; it turns")
    return said | {"original_length": get("original_max_position_embeddings") or said.get("original_length")}


def _check(given: dict[str, Any], optional: tuple[str, ...] = ()) -> None:
    for name, value in given.items():
        array, several = np.asarray(None), name in ("positions", "short_factor", "long_factor")
        with contextlib.suppress(TypeError, ValueError, RuntimeError):
            array = np.asarray(value)
        above = {"base": 1, "original_length": 1, "max_length": 1, "positions": -np.inf}.get(name, 0)
        zero = name in ("mscale", "mscale_all_dim", "strength")  # of no effect
        good = array.dtype.kind in "iuf" and (several or np.isscalar(value)) and bool(np.isfinite(array).all())
        good = good and bool((array >= above if zero else array > above).all())
        wanted = f"finite and {'at least' if zero else 'above'} {above}"
        if name == "dim":
            good, wanted = good and array.dtype.kind in "iu" and array.item() % 2 == 0, "an even integer of at least 2"
        elif name == "truncate":
            good, wanted = isinstance(value, bool | np.bool_), "True or False"
        elif name in ("short_factor", "long_factor"):
            good, wanted = good and array.shape == (given["dim"] // 2,), f"{given['dim'] // 2} numbers above 0"
        elif name == "fraction":
            good, wanted = good and array.item() <= 1, "above 0 and at most 1"
        if not good and name[0] != "_" and (name not in optional or value is not None):
            theirs = [f"; in a config it is {theirs}" for theirs, ours in _OURS.items() if ours == name][-1:]
            raise ValueError(f"frequencies: {name} must be {wanted}, got {value!r}{''.join(theirs)}")
