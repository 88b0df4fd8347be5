"""Rerotate: keys moved in a cache equal keys rotated afresh; decoding under frequencies that change; what is lost."""

import math
import re

import mpmath
import numpy as np
import pytest
import torch

from posenc.models.cached_keys import rerotate
from posenc.rotate.frequencies import dynamic_ntk, longrope, ntk, rope_frequencies, yarn
from posenc.rotate.rope import RoPE
from tests.peers import peer

LENGTHS = (1, 7, 64, 512, 1000)


def exercise(module):
    k = torch.randn(2, 3, 5, 8)
    module.rerotate(k)
    module.rerotate(k, new_positions=torch.arange(10).view(2, 5), layout="interleaved", rotary_dim=4)


def rotated(x, positions, theta=None, factor=1.0, layout="half", rotary_dim=None):
    """Rotate `x` (b, g, s, d) afresh to `positions` (s,) or (b, s)."""
    encoding = RoPE(x.shape[-1], layout=layout, rotary_dim=rotary_dim, theta=theta, attention_factor=factor)
    return encoding(x, x, positions)[0]


def attend(q, k, v):
    return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, dim=-1) @ v


def assert_close(actual, expected, atol):
    torch.testing.assert_close(actual, expected, rtol=0, atol=atol)


over_layouts = pytest.mark.parametrize("layout", ["half", "interleaved"])


# Values worked by hand


@pytest.mark.parametrize(
    ("layout", "expected"),
    [  # from position 0 to 2 pair 0 turns by 2 and pair 1 by 0.02
        ("half", [0, 3 * math.cos(0.02) - 5 * math.sin(0.02), 0, 3 * math.sin(0.02) + 5 * math.cos(0.02)]),
        ("interleaved", [-3 * math.sin(2), 3 * math.cos(2), -5 * math.sin(0.02), 5 * math.cos(0.02)]),
    ],
)
def test_half_pairs_far_channels_and_interleaved_neighbors(layout, expected):
    k = torch.tensor([[[[0.0, 3.0, 0.0, 5.0]]]], dtype=torch.float64)
    moved = rerotate(k, torch.tensor([0]), torch.tensor([2]), layout=layout)
    assert_close(moved.flatten(), torch.tensor(expected, dtype=torch.float64), 1e-15)


def test_the_attention_factor_is_divided_out_and_the_new_factor_put_in():
    k = torch.tensor([[[[6.0, 8.0]]]])
    assert torch.equal(rerotate(k, attention_factor=2.0, new_attention_factor=3.0), 1.5 * k)


def test_what_is_left_out_is_the_old_value_or_that_of_rope():
    k = torch.randn(2, 3, 5, 8)
    old, new, theta = torch.arange(5), torch.arange(5) + 7, ntk(8, 4.0)[0]
    assert torch.equal(rerotate(k, new_positions=new), rerotate(k, old, new))
    assert torch.equal(rerotate(k, new, theta=theta), k)
    assert torch.equal(rerotate(k, new_theta=theta), rerotate(k, theta=rope_frequencies(8)[0], new_theta=list(theta)))
    for options, dim in (({"base": 500.0}, 8), ({"rotary_dim": 4}, 4)):
        theta, _ = rope_frequencies(dim, options.get("base", 10_000.0))
        expected = rerotate(k, new_positions=new, theta=theta, **options)
        assert_close(rerotate(k, new_positions=new, **options), expected, 1e-6)


# Keys moved equal keys rotated afresh


