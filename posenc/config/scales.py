"""What multiplies logits: the softmax scale, and the scale of queries that grows with position."""

from collections.abc import Mapping
from typing import Any

from posenc.config.model_types import Config
from posenc.rotate.frequencies import softmax_scale as yarn_softmax_scale
from posenc.rotate.query_scale import QueryScale

# the length from which a scale of queries grows, and its strength, where a config does not say
QUERY_SCALES = {"llama4": (8192, 0.1), "power": (2048, 0.1), "head": (8192, 0.1)}


def softmax_scale(config: Config, rope: Mapping[str, Any] | None, width: int) -> float:
    """Return what multiplies q.k before the softmax; 1/sqrt(d) unless the code says otherwise."""
    rule = config.facts.get("scale", "head")
    if isinstance(rule, int | float):
        return float(rule)
    if rule == "yarn" and rope and rope.get("rope_type", "default") != "default":
        # DeepSeek has the growth in the softmax, where others have it in cos and sin
        strength = rope.get("mscale_all_dim")
        if strength and rope.get("factor"):
            return yarn_softmax_scale(width, rope["factor"], strength)
    if rule == "attention_multiplier":
        return float(config.get(rule) or width**-0.5)
    if rule == "query_pre_attn_scalar":
        return float((config.get(rule) or width) ** -0.5)
    if rule == "inverse":
        return 1 / width
    return float(width**-0.5)


def query_scale(config: Config, rope: Mapping[str, Any] | None) -> QueryScale | None:
    """Return the scale of queries, of Llama 4 where it does not rotate, of Ministral everywhere."""
    rule = config.facts.get("query_scale")
    if rule == "llama4" and rope is None and config.get("attn_temperature_tuning"):
        length, strength = QUERY_SCALES["llama4"]
        return QueryScale(
            "llama4", config.get("floor_scale", length), config.get("attn_scale", strength)
        )
    # the whole model's: a layer's own may lack what is for all
    stated = (
        config.fields.get("rope_parameters")
        or config.fields.get("rope_scaling")
        or config.facts.get("default_rope")
        or {}
    )
    if rule == "ministral" and stated.get("llama_4_scaling_beta"):
        length = int(stated["original_max_position_embeddings"])
        return QueryScale("ministral", length, stated["llama_4_scaling_beta"])
    if rule == "power" and rope is None:
        return QueryScale("power", *QUERY_SCALES["power"])
    if rule == "head":
        heads = config.number("num_attention_heads")
        return QueryScale("head", *QUERY_SCALES["head"], heads=heads)
    return None
