"""Latent: the slice that turns, absorbed against unabsorbed, and the layers of DeepSeek V3, V3.2, V4 and GLM-5."""

import math
import re

import mpmath
import numpy as np
import pytest
import torch

from posenc.attention import attention, attention_weights
from posenc.rotate.frequencies import softmax_scale, yarn
from posenc.rotate.latent import Latent, absorbed_scores, latent
from posenc.rotate.rope import RoPE
from tests.peers import peer
from tests.rotate.alike import assert_positions_of_two_sequences_are_refused_for_one

# What the contract tests need to know (see tests/contract/encoding_inputs.py)

OPTIONS = [
    {"rotary_dim": 8},
    {"rotary_dim": 4, "start": 0, "layout": "half", "base": 160_000.0},
    {"rotary_dim": 6, "start": 5, "theta": (1.0, 0.1, 0.03)},
    {"rotary_dim": 16},
]


def oracle(x, positions, rotary_dim, start=None, base=10_000.0, layout="interleaved", theta=None):
    """Work out the definition with 60 digits, one product at a time."""
    start = x.shape[-1] - rotary_dim if start is None else start
    y = x.copy()
    with mpmath.workdps(60):
        for i in range(rotary_dim // 2):
            power = mpmath.mpf(base) ** (-mpmath.mpf(2 * i) / rotary_dim)
            frequency = power if theta is None else mpmath.mpf(theta[i])
            a, b = (i, i + rotary_dim // 2) if layout == "half" else (2 * i, 2 * i + 1)
            for row, p in enumerate(positions.tolist()):
                cos, sin = float(mpmath.cos(p * frequency)), float(mpmath.sin(p * frequency))
                first, second = x[..., row, start + a], x[..., row, start + b]
                y[..., row, start + a] = first * cos - second * sin
                y[..., row, start + b] = second * cos + first * sin
    return y


def exercise(module):
    content, rotary, latents, keys, up = draw((2, 3, 4, 5), (2, 3, 4, 7), (2, 6, 8), (2, 6, 7), (3, 5, 8))
    module.absorbed_scores(content, rotary, latents, keys, up)


def draw(*shapes, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator, dtype=dtype) for shape in shapes]


def turned(encoding, x, positions):
    """Return `x` turned to `positions`."""
    return encoding.turn(x, encoding.table(positions, x.dtype))


# The slice that turns


def test_one_pair_by_hand():
    x = np.array([[9.0, 1.0, 2.0, 8.0]])
    expected = [[9, math.cos(3) - 2 * math.sin(3), 2 * math.cos(3) + math.sin(3), 8]]
    np.testing.assert_allclose(latent(x, [3], 2, start=1), expected, rtol=1e-15)


def test_a_table_holds_cosines_and_sines_of_the_pairs_that_turn():
    # r = 4, base 10,000: theta = 1 and 1/100; however coarse the content, it is of float32 or finer
    cos, sin = Latent(6, 4).table(torch.tensor([5]), torch.float16)
    torch.testing.assert_close(cos, torch.tensor([[[math.cos(5), math.cos(0.05)]]]))
    torch.testing.assert_close(sin, torch.tensor([[[math.sin(5), math.sin(0.05)]]]))


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize(("start", "first"), [(None, 8), (0, 0), (3, 3)])
def test_it_is_rope_on_the_slice_and_nothing_on_the_rest(layout, start, first):
    q, k = draw((2, 4, 5, 16), (2, 1, 5, 16))
    positions = torch.tensor([3, 0, 70, 7, 1])
    expected_q, expected_k = q.clone(), k.clone()
    rotary = slice(first, first + 8)
    turned_slices = RoPE(8, layout=layout)(q[..., rotary].clone(), k[..., rotary].clone(), positions)
    expected_q[..., rotary], expected_k[..., rotary] = turned_slices
    result = Latent(16, 8, start, layout=layout)(q, k, positions)
    torch.testing.assert_close(result, (expected_q, expected_k))


# Why only a slice turns


def test_absorbed_equals_unabsorbed():
    # 4 heads of 6 channels of content and 4 that turn; a cache of 7 tokens, each of a latent and a rotary key
    content, rotary, latents, key, up = draw((2, 4, 3, 6), (2, 4, 3, 4), (2, 7, 5), (2, 7, 4), (4, 6, 5))
    m, n = torch.arange(4, 7), torch.arange(7)
    content_keys = torch.einsum("hcl,bsl->bhsc", up, latents)
    whole_keys = torch.cat([content_keys, key[:, None].expand(-1, 4, -1, -1)], dim=-1)
    q, k = Latent(10, 4)(torch.cat([content, rotary], dim=-1), whole_keys, m, n)
    encoding = Latent(4, 4)
    rotary, key = turned(encoding, rotary, m), turned(encoding, key[:, None], n)[:, 0]
    result = absorbed_scores(content, rotary, latents, key, up)
    torch.testing.assert_close(result, q @ k.mT, rtol=1e-12, atol=1e-12)


def test_what_a_rotation_of_the_whole_head_would_cost():
    # turned content keys depend on their place, so that no one matrix for all places makes them of latents
    latents, up = draw((2, 7, 5), (4, 6, 5))
    keys = torch.einsum("hcl,bsl->bhsc", up, latents)
    rotated_keys = turned(RoPE(6), keys, torch.arange(7))
    latents = latents.flatten(0, 1)

    def misfit(keys):
        """Return by how much the best matrix misses the keys of the first head."""
        keys = keys[:, 0].flatten(0, 1)
        return (latents @ torch.linalg.lstsq(latents, keys).solution - keys).abs().max()

    assert misfit(keys) < 1e-12
    assert misfit(rotated_keys) > 0.1


def test_outputs_turned_back_hold_each_value_turned_by_its_offset():
    # keys are values, as in DeepSeek V4; not turned back, outputs depend on where the text stands
    q, kv = draw((1, 3, 6, 10), (1, 1, 6, 10))
    encoding = Latent(10, 4)
    p = torch.arange(1000, 1006)
    keys = turned(encoding, kv, p)
    outputs = attention(turned(encoding, q, p), keys, keys, causal=True)
    n = torch.arange(6)
    weights = attention_weights(turned(encoding, q, n), turned(encoding, kv, n), causal=True)
    expected = torch.cat([weights[:, :, m : m + 1] @ turned(encoding, kv, n - m) for m in range(6)], dim=2)
    torch.testing.assert_close(turned(encoding, outputs, -p), expected, rtol=1e-9, atol=1e-9)
    assert (outputs - expected).abs().max() > 0.1


# Peers


def inputs_of_the_kernel(layer, module, hidden, **call):
    """Return the q, k and scaling that an attention of transformers hands to its kernel."""
    caught = {}

    def kernel(_layer, q, k, v, *_, scaling=None, **__):
        caught.update(q=q.detach(), k=k.detach(), scaling=scaling)
        return v.expand_as(q).transpose(1, 2) if v.shape[1] == 1 else v.transpose(1, 2), None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.ALL_ATTENTION_FUNCTIONS, "get_interface", lambda *_: kernel)
        layer(hidden, **call)
    return caught


