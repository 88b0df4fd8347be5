"""Rerotate: keys moved in a cache equal keys rotated afresh; decoding under frequencies that change; what is lost."""

import inspect
import math
import re

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc.models.cached_keys import rerotate
from posenc.rotate.frequencies import dynamic_ntk, longrope, ntk, rope_frequencies, yarn
from posenc.rotate.rope import RoPE
from tests.peers import peer

LENGTHS = (1, 7, 64, 512, 1000)
LAYOUTS = ("half", "interleaved")


def oracle(k, angle, scale=1.0, layout="half"):
    """Turn each pair of `k` (1, 1, s, d) by `angle`(row, pair), worked out with 60 digits, one number at a time."""
    k = k[0, 0].double().numpy()
    out = k.copy()
    half = out.shape[-1] // 2
    with mpmath.workdps(60):
        for row in range(len(k)):
            for i in range(half):
                first, second = (i, i + half) if layout == "half" else (2 * i, 2 * i + 1)
                cosine, sine = mpmath.cos(angle(row, i)) * scale, mpmath.sin(angle(row, i)) * scale
                x, y = mpmath.mpf(float(k[row, first])), mpmath.mpf(float(k[row, second]))
                out[row, first], out[row, second] = x * cosine - y * sine, x * sine + y * cosine
    return out


def exercise(module):
    k = torch.randn(2, 3, 5, 8)
    module.rerotate(k)
    module.rerotate(k, new_positions=torch.arange(10).view(2, 5), layout="interleaved", rotary_dim=4)


def rotated(x, positions, theta=None, factor=1.0, layout="half", rotary_dim=None):
    """Rotate `x` (..., s, d) to `positions` (s,), or (b, s) for x (b, g, s, d), with complex numbers in float64."""
    r = rotary_dim or x.shape[-1]
    theta = torch.as_tensor(rope_frequencies(r)[0] if theta is None else theta)
    angle = torch.as_tensor(positions).double()[..., None] * theta
    angle = angle[:, None] if angle.ndim == 3 else angle
    turning = x[..., :r].double()
    pairs = turning.unflatten(-1, (2, -1)).mT if layout == "half" else turning.unflatten(-1, (-1, 2))
    turned = torch.view_as_real(
        torch.view_as_complex(pairs.contiguous()) * torch.polar(torch.full_like(angle, factor), angle)
    )
    turned = turned.mT.flatten(-2) if layout == "half" else turned.flatten(-2)
    return torch.cat([turned.to(x.dtype), x[..., r:]], dim=-1)


def attend(q, k, v):
    return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, dim=-1) @ v


def assert_close(actual, expected, atol):
    torch.testing.assert_close(actual, expected, rtol=0, atol=atol)


in_each_layout = pytest.mark.parametrize("layout", LAYOUTS)
exactly = settings(deadline=None, derandomize=True, database=None, max_examples=50)
places = st.lists(st.one_of(st.integers(-10_000, 10_000), st.floats(-100, 100)), min_size=4, max_size=4)
seeds = st.integers(0, 2**31)


# Values worked by hand


def test_a_quarter_turn():
    k = torch.tensor([[[[1.0, 0.0]]]], dtype=torch.float64)
    turned = rerotate(k, torch.tensor([0.0]), torch.tensor([math.pi / 2], dtype=torch.float64))
    assert_close(turned, torch.tensor([[[[0.0, 1.0]]]], dtype=torch.float64), 1e-15)


def test_half_pairs_far_channels_and_interleaved_neighbors():
    # 2 positions on, pair 0 turns by 2 and pair 1 by 0.02: here the second pair alone holds something
    k = torch.tensor([[[[0.0, 3.0, 0.0, 5.0]]]], dtype=torch.float64)
    near, far = math.cos(0.02), math.sin(0.02)
    half = rerotate(k, torch.tensor([0]), torch.tensor([2]))
    assert_close(
        half[0, 0, 0], torch.tensor([0, 3 * near - 5 * far, 0, 3 * far + 5 * near], dtype=torch.float64), 1e-15
    )
    interleaved = rerotate(k, torch.tensor([0]), torch.tensor([2]), layout="interleaved")
    expected = [-3 * math.sin(2), 3 * math.cos(2), -5 * far, 5 * near]
    assert_close(interleaved[0, 0, 0], torch.tensor(expected, dtype=torch.float64), 1e-15)


