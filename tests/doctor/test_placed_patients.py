"""Patients of the doctor that are told positions, masks or widths: each with one fault, beside the sound version."""

import pytest
import torch
from torch import nn

from posenc.doctor import diagnose
from tests.doctor.cases import ids, rotation
from tests.doctor.test_future_patients import attention, below, everything
from tests.doctor.test_opened_patients import Grouped, Turns, turned

# Positions


def of_both(q, k, v, positions, key_positions):
    return attention(rotation(q, positions), rotation(k, key_positions), v, everything(q, k))


def of_queries_alone(q, k, v, positions, key_positions):
    return attention(rotation(q, positions), rotation(k, torch.arange(k.shape[2])), v, everything(q, k))


def of_none(q, k, v, positions, key_positions):
    return attention(q, k, v, everything(q, k))


def clipped(q, k, v, positions, key_positions):
    q, k = rotation(q, positions.clamp(max=2047)), rotation(k, key_positions.clamp(max=2047))
    return attention(q, k, v, everything(q, k))


def in_its_dtype(q, k, v, positions, key_positions):
    q, k = (turned(x, at.to(x.dtype)) for x, at in ((q, positions), (k, key_positions)))
    return attention(q, k, v, everything(q, k))


def rounded(q, k, v, positions, key_positions):
    q, k = (rotation(x, at.bfloat16().float()) for x, at in ((q, positions), (k, key_positions)))
    return attention(q, k, v, everything(q, k))


def of_all_keys(q, k, v, positions):
    return attention(rotation(q, positions[-q.shape[2] :]), rotation(k, positions), v, below(q, k))


def of_its_queries(q, k, v, positions):
    return attention(rotation(q, positions), rotation(k, torch.arange(k.shape[2])), v, below(q, k))


def of_the_last(q, k, v, positions):
    """Takes as many positions as there are queries, for keys as well."""
    keys = positions[-1] + torch.arange(1 - k.shape[2], 1)
    return attention(rotation(q, positions), rotation(k, keys), v, below(q, k))


def of_the_first(q, k, v, positions):
    """Takes queries for the first of the keys, so that fewer queries than keys cannot be asked."""
    return attention(rotation(q, positions[: q.shape[2]]), rotation(k, positions), v, below(q, k))


def added(q, k, v, positions, key_positions):
    return of_both(
        q + torch.sin(positions[:, None] * torch.ones(16)),
        k + torch.sin(key_positions[:, None] * torch.ones(16)),
        v,
        positions,
        key_positions,
    )


@pytest.mark.parametrize(
    ("function", "causes"),
    [
        (of_both, set()),
        (of_all_keys, set()),
        (of_its_queries, set()),
        (of_the_last, set()),
        (of_the_first, set()),
        (of_queries_alone, {"sides-differ"}),
        (of_none, {"positions-ignored"}),
        (clipped, {"clipped"}),
        (rounded, {"clipped"}),
        (in_its_dtype, {"precision-lost"}),
        (added, {"absolute"}),
    ],
)
def test_positions_of_queries_and_keys(function, causes):
    report = diagnose(function, dim=16, heads=2)
    assert causes <= ids(report) if causes else report.healthy, str(report)


class Placed(Turns):
    """Takes positions."""

    def forward(self, x, positions):
        self.queries = self.of_keys = positions
        return super().forward(x)

    def products(self, q, k):
        return Grouped.products(self, turned(q, self.queries), turned(k, self.of_keys))


class OfQueriesAlone(Placed):
    def products(self, q, k):
        return Grouped.products(self, turned(q, self.queries), turned(k, torch.arange(k.shape[2])))


class OfNone(Placed):
    def products(self, q, k):
        return Grouped.products(self, q, k)


class WithATable(Placed):
    def products(self, q, k):
        table = torch.sin(self.queries[:, None] * 100.0 ** -torch.linspace(0, 1, q.shape[-1])).to(q)
        return super().products(q + table, k + table)


