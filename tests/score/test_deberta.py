"""DeBERTa: buckets in whole-number arithmetic, scores by hand, transformers' two models, and the paper's eq. 4."""

import inspect
import math

import mpmath
import numpy as np
import pytest
import torch

from posenc.score.deberta import DeBERTa, deberta, deberta_bucket
from tests.peers import peer
from tests.score.alike import (
    assert_half_precision_is_rounded_once,
    assert_numpy_wants_one_position_a_token,
    assert_positions_are_subtracted_in_64_bits,
    assert_the_score_mod_takes_rows_as_they_lie,
    content,
    randomized,
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


each_term = pytest.mark.parametrize("terms", ["c2p+p2c", "c2p", "p2c"])


def build(heads=4, buckets=4, max_distance=12):
    return randomized(DeBERTa(8, heads, buckets, max_distance))


def logits_of(module, q, k, terms="c2p+p2c"):
    """Return what softmax gets, in the scale of the terms that are there, as transformers' pos_att_type has it."""
    product = q @ k.repeat_interleave(q.shape[1] // k.shape[1], dim=1).mT / math.sqrt(q.shape[-1])
    return (product + module(q, k)) * math.sqrt(3 / (1 + len(terms.split("+"))))


# Buckets


def test_buckets_by_hand():
    # up to 4 / 2 = 2 one offset each; then 2 + ceil(ln(o / 2) / ln(7 / 2)): 3 to 7 in bucket 3
    expected = [-4, -3, -3, -3, -3, -3, -2, -1, 0, 1, 2, 3, 3, 3, 3, 3, 4]
    assert deberta_bucket(np.arange(-8, 9), 4, 8).tolist() == expected


def test_without_a_distance_each_offset_is_its_own_bucket():
    assert deberta_bucket([-1000, -3, 0, 7, 10**12], 4, None).tolist() == [-1000, -3, 0, 7, 10**12]


def test_a_whole_logarithm_ends_its_bucket():
    # (32 / 16)^15 = (128 / 16)^5, so offset 32 is the last of bucket 16 + 5
    assert deberta_bucket([31, 32, 33], 32, 129).tolist() == [21, 21, 22]


@pytest.mark.parametrize(
    ("buckets", "distance"), [(2, 3), (2, 50), (4, 12), (32, 128), (32, 129), (256, 512), (64, 1025)]
)
def test_buckets_equal_whole_number_arithmetic(buckets, distance):
    offset = np.arange(-distance, distance + 1)
    expected = [exact_bucket(int(o), buckets, distance) for o in offset]
    assert deberta_bucket(offset, buckets, distance).tolist() == expected


@vectors("deberta_log_bucket")
def test_buckets_equal_those_of_transformers(vector):
    params = vector["params"]
    offset = np.arange(-params["R"], params["R"] + 1, params["step"])
    bucket = deberta_bucket(offset, params["bucket_size"], params["max_position"])
    assert_agrees(vector, bucket, vector["expected"]["bucket"])


@pytest.mark.parametrize(("buckets", "distance"), [(256, 512), (32, 128), (128, 512), (4, 16)])
def test_equals_the_log_buckets_of_transformers(buckets, distance):
    theirs = peer("transformers.models.deberta_v2.modeling_deberta_v2").make_log_bucket_position
    offset = torch.arange(-3 * distance, 3 * distance)
    assert deberta_bucket(offset, buckets, distance).tolist() == theirs(offset, buckets, distance).tolist()


def test_logarithms_in_float32_put_offsets_of_transformers_in_another_bucket():
    theirs = peer("transformers.models.deberta_v2.modeling_deberta_v2").make_log_bucket_position
    assert theirs(torch.tensor([821]), 504, 1008).item() == 466
    assert deberta_bucket(821, 504, 1008) == exact_bucket(821, 504, 1008) == 467


# Scores worked by hand


@pytest.mark.parametrize(("q", "k"), [(1.0, 0.0), (0.0, 1.0)], ids=["queries", "keys"])
def test_queries_and_keys_meet_the_row_of_the_bucket_of_query_minus_key(q, k):
    # of 4 buckets up to a distance of 12; the rows of both tables are their buckets
    table = np.arange(-4, 4)[None, :, None]
    scores = deberta([[[q]]], [[[k]] * 12], [5], [*range(10), -(10**9), 10**9], table, table, max_distance=12)
    np.testing.assert_allclose(scores[0, 0] * math.sqrt(3), [3, 3, 3, 2, 1, 0, -1, -2, -3, -3, 3, -4])


def test_all_matches_share_the_scale_of_their_number():
    # q . k = 2, q . row = 0.3 and k . row = 1.4 in a width of 4: 3.7 / sqrt(3 * 4), less 2 / sqrt(4) of plain attention
    q, k = [[[1, 0, 0, 0]]], [[[2, 0, 0, 0]]]
    scores = deberta(q, k, [7], [7], np.full((1, 8, 4), 0.3), np.full((1, 8, 4), 0.7))
    np.testing.assert_allclose(scores, [[[3.7 / math.sqrt(12) - 1]]], rtol=1e-14)


# Peers


@vectors("deberta_v2_disentangled_bias")
def test_equals_the_bias_of_transformers(vector):
    params, inputs = vector["params"], {name: np.array(array) for name, array in vector["inputs"].items()}
    heads, dim = params["heads"], params["head_dim"]
    tables = {
        name: (inputs["rel_embeddings"] @ inputs[f"{of}_weight"].T + inputs[f"{of}_bias"])
        .reshape(-1, heads, dim)
        .swapaxes(0, 1)
        for name, of in (("key_table", "pos_key"), ("query_table", "pos_query"))
    }
    assert tables["key_table"].shape[1] == 2 * params["position_buckets"]
    q, k = inputs["q"], inputs["k"]
    scores = deberta(q, k, range(5), range(5), **tables, max_distance=params["max_relative_positions"])
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


def load_tables(module, rows, key, query):
    """Load the tables that the class docstring promises, from the projections of one layer, zeros for None."""
    of_heads = {"key_table": key, "query_table": query}
    tables = {name: layer(rows) if layer else torch.zeros(len(rows), 32) for name, layer in of_heads.items()}
    module.load_state_dict({name: table.unflatten(-1, (4, 8)).transpose(0, 1) for name, table in tables.items()})


def assert_attends_alike(module, q, k, terms, weights):
    logits = logits_of(module, q.double(), k.double(), terms)
    torch.testing.assert_close(logits.softmax(dim=-1).float(), weights, rtol=1e-4, atol=1e-6)


@each_term
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("position_buckets", "buckets", "distance"), [(4, 4, 12), (-1, 12, None)])
def test_equals_the_attention_of_transformers_deberta_v2(terms, shared, position_buckets, buckets, distance):
    theirs = peer("transformers.models.deberta_v2.modeling_deberta_v2")
    torch.manual_seed(0)
    changes = {"position_buckets": position_buckets, "share_att_key": shared, "pos_att_type": terms.split("+")}
    layer = theirs.DisentangledSelfAttention(theirs.DebertaV2Config(**SETTINGS | changes))
    x, rows = 3 * torch.randn(2, 15, 32), torch.randn(2 * buckets, 32)
    weights = layer(x, torch.ones(2, 1, 15, 15), output_attentions=True, rel_embeddings=rows)[1]
    names = ("key_proj", "query_proj") if shared else ("pos_key_proj", "pos_query_proj")
    key, query = (getattr(layer, n) if term in terms else None for n, term in zip(names, ("c2p", "p2c"), strict=True))
    module = build(buckets=buckets, max_distance=distance)
    load_tables(module, rows, key, query)
    q, k = (project(x).unflatten(-1, (4, 8)).transpose(1, 2) for project in (layer.query_proj, layer.key_proj))
    assert_attends_alike(module, q, k, terms, weights)


@each_term
@pytest.mark.parametrize("length", [3, 15], ids=["within the table", "beyond it"])
def test_equals_the_attention_of_transformers_deberta_v1(terms, length):
    theirs = peer("transformers.models.deberta.modeling_deberta")
    torch.manual_seed(0)
    layer = theirs.DisentangledSelfAttention(theirs.DebertaConfig(**SETTINGS, pos_att_type=terms.split("+")))
    x, rows = 3 * torch.randn(2, length, 32), torch.randn(24, 32)
    offset = (torch.arange(length)[:, None] - torch.arange(length))[None]
    mask = torch.ones(2, 1, length, length)
    weights = layer(x, mask, output_attentions=True, relative_pos=offset, rel_embeddings=rows)[1]
    module = build(buckets=12, max_distance=None)
    load_tables(module, rows, getattr(layer, "pos_proj", None), getattr(layer, "pos_q_proj", None))
    q, k, _ = layer.in_proj(x).unflatten(-1, (4, 24)).transpose(1, 2).chunk(3, dim=-1)
    assert_attends_alike(module, q, k, terms, weights)


def test_transformers_exchanges_two_settings_and_fails_where_queries_are_fewer_than_keys(monkeypatch):
    theirs = peer("transformers.models.deberta_v2.modeling_deberta_v2")
    calls, build_buckets = [], theirs.build_relative_position

    def watched(q, k, bucket_size, max_position):
        calls.append((q.shape[1], k.shape[1], bucket_size, max_position))
        return build_buckets(q, k, bucket_size, max_position)

    monkeypatch.setattr(theirs, "build_relative_position", watched)
    changes = {"position_buckets": 4, "pos_att_type": ["c2p", "p2c"]}
    layer = theirs.DisentangledSelfAttention(theirs.DebertaV2Config(**SETTINGS | changes))
    with pytest.raises(RuntimeError, match="must match the size"):
        layer.disentangled_attention_bias(torch.randn(8, 3, 8), torch.randn(8, 30, 8), None, torch.randn(8, 32), 3)
    assert calls == [(3, 30, 4, 12), (30, 30, 12, 4)]


# The paper's eq. 4 reads the table of queries at the bucket of key minus query


def eq_4(q, k, key_table, query_table, span):
    """Return the logits of one head (s, s) as eq. 4 writes them, with plain clipped offsets."""
    index = np.arange(len(q))
    delta = np.clip(index[:, None] - index + span, 0, 2 * span - 1)
    matches = q @ k.T + (q @ key_table.T)[index[:, None], delta] + (k @ query_table.T)[index, delta.T]
    return matches / math.sqrt(3 * q.shape[-1])


def test_checkpoints_follow_eq_4_with_their_table_of_queries_read_backwards():
    (q, k), module = content(b=1, h=1, g=1, d=8), build(heads=1, buckets=8, max_distance=None)
    logits = logits_of(module, q, k)[0, 0].detach().numpy()
    q, k = q[0, 0].numpy(), k[0, 0].numpy()
    key_table, query_table = (table.detach().numpy()[0] for table in (module.key_table, module.query_table))
    assert np.abs(eq_4(q, k, key_table, query_table, 8) - logits).max() > 0.1
    backwards = np.concatenate([query_table[:1], query_table[:0:-1]])  # row B + o from row B - o
    np.testing.assert_allclose(eq_4(q, k, key_table, backwards, 8), logits, atol=1e-12)


# The module


@pytest.mark.parametrize(("t", "s"), [(0, 0), (0, 3), (3, 0)])
def test_no_tokens_have_no_scores(t, s):
    assert build()(*content(t=t, s=s, d=8), torch.arange(t), torch.arange(s)).shape == (2, 4, t, s)


def test_half_precision_is_scored_in_float32_and_rounded_once():
    assert_half_precision_is_rounded_once(build(), d=8)


def test_positions_are_subtracted_in_64_bits():
    assert_positions_are_subtracted_in_64_bits(build(), d=8)


def test_tables_start_normal_with_a_standard_deviation_of_2_percent():
    torch.manual_seed(0)
    for table in DeBERTa(64, 4).parameters():
        assert table.shape == (4, 512, 64)
        assert abs(table.std().item() / 0.02 - 1) < 0.03


def test_the_defaults_are_those_of_v3():
    for function in (DeBERTa, deberta_bucket):
        defaults = {name: parameter.default for name, parameter in inspect.signature(function).parameters.items()}
        assert (defaults["buckets"], defaults["max_distance"]) == (256, 512)


def test_the_score_mod_takes_rows_as_they_lie():
    assert_the_score_mod_takes_rows_as_they_lie(build(), *content(d=8))


# What is refused


@pytest.mark.parametrize(("buckets", "distance"), [(8, 5), (8, 4), (2, 2), (0, 9)])
def test_a_distance_within_the_buckets_of_one_offset_is_refused(buckets, distance):
    message = f"deberta: max_distance must be over {buckets // 2 + 1}, got {distance}"
    with pytest.raises(ValueError, match=message):
        deberta_bucket(3, buckets, distance)
    with pytest.raises(ValueError, match=message):
        build(buckets=buckets, max_distance=distance)(*content(d=8))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"q": torch.ones(2, 4, 6, 8).long()}, r"q must be floating point, got torch\.int64"),
        ({"positions": torch.arange(6.0)}, r"positions must be integers, got torch\.float32"),
        (
            {"positions": torch.arange(6), "key_positions": torch.arange(6.0)},
            r"positions must be integers, got torch\.float32",
        ),
    ],
)
def test_content_of_integers_and_positions_of_floats_are_refused(changes, message):
    q, k = content(d=8)
    for call in (build(), build().score_mod):
        with pytest.raises(ValueError, match=f"deberta: {message}"):
            call(**{"q": q, "k": k} | changes)


@pytest.mark.parametrize("positions", [[0.5, 1, 2], [math.nan, 0, 0]], ids=str)
def test_the_numpy_function_takes_one_whole_position_a_token(positions):
    x, tables = np.ones((2, 3, 4)), np.ones((2, 2, 8, 4))
    with pytest.raises(ValueError, match="deberta: positions must be whole numbers, got "):
        deberta(x, x, positions, range(3), *tables)
    assert_numpy_wants_one_position_a_token(deberta, *tables)
