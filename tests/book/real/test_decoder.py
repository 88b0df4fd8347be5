"""A decoder computes what transformers computes, of a GGUF as of a folder, and each mistake costs the same in both."""

import pytest
import torch

from tests.book.real import tiny_llama
from tests.peers import peer


@pytest.fixture(scope="module")
def both(tiny_files):
    """Return the model of the GGUF, and that of the folder."""
    from posenc_book.real.own_model import load

    return load(tiny_files / "tiny.gguf"), load(tiny_files / "hf")


def test_logits_equal_those_of_transformers(both):
    decoder, folder = both
    ids = torch.randint(tiny_llama.WORDS, (2, 40), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = folder.model(ids).logits
    torch.testing.assert_close(decoder.logits(decoder.hidden(ids)), expected, atol=1e-3, rtol=1e-4)
    torch.testing.assert_close(folder.logits(folder.hidden(ids)), expected, atol=1e-3, rtol=1e-4)


def test_both_cut_a_text_into_the_same_tokens(both):
    decoder, folder = both
    text = "Attention compares every word; 3 times 4 is 12."
    assert decoder.tokenizer.encode(text).ids == folder.tokenizer.encode(text).ids
    assert decoder.tokenizer.decode(decoder.tokenizer.encode(text).ids) == text


ORDER_OF_CHANNELS = {"turned before the heads are cut", "half of the head turned", "values turned too"}
"""Which channels these turn depends on how rows lie, so a file in the other layout gives another number."""


def test_mistakes_cost_the_same_in_both(both):
    from posenc_book.real.language_model import losses
    from posenc_book.real.ledger import mistakes_of

    decoder, folder = both
    ids = torch.randint(tiny_llama.WORDS, (1, 300), generator=torch.Generator().manual_seed(2))
    right = losses(decoder, ids).mean()
    costs = []
    for name, mistake in mistakes_of(decoder).items():
        of_file = losses(decoder, ids, decoder.with_rotation(mistake)).mean()
        of_folder = losses(folder, ids, folder.with_rotation(mistake)).mean()
        if name not in ORDER_OF_CHANNELS:
            torch.testing.assert_close(of_file, of_folder, atol=2e-3, rtol=0, msg=name)
        costs.append((of_file - right).abs())
    assert sum(cost > 0.01 for cost in costs) > 20  # so the comparison compares something


def test_weights_of_another_rotation_are_refused(both):
    from posenc_book.real.transformers_model import TransformersModel

    model = tiny_llama.model_of_transformers(tiny_llama.weights())
    model.config.rope_parameters = {"rope_type": "default", "rope_theta": 500.0}  # not what its module was made with
    with pytest.raises(ValueError, match=r"attention as posenc\.plan reads it, got LlamaForCausalLM"):
        TransformersModel(model)


KINDS = {
    "gemma3_text": {"head_dim": 16, "sliding_window": 8, "query_pre_attn_scalar": 64},
    "gpt_neox": {"rotary_pct": 0.25},
    "cohere": {},
    "qwen3": {"head_dim": 16},
    "mistral": {"sliding_window": 8},
}


@pytest.mark.parametrize("kind", KINDS)
def test_other_kinds_are_run_as_transformers_runs_them(kind):
    peer("gguf")
    transformers = peer("transformers")
    from posenc_book.real.transformers_model import TransformersModel

    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4}
    sizes |= {"num_key_value_heads": 2, "vocab_size": 128, "max_position_embeddings": 256}
    config = transformers.AutoConfig.for_model(
        kind, **sizes, **KINDS[kind], pad_token_id=0, bos_token_id=0, eos_token_id=0
    )
    model = transformers.AutoModelForCausalLM.from_config(config)
    own = TransformersModel(model)  # which compares the logits
    ids = torch.arange(30)[None]
    unrotated = own.hidden(ids, own.with_rotation(lambda rope, q, k, v: (q, k, v)))
    assert (unrotated - own.hidden(ids)).abs().max() > 1e-3