def filled(layer):
    generator = torch.Generator().manual_seed(0)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.3, generator=generator)
    return layer.eval()


MLA = {
    "hidden_size": 32,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "q_lora_rank": 24,
    "kv_lora_rank": 12,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 6,
    "v_head_dim": 10,
    "num_hidden_layers": 1,
    "vocab_size": 16,
}
SCALED = {
    "rope_type": "yarn",
    "rope_theta": 10_000.0,
    "factor": 40.0,
    "original_max_position_embeddings": 4096,
    "beta_fast": 32,
    "beta_slow": 1,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
}


@pytest.mark.parametrize("interleave", [True, False])
def test_scores_equal_those_of_deepseek_v3_absorbed_or_not(interleave):
    module = peer("transformers.models.deepseek_v3.modeling_deepseek_v3")
    config = peer("transformers").DeepseekV3Config(**MLA, rope_interleave=interleave, rope_parameters=SCALED)
    layer = filled(module.DeepseekV3Attention(config, 0))
    (hidden,) = draw((2, 9, 32), dtype=torch.float32)
    p = torch.arange(500, 509)
    table = module.DeepseekV3RotaryEmbedding(config)(hidden, p[None])
    theirs = inputs_of_the_kernel(layer, module, hidden, position_embeddings=table, attention_mask=None)
    expected = theirs["q"] @ theirs["k"].mT

    theta, attention_factor = yarn(6, 40.0, 4096, mscale=1.0, mscale_all_dim=1.0)
    assert attention_factor == 1
    assert softmax_scale(14, 40.0) == pytest.approx(theirs["scaling"], rel=1e-12)
    layout = "interleaved" if interleave else "half"
    q = layer.q_b_proj(layer.q_a_layernorm(layer.q_a_proj(hidden))).unflatten(-1, (4, 14)).transpose(1, 2)
    latents, key = layer.kv_a_proj_with_mqa(hidden).split([12, 6], dim=-1)
    latents = layer.kv_a_layernorm(latents)
    up = layer.kv_b_proj.weight.unflatten(0, (4, 18))[:, :8]
    keys = torch.cat([torch.einsum("hcl,bsl->bhsc", up, latents), key[:, None].expand(-1, 4, -1, -1)], dim=-1)
    rotated_q, rotated_k = Latent(14, 6, layout=layout, theta=theta)(q, keys, p)
    torch.testing.assert_close(rotated_q @ rotated_k.mT, expected, rtol=1e-4, atol=1e-4)

    encoding = Latent(6, 6, layout=layout, theta=theta)
    rotary, key = turned(encoding, q[..., 8:], p), turned(encoding, key[:, None], p)[:, 0]
    result = absorbed_scores(q[..., :8], rotary, latents, key, up)
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("folder", "cls", "layout"),
    [("deepseek_v32", "DeepseekV32", "half"), ("glm_moe_dsa", "GlmMoeDsa", "interleaved")],
)
def test_the_indexer_has_its_slice_first_and_a_layout_of_its_own(folder, cls, layout):
    module = peer(f"transformers.models.{folder}.modeling_{folder}")
    indexing = {"index_n_heads": 3, "index_head_dim": 10, "index_topk": 4}
    config = getattr(peer("transformers"), f"{cls}Config")(**MLA, **indexing)
    indexer = filled(getattr(module, f"{cls}Indexer")(config, 0))
    hidden, residual = draw((1, 9, 32), (1, 9, 24), dtype=torch.float32)
    p = torch.arange(9)
    table = getattr(module, f"{cls}RotaryEmbedding")(config)(hidden, p[None])
    mask = torch.full((9, 9), float("-inf")).triu(1)[None]
    theirs = indexer(hidden, residual, table, mask, p[None])

    base = config.rope_parameters["rope_theta"]
    q = indexer.wq_b(residual).unflatten(-1, (3, 10)).transpose(1, 2)
    k = indexer.k_norm(indexer.wk(hidden))[:, None]

    def chosen(layout, start=0):
        rotated_q, rotated_k = Latent(10, 6, start, base, layout)(q, k, p)
        weights = indexer.weights_proj(hidden).transpose(1, 2)[..., None]
        scores = (weights * torch.relu(rotated_q @ rotated_k.mT)).sum(1) + mask
        return scores.topk(4, dim=-1).indices[:, 3:].sort().values  # from the fourth query on four can be chosen

    expected = theirs[:, 3:].long().sort().values
    assert torch.equal(chosen(layout), expected)
    other = {"half": "interleaved", "interleaved": "half"}[layout]
    assert not torch.equal(chosen(other), expected)
    assert not torch.equal(chosen(layout, start=4), expected)


