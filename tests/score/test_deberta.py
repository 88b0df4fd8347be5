"""DeBERTa: buckets in whole-number arithmetic, transformers' two models, the paper's eq. 4, and what it refuses."""

import inspect
import math

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc.score.deberta import DeBERTa, deberta, deberta_bucket
from tests.peers import peer
from tests.score.alike import (
    assert_numpy_wants_one_position_a_token,
    assert_one_row_serves_a_batch,
    assert_the_score_mod_keeps_no_strided_positions,
)
from tests.vectors import assert_agrees, vectors

# What the contract tests need to know (see tests/contract/encoding_inputs.py)

OPTIONS = [{"buckets": 4, "max_distance": 12}, {"buckets": 4, "max_distance": None}, {}]
LEARNED = {"key_table", "query_table"}
REFUSED = {"fractional"}


def exact_bucket(offset, buckets, max_distance):
    """Return the bucket by products of whole numbers: the least c with (|o| / mid)^(mid-1) <= ((D-1) / mid)^c."""
    middle, size = buckets // 2, abs(offset)
    if max_distance is None or size <= middle:
        return offset
    c = 0
    while size ** (middle - 1) * middle**c > (max_distance - 1) ** c * middle ** (middle - 1) and c < buckets:
        c += 1
    return int(math.copysign(middle + c, offset))