def test_the_attention_factor_is_divided_out_and_the_new_one_put_in():
    k = torch.tensor([[[[6.0, 8.0]]]])
    assert torch.equal(rerotate(k, attention_factor=2.0, new_attention_factor=3.0), 1.5 * k)


def test_keys_stand_at_0_to_s_by_default():
    k = torch.randn(2, 3, 5, 8)
    assert torch.equal(
        rerotate(k, new_positions=torch.arange(5) + 7), rerotate(k, torch.arange(5), torch.arange(5) + 7)
    )


def test_the_old_positions_and_frequencies_stay_by_default():
    k, theta = torch.randn(2, 3, 5, 8), ntk(8, 4.0)[0]
    assert torch.equal(rerotate(k, torch.arange(5) + 7), k)
    assert torch.equal(rerotate(k, torch.arange(5) + 7, theta=theta), k)


def test_the_base_is_that_of_the_default_frequencies():
    k, where = torch.randn(2, 3, 5, 8), torch.arange(5) + 7
    named = rerotate(k, new_positions=where, theta=rope_frequencies(8, 500.0)[0])
    assert_close(rerotate(k, new_positions=where, base=500.0), named, 1e-6)


def test_the_default_frequencies_are_those_of_the_channels_that_turn():
    k, where = torch.randn(2, 3, 5, 8), torch.arange(5) + 7
    named = rerotate(k, new_positions=where, theta=rope_frequencies(4)[0], rotary_dim=4)
    assert_close(rerotate(k, new_positions=where, rotary_dim=4), named, 1e-6)


def test_frequencies_may_be_a_tensor_an_array_or_a_list():
    k, theta = torch.randn(2, 3, 5, 8), ntk(8, 4.0)[0]
    expected = rerotate(k, new_theta=theta)
    assert torch.equal(rerotate(k, new_theta=torch.tensor(theta)), expected)
    assert torch.equal(rerotate(k, new_theta=theta.tolist()), expected)


# Keys moved equal keys rotated afresh


@in_each_layout
@pytest.mark.parametrize("rotary_dim", [None, 6])
@pytest.mark.parametrize(
    ("dtype", "atol"), [(torch.float64, 1e-12), (torch.float32, 2e-6), (torch.bfloat16, 0.04)], ids=str
)
def test_moved_keys_equal_keys_rotated_afresh(layout, rotary_dim, dtype, atol):
    x = torch.randn(2, 3, 6, 16, dtype=torch.float64).clamp(-3, 3).to(dtype)
    theta, new_theta = rope_frequencies(rotary_dim or 16)[0], ntk(rotary_dim or 16, 8.0)[0]
    for old in (torch.arange(6), torch.tensor([[0, 1, 2, 3, 4, 5], [70, 69, 3, 0, 1, 1000]])):
        for new in (torch.tensor([5, 0, -3, 70, 0, 9]), torch.tensor([[9, 8, 7, 6, 5, 4], [0.5, 1, 2, 3, 4, 5]])):
            there = rotated(x, old, theta, 1.3, layout, rotary_dim)
            moved = rerotate(there, old, new, theta, new_theta, 1e4, 1.3, 0.8, layout, rotary_dim)
            assert moved.dtype == dtype
            assert_close(moved, rotated(x, new, new_theta, 0.8, layout, rotary_dim), atol)


def test_a_row_of_positions_is_that_of_a_sequence():
    x, where = torch.randn(2, 3, 5, 8, dtype=torch.float64), torch.tensor([[0, 1, 2, 3, 4], [9, 7, 5, 3, 1]])
    moved = rerotate(x, where * 0, where)
    for row in range(2):
        assert torch.equal(moved[row, None], rerotate(x[row, None], where[row] * 0, where[row]))
        assert torch.equal(rerotate(x, where[row] * 0, where[row : row + 1])[row], moved[row])


