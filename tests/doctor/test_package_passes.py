"""The package's own encodings are healthy, and so are libraries of others, except for what is known of them."""

import pytest
import torch
from torch import nn

import posenc
from posenc import diagnose
from posenc.attention import attention
from tests.doctor.assertions import assert_report, finding, verdicts, wrong_ids
from tests.peers import peer

ENCODINGS = {
    "RoPE": lambda: posenc.RoPE,
    "RoPE of 64": lambda: posenc.RoPE(64),
    "RoPE, interleaved": lambda: posenc.RoPE(64, layout="interleaved"),
    "RoPE of 16 channels": lambda: posenc.RoPE(64, rotary_dim=16, base=500_000.0),
    "rope": lambda: posenc.rope,
    "PoPE": lambda: posenc.PoPE(64, heads=4),
    "XPos": lambda: posenc.XPos(64),
    "Sinusoidal": lambda: posenc.Sinusoidal,
    "Sinusoidal of 64": lambda: posenc.Sinusoidal(64),
    "Sinusoidal, split and scaled": lambda: posenc.Sinusoidal(64, order="split", scale=True),
    "Sinusoidal of tensor2tensor": lambda: posenc.Sinusoidal(64, order="tensor2tensor"),
    "sinusoidal": lambda: posenc.sinusoidal,
    "ALiBi": lambda: posenc.ALiBi,
    "ALiBi of 12": lambda: posenc.ALiBi(12),
    "ALiBi, causal": lambda: posenc.ALiBi(8, causal=True),
    "ALiBi for FlexAttention": lambda: posenc.ALiBi(4).score_mod(torch.arange(24)),
    "alibi": lambda: posenc.alibi,
    "alibi_slopes": lambda: posenc.alibi_slopes,
    "T5": lambda: posenc.T5(heads=4),
    "KERPLE": lambda: posenc.KERPLE(heads=4),
    "Sandwich": lambda: posenc.Sandwich(heads=4),
    "attention": lambda: attention,
}


@pytest.mark.parametrize("name", ENCODINGS)
def test_an_encoding_of_the_package_is_healthy(name):
    assert_report(diagnose(ENCODINGS[name]()))


@pytest.mark.parametrize("name", ["RoPE of 64", "PoPE", "XPos", "ALiBi of 4"])
def test_attention_with_an_encoding_is_healthy(name):
    encoding = posenc.ALiBi(4) if name == "ALiBi of 4" else ENCODINGS[name]()

    def attend(q, k, v, positions=None, key_positions=None, causal=False, mask=None):
        return attention(q, k, v, encoding, positions, key_positions, causal=causal, mask=mask)

    report = diagnose(attend)
    assert_report(report)
    assert verdicts(report, "shift", "order", "decoding") == ["ok"] * 3


# Libraries of others


def llama(**settings):
    library = peer("transformers.models.llama.modeling_llama")
    config = peer("transformers").LlamaConfig(
        hidden_size=256, num_attention_heads=4, head_dim=64, max_position_embeddings=2048, **settings
    )

    class Rotary(nn.Module):
        def __init__(self):
            super().__init__()
            self.rotary = library.LlamaRotaryEmbedding(config)

        def forward(self, q, k, positions):
            positions = positions if positions.ndim == 2 else positions[None]
            return library.apply_rotary_pos_emb(q, k, *self.rotary(q, positions))

    return Rotary()


def test_rotary_embedding_torch_keeps_the_dtype_of_its_first_call():
    report = diagnose(peer("rotary_embedding_torch").RotaryEmbedding(dim=64).rotate_queries_or_keys)
    assert_report(report, "buffers-rounded cache-stale positions-rounded")
    assert verdicts(report, "memory", "module cast") == ["wrong", "wrong"]


MAKERS = {
    "rotary_embedding_torch": (
        lambda: peer("rotary_embedding_torch").RotaryEmbedding(dim=64),
        {"buffers-rounded", "scaling-ignored"},
    ),
    "x_transformers": (
        lambda: peer("x_transformers.x_transformers").RotaryEmbedding(64),
        {"buffers-rounded"},
    ),
    "transformers": (lambda: llama().rotary, {"buffers-rounded"}),
}


@pytest.mark.parametrize("name", MAKERS)
def test_modules_that_make_angles_are_rounded_where_they_are_cast(name):
    make, wrong = MAKERS[name]
    report = diagnose(make())
    assert wrong_ids(report) == wrong
    assert finding(report, "frequencies").number == pytest.approx(10_000)


def test_the_sinusoidal_of_x_transformers_is_rounded_where_it_is_cast():
    report = diagnose(peer("x_transformers.x_transformers").ScaledSinusoidalEmbedding(64))
    assert_report(report, "buffers-rounded")
    assert verdicts(report, "rounding") == ["wrong"]


def test_llama_of_transformers_is_sound_until_it_is_cast():
    report = diagnose(llama())
    assert_report(report, "buffers-rounded")
    assert verdicts(report, "module cast") == ["wrong"]
    assert finding(report, "frequencies").number == pytest.approx(10_000)


def test_dynamic_ntk_of_transformers_depends_on_the_length():
    scaling = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10_000.0}
    assert_report(diagnose(llama(rope_parameters=scaling)), "length-dependent")
