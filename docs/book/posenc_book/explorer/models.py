"""The settings of published models, as far as the explorer's knobs can say them, each checked against `from_config`."""

from collections.abc import Iterator

import numpy as np

from posenc.models.from_config import from_config
from posenc.rotate import frequencies

Preset = tuple[str, str, dict]
WIDEST = 256  # channels of the explorer
MOST = 64  # times that it stretches
FAR = {"words": "", "far": True}  # what a long text is about


def presets(zoo: list[dict], samples: dict[str, dict]) -> list[Preset]:
    """Return name, description and state of each model whose rotation the knobs can say, the oldest first."""
    rotary = [made for entry in zoo if entry["encoding"] == "rope" and "config" in entry for made in _rotary(entry)]
    heads = samples["BLOOM 560M"]["n_head"]
    alibi = {"encoding": "alibi", "heads": heads, "head": heads // 2, "causal": True} | FAR
    t5 = next(entry for entry in zoo if entry["name"] == "T5 small")["config"]
    buckets, reach = t5["relative_attention_num_buckets"], t5["relative_attention_max_distance"]
    bucketed = {"encoding": "t5", "buckets": buckets, "max_distance": reach} | FAR
    return [
        ("T5 small", f"{buckets} buckets, the last from {reach}", bucketed),
        ("BLOOM 560M", f"ALiBi in {heads} heads", alibi),
        *rotary,
    ]


def _rotary(entry: dict) -> Iterator[Preset]:
    """Yield the state of a rotary model, if the knobs make the frequencies that its configuration asks for."""
    config = entry["config"] | entry.get("longer", {})
    width = config.get("qk_rope_head_dim", entry["head"])
    said = config | config.get("rope_parameters", {})
    base = said.get("rope_theta", said.get("rotary_emb_base"))
    if base is None or width > WIDEST:
        return
    theta, factor = from_config(config, width, length=entry.get("trained"))
    state = {"encoding": "rope", "width": width, "base": base} | _scaling(config, factor)
    if 2 * len(theta) < width:
        state["share"] = round(2 * len(theta) / width, 2)
    if state.get("factor", 1) <= MOST and _agrees(state, theta, factor):
        trained = f", trained on texts of {entry['trained']:,}" if "trained" in entry else ""
        yield entry["name"], f"base {base:,.0f}{_told(state)}{trained}", state | {"causal": True} | FAR


def _scaling(config: dict, factor: float) -> dict:
    """Return how the knobs say what a configuration says of longer texts."""
    said = config.get("rope_scaling") or config.get("rope_parameters") or {}
    kind = said.get("rope_type", said.get("type", "default"))
    if kind == "yarn" and factor == 1:
        kind = "by_parts"  # YaRN without its factor on cosine and sine
    if kind == "proportional":
        return {"scaling": kind, "fraction": said["partial_rotary_factor"]}
    if kind not in ("linear", "yarn", "by_parts", "llama3"):
        return {}
    trained = said.get("original_max_position_embeddings")
    return {"scaling": kind, "factor": said["factor"]} | ({"original_length": trained} if trained else {})


def _agrees(state: dict, theta: np.ndarray, factor: float) -> bool:
    """Whether the knobs make the same frequencies, with the defaults that the explorer has."""
    kind, base, times = state.get("scaling", "none"), state["base"], state.get("factor", 1.0)
    trained, turning = state.get("original_length", 0), 2 * len(theta)
    recipes = {
        "none": lambda: frequencies.rope_frequencies(turning, base),
        "linear": lambda: frequencies.linear(turning, times, base=base),
        "yarn": lambda: frequencies.yarn(turning, times, trained, base=base),
        "by_parts": lambda: frequencies.by_parts(turning, times, trained, base=base),
        "llama3": lambda: frequencies.llama3(turning, times, original_length=trained, base=base),
        "proportional": lambda: frequencies.proportional(turning, state["fraction"], base=base),
    }
    made, attention = recipes[kind]()
    same_width = round(state.get("share", 1) * state["width"] / 2) * 2 == turning
    return same_width and np.allclose(made, theta) and np.isclose(attention, factor).item()


def _told(state: dict) -> str:
    """Return a scaling in words."""
    names = {"linear": "linear", "yarn": "YaRN", "by_parts": "by parts", "llama3": "the ramp of Llama 3"}
    kind = state.get("scaling")
    if kind in names:
        return f", context extended {state['factor']:g} times ({names[kind]})"
    return f", {state['fraction']:.0%} of its pairs rotated" if kind == "proportional" else ""