@over_layouts
@pytest.mark.parametrize("rotary_dim", [None, 6])
@pytest.mark.parametrize(
    ("dtype", "atol"), [(torch.float64, 1e-12), (torch.float32, 2e-6), (torch.bfloat16, 0.04)], ids=str
)
def test_moved_keys_equal_keys_rotated_afresh(layout, rotary_dim, dtype, atol):
    x = torch.randn(2, 3, 6, 16, dtype=torch.float64).clamp(-3, 3).to(dtype)
    theta, new_theta = rope_frequencies(rotary_dim or 16)[0], ntk(rotary_dim or 16, 8.0)[0]
    for old in (torch.arange(6), torch.tensor([[0, 1, 2, 3, 4, 5], [70, 69, 3, 0, 1, 1000]])):
        for new in (torch.tensor([5, 0, -3, 70, 0, 9]), 100 * torch.rand(2, 6, dtype=torch.float64)):
            cached = rotated(x, old, theta, 1.3, layout, rotary_dim)
            moved = rerotate(cached, old, new, theta, new_theta, 1e4, 1.3, 0.8, layout, rotary_dim)
            assert moved.dtype == dtype
            assert_close(moved, rotated(x, new, new_theta, 0.8, layout, rotary_dim), atol)
            assert torch.equal(moved[..., 2 * len(theta) :], x[..., 2 * len(theta) :])


def test_a_row_of_positions_serves_all_sequences():
    k, old, new = torch.randn(2, 3, 5, 8), torch.tensor([[9, 7, 5, 3, 1]]), torch.arange(5)
    assert torch.equal(rerotate(k, old, new), rerotate(k, old.expand(2, 5), new))


def test_attention_sinks_stand_at_their_index_in_the_cache():
    # StreamingLLM: the first 2 keys and the last 3 of 9, at 0 to 4 wherever they stand in the text
    x, q, v = torch.randn(3, 1, 2, 9, 16, dtype=torch.float64).unbind()
    kept = torch.tensor([0, 1, 6, 7, 8])
    cache = rotated(x, torch.arange(9))[:, :, kept]
    query = rotated(q[:, :, 8:], torch.tensor([4]))
    renumbered = attend(query, rerotate(cache, kept, torch.arange(5)), v[:, :, kept])
    assert_close(renumbered, attend(query, rotated(x[:, :, kept], torch.arange(5)), v[:, :, kept]), 1e-13)
    assert (renumbered - attend(query, cache, v[:, :, kept])).abs().max() > 0.01


def test_xpos_keys_do_not_move_like_this():
    # xPos also multiplies pair i of a key by zeta_i^(-p / 512), which no rotation undoes
    x = torch.randn(1, 1, 4, 8, dtype=torch.float64)
    zeta = (torch.arange(0, 8, 2) / 8 + 0.4).div(1.4).repeat(2)
    near, far = torch.arange(4), torch.arange(4) + 1000
    keys_near, keys_far = (rotated(x, p) * zeta ** (-p[:, None] / 512) for p in (near, far))
    assert (rerotate(keys_near, near, far) - keys_far).abs().max() > 0.1


def test_two_moves_are_a_single_move():
    k, (a, b, c) = torch.randn(1, 2, 4, 8, dtype=torch.float64), 1000 * torch.randn(3, 4, dtype=torch.float64)
    assert_close(rerotate(rerotate(k, a, b), b, c), rerotate(k, a, c), 1e-10)


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
        new_theta, new_factor = frequencies(p + 1)
        cache = rerotate(cache, None, None, theta, new_theta, 1e4, factor, new_factor)
        theta, factor = new_theta, new_factor
        query, key = (rotated(x[:, :, p : p + 1], torch.tensor([p]), theta, factor) for x in (q, k))
        cache, stale = torch.cat([cache, key], dim=2), torch.cat([stale, key], dim=2)
        afresh = attend(query, rotated(k[:, :, : p + 1], torch.arange(p + 1), theta, factor), v[:, :, : p + 1])
        assert_close(attend(query, cache, v[:, :, : p + 1]), afresh, atol)
        largest = max(largest, (attend(query, stale, v[:, :, : p + 1]) - afresh).abs().max().item())
    assert largest > 0.1  # what a cache that is left as it is gets wrong


