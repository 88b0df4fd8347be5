"""Layouts: the permutation by hand and of transformers, logits that stay, state dicts as they are found, refusals."""

import numpy as np
import pytest
import torch

from posenc.models.checkpoints import GGUF_NAMES, convert_checkpoint, convert_fused, convert_layout, layout_order
from posenc.rotate.frequencies import proportional, rope_frequencies
from posenc.rotate.rope import rope
from tests.peers import peer
from tests.vectors import assert_agrees, vectors

OTHER = {"half": "interleaved", "interleaved": "half"}
D, M = 8, 12  # width of a head, of the model
POSITIONS = np.array([0, 5, 2, 70, 1, 1000])


def exercise(module):
    module.convert_layout(np.ones((24, 5)), 8, "half", 4)


def weights(h=4, g=2):
    """Return content (t, m), and projections, biases and norms of h heads of queries and g of keys."""
    rng = np.random.default_rng(0)
    shapes = {"x": (6, M), "wq": (h * D, M), "wk": (g * D, M), "bq": h * D, "bk": g * D, "nq": D, "nk": D}
    return {name: rng.standard_normal(shape) for name, shape in shapes.items()}


def heads(x, weight, bias=0.0):
    """Project `x` (t, m) to (heads, t, d)."""
    return (x @ weight.T + bias).reshape(len(x), -1, D).transpose(1, 0, 2)


def logits(q, k):
    """Return q k^T (h, t, t) where each of the fewer heads of k serves a group of those of q."""
    return q @ k.repeat(len(q) // len(k), axis=0).transpose(0, 2, 1)


def scores(w, layout, rotary_dim=None, start=0, theta=None):
    """Return the logits of a layer with RoPE in a layout, which turns `rotary_dim` channels from `start` on."""
    turned = []
    for name in "qk":
        x = heads(w["x"], w["w" + name], w["b" + name])
        x = x / np.sqrt((x * x).mean(axis=-1, keepdims=True)) * w["n" + name]
        x[..., start:] = rope(x[..., start:], POSITIONS, layout=layout, rotary_dim=rotary_dim, theta=theta)
        turned.append(x)
    return logits(*turned)


def converted(w, to, **options):
    return {name: x if name == "x" else convert_layout(x, D, to, **options) for name, x in w.items()}


over_layouts = pytest.mark.parametrize("to", ["half", "interleaved"])


# The permutation


@pytest.mark.parametrize(
    ("arguments", "order"),
    [
        ((8, "half"), [0, 2, 4, 6, 1, 3, 5, 7]),  # the first channels of the pairs, then the second ones
        ((8, "interleaved"), [0, 4, 1, 5, 2, 6, 3, 7]),  # the two channels of a pair side by side
        ((4, "half"), [0, 2, 1, 3]),
        ((4, "interleaved"), [0, 2, 1, 3]),  # of two pairs each order is its own inverse
        ((2, "half"), [0, 1]),
        ((8, "half", 4), [0, 2, 1, 3, 4, 5, 6, 7]),  # of partial rotation the channels that turn move alone
        ((10, "interleaved", 6), [0, 3, 1, 4, 2, 5, 6, 7, 8, 9]),
        ((7, "half", 4), [0, 2, 1, 3, 4, 5, 6]),
        ((8, "half", None, 4), [0, 1, 2, 3, 4, 6, 5, 7]),  # they may be the last of a head, or in its middle
        ((8, "half", 4, 2), [0, 1, 2, 4, 3, 5, 6, 7]),
        ((10, "interleaved", 6, 4), [0, 1, 2, 3, 4, 7, 5, 8, 6, 9]),
    ],
    ids=str,
)
def test_the_order_by_hand(arguments, order):
    assert layout_order(*arguments).tolist() == order


@vectors("rope_layout_permutation")
def test_the_order_is_that_of_transformers(vector):
    params = vector["params"]
    rows = np.arange(params["n_heads"] * params["head_dim"])
    assert_agrees(vector, convert_layout(rows, params["head_dim"], "half"), vector["expected"]["row_index"])


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float8_e4m3fn, torch.int8, torch.bool], ids=str)
def test_tensors_keep_their_dtype_and_their_bits(dtype):
    weight = torch.randint(0, 2, (16, 3)).to(dtype)
    result = convert_layout(weight, D, "half")
    assert result.dtype == dtype
    assert torch.equal(result.float(), weight.float()[convert_layout(np.arange(16), D, "half")])


@pytest.mark.parametrize("make", [torch.arange, np.arange])
@pytest.mark.parametrize("dim", [2, 8])
def test_the_weight_is_copied_even_where_nothing_moves(make, dim):
    weight = make(16)
    convert_layout(weight, dim, "half")[:] = 0
    assert weight.tolist() == list(range(16))


# Logits stay


