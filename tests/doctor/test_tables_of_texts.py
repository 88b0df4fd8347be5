"""Tables of texts: what becomes of embeddings, decoding, padding, memory, coarse numbers, and how far they go."""

import pytest
import torch
from torch import nn

from posenc import diagnose
from tests.doctor.cases import ids as causes
from tests.doctor.cases import noise
from tests.doctor.test_table_patients import speeds, waves

# What becomes of embeddings


class Adds(nn.Module):
    """Embeddings (b, t, d) and a table, with one thing otherwise."""

    def __init__(self, otherwise):
        super().__init__()
        self.otherwise, self.norm, self.rows = otherwise, nn.LayerNorm(64), nn.Parameter(noise(8, 200, 64))

    def forward(self, x):
        t, dim = x.shape[1:]
        if dim != 64:
            raise ValueError("another width")
        return self.otherwise(x, waves(torch.arange(t), dim), self)


@pytest.mark.parametrize(
    ("otherwise", "found", "words"),
    [
        (lambda x, table, own: x + table, set(), "come through as they are"),
        (lambda x, table, own: table.expand(x.shape) + 0 * x, set(), "do not come through"),
        (lambda x, table, own: table, set(), "do not come through"),
        (lambda x, table, own: own.norm(x + table), set(), "come through unchanged"),
        (lambda x, table, own: x * 64 + table, {"scale-twice"}, "the width"),
        (lambda x, table, own: x / 8 + table, {"scale-twice"}, "1 over the root"),
        (lambda x, table, own: x / 64 + table, {"scale-twice"}, "1 over the width"),
        (lambda x, table, own: x * 8 + table, set(), "the square root of the width"),
        (lambda x, table, own: x * 3 + table, set(), "multiplied by 3"),
        (lambda x, table, own: x.add_(table), {"in-place"}, "written to in place"),
    ],
)
def test_what_becomes_of_embeddings(otherwise, found, words):
    report = diagnose(Adds(otherwise))
    assert causes(report) == found, str(report)
    assert words in report.finding("content").words


@pytest.mark.parametrize(
    ("otherwise", "cause"),
    [
        (lambda x, table, own: (x + table).transpose(0, 1), "batch-axis"),
        (lambda x, table, own: x + waves(torch.arange(len(x)), 64)[:, None], "batch-axis"),
        (lambda x, table, own: x + own.rows[: len(x), : x.shape[1]], "rows-mixed"),
        (lambda x, table, own: x + own.rows[: len(x), : x.shape[1]] / 100, "rows-mixed"),
        (lambda x, table, own: x + nn.functional.dropout(table, 0.1), "dropout-on"),
    ],
)
def test_axes_of_embeddings(otherwise, cause):
    report = diagnose(Adds(otherwise))
    assert causes(report) == {cause}, str(report)
    assert report.finding("everything else").verdict == "not checked"


def gate(x):
    return x * (1 + waves(torch.arange(x.shape[1]), 64)) if x.shape[-1] == 64 else 1 / 0


def channels_appended(x):
    """Embeddings (b, d, t)."""
    return torch.cat((x, waves(torch.arange(x.shape[2]), 64).T.expand(x.shape)), 1) if x.shape[1] == 64 else 1 / 0


def angles(x):
    return torch.arange(x.shape[1])[:, None] * speeds(128) if x.shape[-1] == 64 else 1 / 0


def pooled(x):
    """A class token for each text."""
    return noise(1, 1, 64).expand(len(x), 1, 64) if x.shape[-1] == 64 else 1 / 0


def mixes(x):
    if x.shape[1] > 20 or x.shape[-1] != 64:
        raise ValueError("a short text, please")
    return x + x.mean(1, keepdim=True) / 20 + waves(torch.arange(x.shape[1]), 64)


def whole_numbers(length, dim):
    return torch.arange(length)[:, None] * torch.arange(dim)