def test_keys_of_transformers_move_from_one_dynamic_length_to_another():
    llama = peer("transformers.models.llama.modeling_llama")
    rope = {"rope_type": "dynamic", "rope_theta": 10_000.0, "factor": 2.0}
    config = llama.LlamaConfig(
        hidden_size=64, num_attention_heads=4, head_dim=16, max_position_embeddings=8, rope_parameters=rope
    )
    embedding, x = llama.LlamaRotaryEmbedding(config), torch.randn(1, 4, 8, 16)

    def at(length):
        cos, sin = embedding(x, torch.arange(length)[None])
        return llama.apply_rotary_pos_emb(x, x, cos[:, :8], sin[:, :8])[1], embedding.inv_freq.clone()

    (short, theta), (long, new_theta) = at(8), at(20)
    assert (short - long).abs().max() > 0.1
    assert_close(rerotate(short, None, None, theta, new_theta), long, 2e-6)


# How much may be lost on the way


@over_layouts
@pytest.mark.parametrize("first", [1_000_000, 9_999_999])
@pytest.mark.parametrize(("dtype", "atol"), [(torch.float32, 1e-6), (torch.float64, 1e-8)], ids=str)
def test_a_key_moves_exactly_however_far(first, layout, dtype, atol):
    k = torch.rand(1, 1, 3, 16, dtype=dtype) * 2 - 1
    positions = torch.arange(3) + first
    moved = rerotate(k, positions, positions + 5, rope_frequencies(16)[0], ntk(16, 8.0)[0], layout=layout)
    expected = k[0, 0].double().numpy().copy()
    with mpmath.workdps(60):
        for row, i in np.ndindex(3, 8):
            theta = mpmath.mpf(10_000) ** (-mpmath.mpf(2 * i) / 16)
            new_theta = theta * mpmath.mpf(8) ** (-mpmath.mpf(2 * i) / 14)
            angle = (first + row + 5) * new_theta - (first + row) * theta
            pair = [i, i + 8] if layout == "half" else [2 * i, 2 * i + 1]
            a, b = expected[row, pair].tolist()
            cos, sin = mpmath.cos(angle), mpmath.sin(angle)
            expected[row, pair] = float(a * cos - b * sin), float(a * sin + b * cos)
    np.testing.assert_allclose(moved[0, 0], expected, rtol=0, atol=atol)


def test_bfloat16_is_rounded_once():
    k, positions = torch.randn(2, 3, 7, 16).bfloat16(), torch.arange(7) + 1_000_000
    once = rerotate(k.double(), new_positions=positions).bfloat16()
    moved = rerotate(k, new_positions=positions)
    assert (moved != once).float().mean() < 0.01  # ties that the float32 in between decides the other way
    assert_close(moved, once, 0.02)


def test_a_chain_of_moves_drifts_in_bfloat16():
    x, positions = torch.randn(2, 3, 7, 16, dtype=torch.float64), torch.arange(7)
    cached = chain = rotated(x, positions).bfloat16()
    for step in range(200):
        chain = rerotate(chain, positions + step, positions + step + 1)
    single = rerotate(cached, positions, positions + 200)
    exact = rotated(x, positions + 200)
    lost_in_a_chain, lost_at_once = ((k.double() - exact).square().mean().sqrt() for k in (chain, single))
    assert lost_in_a_chain > 5 * lost_at_once


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float16], ids=str)
def test_dtypes_that_torch_does_not_promote_are_kept(dtype):
    k = torch.ones(1, 1, 3, 8).to(dtype)
    assert rerotate(k, new_positions=torch.arange(3) + 1, rotary_dim=4).dtype == dtype


# It works wherever torch does


def moves(length):
    theta = torch.tensor(dynamic_ntk(16, 2.0, length, 4)[0])
    p = torch.arange(length)
    return {"k": torch.randn(2, 3, length, 16), "positions": p, "new_positions": p + 5, "new_theta": theta}