@pytest.mark.parametrize(
    ("cls", "cause"),
    [
        (Placed, None),
        (OfQueriesAlone, "sides-differ"),
        (OfNone, "positions-ignored"),
        (WithATable, "absolute"),
    ],
)
def test_positions_that_a_module_takes(cls, cause):
    report = diagnose(cls(), dim=64, heads=4)
    assert (cause in ids(report)) if cause else report.healthy, str(report)


class RotaryEmbedding(nn.Module):
    def forward(self, x):
        return turned(x, torch.arange(x.shape[2]))


class NotTurned(Grouped):
    """Makes a rotation and forgets to apply it."""

    def __init__(self):
        super().__init__()
        self.rope = RotaryEmbedding()

    def products(self, q, k):
        self.rope(q), self.rope(k)
        return super().products(q, k)


class AllNotTurned(NotTurned):
    causal = False


class NotBiased(Grouped):
    """Holds the slopes of ALiBi and forgets them."""

    def __init__(self):
        super().__init__()
        self.register_buffer("alibi_slopes", torch.ones(4))


def forgets_alibi(q, k, v):
    alibi_slopes = 2.0 ** -torch.arange(q.shape[1])
    alibi_slopes.mul(1.0)
    return attention(q, k, v, below(q, k))


@pytest.mark.parametrize(
    ("made", "cause"),
    [
        (NotTurned, "positions-ignored"),
        (AllNotTurned, "positions-ignored"),
        (NotBiased, "bias-lost"),
        (lambda: forgets_alibi, "bias-lost"),
        (Grouped, None),
    ],
)
def test_what_is_made_reaches_the_weights(made, cause):
    report = diagnose(made(), dim=64, heads=4)
    assert ids(report) == ({cause} if cause else set()), str(report)


# Masks


class Masked(Turns):
    """Hides padding where the mask is 0, and turns."""

    keeps = staticmethod(lambda mask: mask.bool()[:, None, None])
    causal = True

    def forward(self, x, mask=None):
        self.seen = None if mask is None else self.keeps(mask)
        return super().forward(x)

    def weights(self, logits):
        logits = logits if self.seen is None else logits.masked_fill(~self.seen, -1e9)
        return super().weights(logits)


class OfPairs(Masked):
    """Takes a mask for each query and key."""

    @staticmethod
    def keeps(mask):
        assert mask.shape[1:] == (1, mask.shape[-1], mask.shape[-1])
        return mask.bool()


class OfRows(Masked):
    """Takes (b, 1, s)."""

    @staticmethod
    def keeps(mask):
        assert mask.ndim == 3
        return mask.bool()[:, None]


class OfNumbers(OfPairs):
    """Takes 0 and -inf for each query and key."""

    @staticmethod
    def keeps(mask):
        assert mask.is_floating_point()
        return OfPairs.keeps(mask == 0)


class OfWholeNumbers(Masked):
    @staticmethod
    def keeps(mask):
        assert mask.dtype == torch.long
        return Masked.keeps(mask)


class TrueHides(Masked):
    keeps = staticmethod(lambda mask: ~mask.bool()[:, None, None])


class TruePads(TrueHides):
    def forward(self, x, key_padding_mask=None):
        return super().forward(x, key_padding_mask)


class TrueAttends(TrueHides):
    def forward(self, x, attention_mask=None):
        return super().forward(x, attention_mask)


class OnQueries(Masked):
    keeps = staticmethod(lambda mask: mask.bool()[:, None, :, None])


class Unmasked(Masked):
    keeps = staticmethod(lambda mask: torch.ones(1).bool())


class AddedAsIs(Masked):
    def weights(self, logits):
        return Grouped.weights(self, logits if self.seen is None else logits + self.seen.float())


class AddedToHide(AddedAsIs):
    """Takes 0 and -inf."""

    keeps = staticmethod(lambda mask: mask[:, None, None])