@over_layouts
@pytest.mark.parametrize(
    "options",
    [{}, {"rotary_dim": 2}, {"rotary_dim": 4}, {"rotary_dim": 6}, {"rotary_dim": 4, "start": 4}],  # of DeepSeek
    ids=str,
)
def test_converted_weights_biases_and_norms_give_the_same_logits_under_the_other_layout(to, options):
    w = weights()
    result = scores(converted(w, to, **options), to, **options)
    np.testing.assert_allclose(result, scores(w, OTHER[to], **options), atol=1e-12)


@over_layouts
def test_weights_of_a_layout_under_the_other_are_wrong_but_at_distance_0(to):
    w = weights()
    wrong, right = scores(w, to), scores(w, OTHER[to])
    np.testing.assert_allclose(np.diagonal(wrong, axis1=1, axis2=2), np.diagonal(right, axis1=1, axis2=2), atol=1e-12)
    assert np.abs(wrong - right).max() > 1


@over_layouts
def test_a_partial_rotation_converted_as_a_whole_is_wrong(to):
    w = weights()
    assert np.abs(scores(converted(w, to), to, rotary_dim=4) - scores(w, OTHER[to], rotary_dim=4)).max() > 1


@over_layouts
def test_proportional_rotation_is_converted_as_a_whole_head(to):
    w, (theta, _) = weights(), proportional(D, 0.5)
    expected = scores(w, OTHER[to], theta=theta)
    np.testing.assert_allclose(scores(converted(w, to), to, theta=theta), expected, atol=1e-12)
    assert np.abs(scores(converted(w, to, rotary_dim=4), to, theta=theta) - expected).max() > 1


@over_layouts
def test_a_layer_that_does_not_turn_may_be_permuted_if_both_are(to):
    w = weights()
    q, k, new_q, new_k = (heads(w["x"], part[name]) for part in (w, converted(w, to)) for name in ("wq", "wk"))
    np.testing.assert_allclose(logits(new_q, new_k), logits(q, k), atol=1e-12)
    assert not np.allclose(logits(new_q, k), logits(q, k))


# Peers


class FourHeads:
    num_attention_heads = 4


@pytest.mark.parametrize(("to", "inverse"), [("half", False), ("interleaved", True)])
@pytest.mark.parametrize("shape", [(32, 12), (32,)], ids=str)
def test_converts_like_permute_for_rope_of_transformers(to, inverse, shape):
    loading = peer("transformers.core_model_loading")
    weight = torch.randn(shape)
    theirs = loading.PermuteForRope(inverse=inverse)._permute_for_rope(weight, FourHeads())
    assert torch.equal(convert_layout(weight, D, to), theirs)


def test_permute_for_rope_of_transformers_takes_grouped_keys_for_narrower_heads():
    # it divides the rows by the number of query heads, so the 16 rows of 2 key heads become 4 heads of width 4
    loading = peer("transformers.core_model_loading")
    weight = torch.randn(16, M)
    theirs = loading.PermuteForRope()._permute_for_rope(weight, FourHeads())
    assert torch.equal(theirs, convert_layout(weight, 4, "half"))
    assert not torch.equal(theirs, convert_layout(weight, D, "half"))


def test_weights_for_cohere_converted_give_the_logits_of_llama_in_transformers():
    cohere = peer("transformers.models.cohere.modeling_cohere")
    llama = peer("transformers.models.llama.modeling_llama")
    w = weights()
    angle = torch.arange(6)[:, None] * torch.tensor(rope_frequencies(D)[0])

    def logits_of(library, angle, w):
        q, k = (torch.from_numpy(heads(w["x"], w[name]))[None] for name in ("wq", "wk"))
        q, k = library.apply_rotary_pos_emb(q, k, angle.cos()[None], angle.sin()[None])
        return logits(q[0].numpy(), k[0].numpy())

    before = logits_of(cohere, angle.repeat_interleave(2, dim=-1), w)
    after = logits_of(llama, angle.repeat(1, 2), converted(w, "half"))
    np.testing.assert_allclose(after, before, rtol=0, atol=1e-4)  # Cohere rotates in float32


def test_weights_for_deepseek_converted_turn_by_halves_as_transformers_turns_neighbors():
    module = peer("transformers.models.deepseek_v3.modeling_deepseek_v3")
    w, r, positions = weights(), 4, np.arange(6)
    q, k = (torch.from_numpy(heads(w["x"], w[name])[None][..., -r:]) for name in ("wq", "wk"))
    angle = torch.from_numpy(positions[:, None] * rope_frequencies(r)[0]).repeat(1, 2)[None]
    q, k = module.apply_rotary_pos_emb_interleave(q, k, angle.cos(), angle.sin())
    w = converted(w, "half", start=D - r)
    ours = [rope(heads(w["x"], w[name])[..., -r:], positions) for name in ("wq", "wk")]
    np.testing.assert_allclose(logits(*ours), logits(q[0].numpy(), k[0].numpy()), atol=1e-5)  # theirs is of float32