def test_channels_that_do_not_turn_are_passed_through_bit_by_bit():
    k = torch.randn(2, 3, 5, 16, dtype=torch.bfloat16)
    moved = rerotate(k, new_positions=torch.arange(5) + 9, rotary_dim=4, attention_factor=1.5)
    assert torch.equal(moved[..., 4:], k[..., 4:])
    assert not torch.equal(moved[..., :4], k[..., :4])


def test_pairs_of_frequency_0_stay():
    k = torch.randn(2, 3, 5, 8)
    moved = rerotate(k, new_positions=torch.arange(5) + 9, theta=[1.0, 0.0, 0.0, 0.0])
    assert torch.equal(moved[..., [1, 2, 3, 5, 6, 7]], k[..., [1, 2, 3, 5, 6, 7]])


def test_eviction_keeps_the_distances_that_are_left():
    # the oldest 4 of 10 keys go; the other 6 are renumbered from 0, so the next query stands at 6 and not at 10
    x = torch.randn(1, 2, 10, 16, dtype=torch.float64)
    cache = rotated(x, torch.arange(10))
    kept = rerotate(cache[:, :, 4:], torch.arange(4, 10), torch.arange(6))
    assert_close(kept, rotated(x[:, :, 4:], torch.arange(6)), 1e-14)


def test_attention_sinks_count_places_in_the_cache():
    # StreamingLLM: the first 2 keys and the last 3 of 9, at places 0 to 4 whatever their places in the text
    x, q, v = torch.randn(3, 1, 2, 9, 16, dtype=torch.float64).unbind()
    kept = torch.tensor([0, 1, 6, 7, 8])
    cache = rotated(x, torch.arange(9))[:, :, kept]
    query = rotated(q[:, :, 8:], torch.tensor([4]))
    renumbered = attend(query, rerotate(cache, kept, torch.arange(5)), v[:, :, kept])
    assert_close(renumbered, attend(query, rotated(x[:, :, kept], torch.arange(5)), v[:, :, kept]), 1e-13)
    assert (renumbered - attend(query, cache, v[:, :, kept])).abs().max() > 0.01


def test_a_cached_prefix_can_stand_behind_another_prompt():
    x = torch.randn(1, 2, 6, 16, dtype=torch.float64)
    cached = rotated(x, torch.arange(6))
    assert_close(rerotate(cached, new_positions=torch.arange(6) + 1000), rotated(x, torch.arange(6) + 1000), 1e-12)


def test_a_context_shift_leaves_scores_as_they_are():
    # queries and keys moved by the same number of positions score as before
    q, k = torch.randn(2, 1, 2, 6, 16, dtype=torch.float64).unbind()
    q, k, shift = rotated(q, torch.arange(6)), rotated(k, torch.arange(6)), torch.arange(6) - 5
    assert_close(rerotate(q, new_positions=shift) @ rerotate(k, new_positions=shift).mT, q @ k.mT, 1e-13)


# Decoding with frequencies that change


def ntk_at(length):
    return dynamic_ntk(16, 8.0, length, 6)


def longrope_at(length):
    short, long = np.linspace(1, 2, 8), np.linspace(1, 30, 8)
    return longrope(16, short, long, length, original_length=6, factor=4.0)


def yarn_when_needed(length):
    return yarn(16, 4.0, 6) if length > 6 else rope_frequencies(16)