def oracle(q, k, positions, key_positions, key_table, query_table, max_distance=512):
    """Work out the definition with 60 digits, one pair at a time, in exact buckets."""
    with mpmath.workdps(60):
        scores = np.zeros((len(q), len(positions), len(key_positions)))
        for h, t, s in np.ndindex(scores.shape):
            query, key = ([mpmath.mpf(float(one)) for one in row] for row in (q[h, t], k[h * len(k) // len(q), s]))
            matches = [mpmath.fdot(query, key)]
            for table, content in ((key_table, query), (query_table, key)):
                buckets = table.shape[1] // 2
                bucket = exact_bucket(int(positions[t]) - int(key_positions[s]), buckets, max_distance)
                row = table[h, min(max(bucket + buckets, 0), 2 * buckets - 1)]
                matches.append(mpmath.fdot(content, map(float, row)))
            width = q.shape[-1]
            scores[h, t, s] = mpmath.fsum(matches) / mpmath.sqrt(3 * width) - matches[0] / mpmath.sqrt(width)
    return scores


exactly = settings(deadline=None, derandomize=True, database=None, max_examples=40)
seeds = st.integers(0, 2**32 - 1)
places = st.lists(st.integers(-50, 50), min_size=6, max_size=6)
each_term = pytest.mark.parametrize("terms", ["c2p+p2c", "c2p", "p2c"])


def content(seed=0, b=2, h=4, g=2, t=6, s=6, d=8):
    """Return random queries and keys in float64."""
    made = np.random.default_rng(seed)
    return tuple(torch.tensor(made.normal(size=shape)) for shape in ((b, h, t, d), (b, g, s, d)))


def build(dim=8, heads=4, buckets=4, max_distance=12, terms="c2p+p2c"):
    """Return a module in float64 with tables large enough to be seen; the table of a term that is left out is zero."""
    torch.manual_seed(0)
    module = DeBERTa(dim, heads, buckets, max_distance).double()
    module.key_table.data *= 20 * ("c2p" in terms)
    module.query_table.data *= 20 * ("p2c" in terms)
    return module


def whole_logits(module, q, k, *places, terms="c2p+p2c"):
    """Return what softmax gets, in the scale of the terms that are there, as transformers' pos_att_type has it."""
    k_of_each = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    logits = q @ k_of_each.mT / math.sqrt(q.shape[-1]) + module(q, k, *places)
    return logits * math.sqrt(3 / (1 + len(terms.split("+"))))


def ruler(terms, buckets=4, max_distance=12):
    """Return a module of one channel whose rows are their buckets."""
    module = build(1, 1, buckets, max_distance)
    for term, table in (("c2p", module.key_table), ("p2c", module.query_table)):
        table.data[0, :, 0] = torch.arange(-buckets, buckets) * (term in terms)
    return module


def ones(t):
    return torch.ones(1, 1, t, 1, dtype=torch.float64)


# Buckets


def test_buckets_by_hand():
    # up to 4 / 2 = 2 one offset each; then 2 + ceil(ln(o / 2) / ln(7 / 2)): 3 to 7 in bucket 3
    expected = [-4, -3, -3, -3, -3, -3, -2, -1, 0, 1, 2, 3, 3, 3, 3, 3, 4]
    assert deberta_bucket(np.arange(-8, 9), 4, 8).tolist() == expected


def test_without_a_distance_each_offset_is_its_own_bucket():
    assert deberta_bucket([-1000, -3, 0, 7, 10**6], 4, None).tolist() == [-1000, -3, 0, 7, 10**6]


@pytest.mark.parametrize(
    ("buckets", "distance"), [(2, 3), (2, 50), (4, 12), (32, 128), (32, 129), (256, 512), (64, 1025)]
)
def test_buckets_equal_whole_number_arithmetic(buckets, distance):
    offset = np.arange(-distance, distance + 1)
    expected = [exact_bucket(int(o), buckets, distance) for o in offset]
    assert deberta_bucket(offset, buckets, distance).tolist() == expected


def test_a_whole_logarithm_ends_its_bucket():
    # (32 / 16)^15 = (128 / 16)^5, so offset 32 is the last of bucket 16 + 5
    assert deberta_bucket([31, 32, 33], 32, 129).tolist() == [21, 21, 22]


@given(offset=st.integers(-(2**40), 2**40), half=st.integers(1, 200), more=st.integers(2, 2000))
@exactly
def test_buckets_are_odd_rise_with_the_offset_and_reach_the_last_row_at_the_distance(offset, half, more):
    buckets, distance = 2 * half, half + more
    here, there, mirrored = deberta_bucket([offset, offset + 1, -offset], buckets, distance)
    assert here == -mirrored
    assert here <= there
    assert deberta_bucket(distance - 1, buckets, distance) == buckets - 1


@vectors("deberta_log_bucket")
def test_buckets_equal_those_of_transformers(vector):
    params = vector["params"]
    offset = np.arange(-params["R"], params["R"] + 1, params["step"])
    made = deberta_bucket(offset, params["bucket_size"], params["max_position"])
    assert_agrees(vector, made, vector["expected"]["bucket"])


# Values worked by hand


def test_queries_meet_the_row_of_the_bucket_of_query_minus_key():
    scores = ruler("c2p")(ones(1), 0 * ones(10), torch.tensor([5]), torch.arange(10))[0, 0, 0]  # offsets 5 .. -4
    torch.testing.assert_close(scores * math.sqrt(3), torch.tensor([3.0, 3, 3, 2, 1, 0, -1, -2, -3, -3]).double())


def test_keys_meet_the_row_of_the_same_bucket():
    scores = ruler("p2c")(0 * ones(1), ones(10), torch.tensor([5]), torch.arange(10))[0, 0, 0]
    torch.testing.assert_close(scores * math.sqrt(3), torch.tensor([3.0, 3, 3, 2, 1, 0, -1, -2, -3, -3]).double())


def test_far_past_and_far_future_take_the_last_and_the_first_row():
    scores = ruler("c2p")(ones(1), 0 * ones(2), torch.tensor([0]), torch.tensor([-(10**9), 10**9]))
    torch.testing.assert_close(scores.flatten() * math.sqrt(3), torch.tensor([3.0, -4.0]).double())


def test_all_matches_share_the_scale_of_their_number():
    (q, k), module = content(g=4), build(terms="")
    torch.testing.assert_close(whole_logits(module, q, k), q @ k.mT / math.sqrt(8 * 3))


def test_each_match_alone_adds_up_to_both():
    q, k = content(g=4)
    alone = [build(terms=terms) for terms in ("c2p", "p2c")]
    both = build()
    both.key_table, both.query_table = alone[0].key_table, alone[1].query_table
    logits = sum(whole_logits(module, q, k) for module in alone) - q @ k.mT / math.sqrt(3 * 8)
    torch.testing.assert_close(whole_logits(both, q, k), logits)


# Peers


@vectors("deberta_v2_disentangled_bias")
def test_equals_the_bias_of_transformers(vector):
    params, given = vector["params"], {name: np.array(array) for name, array in vector["inputs"].items()}
    heads, dim = params["heads"], params["head_dim"]
    tables = {
        name: (given["rel_embeddings"] @ given[f"{of}_weight"].T + given[f"{of}_bias"])
        .reshape(-1, heads, dim)
        .swapaxes(0, 1)
        for name, of in (("key_table", "pos_key"), ("query_table", "pos_query"))
    }
    q, k, where = given["q"], given["k"], np.arange(5)
    assert tables["key_table"].shape[1] == 2 * params["position_buckets"]
    scores = deberta(q, k, where, where, **tables, max_distance=params["max_relative_positions"])
    without_product = scores + q @ k.swapaxes(1, 2) * (1 / math.sqrt(dim) - 1 / math.sqrt(3 * dim))
    assert_agrees(vector, without_product, vector["expected"]["bias_head_q_k"])


SETTINGS = {
    "hidden_size": 32,
    "num_attention_heads": 4,
    "relative_attention": True,
    "max_relative_positions": 12,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


def tables_of(rows, **projections):
    """Return the tables that the class docstring promises, from the projections of one layer, zeros for None."""
    of_heads = {name: layer(rows) if layer else torch.zeros(len(rows), 32) for name, layer in projections.items()}
    return {name: made.unflatten(-1, (4, 8)).transpose(0, 1).double() for name, made in of_heads.items()}


@each_term
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("buckets", [4, -1], ids=["v2", "no buckets"])
def test_equals_the_attention_of_transformers_deberta_v2(terms, shared, buckets):
    theirs = peer("transformers.models.deberta_v2.modeling_deberta_v2")
    torch.manual_seed(0)
    changes = {"position_buckets": buckets, "share_att_key": shared, "pos_att_type": terms.split("+")}
    layer = theirs.DisentangledSelfAttention(theirs.DebertaV2Config(**SETTINGS | changes))
    span = 4 if buckets == 4 else 12
    x, rows = 3 * torch.randn(2, 15, 32), torch.randn(2 * span, 32)
    weights = layer(x, torch.ones(2, 1, 15, 15), output_attentions=True, rel_embeddings=rows)[1]
    layers = (
        (layer.key_proj, layer.query_proj)
        if shared
        else [getattr(layer, f"pos_{n}_proj", None) for n in ("key", "query")]
    )
    module = build(buckets=span, max_distance=12 if buckets == 4 else None, terms=terms)
    tables = {"key_table": layers[0] if "c2p" in terms else None, "query_table": layers[1] if "p2c" in terms else None}
    module.load_state_dict(tables_of(rows, **tables))
    q, k = (project(x).unflatten(-1, (4, 8)).transpose(1, 2).double() for project in (layer.query_proj, layer.key_proj))
    torch.testing.assert_close(
        whole_logits(module, q, k, terms=terms).softmax(dim=-1).float(), weights, rtol=1e-4, atol=1e-6
    )


@each_term
@pytest.mark.parametrize("length", [3, 15], ids=["within the table", "beyond it"])
def test_equals_the_attention_of_transformers_deberta_v1(terms, length):
    theirs = peer("transformers.models.deberta.modeling_deberta")
    torch.manual_seed(0)
    layer = theirs.DisentangledSelfAttention(theirs.DebertaConfig(**SETTINGS, pos_att_type=terms.split("+")))
    x, rows = 3 * torch.randn(2, length, 32), torch.randn(24, 32)
    where = torch.arange(length)
    offset = (where[:, None] - where)[None]
    mask = torch.ones(2, 1, length, length)
    weights = layer(x, mask, output_attentions=True, relative_pos=offset, rel_embeddings=rows)[1]
    module = build(buckets=12, max_distance=None, terms=terms)
    tables = {"key_table": getattr(layer, "pos_proj", None), "query_table": getattr(layer, "pos_q_proj", None)}
    module.load_state_dict(tables_of(rows, **tables))
    q, k, _ = layer.in_proj(x).unflatten(-1, (4, 24)).transpose(1, 2).double().chunk(3, dim=-1)
    torch.testing.assert_close(
        whole_logits(module, q, k, terms=terms).softmax(dim=-1).float(), weights, rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize(("buckets", "distance"), [(256, 512), (32, 128), (128, 512), (4, 16)])
def test_equals_the_log_buckets_of_transformers(buckets, distance):
    theirs = peer("transformers.models.deberta_v2.modeling_deberta_v2").make_log_bucket_position
    offset = torch.arange(-3 * distance, 3 * distance)
    assert deberta_bucket(offset, buckets, distance).tolist() == theirs(offset, buckets, distance).tolist()


def test_logarithms_in_float32_put_offsets_of_transformers_in_another_bucket():
    theirs = peer("transformers.models.deberta_v2.modeling_deberta_v2").make_log_bucket_position
    assert theirs(torch.tensor([821]), 504, 1008).item() == 466
    assert deberta_bucket(821, 504, 1008) == exact_bucket(821, 504, 1008) == 467


def test_transformers_exchanges_two_settings_and_fails_where_queries_are_fewer_than_keys(monkeypatch):
    theirs = peer("transformers.models.deberta_v2.modeling_deberta_v2")
    made, build_buckets = [], theirs.build_relative_position

    def watched(q, k, bucket_size, max_position):
        made.append((q.shape[1], k.shape[1], bucket_size, max_position))
        return build_buckets(q, k, bucket_size, max_position)

    monkeypatch.setattr(theirs, "build_relative_position", watched)
    changes = {"position_buckets": 4, "pos_att_type": ["c2p", "p2c"]}
    layer = theirs.DisentangledSelfAttention(theirs.DebertaV2Config(**SETTINGS | changes))
    with pytest.raises(RuntimeError, match="must match the size"):
        layer.disentangled_attention_bias(torch.randn(8, 3, 8), torch.randn(8, 30, 8), None, torch.randn(8, 32), 3)
    assert made == [(3, 30, 4, 12), (30, 30, 12, 4)]


# The paper's eq. 4 reads the table of queries at the bucket of key minus query


def paper(q, k, key_table, query_table, span):
    """Return the logits of one head (s, s) as eq. 4 writes them, with plain clipped offsets."""
    where = np.arange(len(q))
    delta = np.clip(where[:, None] - where + span, 0, 2 * span - 1)
    matches = q @ k.T + (q @ key_table.T)[where[:, None], delta] + (k @ query_table.T)[where, delta.T]
    return matches / math.sqrt(3 * q.shape[-1])


def test_checkpoints_do_not_follow_eq_4():
    (q, k), module = content(b=1, h=1, g=1), build(heads=1, buckets=8, max_distance=None)
    tables = [table.detach().numpy()[0] for table in (module.key_table, module.query_table)]
    logits = whole_logits(module, q, k)[0, 0].detach()
    assert np.abs(paper(q[0, 0].numpy(), k[0, 0].numpy(), *tables, 8) - logits.numpy()).max() > 0.1


def test_eq_4_is_a_table_of_queries_read_backwards():
    (q, k), module = content(b=1, h=1, g=1), build(heads=1, buckets=8, max_distance=None)
    tables = [table.detach().numpy()[0] for table in (module.key_table, module.query_table)]
    backwards = np.concatenate([tables[1][:1], tables[1][:0:-1]])  # row B + o from row B - o
    logits = whole_logits(module, q, k)[0, 0].detach()
    np.testing.assert_allclose(paper(q[0, 0].numpy(), k[0, 0].numpy(), tables[0], backwards, 8), logits, atol=1e-12)


# Properties


@given(seed=seeds, where=places, shift=st.integers(-(10**9), 10**9))
@exactly
def test_shifting_all_positions_changes_nothing(seed, where, shift):
    (q, k), where, module = content(seed), torch.tensor(where), build()
    assert torch.equal(module(q, k, where, where), module(q, k, where + shift, where + shift))


@given(seed=seeds, where=places, order=st.permutations(range(6)))
@exactly
def test_keys_in_another_order_have_their_scores_in_that_order(seed, where, order):
    (q, k), where, module = content(seed), torch.tensor(where), build()
    scores = module(q, k[:, :, order], where, where[list(order)])
    torch.testing.assert_close(scores, module(q, k, where, where)[..., order])


@given(seed=seeds, where=places, distance=st.sampled_from([None, 4, 5, 12, 30]), half=st.integers(1, 2))
@exactly
def test_torch_equals_numpy_at_any_positions(seed, where, distance, half):
    (q, k), module = content(seed, b=1), build(buckets=2 * half, max_distance=distance)
    tables = {name: table.detach() for name, table in module.named_parameters()}
    scores = module(q, k, torch.tensor(where), torch.tensor(where[::-1]))[0].detach()
    np.testing.assert_allclose(
        scores, deberta(q[0], k[0], where, where[::-1], **tables, max_distance=distance), atol=1e-12
    )


def test_the_order_of_two_far_keys_does_not_matter():
    (q, k), module, where = content(s=6, t=1), build(), torch.arange(6)
    near, far = torch.tensor([3]), torch.tensor([1000])
    order = [1, 0, 2, 3, 4, 5]
    torch.testing.assert_close(module(q, k[:, :, order], far, where), module(q, k, far, where)[..., order])
    assert not torch.allclose(module(q, k[:, :, order], near, where), module(q, k, near, where)[..., order])


# Decoding, grouped heads, edges


@each_term
def test_decoding_token_by_token_equals_scoring_at_once(terms):
    (q, k), module = content(), build(terms=terms)
    whole = module(q, k)
    for p in range(6):
        step = module(q[:, :, p : p + 1], k[:, :, : p + 1], torch.tensor([p]), torch.arange(p + 1))
        torch.testing.assert_close(step[..., 0, :], whole[..., p, : p + 1])


@each_term
def test_fewer_queries_than_keys_score_as_among_all(terms):
    (q, k), module = content(t=300, s=300), build(buckets=32, max_distance=128, terms=terms)
    last = module(q[:, :, 297:], k, torch.arange(297, 300), torch.arange(300))
    torch.testing.assert_close(last, module(q, k)[:, :, 297:])


def test_grouped_heads_equal_repeated_keys():
    q, k = content()
    torch.testing.assert_close(build()(q, k), build()(q, k.repeat_interleave(2, dim=1)))


@pytest.mark.parametrize(("t", "s"), [(0, 0), (0, 3), (3, 0), (1, 1), (3, 1)])
def test_any_number_of_tokens_has_its_scores(t, s):
    q, k = content(t=t, s=s)
    assert build()(q, k, torch.arange(t), torch.arange(s)).shape == (2, 4, t, s)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_content_is_scored_in_float32_and_rounded_once(dtype):
    (q, k), module = (x.to(dtype) for x in content()), build().float()
    assert torch.equal(module(q, k), module(q.float(), k.float()).to(dtype))


def test_tables_start_normal_with_a_standard_deviation_of_2_percent():
    torch.manual_seed(0)
    for table in DeBERTa(64, 4).parameters():
        assert table.shape == (4, 512, 64)
        assert abs(table.std().item() / 0.02 - 1) < 0.03


def test_the_defaults_are_those_of_v3():
    for function in (DeBERTa, deberta_bucket):
        defaults = {name: parameter.default for name, parameter in inspect.signature(function).parameters.items()}
        assert (defaults["buckets"], defaults["max_distance"]) == (256, 512)


# What is refused: what would give a wrong result without an error


@pytest.mark.parametrize(("buckets", "distance"), [(8, 5), (8, 4), (2, 2), (0, 9)])
def test_a_distance_within_the_buckets_of_one_offset_is_refused(buckets, distance):
    said = f"deberta: max_distance must be over {buckets // 2 + 1}, got {distance}"
    with pytest.raises(ValueError, match=said):
        deberta_bucket(3, buckets, distance)
    with pytest.raises(ValueError, match=said):
        build(buckets=buckets, max_distance=distance)(*content())


def test_floats_for_positions_and_integers_for_content_are_refused():
    (q, k), module = content(), build()
    for call in (module, module.score_mod):
        for places in ((torch.arange(6.0), None), (torch.arange(6), torch.arange(6.0))):
            with pytest.raises(ValueError, match=r"deberta: positions must be integers, got torch\.float32"):
                call(q, k, *places)
        with pytest.raises(ValueError, match=r"deberta: q must be floats \(b, h, t, d\), got torch\.int64"):
            call(q.long(), k)
        with pytest.raises(ValueError, match="deberta: positions must be given for 6 queries and 3 keys, got None"):
            call(q, k[:, :, :3])
        with pytest.raises(ValueError, match="deberta: key_positions must be given for 6 queries and 3 keys, got None"):
            call(q, k[:, :, :3], torch.arange(6))


@pytest.mark.parametrize("where", [torch.arange(4096), torch.tensor([3]), torch.zeros(2, 1).long()], ids=str)
def test_another_number_of_positions_is_refused_by_torch_in_numbers(where):
    (q, k), module = content(), build()
    for call in (module, module.score_mod):
        for places in ({"positions": where}, {"key_positions": where, "positions": torch.arange(6)}):
            with pytest.raises(RuntimeError, match=rf"sizes .* don't multiply up to .*\({where.shape[-1]}\)"):
                call(q, k, **places)


def test_one_row_of_positions_serves_a_batch():
    q, k = content()
    assert_one_row_serves_a_batch(build(), q, k, q @ k.repeat_interleave(2, dim=1).mT / 8**0.5)


def test_the_score_mod_keeps_no_strided_positions_as_cpu_kernels_read_none():
    assert_the_score_mod_keeps_no_strided_positions(build(), *content())


def test_the_numpy_function_takes_one_position_a_token():
    assert_numpy_wants_one_position_a_token(deberta, *np.ones((2, 2, 8, 4)))


@pytest.mark.parametrize("where", [[0.5, 1, 2], [math.nan, 0, 0]], ids=str)
def test_positions_that_are_not_whole_are_refused_by_the_numpy_function(where):
    with pytest.raises(ValueError, match="deberta: positions must be whole numbers, got "):
        deberta(np.ones((1, 3, 2)), np.ones((1, 3, 2)), where, range(3), *np.ones((2, 1, 8, 2)))