@pytest.mark.parametrize(
    "function",
    [nn.LayerNorm(64), nn.Linear(64, 160), gate, channels_appended, angles, pooled, mixes, whole_numbers],
)
def test_what_is_no_table(function):
    with pytest.raises(ValueError, match="must be a rotation, a table"):
        diagnose(function, kind="table", order="btd")


@pytest.mark.parametrize("axis", [1, 2])
def test_tokens_of_several_codebooks(axis):
    class Codes(nn.Module):
        """Rows for ids (b, codebooks, t), as in MusicGen."""

        def forward(self, input_ids):
            if input_ids.ndim != 3 or input_ids.is_floating_point():
                raise ValueError("ids (b, codebooks, t), please")
            return waves(torch.arange(input_ids.shape[axis]), 64)

    report = diagnose(Codes(), kind="table")
    assert causes(report) == ({"batch-axis"} if axis == 1 else set()), str(report)


# Use


@pytest.mark.parametrize("form", ["(b, t, 1)", "(t,)"])
def test_places_as_numbers(form):
    def fourier(x):
        if x.ndim != (3 if form == "(b, t, 1)" else 1) or x.shape[-1] == 64:
            raise ValueError("positions, please")
        turn = (x if form == "(b, t, 1)" else x[:, None]) * speeds(64)
        return torch.cat((turn.cos(), turn.sin()), -1)

    report = diagnose(fourier, kind="table")
    assert report.healthy, str(report)
    assert report.finding("decoding").verdict == "ok"


@pytest.mark.parametrize("lag", [-2, -1, 0, 0.125, 1, 2])
def test_a_token_alone_that_is_counted_otherwise(lag):
    def adds(x, offset=0):
        start = offset if x.shape[1] > 1 else offset + lag
        return x + waves(torch.arange(start, start + x.shape[1]), 64) if x.shape[-1] == 64 else 1 / 0

    cause = {0: set(), 0.125: {"offset-ignored"}, 2: {"offset-ignored"}}.get(lag, {"positions-shifted"})
    assert causes(diagnose(adds)) == cause, str(diagnose(adds))


def test_angles_that_depend_on_the_length():
    report = diagnose(lambda length, dim: waves(torch.arange(length) / length * 20, dim))
    assert causes(report) == {"length-dependent"}, str(report)


class Caches(nn.Module):
    """A table that is kept from call to call, and cast for embeddings of another dtype: for good, or for the call."""

    def __init__(self, coarse):
        super().__init__()
        self.coarse, self.kept = coarse, torch.zeros(0, 64)

    def forward(self, x):
        if x.shape[-1] != 64:
            raise ValueError("another width")
        if len(self.kept) < x.shape[1]:
            self.kept = waves(torch.arange(x.shape[1]), 64)
        cast = self.kept.to(x.dtype)
        self.kept = cast if self.coarse else self.kept
        return x + cast[: x.shape[1]]


@pytest.mark.parametrize("coarse", [False, True])
def test_a_table_that_is_kept(coarse):
    report = diagnose(Caches(coarse))
    assert causes(report) == ({"cache-stale"} if coarse else set()), str(report)