@pytest.mark.parametrize("frequencies", [ntk_at, longrope_at, yarn_when_needed])
@pytest.mark.parametrize(("dtype", "atol"), [(torch.float64, 1e-12), (torch.float32, 5e-6)], ids=str)
def test_decoding_from_rerotated_keys_equals_computing_each_token_afresh(frequencies, dtype, atol):
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 3, 12, 16, dtype=dtype).unbind()
    cache = stale = k[:, :, :0]
    theta, factor = frequencies(1)
    largest = 0.0
    for p in range(12):
        here, (new_theta, new_factor) = torch.tensor([p]), frequencies(p + 1)
        cache = rerotate(cache, None, None, theta, new_theta, 1e4, factor, new_factor)
        theta, factor = new_theta, new_factor
        token, key = (rotated(x[:, :, p : p + 1], here, theta, factor) for x in (q, k))
        cache, stale = torch.cat([cache, key], dim=2), torch.cat([stale, key], dim=2)
        afresh = attend(token, rotated(k[:, :, : p + 1], torch.arange(p + 1), theta, factor), v[:, :, : p + 1])
        assert_close(attend(token, cache, v[:, :, : p + 1]), afresh, atol)
        largest = max(largest, (attend(token, stale, v[:, :, : p + 1]) - afresh).abs().max().item())
    assert largest > 0.1  # what a cache that is left as it is gets wrong


def test_forgetting_the_attention_factor_scales_the_keys():
    x, (theta, factor) = torch.randn(1, 2, 5, 16, dtype=torch.float64), yarn(16, 4.0, 6)
    cache = rotated(x, torch.arange(5), theta, factor)
    plain = rotated(x, torch.arange(5))
    assert_close(rerotate(cache, None, None, theta, rope_frequencies(16)[0], attention_factor=factor), plain, 1e-14)
    assert_close(rerotate(cache, None, None, theta, rope_frequencies(16)[0]), plain * factor, 1e-14)


@in_each_layout
@pytest.mark.parametrize("rotary_dim", [None, 6])
def test_keys_that_rope_turned_move_to_where_rope_would_turn_them(layout, rotary_dim):
    (theta, factor), kept = yarn(rotary_dim or 16, 8.0, 64), {"layout": layout, "rotary_dim": rotary_dim}
    x, where = torch.randn(2, 3, 5, 16), torch.tensor([[3, 9, 2, 0, 7], [5, 6, 7, 8, 1000]])
    _, old = RoPE(16, **kept)(x, x)
    _, new = RoPE(16, theta=theta, attention_factor=factor, **kept)(x, x, where, where)
    moved = rerotate(old, new_positions=where, new_theta=theta, new_attention_factor=factor, **kept)
    assert_close(moved, new, 3e-6)


# Peers


def test_keys_of_transformers_move_from_one_dynamic_length_to_another():
    llama = peer("transformers.models.llama.modeling_llama")
    rope = {"rope_type": "dynamic", "rope_theta": 10_000.0, "factor": 2.0}
    config = llama.LlamaConfig(
        hidden_size=64, num_attention_heads=4, head_dim=16, max_position_embeddings=8, rope_parameters=rope
    )
    embedding, x = llama.LlamaRotaryEmbedding(config), torch.randn(1, 4, 8, 16)

    def at(length):
        cosine, sine = embedding(x, torch.arange(length)[None])
        return llama.apply_rotary_pos_emb(x, x, cosine[:, :8], sine[:, :8])[1], embedding.inv_freq.clone()

    (short, theta), (long, new_theta) = at(8), at(20)
    assert (short - long).abs().max() > 0.1
    assert_close(rerotate(short, None, None, theta, new_theta), long, 2e-6)


# Properties


@given(seed=seeds, first=places, second=places, third=places)
@exactly
def test_two_moves_are_one(seed, first, second, third):
    torch.manual_seed(seed)
    k, (a, b, c) = torch.randn(1, 2, 4, 8, dtype=torch.float64), map(torch.tensor, (first, second, third))
    assert_close(rerotate(rerotate(k, a, b), b, c), rerotate(k, a, c), 1e-10)


@given(seed=seeds, first=places, second=places, layout=st.sampled_from(LAYOUTS))
@exactly
def test_a_move_back_undoes_a_move(seed, first, second, layout):
    torch.manual_seed(seed)
    k, a, b = torch.randn(1, 2, 4, 8, dtype=torch.float64), torch.tensor(first), torch.tensor(second)
    theta, new_theta = rope_frequencies(8)[0], ntk(8, 8.0)[0]
    there = rerotate(k, a, b, theta, new_theta, 1e4, 1.3, 0.7, layout)
    assert_close(rerotate(there, b, a, new_theta, theta, 1e4, 0.7, 1.3, layout), k, 1e-10)