class Encoding(Masked):
    causal = False


class TurnedFromTheFirst(Masked):
    """Queries count real tokens, keys all: padding moves them apart."""

    def products(self, q, k):
        places = torch.arange(q.shape[2])
        real = places if self.seen is None else (self.seen[:, 0].long().cumsum(-1) - 1).clamp(min=0)
        return Grouped.products(self, turned(q, real), turned(k, places))


class TurnedByItsName(TurnedFromTheFirst):
    def __init__(self):
        super().__init__()
        self.rope = RotaryEmbedding()


@pytest.mark.parametrize(
    ("cls", "cause"),
    [
        (Masked, None),
        (Encoding, None),
        (OfPairs, None),
        (OfRows, None),
        (OfNumbers, None),
        (OfWholeNumbers, None),
        (TrueHides, None),
        (TruePads, None),
        (AddedToHide, None),
        (TrueAttends, "mask-inverted"),
        (OnQueries, "mask-ignored"),
        (Unmasked, "mask-ignored"),
        (AddedAsIs, "mask-ignored"),
        (TurnedFromTheFirst, "padding-counted"),
        (TurnedByItsName, "absolute"),
    ],
)
def test_masks_of_padding(cls, cause):
    report = diagnose(cls(), dim=64, heads=4)
    assert ids(report) == ({cause} if cause else set()), str(report)


# Widths and layers


class Joined(nn.Module):
    """Takes queries, keys and values (b, t, d) and projects them."""

    def __init__(self, dim, inner=None, scale=None):
        super().__init__()
        self.num_heads = 4
        self.scale = scale or (dim // 4) ** -0.5
        self.to_a, self.to_b, self.to_c = (nn.Linear(dim, inner or dim) for _ in range(3))
        self.mixing = nn.Linear(inner or dim, dim)

    def forward(self, query, key, value):
        layers = ((self.to_a, query), (self.to_b, key), (self.to_c, value))
        q, k, v = (layer(x).unflatten(-1, (4, -1)).transpose(1, 2) for layer, x in layers)
        return self.mixing(((q @ k.mT * self.scale).softmax(-1) @ v).transpose(1, 2).flatten(2))


@pytest.mark.parametrize(
    ("made", "dim", "cause"),
    [
        (lambda: Joined(64), 64, None),
        (lambda: Joined(64, scale=1.0), 64, "scale-missing"),
        (lambda: Joined(64, inner=128), 64, None),
        (lambda: nn.MultiheadAttention(16, 4, batch_first=True), 16, None),
    ],
)
def test_queries_keys_and_values_that_are_projected(made, dim, cause):
    report = diagnose(made(), dim=dim, heads=4)
    assert ids(report) == ({cause} if cause else set()), str(report)


class Convolved(nn.Module):
    """Layers are convolutions of single tokens, and texts (b, d, t)."""

    def __init__(self, scale=0.25, mixed=False):
        super().__init__()
        self.num_heads, self.scale, self.mixed = 4, scale, mixed
        self.q_conv, self.k_conv, self.v_conv, self.o_conv = (nn.Conv1d(64, 64, 1) for _ in range(4))

    def forward(self, x):
        q, k, v = (layer(x).unflatten(1, (4, -1)).mT for layer in (self.q_conv, self.k_conv, self.v_conv))
        out = (q @ k.mT * self.scale).softmax(-1) @ v
        return self.o_conv(out.reshape(x.shape) if self.mixed else out.mT.flatten(1, 2))


@pytest.mark.parametrize(
    ("given", "cause"), [({}, None), ({"scale": 1.0}, "scale-missing"), ({"mixed": True}, "heads-mixed")]
)
def test_convolutions_of_single_tokens(given, cause):
    report = diagnose(Convolved(**given), dim=64, heads=4)
    assert ids(report) == ({cause} if cause else set()), str(report)