def test_weights_of_llama_in_gguf_are_interleaved_as_transformers_reads_them():
    reader = peer("transformers.modeling_gguf_pytorch_utils").LlamaTensorProcessor
    w = weights()
    state = {"blk.0.attn_q.weight": w["wq"], "blk.0.attn_k.weight": w["wk"], "blk.0.attn_v.weight": w["wk"]}
    result = convert_checkpoint(state, D, "half", names=GGUF_NAMES)
    processor = reader({"num_attention_heads": 4, "num_key_value_heads": 2})
    for name, weight in state.items():
        np.testing.assert_array_equal(result[name], processor.process(weight, name).weights)
    assert result["blk.0.attn_v.weight"] is w["wk"]


# Fused weights


@over_layouts
@pytest.mark.parametrize("options", [{}, {"rotary_dim": 4}, {"rotary_dim": 4, "start": 4}], ids=str)
def test_blocks_of_queries_keys_and_values_are_split_as_phi_3_splits_them(to, options):
    w = weights()
    fused = np.concatenate([w["wq"], w["wk"], w["wk"] + 1])
    expected = [convert_layout(w[name], D, to, **options) for name in ("wq", "wk")]
    result = convert_fused(fused, D, 4, 2, to, **options)
    np.testing.assert_array_equal(result, np.concatenate([*expected, w["wk"] + 1]))


@over_layouts
@pytest.mark.parametrize("key_heads", [2, 4])
def test_groups_hold_the_queries_of_a_key_head_then_its_key_and_value(to, key_heads):
    group = 4 // key_heads + 2  # 3 where each head has its own key, as in GPT-NeoX
    fused = torch.randn(key_heads, group * D, M)
    result = convert_fused(fused.flatten(0, 1), D, 4, key_heads, to, grouped=True, rotary_dim=4).view_as(fused)
    q_and_k = fused[:, :-D].reshape(-1, M)
    assert torch.equal(result[:, :-D].reshape(-1, M), convert_layout(q_and_k, D, to, 4))
    assert torch.equal(result[:, -D:], fused[:, -D:])


@pytest.mark.parametrize(
    ("model", "prefix", "r", "options"),
    [
        ("phi3", "Phi3", D, {"num_key_value_heads": 2, "pad_token_id": 0}),
        ("gpt_neox", "GPTNeoX", D // 4, {}),  # a quarter of a head turns by default
    ],
)
def test_fused_weights_of_transformers_attend_as_before(model, prefix, r, options):
    module = peer(f"transformers.models.{model}.modeling_{model}")
    config = getattr(peer(f"transformers.models.{model}.configuration_{model}"), f"{prefix}Config")
    config = config(hidden_size=4 * D, num_attention_heads=4, attn_implementation="eager", **options)
    torch.manual_seed(0)
    attention = getattr(module, f"{prefix}Attention")(config, layer_idx=0).double().requires_grad_(False).eval()
    x = torch.randn(1, 6, 4 * D, dtype=torch.float64)
    angle = torch.arange(6)[:, None] * torch.from_numpy(rope_frequencies(r)[0]).repeat(2)

    def attend():
        return attention(x, attention_mask=None, position_embeddings=(angle.cos()[None], angle.sin()[None]))[0]

    def turn_neighbors(q, k, *_, **__):
        turned = (rope(x.numpy(), np.arange(6), layout="interleaved", rotary_dim=r) for x in (q, k))
        return tuple(map(torch.from_numpy, turned))

    expected = attend()
    grouped = model == "gpt_neox"
    projection = attention.query_key_value if grouped else attention.qkv_proj
    for parameter in projection.parameters():
        key_heads = options.get("num_key_value_heads", 4)
        parameter.copy_(convert_fused(parameter, D, 4, key_heads, "interleaved", grouped=grouped, rotary_dim=r))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "apply_rotary_pos_emb", turn_neighbors)
        torch.testing.assert_close(attend(), expected, rtol=0, atol=1e-6)


# State dicts


def moved(state, names=("q_proj", "k_proj", "q_norm", "k_norm"), **options):
    """Return what a conversion to halves moves; check that it moves the rows of heads, and that the rest is left."""
    result = convert_checkpoint(state, D, "half", names=names, **options)
    assert list(result) == list(state)
    keys = {key for key in state if result[key] is not state[key]}
    for key in keys:
        assert result[key].tolist() == convert_layout(state[key], D, "half", **options).tolist()
    return keys


def layer(*names, prefix="model.layers.0.self_attn."):
    return {prefix + name: torch.randn(2 * D, M) if name.endswith("weight") else torch.randn(2 * D) for name in names}