@given(seed=seeds, first=places)
@exactly
def test_no_move_is_the_identity_bit_by_bit(seed, first):
    torch.manual_seed(seed)
    k, a = torch.randn(1, 2, 4, 8, dtype=torch.bfloat16), torch.tensor(first)
    assert torch.equal(rerotate(k, a, a), k)


@given(seed=seeds, first=places, second=places)
@exactly
def test_lengths_are_kept(seed, first, second):
    torch.manual_seed(seed)
    k = torch.randn(1, 2, 4, 8, dtype=torch.float64)
    moved = rerotate(k, torch.tensor(first), torch.tensor(second))
    assert_close(moved.norm(dim=-1), k.norm(dim=-1), 1e-12)


@given(seed=seeds, first=places, second=places)
@exactly
def test_only_the_difference_of_positions_counts_under_one_set_of_frequencies(seed, first, second):
    torch.manual_seed(seed)
    a, b = (torch.tensor(where, dtype=torch.float64) for where in (first, second))
    k = torch.randn(1, 2, 4, 8, dtype=torch.float64)
    assert_close(rerotate(k, a, b), rerotate(k, a * 0, b - a), 1e-10)


def test_under_two_sets_of_frequencies_the_positions_themselves_count():
    k, where, theta = torch.ones(1, 1, 1, 8), torch.tensor([5]), ntk(8, 4.0)[0]
    far = rerotate(k, where + 100, where + 100, new_theta=theta)
    assert (far - rerotate(k, where, where, new_theta=theta)).abs().max() > 0.1


def test_xpos_keys_do_not_move_like_this():
    # xPos also multiplies pair i of a key by zeta_i^(-p / 512), which no rotation undoes
    x, zeta = torch.randn(1, 1, 4, 8, dtype=torch.float64), (torch.arange(0, 8, 2) / 8 + 0.4).div(1.4).repeat(2)

    def fading(positions):
        return rotated(x, positions) * zeta ** (-positions[:, None] / 512)

    near, far = torch.arange(4), torch.arange(4) + 1000
    assert (rerotate(fading(near), near, far) - fading(far)).abs().max() > 0.1


# How much may be lost on the way


@pytest.mark.parametrize("place", [1_000_000, 9_999_999])
@in_each_layout
def test_a_float32_key_moves_exactly_however_far(place, layout):
    k = torch.rand(1, 1, 3, 16) * 2 - 1
    theta, new_theta = rope_frequencies(16)[0], ntk(16, 8.0)[0]

    def angle(row, i):
        with mpmath.workdps(60):
            old = mpmath.mpf(10_000) ** (-mpmath.mpf(2 * i) / 16)
            return (place + row + 5) * old * mpmath.mpf(8) ** (-mpmath.mpf(2 * i) / 14) - (place + row) * old

    where = torch.arange(3) + place
    moved = rerotate(k, where, where + 5, theta, new_theta, layout=layout)
    np.testing.assert_allclose(moved[0, 0].numpy(), oracle(k, angle, layout=layout), rtol=0, atol=1e-6)


def test_float64_loses_less_than_1e_8_at_ten_million():
    k, where = torch.rand(1, 1, 2, 16, dtype=torch.float64) * 2 - 1, torch.tensor([9_999_999, 10_000_000])

    def angle(row, i):
        with mpmath.workdps(60):
            return -(9_999_999 + row) * mpmath.mpf(10_000) ** (-mpmath.mpf(2 * i) / 16)

    moved = rerotate(k, where, where * 0)
    np.testing.assert_allclose(moved[0, 0].numpy(), oracle(k, angle), rtol=0, atol=1e-8)


def test_bfloat16_is_rounded_once():
    k = torch.randn(2, 3, 7, 16).bfloat16()
    once = rerotate(k.double(), new_positions=torch.arange(7) + 1_000_000).bfloat16()
    moved = rerotate(k, new_positions=torch.arange(7) + 1_000_000)
    assert (moved != once).float().mean() < 0.01  # ties that the float32 in between decides the other way
    assert_close(moved, once, 0.02)


