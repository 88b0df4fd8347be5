"""Layouts: the permutation by hand and of transformers, logits that stay, state dicts as they are found, refusals."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc.models.checkpoints import GGUF_NAMES, convert_checkpoint, convert_fused, convert_layout, layout_order
from posenc.rotate.frequencies import proportional, rope_frequencies
from posenc.rotate.rope import rope
from tests.peers import peer
from tests.vectors import assert_agrees, vectors

LAYOUTS = ("half", "interleaved")
OTHER = {"half": "interleaved", "interleaved": "half"}
D, M = 8, 12  # width of a head, of the model


def exercise(module):
    module.convert_layout(np.ones((24, 5)), 8, "half", 4)


def rotated(x, positions, layout, rotary_dim=None, theta=None):
    """Rotate `x` (heads, t, d) to `positions` with complex numbers, each layout pairing its own channels."""
    r = rotary_dim or x.shape[-1]
    theta = rope_frequencies(r)[0] if theta is None else theta
    first, second = (slice(0, r // 2), slice(r // 2, r)) if layout == "half" else (slice(0, r, 2), slice(1, r, 2))
    turned = (x[..., first] + 1j * x[..., second]) * np.exp(1j * positions[:, None] * theta)
    out = x.copy()
    out[..., first], out[..., second] = turned.real, turned.imag
    return out


def heads(x, weight, bias=0.0):
    """Project `x` (t, m) to (heads, t, d)."""
    return (x @ weight.T + bias).reshape(len(x), -1, D).transpose(1, 0, 2)


def logits(q, k):
    """Return q k^T (h, t, t) where each of the fewer heads of k serves a group of those of q."""
    return q @ k.repeat(len(q) // len(k), axis=0).transpose(0, 2, 1)


def weights(seed=0, h=4, g=2):
    rng = np.random.default_rng(seed)
    shapes = {"x": (6, M), "wq": (h * D, M), "wk": (g * D, M), "bq": h * D, "bk": g * D, "nq": D, "nk": D}
    return {name: rng.standard_normal(shape) for name, shape in shapes.items()}


to_each = pytest.mark.parametrize("to", LAYOUTS)
exactly = settings(deadline=None, derandomize=True, database=None, max_examples=50)
halves = st.integers(1, 16)


# The permutation


def test_to_half_gathers_the_first_channels_of_the_pairs():
    assert layout_order(8, "half").tolist() == [0, 2, 4, 6, 1, 3, 5, 7]


def test_to_interleaved_puts_the_channels_of_a_pair_side_by_side():
    assert layout_order(8, "interleaved").tolist() == [0, 4, 1, 5, 2, 6, 3, 7]


def test_only_the_rotary_channels_move():
    assert layout_order(8, "half", 4).tolist() == [0, 2, 1, 3, 4, 5, 6, 7]
    assert layout_order(10, "interleaved", 6).tolist() == [0, 3, 1, 4, 2, 5, 6, 7, 8, 9]


@to_each
def test_one_pair_stays(to):
    assert layout_order(2, to).tolist() == [0, 1]
    assert layout_order(8, to, 2).tolist() == list(range(8))


@to_each
def test_a_width_of_4_is_its_own_inverse(to):
    assert layout_order(4, to).tolist() == [0, 2, 1, 3]


@given(half=halves, rotary=halves, to=st.sampled_from(LAYOUTS))
@exactly
def test_the_two_orders_are_each_others_inverse(half, rotary, to):
    rotary_dim = 2 * min(rotary, half)
    there, back = layout_order(2 * half, to, rotary_dim), layout_order(2 * half, OTHER[to], rotary_dim)
    assert there[back].tolist() == list(range(2 * half))
    assert sorted(there) == list(range(2 * half))


def test_the_heads_are_permuted_one_by_one():
    assert convert_layout(np.arange(8), 4, "half").tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


@vectors("rope_layout_permutation")
def test_the_order_is_that_of_transformers(vector):
    said = vector["params"]
    rows = np.arange(said["n_heads"] * said["head_dim"])
    assert_agrees(vector, convert_layout(rows, said["head_dim"], "half"), vector["expected"]["row_index"])


# Peers


@pytest.mark.parametrize(("to", "inverse"), [("half", False), ("interleaved", True)])
@pytest.mark.parametrize("shape", [(32, 12), (32,)], ids=str)
def test_converts_like_permute_for_rope_of_transformers(to, inverse, shape):
    loading = peer("transformers.core_model_loading")
    config = type("Config", (), {"num_attention_heads": 4})()
    weight = torch.randn(shape)
    theirs = loading.PermuteForRope(inverse=inverse)._permute_for_rope(weight, config)
    assert torch.equal(convert_layout(weight, D, to), theirs)


def test_permute_for_rope_of_transformers_takes_grouped_keys_for_narrower_heads():
    # it divides the rows by the number of query heads, so the 16 rows of 2 key heads become 4 heads of width 4
    loading = peer("transformers.core_model_loading")
    config = type("Config", (), {"num_attention_heads": 4})()
    weight = torch.randn(16, M)
    theirs = loading.PermuteForRope()._permute_for_rope(weight, config)
    assert torch.equal(theirs, convert_layout(weight, 4, "half"))
    assert not torch.equal(theirs, convert_layout(weight, D, "half"))


def test_weights_for_cohere_converted_give_the_logits_of_llama_in_transformers():
    cohere = peer("transformers.models.cohere.modeling_cohere")
    llama = peer("transformers.models.llama.modeling_llama")
    given = {name: torch.tensor(value) for name, value in weights().items()}
    angle = torch.arange(6)[:, None] * torch.tensor(rope_frequencies(D)[0])
    near, far = angle.repeat_interleave(2, dim=-1)[None], torch.cat([angle, angle], dim=-1)[None]

    def scores(library, angle, wq, wk):
        q, k = ((given["x"] @ w.T).view(1, 6, -1, D).transpose(1, 2) for w in (wq, wk))
        q, k = library.apply_rotary_pos_emb(q, k, angle.cos(), angle.sin())
        return q @ k.repeat_interleave(2, dim=1).mT

    before = scores(cohere, near, given["wq"], given["wk"])
    after = scores(llama, far, *(convert_layout(given[name], D, "half") for name in ("wq", "wk")))
    torch.testing.assert_close(after, before, rtol=0, atol=1e-4)  # Cohere rotates in float32


# Logits stay


@given(seed=st.integers(0, 2**31), group=st.integers(1, 4), to=st.sampled_from(LAYOUTS))
@exactly
def test_converted_weights_under_the_other_layout_give_the_same_logits(seed, group, to):
    w, places = weights(seed, h=2 * group, g=2), np.array([0, 5, 2, 70, 1, 1000])
    q, k = heads(w["x"], w["wq"], w["bq"]), heads(w["x"], w["wk"], w["bk"])
    before = logits(rotated(q, places, OTHER[to]), rotated(k, places, OTHER[to]))
    c = {name: convert_layout(w[name], D, to) for name in ("wq", "wk", "bq", "bk")}
    q, k = heads(w["x"], c["wq"], c["bq"]), heads(w["x"], c["wk"], c["bk"])
    np.testing.assert_allclose(logits(rotated(q, places, to), rotated(k, places, to)), before, atol=1e-11)


def converted_and_plain(to, rotary_dim=None, theta=None, said=None):
    """Return the logits in the other layout, and those of weights converted `to` this (with what was `said`)."""
    w, places = weights(), np.arange(6)
    said = {"rotary_dim": rotary_dim} if said is None else said
    plain = [heads(w["x"], w[name]) for name in ("wq", "wk")]
    moved = [heads(w["x"], convert_layout(w[name], D, to, **said)) for name in ("wq", "wk")]
    before = logits(*(rotated(x, places, OTHER[to], rotary_dim, theta) for x in plain))
    return before, logits(*(rotated(x, places, to, rotary_dim, theta) for x in moved))


@to_each
@pytest.mark.parametrize("rotary_dim", [2, 4, 6, 8])
def test_partial_rotation_gives_the_same_logits(to, rotary_dim):
    before, after = converted_and_plain(to, rotary_dim)
    np.testing.assert_allclose(after, before, atol=1e-13)


@to_each
def test_proportional_rotation_gives_the_same_logits_as_a_whole_head(to):
    theta = proportional(D, 0.5)[0]
    before, after = converted_and_plain(to, theta=theta)
    np.testing.assert_allclose(after, before, atol=1e-13)
    before, after = converted_and_plain(to, theta=theta, said={"rotary_dim": 4})
    assert np.abs(after - before).max() > 1


@to_each
def test_a_partial_rotation_converted_as_a_whole_is_wrong(to):
    before, after = converted_and_plain(to, rotary_dim=4, said={})
    assert np.abs(after - before).max() > 1


@to_each
def test_weights_of_one_layout_under_the_other_are_wrong_but_at_distance_0(to):
    w, places = weights(), np.arange(6)
    q, k = heads(w["x"], w["wq"]), heads(w["x"], w["wk"])
    right, wrong = (logits(rotated(q, places, layout), rotated(k, places, layout)) for layout in (OTHER[to], to))
    np.testing.assert_allclose(np.diagonal(wrong, axis1=1, axis2=2), np.diagonal(right, axis1=1, axis2=2), atol=1e-13)
    assert np.abs(wrong - right).max() > 1


@to_each
def test_norms_over_the_head_give_the_same_logits(to):
    w, places = weights(), np.arange(6)

    def normed(x, scale):
        return x / np.sqrt((x * x).mean(axis=-1, keepdims=True)) * scale

    def scores(layout, convert):
        q, k = (normed(heads(w["x"], convert(w["w" + x])), convert(w["n" + x])) for x in "qk")
        return logits(rotated(q, places, layout), rotated(k, places, layout))

    before, after = scores(OTHER[to], lambda x: x), scores(to, lambda x: convert_layout(x, D, to))
    np.testing.assert_allclose(after, before, atol=1e-12)


@to_each
@pytest.mark.parametrize("rotary_dim", [None, 4])
def test_a_converted_lora_is_the_update_converted(to, rotary_dim):
    rng = np.random.default_rng(0)
    base, a, b = rng.standard_normal((32, M)), rng.standard_normal((3, M)), rng.standard_normal((32, 3))
    merged = convert_layout(base + b @ a, D, to, rotary_dim)
    converted, new_b = (convert_layout(weight, D, to, rotary_dim) for weight in (base, b))
    np.testing.assert_allclose(converted + new_b @ a, merged, atol=1e-14)


@to_each
@pytest.mark.parametrize("rotary_dim", [None, 4])
def test_rope_in_both_layouts_gives_the_same_logits(to, rotary_dim):
    w, places = weights(), np.array([0, 5, 2, 70, 1, 1000])
    plain = [heads(w["x"], w[name]) for name in ("wq", "wk")]
    moved = [heads(w["x"], convert_layout(w[name], D, to, rotary_dim)) for name in ("wq", "wk")]
    before = logits(*(rope(x, places, layout=OTHER[to], rotary_dim=rotary_dim) for x in plain))
    after = logits(*(rope(x, places, layout=to, rotary_dim=rotary_dim) for x in moved))
    np.testing.assert_allclose(after, before, atol=1e-12)


# Any kind of array


DTYPES = [torch.float64, torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.int8, torch.uint8, torch.bool]


@to_each
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tensors_keep_their_dtype_and_their_bits(to, dtype):
    weight = torch.randint(0, 2, (16, 3)).to(dtype)
    converted = convert_layout(weight, D, to)
    assert converted.dtype == dtype
    rows = convert_layout(np.arange(16), D, to)
    assert torch.equal(converted.float(), weight.float()[torch.from_numpy(rows)])


@pytest.mark.parametrize(
    "dtype", [np.float64, np.float32, np.float16, np.int8, np.int64], ids=lambda dtype: dtype.__name__
)
def test_arrays_stay_arrays_of_their_dtype(dtype):
    converted = convert_layout(np.arange(8).astype(dtype), D, "half")
    assert isinstance(converted, np.ndarray)
    assert converted.dtype == dtype


@pytest.mark.parametrize("shape", [(16,), (16, 3), (16, 3, 2), (16, 0), (0, 3)], ids=str)
def test_tensors_and_arrays_agree(shape):
    weight = np.random.default_rng(0).standard_normal(shape)
    tensor = convert_layout(torch.tensor(weight), D, "half", 6)
    assert torch.equal(tensor, torch.tensor(convert_layout(weight, D, "half", 6)))


@given(seed=st.integers(0, 2**31), count=st.integers(1, 5), half=halves, rotary=halves, to=st.sampled_from(LAYOUTS))
@exactly
def test_there_and_back_is_the_identity(seed, count, half, rotary, to):
    torch.manual_seed(seed)
    weight, rotary_dim = torch.randn(count * 2 * half, 3), 2 * min(rotary, half)
    there = convert_layout(weight, 2 * half, to, rotary_dim)
    assert torch.equal(convert_layout(there, 2 * half, OTHER[to], rotary_dim), weight)


@pytest.mark.parametrize("make", [torch.arange, np.arange])
@pytest.mark.parametrize("dim", [2, 8])
def test_the_weight_is_copied_even_where_nothing_moves(make, dim):
    weight = make(16)
    converted = convert_layout(weight, dim, "half")
    converted[:] = 0
    assert weight.tolist() == list(range(16))


def test_a_weight_may_be_transposed_in_memory_and_on_the_meta_device():
    weight = torch.randn(3, 16).T
    assert torch.equal(convert_layout(weight, D, "half"), convert_layout(weight.contiguous(), D, "half"))
    assert convert_layout(weight.to("meta"), D, "half").shape == (16, 3)


def test_gradients_flow_through():
    weight = torch.nn.Parameter(torch.randn(16, 3))
    convert_layout(weight, D, "half").sum().backward()
    assert torch.equal(weight.grad, torch.ones(16, 3))


# State dicts


def llama(h=4, g=2, prefix="model.layers.0.self_attn."):
    shapes = {
        "q_proj.weight": (h * D, M),
        "q_proj.bias": (h * D,),
        "k_proj.weight": (g * D, M),
        "k_proj.bias": (g * D,),
    }
    shapes |= {"v_proj.weight": (g * D, M), "v_proj.bias": (g * D,), "o_proj.weight": (M, h * D)}
    shapes |= {"q_norm.weight": (D,), "k_norm.weight": (D,), "rotary_emb.inv_freq": (D // 2,)}
    state = {prefix + name: torch.randn(shape) for name, shape in shapes.items()}
    return state | {"model.embed_tokens.weight": torch.randn(10, M), "model.norm.weight": torch.randn(M)}


@to_each
@pytest.mark.parametrize("rotary_dim", [None, 4])
def test_queries_keys_and_their_norms_are_converted_and_nothing_else(to, rotary_dim):
    state = llama()
    before = {key: value.clone() for key, value in state.items()}
    converted = convert_checkpoint(state, D, to, rotary_dim)
    assert list(converted) == list(state)
    for key, value in state.items():
        if any(name in key for name in ("q_proj", "k_proj", "q_norm", "k_norm")):
            assert torch.equal(converted[key], convert_layout(value, D, to, rotary_dim)), key
        else:
            assert converted[key] is value, key
        assert torch.equal(value, before[key])


def test_a_checkpoint_there_and_back_is_the_same():
    state = llama()
    back = convert_checkpoint(convert_checkpoint(state, D, "half"), D, "interleaved")
    assert all(torch.equal(back[key], state[key]) for key in state)


def test_the_names_of_meta():
    state = {f"layers.0.attention.w{x}.weight": torch.randn(16, M) for x in "qkvo"}
    converted = convert_checkpoint(state, D, "half", names=("wq", "wk"))
    moved = [key for key in state if converted[key] is not state[key]]
    assert moved == ["layers.0.attention.wq.weight", "layers.0.attention.wk.weight"]


def test_an_adapter_of_peft_with_and_without_its_name():
    place = "base_model.model.model.layers.0.self_attn."
    state = {}
    for projection in ("q_proj", "v_proj"):
        for name in ("", ".default"):
            state[f"{place}{projection}.lora_A{name}.weight"] = torch.randn(3, M)
            state[f"{place}{projection}.lora_B{name}.weight"] = torch.randn(16, 3)
        state[f"{place}{projection}.base_layer.weight"] = torch.randn(16, M)
        state[f"{place}{projection}.lora_A"] = torch.randn(3, M)
        state[f"{place}{projection}.lora_B"] = torch.randn(16, 3)
        state[f"{place}{projection}.lora_magnitude_vector"] = torch.randn(16)
    converted = convert_checkpoint(state, D, "half")
    moved = {key.removeprefix(place) for key in state if converted[key] is not state[key]}
    assert moved == {
        "q_proj.lora_B",
        "q_proj.lora_B.weight",
        "q_proj.lora_B.default.weight",
        "q_proj.base_layer.weight",
        "q_proj.lora_magnitude_vector",
    }
    assert all(torch.equal(converted[place + key], convert_layout(state[place + key], D, "half")) for key in moved)


@pytest.mark.parametrize("shape", [(D,), (4 * D,), (4, D), (D, D)], ids=str)
def test_a_norm_may_have_a_weight_for_each_head(shape):
    weight = torch.randn(shape)
    converted = convert_checkpoint({"q_norm.weight": weight}, D, "half")["q_norm.weight"]
    assert torch.equal(converted, convert_layout(weight.reshape(-1), D, "half").reshape(shape))


def test_arrays_parameters_and_other_objects():
    state = {"q_proj.weight": np.arange(16), "k_proj.weight": torch.nn.Parameter(torch.randn(16, 2)), "step": 3}
    state |= {"q_proj._extra_state": None, "k_proj.weight_scale": torch.tensor(2.0), "q_proj.input_scale": np.ones(1)}
    converted = convert_checkpoint(state, D, "half")
    assert converted["q_proj.weight"].tolist() == convert_layout(np.arange(16), D, "half").tolist()
    assert [key for key in state if converted[key] is state[key]] == [
        "step",
        "q_proj._extra_state",
        "k_proj.weight_scale",
        "q_proj.input_scale",
    ]


def test_a_model_with_its_weights_converted_attends_as_before():
    # a small attention layer in each layout, loaded with one checkpoint
    class Attention(torch.nn.Module):
        def __init__(self, layout):
            super().__init__()
            self.layout = layout
            self.q_proj, self.k_proj = torch.nn.Linear(M, 4 * D), torch.nn.Linear(M, 2 * D)
            self.v_proj = torch.nn.Linear(M, 2 * D)

        def forward(self, x):
            q, k, v = (part(x).detach().numpy() for part in (self.q_proj, self.k_proj, self.v_proj))
            q, k, v = (part.reshape(len(x), -1, D).transpose(1, 0, 2) for part in (q, k, v))
            score = logits(*(rotated(part, np.arange(len(x)), self.layout) for part in (q, k))) / D**0.5
            return torch.softmax(torch.tensor(score), dim=-1) @ torch.tensor(v).repeat_interleave(2, dim=0)

    meta, hugging = Attention("interleaved").double(), Attention("half").double()
    x = torch.randn(5, M, dtype=torch.float64)
    hugging.load_state_dict(meta.state_dict())
    assert (hugging(x) - meta(x)).abs().max() > 1e-3
    hugging.load_state_dict(convert_checkpoint(meta.state_dict(), D, "half"))
    torch.testing.assert_close(hugging(x), meta(x))


# Rows at the end of a head


def test_the_rows_from_start_on_move():
    assert layout_order(8, "half", start=4).tolist() == [0, 1, 2, 3, 4, 6, 5, 7]
    assert layout_order(8, "half", 4, start=2).tolist() == [0, 1, 2, 4, 3, 5, 6, 7]
    assert layout_order(10, "interleaved", 6, start=4).tolist() == [0, 1, 2, 3, 4, 7, 5, 8, 6, 9]


@to_each
def test_the_last_channels_of_a_head_give_the_same_logits(to):
    made, positions, r = weights(), np.array([0, 3, 1, 70, 2, 9]), 4

    def turned(x, layout):
        return np.concatenate([x[..., :-r], rotated(x[..., -r:], positions, layout)], axis=-1)

    q, k = (heads(made["x"], made[name]) for name in ("wq", "wk"))
    other = [heads(made["x"], convert_layout(made[name], D, to, r, start=D - r)) for name in ("wq", "wk")]
    expected = logits(turned(q, OTHER[to]), turned(k, OTHER[to]))
    np.testing.assert_allclose(logits(*(turned(x, to) for x in other)), expected, atol=1e-12)
    state = {"q_b_proj.weight": made["wq"], "v_proj.weight": made["wk"]}
    named = convert_checkpoint(state, D, to, r, names=("q_b_proj",), start=D - r)
    np.testing.assert_array_equal(named["q_b_proj.weight"], convert_layout(made["wq"], D, to, r, start=D - r))


def test_weights_for_deepseek_converted_turn_by_halves_as_transformers_turns_neighbors():
    module = peer("transformers.models.deepseek_v3.modeling_deepseek_v3")
    made, r = weights(), 4
    q, k = (torch.from_numpy(heads(made["x"], made[name])[None][..., -r:]) for name in ("wq", "wk"))
    angle = torch.arange(6)[:, None] * torch.from_numpy(rope_frequencies(r)[0])
    cos, sin = (x.repeat(1, 2)[None] for x in (angle.cos(), angle.sin()))
    x, y = module.apply_rotary_pos_emb_interleave(q, k, cos, sin)
    expected = logits(x[0].numpy(), y[0].numpy())
    halves = [heads(made["x"], convert_layout(made[name], D, "half", start=D - r))[..., -r:] for name in ("wq", "wk")]
    ours = [rotated(each, np.arange(6), "half") for each in halves]
    np.testing.assert_allclose(logits(*ours), expected, atol=1e-5)  # theirs computes in float32


# Fused weights


@to_each
@pytest.mark.parametrize("options", [{}, {"rotary_dim": 4}, {"rotary_dim": 4, "start": 4}], ids=str)
def test_blocks_of_queries_keys_and_values_are_split_as_phi_3_splits_them(to, options):
    made = weights()
    fused = np.concatenate([made["wq"], made["wk"], made["wk"] + 1])
    converted = convert_fused(fused, D, 4, 2, to, **options)
    q, k, v = converted[: 4 * D], converted[4 * D : 6 * D], converted[6 * D :]
    np.testing.assert_array_equal(q, convert_layout(made["wq"], D, to, **options))
    np.testing.assert_array_equal(k, convert_layout(made["wk"], D, to, **options))
    np.testing.assert_array_equal(v, made["wk"] + 1)


@to_each
def test_heads_that_lie_one_after_the_other_are_split_as_gpt_neox_splits_them(to):
    fused = torch.randn(3 * 4 * D, M, dtype=torch.float64)

    def split(weight):  # a head's q, k and v side by side
        return weight.view(4, 3 * D, M).chunk(3, dim=1)

    q, k, v = split(convert_fused(fused, D, 4, 4, to, grouped=True, rotary_dim=4))
    for got, was in zip((q, k), split(fused), strict=False):
        assert torch.equal(got.reshape(4 * D, M), convert_layout(was.reshape(4 * D, M), D, to, 4))
    assert torch.equal(v, split(fused)[2])


def test_groups_hold_the_queries_of_a_key_head_then_its_key_and_value():
    fused = np.arange(8 * D).reshape(2, 4, D)  # of each of 2 key heads: 2 of q, k, v
    made = convert_fused(fused.ravel(), D, 4, 2, "half", grouped=True).reshape(2, 4, D)
    np.testing.assert_array_equal(made[:, :3], fused[:, :3][..., layout_order(D, "half")])
    np.testing.assert_array_equal(made[:, 3], fused[:, 3])


@pytest.mark.parametrize(("theirs", "grouped"), [("phi3", False), ("gpt_neox", True)])
def test_fused_weights_of_transformers_attend_as_before(theirs, grouped):
    module = peer(f"transformers.models.{theirs}.modeling_{theirs}")
    config = getattr(
        peer(f"transformers.models.{theirs}.configuration_{theirs}"),
        {"phi3": "Phi3Config"}.get(theirs, "GPTNeoXConfig"),
    )
    told = {"hidden_size": 32, "num_attention_heads": 4, "attn_implementation": "eager"}
    settings = config(**told | ({} if grouped else {"num_key_value_heads": 2, "pad_token_id": 0}))
    torch.manual_seed(0)
    attention = getattr(module, {"phi3": "Phi3Attention"}.get(theirs, "GPTNeoXAttention"))(settings, layer_idx=0)
    projection = attention.query_key_value if grouped else attention.qkv_proj
    attention.double().requires_grad_(False).eval()
    x, r = torch.randn(1, 6, 32, dtype=torch.float64), 8 if not grouped else int(8 * 0.25)
    angle = torch.arange(6)[:, None] * torch.from_numpy(rope_frequencies(r)[0])
    cos, sin = (each.repeat(1, 2)[None] for each in (angle.cos(), angle.sin()))
    expected = attention(x, attention_mask=None, position_embeddings=(cos, sin))[0]

    def neighbors(q, k, cos, sin, *_, **__):
        turned = [rotated(each.numpy(), np.arange(6), "interleaved", r) for each in (q, k)]
        return tuple(map(torch.from_numpy, turned))

    given = {"to": "interleaved", "grouped": grouped, "rotary_dim": r}
    for parameter in projection.parameters():
        parameter.copy_(convert_fused(parameter, 8, 4, 4 if grouped else 2, **given))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "apply_rotary_pos_emb", neighbors)
        made = attention(x, attention_mask=None, position_embeddings=(cos, sin))[0]
    torch.testing.assert_close(made, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("rows", [7 * D, 9 * D, 8 * D + 1])
def test_fused_rows_of_another_number_are_refused(rows):
    with pytest.raises(ValueError, match=f"checkpoints: weight must be of {8 * D} rows, got {rows}"):
        convert_fused(np.ones((rows, 2)), D, 4, 2, "half")


# llama.cpp


def test_weights_of_llama_in_gguf_are_interleaved_as_transformers_reads_them():
    reader = peer("transformers.modeling_gguf_pytorch_utils").LlamaTensorProcessor
    made = weights()
    state = {"blk.0.attn_q.weight": made["wq"], "blk.0.attn_k.weight": made["wk"], "blk.0.attn_v.weight": made["wk"]}
    converted = convert_checkpoint(state, D, "half", names=GGUF_NAMES)
    processor = reader({"num_attention_heads": 4, "num_key_value_heads": 2})
    for name, weight in state.items():
        np.testing.assert_array_equal(converted[name], processor.process(weight, name).weights)
    assert converted["blk.0.attn_v.weight"] is made["wk"]


@to_each
def test_a_layer_that_does_not_turn_may_be_permuted_if_both_are(to):
    made = weights()
    q, k = (heads(made["x"], made[name]) for name in ("wq", "wk"))
    other = [heads(made["x"], convert_layout(made[name], D, to)) for name in ("wq", "wk")]
    np.testing.assert_allclose(logits(*other), logits(q, k), atol=1e-12)
    assert not np.allclose(logits(other[0], k), logits(q, k))


# What is refused


WAYS = {
    "layout_order": lambda dim=D, to="half", rotary_dim=None: layout_order(dim, to, rotary_dim),
    "convert_layout": lambda dim=D, to="half", rotary_dim=None: convert_layout(torch.ones(16, 3), dim, to, rotary_dim),
    "convert_checkpoint": lambda dim=D, to="half", rotary_dim=None: convert_checkpoint(llama(), dim, to, rotary_dim),
}
each_way = pytest.mark.parametrize("way", WAYS)


@each_way
@pytest.mark.parametrize("to", ["neox", None, 1], ids=repr)
def test_an_unknown_layout_is_refused(way, to):
    with pytest.raises(ValueError, match=f"checkpoints: to must be 'half' or 'interleaved', got {to!r}"):
        WAYS[way](to=to)


@each_way
@pytest.mark.parametrize(("dim", "rotary_dim"), [(7, None), (1, None), (8, 3), (8, 10), (8, -2)])
def test_numpy_refuses_channels_without_pairs(way, dim, rotary_dim):
    for to in LAYOUTS:
        with pytest.raises(ValueError, match=r"cannot reshape|could not broadcast"):
            WAYS[way](dim=dim, to=to, rotary_dim=rotary_dim)


def test_an_odd_head_may_turn_in_part():
    assert layout_order(7, "half", 4).tolist() == [0, 2, 1, 3, 4, 5, 6]


@pytest.mark.parametrize("shape", [(12, 3), (3, 16), (7,), (2, 2, 2)], ids=str)
def test_rows_that_are_not_those_of_whole_heads_are_refused(shape):
    with pytest.raises(ValueError, match="cannot reshape"):
        convert_layout(np.ones(shape), D, "half")
    with pytest.raises(RuntimeError, match="is invalid for input of size"):
        convert_layout(torch.ones(shape), D, "half")


@pytest.mark.parametrize(
    "state", [{}, {"layers.0.attention.wq.weight": torch.ones(8, 2)}, {"qkv_proj.weight": torch.ones(24)}]
)
@pytest.mark.parametrize("names", [("q_proj", "k_proj"), "q_proj"], ids=str)
def test_a_state_dict_in_which_nothing_matches_is_refused(state, names):
    with pytest.raises(ValueError, match=r"checkpoints: names must be parts of the keys of state, got .*q_proj"):
        convert_checkpoint(state, D, "half", names=names)


@pytest.mark.parametrize("name", ["qweight", "weight_scale_inv", "weight_packed", "SCB"])
def test_a_quantized_entry_is_refused_and_not_left_half_converted(name):
    state = llama() | {f"model.layers.0.self_attn.q_proj.{name}": torch.ones(4, 4)}
    with pytest.raises(ValueError, match=f"checkpoints: state must be of plain weights, got .*{name}; dequantize it"):
        convert_checkpoint(state, D, "half")
