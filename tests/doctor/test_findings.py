"""What the doctor reads off code: one line of it for each finding that the bugs of `cases` do not bring about."""

import math

import pytest
import torch
from torch import arange, nn

from posenc.doctor import diagnose
from tests.doctor import cases
from tests.doctor.cases import rotation, slopes, table, thetas, turned

STEP = 10_000 ** (-2 / 64)  # from one frequency to the next


def turning(speeds):
    return lambda x, positions: turned(x, positions[:, None] * speeds)


def rounded_with_its_input(q, k, v, positions, key_positions):
    return cases.placed_attention(q, k, v, positions.to(q.dtype), key_positions.to(q.dtype))


def positional_only(x, positions, /):
    return rotation(x, positions)


def mixed(x, positions):
    """At each position but 0, one random rotation of all channels; and no doubles."""
    mixing = torch.linalg.qr(torch.randn(64, 64, generator=torch.Generator().manual_seed(0)))[0]
    return torch.where(positions[:, None] == 0, x, x.float() @ mixing if x.dtype != torch.float64 else 1 / 0)


def paired_once(x, positions):
    return torch.cat((rotation(x[..., :2], positions), x[..., 2:]), dim=-1)


def on_two_axes(x, positions):
    return torch.cat((rotation(x[..., :32], positions), cases.neighbors(x[..., 32:], positions)), dim=-1)


def stretched(x, positions):
    return rotation(x, positions) * (1 + (arange(64) % 32 == 4))


def mirrored(x, positions):
    angle = positions[:, None] * thetas(64)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * angle.cos() + second * angle.sin(), second * angle.cos() + first * angle.sin()), dim=-1)


def with_equal_rows(length, dim):
    rows = table(max(length, 10), dim)
    rows[9] = rows[3]
    return rows[:length]


def with_a_mask(q, k, v, mask=None):
    return cases.masked_attention(q, k, v) if mask is None else 1 / 0


def with_a_mask_that_hides(q, k, v, mask=None):
    hides = mask is None or (mask.dtype == torch.bool and not mask.all())
    return cases.masked_attention(q, k, v, mask) if hides else 1 / 0


def queries_from_0(q, k, v):
    q, k = rotation(q, arange(q.shape[2])), rotation(k, arange(k.shape[2]))
    return cases.last_aligned_attention(q, k, v)


def of_squares(positions, key_positions):
    return -slopes(4)[:, None, None] * (key_positions**2 - positions[:, None] ** 2).abs()


def without_a_result(q, k, v, cache=None):
    return cases.scaled_attention(q, k, v)


def rows_by_text(x, rows):
    return x + rows + arange(len(x))[:, None, None]


def normed(x, rows):
    return nn.functional.layer_norm(x + rows, rows.shape[1:])


class NoCopy:
    def __deepcopy__(self, memo):
        raise TypeError

    def __call__(self, x, positions):
        return rotation(x, positions)


class Tabled(nn.Module):
    """Ends at position 511."""

    def __init__(self, dim):
        super().__init__()
        self.angle = arange(512)[:, None] * thetas(dim)

    def forward(self, x, positions):
        return turned(x, self.angle[positions])