def test_a_chain_of_moves_drifts_in_bfloat16():
    x = torch.randn(2, 3, 7, 16, dtype=torch.float64)
    chain, where = rotated(x, torch.arange(7)).bfloat16(), torch.arange(7)
    single = rerotate(chain, where, where + 200).double()
    for _ in range(200):
        chain, where = rerotate(chain, where, where + 1), where + 1
    exact = rotated(x, where)
    lost_in_a_chain, lost_at_once = ((k.double() - exact).square().mean().sqrt() for k in (chain, single))
    assert lost_in_a_chain > 5 * lost_at_once


# It works wherever torch does


def moves(length):
    theta = torch.tensor(ntk(16, 4.0)[0])
    where = torch.arange(length)
    return {"k": torch.randn(2, 3, length, 16), "positions": where, "new_positions": where + 5, "new_theta": theta}


@pytest.mark.parametrize("kind", ["numpy", "tolist", "tensor"])
def test_compiles_at_most_twice_over_all_lengths(kind):
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    compiled = torch.compile(rerotate, fullgraph=True, backend=backend)
    for length in LENGTHS:
        arguments = moves(length)
        if kind != "tensor":
            arguments["new_theta"] = getattr(arguments["new_theta"], kind)()
        assert torch.equal(compiled(**arguments), rerotate(**arguments))
        assert torch.equal(compiled(arguments["k"]), arguments["k"])
    assert len(graphs) <= 4  # two for each way to call it


def test_new_frequencies_and_factors_for_each_token_do_not_compile_again():
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    compiled = torch.compile(rerotate, fullgraph=True, backend=backend)
    for length in range(5, 15):
        k, theta, factor = torch.randn(1, 2, length, 16), dynamic_ntk(16, 2.0, length, 4)[0], 1 + length / 16
        expected = rerotate(k, new_theta=theta, new_attention_factor=factor)
        assert torch.equal(compiled(k, new_theta=theta, new_attention_factor=factor), expected)
    assert len(graphs) <= 2


def test_one_exported_program_serves_every_length():
    class Move(torch.nn.Module):
        def forward(self, k, positions, new_positions, new_theta):
            return rerotate(k, positions, new_positions, new_theta=new_theta)

    length = torch.export.Dim("length", min=2, max=4096)
    axes = {"k": {2: length}, "positions": {0: length}, "new_positions": {0: length}, "new_theta": {}}
    program = torch.export.export(Move(), args=(), kwargs=moves(6), dynamic_shapes=axes)
    longer = moves(11)
    assert torch.equal(program.module()(**longer), rerotate(**longer))


def test_vmap_equals_a_loop():
    k, where = torch.randn(4, 2, 3, 5, 8), torch.randint(0, 100, (4, 5))
    mapped = torch.func.vmap(lambda k, p: rerotate(k, p, p + 3))(k, where)
    torch.testing.assert_close(
        mapped, torch.stack([rerotate(each, p, p + 3) for each, p in zip(k, where, strict=True)])
    )


