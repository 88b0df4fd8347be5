"""Properties of every encoding, most of them in attention; for each, the encodings that lack it, and why.

The encodings come from encoding_inputs.py: a new file is tried here without being named. A table of exceptions
can hide no regression: what it names must lack the property, and plainly so, by a thousand times the tolerance or more.

Sums enter as DETR lets them, added to queries and to keys, so that one test serves all four doors.
"""

import functools
import inspect
from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatchcase

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from posenc.attention import attention
from posenc.positions import (
    document_mask,
    packed_documents,
    packed_positions,
    padded_positions,
    shard,
    shard_positions,
    unshard,
)
from tests.contract import encoding_inputs
from tests.contract.encoding_inputs import POSITIONS, Encoding, G, H

EACH = [variant for encoding in encoding_inputs.encodings() for variant in encoding.variants()]
ON_VALUES = [e for e in EACH if "on_values" in inspect.signature(e.classes[0]).parameters]
EACH += [replace(e, options=e.options | {"on_values": True}) for e in ON_VALUES]

# Where a property does not hold: patterns of str(encoding), and why

NORMS = {
    "rotate/fope*": "a pair is multiplied by a sum of waves, not by one",
    "rotate/mrope*rotary_dim=*attention_factor=*": "as of rope",
    "rotate/pope*": "a length is that of the softplus of the content",
    "rotate/query_scale*": "it turns nothing and lengthens queries: that is all it does",
    "rotate/rope*rotary_dim=*attention_factor=*": "the factor is for the channels that turn, not for the rest",
    "rotate/xpos*": "queries and keys are scaled by their distance from the center",
}
OFFSETS = {
    "add/[!c]*": "the product of two sums holds what one token says at the place of the other",
    "bias/fire*": "its yardstick is the place of the query, once that is far",
    "rotate/fope*": "the product of two different waves is no function of the offset",
    "rotate/liere-heads=*": "generators do not commute",
    "rotate/query_scale*": "a query says how many tokens it sees, a number that no offset knows",
}
PAIRS = {
    "score/cope*": "tokens between are counted",
    "score/forget*": "tokens between make forget",
    "score/path*": "tokens between reflect the key",
    "rotate/selective*": "tokens between turn the key",
}
NEIGHBORS = {
    "add/convolution*": "half of its filter reaches ahead, and it reaches into padding and other documents",
    "add/conditional*": "a patch without those around it is another patch",
}
CACHED = NEIGHBORS | {
    "rotate/selective*": "a token alone does not tell the phases before it; told their sum, its own test does so",
}
PACKED = NEIGHBORS | {
    "rotate/selective*": "positions that restart mix documents; without positions its own test packs them",
}
PADDED_UNTOLD = {
    "add/[!c]*": OFFSETS["add/[!c]*"],
    "add/convolution*": "padding lies beside the first tokens",
    "bias/fire-threshold=4.0*": "its yardstick is the place of the query, and a place past 4 is far",
    "rotate/fope*": OFFSETS["rotate/fope*"],
    "rotate/query_scale*": OFFSETS["rotate/query_scale*"],
}
KEYS = {
    "rotate/query_scale*": "it says how far into the text a query stands, and nothing of the keys",
    "rotate/repo*": "what a token holds says where it stands, and no position",
}

exactly = settings(deadline=None, derandomize=True, database=None, max_examples=10)
over_encodings = pytest.mark.parametrize("encoding", EACH, ids=str)
over_orders = pytest.mark.parametrize("order", ["contiguous", "zigzag"])
over_coarse_dtypes = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)


def through_doors(*doors: str, but: dict[str, str] | None = None) -> pytest.MarkDecorator:
    """Return a decorator that tries every encoding of some doors, by default of all, but those of a table."""
    chosen = [e for e in EACH if (e.door in doors or not doors) and not _excepted(e, but or {})]
    return pytest.mark.parametrize("encoding", chosen, ids=str)


def each_of(exceptions: dict[str, str]) -> pytest.MarkDecorator:
    """Return a decorator that tries every encoding that a table excepts."""
    return pytest.mark.parametrize("encoding", [e for e in EACH if _excepted(e, exceptions)], ids=str)