@pytest.mark.parametrize(
    ("ends", "found"),
    [
        ("raises", set()),
        ("cuts", set()),
        ("clips", {"clipped"}),
        ("wraps", {"wrapped"}),
        ("rounds", {"positions-rounded"}),
    ],
)
def test_the_end_of_a_table(ends, found):
    rows = noise(512, 64)

    def table(positions):
        if ends == "raises" or int(positions.max()) < 512:
            return rows[positions]
        if ends == "cuts":
            return rows[positions[positions < 512]]
        if ends == "clips":
            return rows[positions.clamp(max=511)]
        if ends == "wraps":
            return rows[positions % 511]
        return waves(positions // 4 * 4, 64)

    report = diagnose(table)
    assert causes(report) == found, str(report)


class Masked(nn.Module):
    """Positions of what a mask (b, t) shows, learned, as in OPT."""

    def __init__(self, counts_padding=False, strict=False):
        super().__init__()
        torch.manual_seed(0)
        self.rows, self.counts_padding, self.strict = nn.Embedding(300, 64), counts_padding, strict

    def forward(self, attention_mask):
        if self.strict and not attention_mask.all():
            raise ValueError("no padding, please")
        seen = torch.ones_like(attention_mask) if self.counts_padding else attention_mask
        return self.rows((seen.cumsum(1) * seen).long())


@pytest.mark.parametrize(
    ("settings", "found"), [({}, set()), ({"counts_padding": True}, {"padding-counted"}), ({"strict": True}, set())]
)
def test_rows_by_a_mask(settings, found):
    report = diagnose(Masked(**settings), kind="table")
    assert causes(report) == found, str(report)


class MaskedOrPlaced(Masked):
    """As in OPT, which takes positions, too."""

    def forward(self, attention_mask, past_key_values_length=0, position_ids=None):
        places = (attention_mask.cumsum(1) * attention_mask).long() if position_ids is None else position_ids
        return self.rows(places[:, past_key_values_length:])


def test_rows_by_a_mask_are_no_bias_of_what_each_query_sees():
    report = diagnose(MaskedOrPlaced())
    assert report.kind == "table"
    assert report.healthy, str(report)


class Rows(nn.Module):
    """Token ids, whose padding has row 0 and is counted all the same."""

    padding_idx = 1

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(noise(300, 64))

    def forward(self, input_ids):
        t = input_ids.shape[1]
        return self.table[(torch.arange(t) + 1).expand(input_ids.shape) * input_ids.ne(1)]


def test_padding_on_the_right_only():
    report = diagnose(Rows(), kind="table")
    assert report.finding("padding").verdict == "note", str(report)
    assert "right with padding on the right only" in report.finding("padding").words


@pytest.mark.parametrize(
    ("of_each", "found"),
    [
        (lambda rows, at: rows[at], set()),
        (lambda rows, at: rows[at[:1]].expand(len(at), -1, -1), {"rows-mixed"}),
        (lambda rows, at: rows[at].flatten(0, 1), set()),
    ],
)
def test_positions_of_each_text(of_each, found):
    rows = noise(300, 64)
    report = diagnose(lambda positions: of_each(rows, positions) if positions.ndim == 2 else rows[positions])
    assert causes(report) == found, str(report)


@pytest.mark.parametrize(
    ("coarse", "found"),
    [
        (lambda at, x: at.to(x.dtype)[:, None] * speeds(64), {"positions-rounded"}),
        (lambda at, x: at.float()[:, None] * speeds(64).to(x.dtype), {"angles-rounded"}),
        (lambda at, x: at[:, None] * speeds(64), set()),
    ],
)
def test_embeddings_in_half_precision(coarse, found):
    def adds(x):
        if x.shape[-1] != 64:
            raise ValueError("another width")
        angle = coarse(torch.arange(x.shape[1]), x).float()
        return x + torch.cat((angle.sin(), angle.cos()), -1).to(x.dtype)

    assert causes(diagnose(adds)) == found, str(diagnose(adds))


def test_embeddings_in_half_precision_that_are_refused():
    def adds(x):
        if x.shape[-1] != 64 or x.dtype != torch.float32:
            raise ValueError("float32 of width 64, please")
        return x + waves(torch.arange(x.shape[1]), 64)

    report = diagnose(adds)
    assert report.healthy, str(report)
    assert report.finding("half input").verdict == "not checked"


@pytest.mark.parametrize("way", ["refuses", "crashes", "fits", "is wider"])
def test_an_odd_width(way):
    def table(length, dim):
        if way == "refuses" and dim % 2:
            raise ValueError("dim must be even")
        made = waves(torch.arange(length), dim + dim % 2)
        if way == "crashes":
            return made.view(length, dim)
        return made if way == "is wider" else made[:, :dim]

    report = diagnose(table)
    assert report.healthy
    assert report.finding("odd width").verdict == ("ok" if way in ("refuses", "fits") else "note")