def test_gradients_flow_to_the_keys_and_to_the_frequencies():
    k = torch.randn(2, 3, 4, 8, dtype=torch.float64, requires_grad=True)
    theta, new_theta = (torch.rand(4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(
        lambda *given: rerotate(given[0], None, torch.arange(4) + 3, *given[1:], attention_factor=1.2),
        (k, theta, new_theta),
    )


def test_meta_autocast_inference_mode_and_the_default_dtype():
    given = moves(6)
    expected = rerotate(**given)
    meta = rerotate(**{name: value.to("meta") for name, value in given.items()})
    assert (meta.device.type, meta.shape, meta.dtype) == ("meta", expected.shape, expected.dtype)
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.inference_mode():
        assert torch.equal(rerotate(**given), expected)
    torch.set_default_dtype(torch.bfloat16)
    try:
        assert torch.equal(rerotate(**given), expected)
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_the_dtype_is_kept(dtype):
    assert rerotate(torch.ones(1, 1, 3, 8).to(dtype), new_positions=torch.arange(3) + 1, rotary_dim=4).dtype == dtype


def test_inputs_are_not_changed_and_not_shared():
    given = moves(6)
    before = {name: value.clone() for name, value in given.items()}
    for arguments in (given, {"k": given["k"]}):
        rerotate(**arguments).zero_()
    assert all(torch.equal(given[name], before[name]) and given[name]._version == 0 for name in given)


def test_no_keys_and_one_key():
    assert rerotate(torch.zeros(2, 3, 0, 8)).shape == (2, 3, 0, 8)
    assert rerotate(torch.zeros(2, 3, 1, 8), torch.tensor([3]), torch.tensor([4])).shape == (2, 3, 1, 8)


# What is refused: what would give a wrong result without an error


@pytest.mark.parametrize(
    ("k", "got"),
    [
        (torch.ones(2, 4, 3, 8).long(), r"torch.int64 \(2, 4, 3, 8\)"),
        (torch.ones(4, 3, 8), r"torch.float32 \(4, 3, 8\)"),
        (torch.ones(3, 8), r"torch.float32 \(3, 8\)"),
        (torch.ones(1, 2, 4, 3, 8), r"torch.float32 \(1, 2, 4, 3, 8\)"),
    ],
    ids=str,
)
def test_keys_of_another_form_are_refused(k, got):
    with pytest.raises(ValueError, match=rf"rerotate: k must be floats \(b, g, s, d\), got {got}"):
        rerotate(k)


@pytest.mark.parametrize("name", ["positions", "new_positions"])
@pytest.mark.parametrize("shape", [(), (1,), (4,), (3, 3), (2, 1), (2, 3, 1)], ids=str)
def test_positions_that_do_not_fit_are_refused(name, shape):
    said = re.escape(f"rerotate: positions and theta must be (3,) or (2, 3) and (4,), got {shape} and (4,)")
    with pytest.raises(ValueError, match=said):
        rerotate(torch.ones(2, 4, 3, 8), **{name: torch.zeros(shape)})


@pytest.mark.parametrize("name", ["theta", "new_theta"])
@pytest.mark.parametrize(
    ("theta", "shape"), [(1.0, ()), ([1.0], (1,)), (np.ones(3), (3,)), (torch.ones(4, 1), (4, 1))], ids=str
)
def test_frequencies_that_do_not_fit_are_refused(name, theta, shape):
    said = (
        rf"rerotate: positions and theta must be \(5,\) or \(2, 5\) and \(4,\), got \(5,\) and {re.escape(str(shape))}"
    )
    with pytest.raises((ValueError, RuntimeError), match=rf"{said}|must match the size"):
        rerotate(torch.ones(2, 3, 5, 8), **{name: theta})


@pytest.mark.parametrize("base", [0, -1.0, math.nan, math.inf])
def test_a_base_that_is_none_is_refused(base):
    with pytest.raises(ValueError, match=f"rerotate: base must be positive and finite, got {base}"):
        rerotate(torch.ones(2, 3, 5, 8), base=base)


@pytest.mark.parametrize(("dim", "rotary_dim"), [(8, 3), (8, 10), (8, -2), (7, None), (2, 4)])
def test_channels_without_pairs_do_not_turn(dim, rotary_dim):
    for layout in LAYOUTS:
        with pytest.raises((ValueError, RuntimeError)):
            rerotate(torch.ones(2, 3, 5, dim), rotary_dim=rotary_dim, layout=layout)


@pytest.mark.parametrize("layout", ["split", None, 2])
def test_an_unknown_layout_is_refused(layout):
    with pytest.raises(ValueError, match=f"rerotate: layout must be 'half' or 'interleaved', got {layout!r}"):
        rerotate(torch.ones(2, 3, 5, 8), layout=layout)


def test_the_defaults_are_those_of_rope():
    defaults = {name: p.default for name, p in inspect.signature(rerotate).parameters.items()}
    assert (defaults["base"], defaults["layout"], defaults["rotary_dim"]) == (10_000.0, "half", None)