def test_queries_keys_and_their_norms_are_converted_and_nothing_else():
    attention = [f"{x}_proj.{kind}" for x in "qkvo" for kind in ("weight", "bias")]
    state = layer(*attention, "rotary_emb.inv_freq") | layer("embed_tokens.weight", "norm.weight", prefix="model.")
    state |= {f"model.layers.0.self_attn.{x}_norm.weight": torch.randn(D) for x in "qk"}
    before = {key: value.clone() for key, value in state.items()}
    names = {key.removeprefix("model.layers.0.self_attn.") for key in moved(state)}
    assert names == {*attention[:4], "q_norm.weight", "k_norm.weight"}
    assert all(torch.equal(state[key], before[key]) for key in state)


def test_names_of_meta_and_of_deepseek():
    state = layer("wq.weight", "wk.weight", "wv.weight", "wo.weight", prefix="")
    assert moved(state, names=("wq", "wk")) == {"wq.weight", "wk.weight"}
    state = layer("q_b_proj.weight", "kv_b_proj.weight", prefix="")
    assert moved(state, names=("q_b_proj",), rotary_dim=4, start=2) == {"q_b_proj.weight"}


def test_an_adapter_of_peft_with_and_without_its_name():
    parts = ("lora_A.weight", "lora_A.default.weight", "lora_A")  # (rank, m): no rows of heads
    rows = ("lora_B.weight", "lora_B.default.weight", "lora_B", "base_layer.weight", "lora_magnitude_vector")
    state = layer(*(f"{x}_proj.{part}" for x in "qv" for part in (*parts, *rows)), prefix="")
    assert moved(state) == {f"q_proj.{part}" for part in rows}


@pytest.mark.parametrize("shape", [(D,), (4 * D,), (4, D), (D, D)], ids=str)
def test_a_norm_may_have_a_weight_for_each_head(shape):
    weight = torch.randn(shape)
    (result,) = convert_checkpoint({"q_norm.weight": weight}, D, "half").values()
    assert torch.equal(result, convert_layout(weight.flatten(), D, "half").view(shape))


def test_arrays_and_parameters_are_converted_and_scales_and_other_objects_stay():
    state = {"q_proj.weight": np.arange(16), "k_proj.weight": torch.nn.Parameter(torch.randn(16, 2)), "step": 3}
    state |= {"q_proj._extra_state": None, "k_proj.weight_scale": torch.tensor(2.0), "q_proj.input_scale": np.ones(1)}
    assert moved(state) == {"q_proj.weight", "k_proj.weight"}


# What is refused


@pytest.mark.parametrize("to", ["neox", None, 1], ids=repr)
def test_an_unknown_layout_is_refused(to):
    with pytest.raises(ValueError, match=f"checkpoints: to must be 'half' or 'interleaved', got {to!r}"):
        layout_order(D, to)


@over_layouts
@pytest.mark.parametrize(("dim", "rotary_dim"), [(7, None), (1, None), (8, 3), (8, 10), (8, -2)])
def test_channels_without_pairs_are_refused_by_numpy(dim, rotary_dim, to):
    with pytest.raises(ValueError, match=r"cannot reshape|could not broadcast"):
        layout_order(dim, to, rotary_dim)


@pytest.mark.parametrize("shape", [(12, 3), (3, 16), (7,)], ids=str)
def test_rows_that_are_not_those_of_whole_heads_are_refused_by_numpy(shape):
    with pytest.raises(ValueError, match="cannot reshape"):
        convert_layout(np.ones(shape), D, "half")


@pytest.mark.parametrize("rows", [7 * D, 9 * D, 8 * D + 1])
def test_fused_rows_of_another_number_are_refused(rows):
    with pytest.raises(ValueError, match=f"checkpoints: weight must be of {8 * D} rows, got {rows}"):
        convert_fused(np.ones((rows, 2)), D, 4, 2, "half")


@pytest.mark.parametrize("state", [{}, {"layers.0.attention.wq.weight": 0}, {"qkv_proj.weight": 0}], ids=str)
@pytest.mark.parametrize("names", [("q_proj", "k_proj"), "q_proj"], ids=str)
def test_a_state_dict_in_which_nothing_matches_is_refused(state, names):
    with pytest.raises(ValueError, match=r"checkpoints: names must be parts of the keys of state, got .*q_proj"):
        convert_checkpoint(state, D, "half", names=names)


@pytest.mark.parametrize("name", ["qweight", "weight_scale_inv", "weight_packed", "SCB"])
def test_a_quantized_entry_is_refused_and_not_left_half_converted(name):
    state = layer("q_proj.weight", f"q_proj.{name}")
    with pytest.raises(ValueError, match=f"checkpoints: state must be of plain weights, got .*{name}; dequantize it"):
        convert_checkpoint(state, D, "half")