class Learns(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.one = nn.Parameter(torch.ones(1))

    def forward(self, x, positions):
        return rotation(x, positions) * self.factor(x.dtype)

    def factor(self, dtype):
        """Not a number once the module is cast."""
        return 1.0 if self.one.dtype == torch.float32 else math.nan


class RefusesOthers(Learns):
    def factor(self, dtype):
        return 1.0 if self.one.dtype == torch.float32 else 1 / 0


class TakesItsOwnDtype(Learns):
    def factor(self, dtype):
        return 1.0 if dtype in (self.one.dtype, torch.float64) else 1 / 0


class Adds(nn.Module):
    """Embeddings with what `made` makes of them and a table."""

    def __init__(self, made):
        super().__init__()
        self.made = made

    def forward(self, x):
        return self.made(x, table(600, x.shape[-1])[: x.shape[1]])


class AddsFromZero(nn.Module):
    def forward(self, x, positions):
        return x + table(x.shape[1], x.shape[2])


class AddsFromOffset(nn.Module):
    def forward(self, x, offset=0):
        return x + table(offset + x.shape[1], x.shape[2])[offset:]


ROTATIONS = [
    ("memory", "ok", "calls before it", Tabled),
    ("limit", "note", "ends at position 511", Tabled),
    ("linear", "note", "heads differ", lambda x, positions: rotation(x, positions) * (1 + arange(4)[:, None, None])),
    ("norm", "wrong", "mixed, not turned", mirrored),
    ("norm", "wrong", "the length of channels 4, 36 changes", stretched),
    ("norm", "note", "multiplied by 2.0000", lambda q, k: (2 * q, 2 * k)),
    ("layout", "note", "neither half nor interleaved", on_two_axes),
    ("layout", "note", "in more than pairs", mixed),
    ("frequencies", "note", "one pair alone, 1 rad", paired_once),
    ("frequencies", "wrong", "up to 1 rad a token and do not slow down", turning(thetas(64).flip(0))),
    ("frequencies", "wrong", "up to 2 rad a token and do not slow down", turning(2 * thetas(64))),
    ("frequencies", "wrong", "the index counts from 1", turning(STEP * thetas(64))),
    ("frequencies", "ok", "positions divided by 3 (linear", turning(thetas(64) / 3)),
    ("frequencies", "note", "base 5 fits: check the exponent", turning(thetas(64, 5.0))),
    ("frequencies", "wrong", "nothing turns at any position", turning(0 * thetas(64))),
    ("module cast", "note", "off by nan", Learns),
    ("module cast", "not checked", "ZeroDivisionError", RefusesOthers),
    ("module cast", "ok", "within", TakesItsOwnDtype),
    ("decoding", "wrong", "counted from the call", lambda x, positions: rotation(x, positions + x.shape[2])),
    ("gradients", "wrong", "does not require grad", lambda x, positions: rotation(x.detach(), positions)),
    ("layout", "ok", "half layout", positional_only),
    ("layout", "ok", "half layout", NoCopy()),
]
TABLES = [
    ("axis", "wrong", "different rows for the same positions", Adds(rows_by_text)),
    ("rows", "note", "repeat every 7 positions", lambda length, dim: table(7, dim)[arange(length) % 7]),
    ("rows", "wrong", "positions 3 and 9 have the same row", with_equal_rows),
    ("order", "note", "is that of position 1", lambda length, dim: table(length + 1, dim)[1:]),
    ("content", "wrong", "written to in place", Adds(lambda x, rows: x.add_(rows))),
    ("content", "note", "a norm, a projection?", Adds(normed)),
    ("content", "note", "multiplied by 3", Adds(lambda x, rows: 3 * x + rows)),
    ("decoding", "wrong", "another row than among others", AddsFromZero()),
    ("decoding", "ok", "row of its position", AddsFromOffset()),
    ("decoding", "ok", "row of its position", lambda offset, length, dim: table(offset + length, dim)[offset:]),
]
BIASES = [
    ("offsets", "note", "as in BLOOM and MPT", lambda heads, t, s: slopes(heads)[:, None, None] * arange(s)),
    ("offsets", "wrong", "depends on absolute places", of_squares),
    ("decoding", "not checked", "take the last rows", lambda heads, length: cases.bias(heads, length, length)),
    ("decoding", "ok", "gets the last row", lambda heads, n, length: cases.bias(heads, n, length)),
    ("other heads", "note", "12 heads raise ZeroDivisionError", lambda heads: slopes(heads) if heads < 12 else 1 / 0),
    ("slopes", "wrong", "8 heads get 4 slopes", lambda heads: slopes(4)),
    ("slopes", "note", "not ALiBi's: 0.5, 0.25, 0.125", lambda heads: 0.5 ** (1 + arange(heads))),
    ("slopes", "note", "not ALiBi's: 1, 1.333, 1.667, 2 and not 0.25", lambda heads: torch.linspace(1, 2, heads)),
]
ATTENTIONS = [
    ("future", "note", "and so does causal=False", lambda q, k, v, causal=False: cases.last_aligned_attention(q, k, v)),
    ("decoding", "wrong", "taken for the first token", queries_from_0),
    ("half precision", "wrong", "computed in the input's dtype", rounded_with_its_input),
    ("cache", "not checked", "needs a result (out, cache)", without_a_result),
    ("padding", "not checked", "no mask of booleans", with_a_mask),
    ("padding", "not checked", "a mask that hides nothing raises", with_a_mask_that_hides),
]
KINDS = {"rotation": ROTATIONS, "table": TABLES, "bias": BIASES, "attention": ATTENTIONS}
ENTRIES = [(kind, *entry) for kind, entries in KINDS.items() for entry in entries]


@pytest.mark.parametrize(("kind", "check", "verdict", "phrase", "function"), ENTRIES)
def test_a_finding(kind, check, verdict, phrase, function):
    report = diagnose(function)
    finding = next(finding for finding in report.findings if finding.check == check)
    assert (report.kind, finding.verdict) == (kind, verdict), str(report)
    assert phrase in finding.words


def test_pairs_that_mix_and_do_not_turn_have_no_sense_and_no_frequencies():
    assert not {"direction", "frequencies"} & {finding.check for finding in diagnose(mirrored).findings}


def test_sizes_that_are_too_small_for_a_check():
    narrow, odd = diagnose(cases.scaled_attention, dim=8), diagnose(cases.scaled_attention, heads=3)
    for check in ("offsets", "decay", "scale"):
        assert narrow.finding(check).words == "needs heads of at least 16 channels"
    assert odd.finding("grouped heads").words == "needs an even number of heads"


def test_one_slope():
    assert (
        "not ALiBi's: 3 and not 0.003906" in diagnose(lambda heads: 3 * torch.ones(heads), heads=1).finding("slopes").words
    )


def test_a_class_that_cannot_be_built_says_why():
    class Broken(nn.Module):
        def __init__(self, dim):
            raise RuntimeError("no weights")

    with pytest.raises(ValueError, match=r"got .*Broken, which raises RuntimeError: no weights"):
        diagnose(Broken)
