"""Small models of transformers: healthy as they stand, and found out with a planted fault."""

import pytest
import torch

from posenc import diagnose
from tests.doctor.assertions import assert_report, verdicts
from tests.peers import peer

SIZES = {"vocab_size": 99, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
SIZES |= {"max_position_embeddings": 256, "intermediate_size": 96}
GPT = {"vocab_size": 99, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 256}
FAMILIES = {
    "llama": SIZES | {"num_key_value_heads": 2},
    "qwen3": SIZES | {"num_key_value_heads": 2, "head_dim": 16},
    "gemma2": SIZES | {"num_key_value_heads": 2, "head_dim": 16},
    "gpt_neox": SIZES,
    "gpt2": GPT,
    "gptj": GPT | {"rotary_dim": 8},
    "opt": SIZES | {"ffn_dim": 96, "word_embed_proj_dim": 64},
    "bloom": {"vocab_size": 99, "hidden_size": 64, "n_layer": 2, "n_head": 4},
    "mpt": {"vocab_size": 99, "d_model": 64, "n_layers": 2, "n_heads": 4, "max_seq_len": 256},
    "phi": SIZES,
}


def model(family):
    library = peer("transformers")
    config = library.AutoConfig.for_model(family, **FAMILIES[family])
    return library.AutoModelForCausalLM.from_config(config)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_small_model_is_healthy(family):
    report = diagnose(model(family))
    assert report.kind == "model"
    assert_report(report)
    assert verdicts(report, "decoding", "batch") == ["ok", "ok"]


# Faults, each of which takes the place of a function


def counts_from_the_call(forward):
    """Count positions from 0 in each call, whatever is cached."""

    def wrong(self, x, position_ids=None, *others, **named):
        here = torch.arange(x.shape[1])[None].expand(x.shape[0], -1)
        return forward(self, x, here, *others, **named)

    return wrong


def turns_queries_only(turn):
    """Leave the keys as they come."""
    return lambda q, k, *others, **named: (turn(q, k, *others, **named)[0], k)


def puts_new_keys_first(update):
    """Put new keys and values before those of the cache."""

    def wrong(self, keys, values, *others, **named):
        t = keys.shape[2]
        return tuple(kept.roll(t, 2) for kept in update(self, keys, values, *others, **named))

    return wrong


def counts_tokens_of_the_call(forward):
    """Count positions from 0 in each call, padding too."""

    def wrong(self, mask, past=0, position_ids=None, *others):
        return forward(self, mask, past, torch.arange(position_ids.shape[1])[None].expand_as(position_ids), *others)

    return wrong


def masks_nothing(create):
    """Return a mask that hides nothing."""
    return lambda *_, **named: torch.zeros(1, 1, 1, 1)


def forgets_the_minus(_):
    """Leave the minus of the rotation out."""
    return lambda x: torch.stack((x[..., 1::2], x[..., ::2]), -1).flatten(-2)


def adds_the_mean_of_the_batch(forward):
    """Add the mean of the batch to the result."""

    def wrong(self, *others, **named):
        out, *more = forward(self, *others, **named)
        return out + out.mean(0, keepdim=True), *more

    return wrong


FAULTS = {  # where it is planted, and what is wrong
    "llama": ("modeling_llama.LlamaRotaryEmbedding.forward", counts_from_the_call, "cache-wrong"),
    "qwen3": ("modeling_qwen3.apply_rotary_pos_emb", turns_queries_only, "absolute"),
    "gpt_neox": ("modeling_gpt_neox.apply_rotary_pos_emb", turns_queries_only, "absolute"),
    "phi": ("modeling_phi.apply_rotary_pos_emb", turns_queries_only, "absolute"),
    "gptj": ("modeling_gptj.rotate_every_two", forgets_the_minus, "absolute"),
    "gemma2": ("cache_utils.DynamicLayer.update", puts_new_keys_first, "cache-wrong"),
    "opt": (
        "modeling_opt.OPTLearnedPositionalEmbedding.forward",
        counts_tokens_of_the_call,
        "cache-wrong padding-counted",
    ),
    "bloom": ("modeling_bloom.create_causal_mask", masks_nothing, "cache-wrong future-seen mask-ignored"),
    "mpt": ("modeling_mpt.MptAttention.forward", adds_the_mean_of_the_batch, "batch-mixed"),
}


@pytest.mark.parametrize("family", FAULTS)
def test_a_fault_in_a_small_model_is_named(family, monkeypatch):
    place, fault, wrong = FAULTS[family]
    first, *inner, name = place.split(".")
    library = "transformers" if first == "cache_utils" else f"transformers.models.{family}"
    owner = peer(f"{library}.{first}")
    for part in inner:
        owner = getattr(owner, part)
    monkeypatch.setattr(owner, name, fault(getattr(owner, name)))
    assert_report(diagnose(model(family)), wrong)