def v4_config():
    return peer("transformers").DeepseekV4Config(
        hidden_size=32,
        num_attention_heads=4,
        head_dim=16,
        q_lora_rank=24,
        partial_rotary_factor=0.375,
        o_groups=2,
        o_lora_rank=8,
        num_hidden_layers=3,
        vocab_size=16,
        sliding_window=64,
        compress_rates={"compressed_sparse_attention": 2, "heavily_compressed_attention": 4},
        layer_types=["sliding_attention", "heavily_compressed_attention", "heavily_compressed_attention"],
        mlp_layer_types=["moe", "moe", "moe"],
    )


def test_deepseek_v4_turns_the_trailing_slice_of_keys_that_are_values_and_turns_outputs_back():
    module = peer("transformers.models.deepseek_v4.modeling_deepseek_v4")
    (x,) = draw((2, 4, 9, 16), dtype=torch.float32)
    p = torch.arange(100, 109)
    cos, sin = module.DeepseekV4RotaryEmbedding(v4_config())(x, p[None], layer_type="main")
    encoding = Latent(16, 6)
    there, back = turned(encoding, x, p), turned(encoding, x, -p)
    torch.testing.assert_close(there, module.apply_rotary_pos_emb(x, cos, sin), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(back, module.apply_rotary_pos_emb(x, cos, -sin), rtol=1e-4, atol=1e-4)


def test_compressed_keys_of_deepseek_v4_stand_at_the_first_token_of_their_window_with_a_base_of_their_own():
    module = peer("transformers.models.deepseek_v4.modeling_deepseek_v4")
    config = v4_config()
    assert config.rope_parameters["compress"]["rope_theta"] == 160_000
    compressor = filled(module.DeepseekV4HCACompressor(config))
    (hidden,) = draw((1, 19, 32), dtype=torch.float32)
    expected, _ = compressor(hidden, None, torch.arange(19)[None], None, 1)
    assert expected.shape == (1, 1, 4, 16)

    gates = compressor.gate_proj(hidden)[:, :16].unflatten(1, (4, 4)) + compressor.position_bias
    windows = compressor.kv_proj(hidden)[:, :16].unflatten(1, (4, 4)) * gates.softmax(dim=2)
    keys = compressor.kv_norm(windows.sum(dim=2))[:, None]
    result = turned(Latent(16, 6, base=160_000.0), keys, 4 * torch.arange(4))
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)


# What is refused


@pytest.mark.parametrize(("rotary_dim", "start"), [(3, None), (0, None), (12, None), (4, 7), (4, -1)])
def test_a_slice_that_does_not_fit_is_refused(rotary_dim, start):
    message = r"latent: (rotary_dim of dim must be even, 2 to 10|start must be 0 to 6), got"
    with pytest.raises(ValueError, match=message):
        Latent(10, rotary_dim, start)
    with pytest.raises(ValueError, match=message):
        latent(np.ones((1, 10)), [0], rotary_dim, start)


def test_positions_of_two_sequences_are_refused_for_one():
    assert_positions_of_two_sequences_are_refused_for_one(Latent(10, 4))


def test_the_numpy_function_takes_one_position_a_row():
    with pytest.raises(ValueError, match="cannot reshape"):  # NumPy's own words; a lone position would broadcast
        latent(np.ones((2, 3, 10)), [3], 4)


def test_theta_of_another_shape_is_refused():
    with pytest.raises(ValueError, match=re.escape("latent: theta must have shape (4,), got (3,)")):
        Latent(16, 8, theta=[1.0, 0.1, 0.01])