@pytest.mark.parametrize("form", [torch.Tensor.numpy, torch.Tensor.clone])
def test_it_compiles_at_most_twice_over_all_lengths_frequencies_and_factors(form):
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    compiled = torch.compile(rerotate, fullgraph=True, backend=backend)
    for length in LENGTHS:
        arguments = moves(length) | {"new_attention_factor": 1 + length / 16}
        arguments["new_theta"] = form(arguments["new_theta"])
        assert_close(compiled(**arguments), rerotate(**arguments), 0)
        assert torch.equal(compiled(arguments["k"]), arguments["k"])
    assert len(graphs) <= 4  # two for each way to call it


def test_a_single_exported_program_serves_every_length():
    class Move(torch.nn.Module):
        def forward(self, k, positions, new_positions, new_theta):
            return rerotate(k, positions, new_positions, new_theta=new_theta)

    length = torch.export.Dim("length", min=2, max=4096)
    axes = {"k": {2: length}, "positions": {0: length}, "new_positions": {0: length}, "new_theta": {}}
    program = torch.export.export(Move(), args=(), kwargs=moves(6), dynamic_shapes=axes)
    longer = moves(11)
    assert torch.equal(program.module()(**longer), rerotate(**longer))


def test_vmap_equals_a_loop():
    k, positions = torch.randn(4, 2, 3, 5, 8), torch.randint(0, 100, (4, 5))
    mapped = torch.func.vmap(lambda k, p: rerotate(k, p, p + 3))(k, positions)
    looped = [rerotate(x, p, p + 3) for x, p in zip(k, positions, strict=True)]
    torch.testing.assert_close(mapped, torch.stack(looped))


def test_gradients_flow_to_the_keys_and_to_the_frequencies():
    k = torch.randn(2, 3, 4, 8, dtype=torch.float64, requires_grad=True)
    theta, new_theta = (torch.rand(4, dtype=torch.float64, requires_grad=True) for _ in range(2))

    def move(k, theta, new_theta):
        return rerotate(k, None, torch.arange(4) + 3, theta, new_theta, attention_factor=1.2)

    assert torch.autograd.gradcheck(move, (k, theta, new_theta))


def test_meta_autocast_inference_mode_and_the_default_dtype():
    arguments = moves(6)
    expected = rerotate(**arguments)
    meta = rerotate(**{name: value.to("meta") for name, value in arguments.items()})
    assert (meta.device.type, meta.shape, meta.dtype) == ("meta", expected.shape, expected.dtype)
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.inference_mode():
        assert torch.equal(rerotate(**arguments), expected)
    torch.set_default_dtype(torch.bfloat16)
    try:
        assert torch.equal(rerotate(**arguments), expected)
    finally:
        torch.set_default_dtype(torch.float32)


# What is refused: what would give a wrong result without an error

K = torch.ones(2, 4, 3, 8)
FIT = "positions and theta must be (3,) or (2, 3) and (4,), got"
REFUSED = [
    *(({"k": k}, f"k must be floats (b, g, s, d), got {k.dtype} {tuple(k.shape)}") for k in (K.long(), K[0], K[None])),
    *(
        ({name: torch.zeros(shape)}, f"{FIT} {shape} and (4,)")
        for shape in [(), (1,), (4,), (3, 3), (2, 1), (2, 3, 1)]
        for name in ("positions", "new_positions")
    ),
    ({"theta": 1.0}, f"{FIT} (3,) and ()"),
    ({"new_theta": [1.0]}, f"{FIT} (3,) and (1,)"),
    ({"new_theta": np.ones(3)}, f"{FIT} (3,) and (3,)"),
    ({"rotary_dim": 3}, "positions and theta must be (3,) or (2, 3) and (1,), got (3,) and (2,)"),
    ({"k": K[..., :7]}, "positions and theta must be (3,) or (2, 3) and (3,), got (3,) and (4,)"),
    *(({"base": base}, f"base must be positive and finite, got {base}") for base in (0, -1.0, math.nan, math.inf)),
    *(({"layout": name}, f"layout must be 'half' or 'interleaved', got {name!r}") for name in ("split", None, 2)),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_what_is_refused(arguments, message):
    with pytest.raises(ValueError, match=re.escape(f"rerotate: {message}")):
        rerotate(**{"k": K} | arguments)