def needs_text(encoding: Encoding) -> None:
    """Skip an encoding that has no default positions: tests/contract/test_contract.py tries that it refuses text."""
    if not encoding.takes_text:
        pytest.skip("its tokens need coordinates")


def _excepted(encoding: Encoding, exceptions: dict[str, str]) -> bool:
    return any(fnmatchcase(str(encoding), pattern) for pattern in exceptions)


# How an encoding is tried


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    """Compute in one thread: where products are this small, threads wait for each other more than they work."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@functools.cache
def built(name: str) -> nn.Module:
    (encoding,) = [encoding for encoding in EACH if str(encoding) == name]
    return encoding.build().double().requires_grad_(False)


def attend(encoding: Encoding, q: Tensor, k: Tensor, v: Tensor, module: nn.Module | None = None, **sight) -> Tensor:
    """Return attention with the encoding, in float64 unless another module is given."""
    module = built(str(encoding)) if module is None else module
    if not encoding.takes_text and "positions" not in sight:
        keys = places(encoding, k.shape[2])
        sight |= at(keys[k.shape[2] - q.shape[2] :], keys)
    return attention(q, k, v, entering(encoding, module), **sight)


def entering(encoding: Encoding, module: nn.Module) -> Callable:
    """Return what attention takes: the module, or what adds a sum to queries and to keys."""
    if encoding.door != "add":
        return module

    def _added(x: Tensor, positions: Tensor) -> Tensor:
        shared = positions.ndim < encoding.axes_after_length("positions") + 1
        rows = positions if shared else positions.repeat_interleave(x.shape[1], dim=0)
        return module(x.flatten(0, 1), rows).unflatten(0, x.shape[:2])

    def _onto_both(q: Tensor, k: Tensor, positions: Tensor | None = None, key_positions: Tensor | None = None):
        m = torch.arange(k.shape[2] - q.shape[2], k.shape[2]) if positions is None else positions
        n = torch.arange(k.shape[2]) if key_positions is None else key_positions
        return _added(q, m), _added(k, n)

    return _onto_both


def tokens(encoding: Encoding, length: int, batch: int = 2) -> list[Tensor]:
    """Return float64 queries, and keys and values of fewer heads."""
    torch.manual_seed(0)
    return [torch.randn(batch, heads, length, encoding.width, dtype=torch.float64) for heads in (H, G, G)]


def places(encoding: Encoding, length: int) -> Tensor:
    """Return the positions 0, 1, 2, ...; with axes those of a grid whose rows count slower from axis to axis."""
    line, axes = torch.arange(length), encoding.declared("AXES", 0)
    return line[:, None] // torch.arange(1, axes + 1) if axes else line


def at(positions: Tensor, key_positions: Tensor | None = None) -> dict[str, Tensor]:
    return {"positions": positions, "key_positions": positions if key_positions is None else key_positions}


def logits(encoding: Encoding, arguments: encoding_inputs.Arguments) -> Tensor:
    """Return what the encoding makes of them: the products of what it turns or adds to, its bias, or its scores."""
    results = encoding.results(built(str(encoding)), encoding.tensors(arguments))
    if encoding.door in ("bias", "score"):
        return results[0]
    q, k = results[0], results[-1]
    return q @ (k if k.ndim == 3 else k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)).mT


def moved(
    encoding: Encoding, arguments: encoding_inputs.Arguments, shift: float, names: str = "positions"
) -> encoding_inputs.Arguments:
    """Return the arguments with those that end in `names` moved, along each axis by a multiple of its own."""
    axes = encoding.declared("AXES", 0)
    step = shift * np.arange(1, axes + 1) if axes else shift
    return {name: value + step if name.endswith(names) else value for name, value in arguments.items()}


def gap(actual: Tensor, expected: Tensor) -> float:
    """Return how far apart two results are at most; the same infinities are not."""
    actual, expected = actual.double(), expected.double()
    return torch.where(actual == expected, 0, actual - expected).abs().max().item()


def tolerance(encoding: Encoding) -> float:
    return 1e-6 if encoding.door == "bias" else 1e-9  # a bias is of float32


def within(apart: float, rounding: float) -> None:
    assert apart <= rounding, f"{apart:.1e} apart, where rounding explains {rounding:.0e}"


def beyond(apart: float, least: float) -> None:
    assert apart > least, f"only {apart:.1e} apart"


TABLES = {"norms": NORMS, "offsets": OFFSETS, "pairs": PAIRS, "padded": PADDED_UNTOLD}
TABLES |= {"keys": KEYS, "cached": CACHED, "packed": PACKED, "neighbors": NEIGHBORS}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_no_exception_is_for_nothing(table):
    """Take out of the table what names no encoding."""
    for pattern in table:
        assert any(fnmatchcase(str(encoding), pattern) for encoding in EACH), f"{pattern} names no encoding"


# Geometry: norms, offsets, pairs


def stretch(encoding: Encoding) -> float:
    """Return the largest share by which a rotation changes a length, beyond the factor that it states."""
    module, arguments = built(str(encoding)), encoding.arguments(POSITIONS[encoding.furthest()])
    tensors = encoding.tensors(moved(encoding, arguments, 0.0 if encoding.furthest() == "far" else 100.0))
    pairs = zip(encoding.results(module, tensors), (tensors["q"], tensors["k"]), strict=True)
    factor = getattr(module, "attention_factor", 1.0)
    return max((turned.norm(dim=-1) / x.norm(dim=-1) / factor - 1).abs().max().item() for turned, x in pairs)


@through_doors("rotate", but=NORMS)
def test_a_rotation_keeps_norms(encoding):
    """A rotation keeps lengths. If it must not, name it in NORMS of this file, with a reason."""
    within(stretch(encoding), 1e-7)  # at a position of 10^7, float64 has nine digits of an angle


@each_of(NORMS)
def test_what_keeps_no_norms(encoding):
    """It keeps lengths after all: take it out of NORMS of this file."""
    beyond(stretch(encoding), 1e-3)


@st.composite
def shifts(draw, encoding: Encoding) -> float:
    """Draw a whole number or sixty-fourths, whose sums with positions are exact, of those that the encoding takes."""
    refused = encoding.declared("REFUSED", ())
    reach = 1_000 if "far" in refused else 10_000
    least = 0 if "negative" in refused else -reach
    whole = st.integers(least, reach)
    return draw(whole if "fractional" in refused else whole | st.integers(64 * least, 64 * reach).map(lambda n: n / 64))


@through_doors(but=OFFSETS)
@given(data=st.data())
@exactly
def test_logits_depend_on_offsets_only(encoding, data):
    """Moving all tokens changes no logit. If it must, name it in OFFSETS of this file, with a reason."""
    arguments = encoding.arguments(POSITIONS["unsorted"])
    shift = data.draw(shifts(encoding))
    here, there = logits(encoding, arguments), logits(encoding, moved(encoding, arguments, shift))
    within(gap(there, here), tolerance(encoding))


@through_doors("bias", "score", but=OFFSETS)
def test_places_beyond_32_bits_are_told_apart(encoding):
    """Keep whole positions in 64 bits, and subtract them there or in float64."""
    if "far" in encoding.declared("REFUSED", ()):
        pytest.skip("it refuses far positions")
    here = encoding.arguments(POSITIONS["unsorted"])
    there = moved(encoding, here, 2**40)
    within(gap(logits(encoding, there), logits(encoding, here)), 1e-3)  # waves lose some digits there


@each_of(OFFSETS)
def test_what_depends_on_more_than_offsets(encoding):
    """It depends on offsets alone after all: take it out of OFFSETS of this file."""
    arguments = encoding.arguments(POSITIONS["unsorted"])
    beyond(gap(logits(encoding, moved(encoding, arguments, 901)), logits(encoding, arguments)), 1e-2)


def effect_of_moving_keys(encoding: Encoding) -> float:
    """Return how much the logits change where the keys move and the queries stay."""
    arguments = encoding.arguments(POSITIONS["unsorted"])
    elsewhere = moved(encoding, arguments, 3, "key_positions")
    return gap(logits(encoding, elsewhere), logits(encoding, arguments))


@through_doors("rotate", "bias", "score", but=KEYS)
def test_logits_depend_on_offsets(encoding):
    """Moving the keys must change logits: else the encoding says nothing about places."""
    beyond(effect_of_moving_keys(encoding), 1e-3)


@each_of(KEYS)
def test_what_does_not_see_where_keys_stand(encoding):
    """It sees where keys stand after all: take it out of KEYS of this file."""
    within(effect_of_moving_keys(encoding), 0)


def effect_of_another_token(encoding: Encoding) -> float:
    """Return how much one key changes the logits of the others."""
    arguments = encoding.arguments(np.arange(6), np.arange(6))
    changed = arguments | {"k": arguments["k"].copy()}
    changed["k"][:, :, 2] += 1
    here, there = (logits(encoding, inputs) for inputs in (arguments, changed))
    return gap(there[..., [0, 1, 3, 4, 5]], here[..., [0, 1, 3, 4, 5]])


@through_doors("rotate", "score", but=PAIRS)
def test_a_logit_depends_on_its_two_tokens_only(encoding):
    """A third token changes no logit. If it must, name it in PAIRS of this file, with a reason."""
    within(effect_of_another_token(encoding), 1e-12)


@each_of(PAIRS)
def test_what_depends_on_tokens_between(encoding):
    """It depends on two tokens alone after all: take it out of PAIRS of this file."""
    beyond(effect_of_another_token(encoding), 1e-3)


# Decoding


@through_doors(but=NEIGHBORS)
@pytest.mark.parametrize("sizes", [[1] * 10, [4, 3, 1, 2]], ids=["token by token", "in chunks"])
@pytest.mark.parametrize("with_positions", [False, True], ids=["by default", "given"])
def test_decoding_equals_prefill(encoding, sizes, with_positions):
    """One token after the other gives what all at once give: place queries at the last t of the keys."""
    if not with_positions:
        needs_text(encoding)
    (q, k, v), p = tokens(encoding, 10), places(encoding, 10)
    whole = attend(encoding, q, k, v, causal=True, **(at(p) if with_positions else {}))
    for end, size in zip(np.cumsum(sizes), sizes, strict=True):
        new = slice(end - size, end)
        here = at(p[new], p[:end]) if with_positions else {}
        step = attend(encoding, q[:, :, new], k[:, :, :end], v[:, :, :end], causal=True, **here)
        within(gap(step, whole[:, :, new]), tolerance(encoding))


def effect_of_a_cache(encoding: Encoding) -> float:
    """Return how far decoding with keys that were encoded one by one is from the whole text."""
    (q, k, v), p = tokens(encoding, 10), places(encoding, 10)
    whole = attend(encoding, q, k, v, causal=True, **at(p))
    encode, cache, apart = entering(encoding, built(str(encoding))), [], []
    for t in range(10):
        new_q, new_k = encode(q[:, :, t : t + 1], k[:, :, t : t + 1], p[t : t + 1], p[t : t + 1])
        cache.append(new_k)
        new_q = new_q * (new_q.shape[-1] / encoding.width) ** 0.5  # the scale is that of the width before
        step = attention(new_q, torch.cat(cache, dim=2), v[:, :, : t + 1])
        apart.append(gap(step, whole[:, :, t : t + 1]))
    return max(apart)


@through_doors("add", "rotate", but=CACHED)
def test_keys_may_be_cached_as_they_were_encoded(encoding):
    """An encoded key depends on its own place alone, so that it can lie in a cache."""
    within(effect_of_a_cache(encoding), tolerance(encoding))


@each_of(NEIGHBORS)
def test_what_a_token_alone_lacks(encoding):
    """A token alone is encoded as among others after all: take it out of NEIGHBORS of this file."""
    x, p = tokens(encoding, 10)[0].flatten(0, 1), places(encoding, 10)
    module = built(str(encoding))
    beyond(gap(module(x[:, 5:6], p[5:6]), module(x, p)[:, 5:6]), 1e-3)
    assert encoding.declared("NEIGHBORS", False), f"say NEIGHBORS = True in the tests of {encoding.key}"


@each_of(CACHED)
def test_what_a_cache_of_encoded_keys_changes(encoding):
    """Its keys may be cached after all: take it out of CACHED of this file."""
    beyond(effect_of_a_cache(encoding), 1e-3)


# Padding and packing


def effect_of_padding(encoding: Encoding, lengths: tuple[int, ...], with_positions: bool) -> float:
    """Return how far the real tokens of texts padded on the left are from those of the texts alone."""
    longest = max(lengths)
    real = torch.arange(longest) >= longest - torch.tensor(lengths)[:, None]
    padded = [torch.where(real[:, None, :, None], x, 100.0) for x in tokens(encoding, longest, len(lengths))]
    positions = places(encoding, longest)[padded_positions(real)]
    actual = attend(
        encoding, *padded, causal=True, mask=real[:, None, None], **(at(positions) if with_positions else {})
    )
    apart = []
    for row, length in enumerate(lengths):
        text = [x[row : row + 1, :, longest - length :] for x in padded]
        alone = attend(encoding, *text, causal=True, **(at(places(encoding, length)) if with_positions else {}))
        apart.append(gap(actual[row : row + 1, :, longest - length :], alone))
    return max(apart)


@through_doors(but=NEIGHBORS)
@given(lengths=st.tuples(*[st.integers(1, 9)] * 2))
@exactly
def test_left_padding_changes_nothing_with_padded_positions(encoding, lengths):
    """A padded batch, with positions (b, t) that start at each text, gives what each text gives alone."""
    within(effect_of_padding(encoding, lengths, with_positions=True), tolerance(encoding))


@through_doors(but=NEIGHBORS)
def test_decoding_a_padded_batch_equals_prefill_alone(encoding):
    """Take a batch of positions for queries and another for keys, (b, t) and (b, s), and use both."""
    (q, k, v), real = tokens(encoding, 7), torch.arange(7) >= torch.tensor([[0], [3]])
    p = places(encoding, 7)[padded_positions(real)]
    step = attend(encoding, q[:, :, -1:], k, v, causal=True, mask=real[:, None, None], **at(p[:, -1:], p))
    for row, start in enumerate((0, 3)):
        text = [x[row : row + 1, :, start:] for x in (q, k, v)]
        alone = attend(encoding, *text, causal=True, **at(places(encoding, 7 - start)))
        within(gap(step[row], alone[0, :, -1:]), tolerance(encoding))


@through_doors(but=PADDED_UNTOLD)
def test_left_padding_changes_nothing_where_only_offsets_count(encoding):
    """Padding changes nothing. If it must, name it in PADDED_UNTOLD of this file, with a reason."""
    needs_text(encoding)
    within(effect_of_padding(encoding, (9, 4), with_positions=False), tolerance(encoding))


@each_of(PADDED_UNTOLD)
def test_what_left_padding_changes_without_padded_positions(encoding):
    """Padding changes nothing after all: take it out of PADDED_UNTOLD of this file."""
    needs_text(encoding)
    beyond(effect_of_padding(encoding, (9, 4), with_positions=False), 1e-3)


def effect_of_packing(encoding: Encoding, lengths: list[int], causal: bool) -> float:
    """Return how far documents in one row, each with positions from 0, are from each alone."""
    q, k, v = tokens(encoding, sum(lengths), batch=1)
    boundaries = torch.tensor([0, *np.cumsum(lengths)])
    documents, positions = packed_documents(boundaries), places(encoding, 5)[packed_positions(boundaries)]
    parts = zip(*(x.split(lengths, dim=2) for x in (q, k, v)), strict=True)
    alone = [attend(encoding, *part, causal=causal, **at(places(encoding, part[0].shape[2]))) for part in parts]
    packed = attend(encoding, q, k, v, causal=causal, mask=document_mask(documents), **at(positions))
    return gap(packed, torch.cat(alone, dim=2))


@through_doors(but=PACKED)
@given(lengths=st.lists(st.integers(1, 5), min_size=3, max_size=4), causal=st.booleans())
@exactly
def test_packed_documents_are_as_alone(encoding, lengths, causal):
    """Documents in one row, each with positions from 0, are what each is alone: use positions, never rows."""
    within(effect_of_packing(encoding, lengths, causal), tolerance(encoding))


@each_of(PACKED)
def test_what_packing_changes(encoding):
    """Packing changes nothing after all: take it out of PACKED of this file."""
    beyond(effect_of_packing(encoding, [3, 5, 4], causal=True), 1e-3)


# Context parallelism


@through_doors(but=NEIGHBORS)
@over_orders
@pytest.mark.parametrize("ranks", [2, 4])
def test_shards_equal_the_whole(encoding, order, ranks):
    """Keys may come in any order, each with its position: use positions, never rows."""
    (q, k, v), p = tokens(encoding, 16), places(encoding, 16)
    whole, parts = attend(encoding, q, k, v, causal=True, **at(p)), []
    held = [shard_positions(16, rank, ranks, order) for rank in range(ranks)]
    gathered = torch.cat(held)  # keys and values come rank by rank, not in order
    k, v = k[:, :, gathered], v[:, :, gathered]
    for rank, mine in enumerate(held):
        # rows of coordinates tell no order: there a mask does
        past = {"mask": mine[:, None] >= gathered} if encoding.declared("AXES", 0) else {"causal": True}
        parts.append(attend(encoding, shard(q, rank, ranks, order), k, v, **at(p[mine], p[gathered]), **past))
    within(gap(unshard(parts, order), whole), tolerance(encoding))


# Heads, gradients, dtypes


@over_encodings
def test_grouped_keys_equal_repeated_keys(encoding):
    """k may have fewer heads than q: each serves h/g heads of q in turn, as repeat_interleave would."""
    q, k, v = tokens(encoding, 6)
    repeated_k, repeated_v = (x.repeat_interleave(H // G, dim=1) for x in (k, v))
    for past in (True, False):
        grouped, repeated = (attend(encoding, q, *x, causal=past) for x in ((k, v), (repeated_k, repeated_v)))
        within(gap(grouped, repeated), tolerance(encoding))


@over_encodings
def test_gradients_are_those_of_differences(encoding):
    """The gradient is that of what is computed: no detach(), and no branch that leaves the formula."""
    module, p = encoding.build().double(), places(encoding, 4)
    inputs = [x.requires_grad_() for x in tokens(encoding, 4, batch=1)]

    def _attend(q: Tensor, k: Tensor, v: Tensor, *parameters: Tensor) -> Tensor:  # gradcheck moves them in place
        return attend(encoding, q, k, v, module, causal=True, **at(p))

    # the fast mode multiplies atol by sums over all inputs and outputs: its default passes a table without gradient
    fine, of_float32 = {"atol": 1e-8, "rtol": 1e-4}, {"eps": 1e-2, "atol": 1e-5, "rtol": 1e-2}
    tolerances = of_float32 if encoding.door == "bias" else fine
    assert torch.autograd.gradcheck(_attend, (*inputs, *module.parameters()), fast_mode=True, **tolerances)


@over_encodings
@over_coarse_dtypes
def test_half_precision_is_within_its_rounding(encoding, dtype):
    """Compute in float32 or float64 and cast once at the end."""
    module, p = encoding.build().requires_grad_(False), places(encoding, 10)
    p = p if "far" in encoding.declared("REFUSED", ()) else p + 100_003  # no number of 16 bits
    coarse = [x.to(dtype) for x in tokens(encoding, 10)]
    result = attend(encoding, *coarse, module, causal=True, **at(p))
    exact = attend(encoding, *(x.float() for x in coarse), module, causal=True, **at(p))
    assert result.dtype == dtype, f"{dtype} came in, {result.dtype} comes out"
    within(gap(result, exact), 4 * torch.finfo(dtype).eps * exact.abs().max().item())


@over_encodings
@over_coarse_dtypes
def test_casting_the_module_rounds_what_is_learned_and_nothing_else(encoding, dtype):
    """Keep no tensor but parameters, and compute from them in float32 or float64."""
    cast, rounded = encoding.build().to(dtype), encoding.build()
    rounded.load_state_dict({name: value.float() for name, value in cast.state_dict().items()})
    content = [x.float() for x in tokens(encoding, 10)]
    actual, expected = (attend(encoding, *content, module, causal=True) for module in (cast, rounded))
    within(gap(actual, expected), 0)
