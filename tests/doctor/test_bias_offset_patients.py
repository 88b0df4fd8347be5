"""Biases that are wrong in how they see offsets: buckets, boxes, what calls keep, and what happens far out."""

import pytest
import torch
from torch import nn

from posenc.doctor import diagnose
from tests.doctor.cases import ids, slopes
from tests.doctor.test_bias_patients import ARANGE, Boxes, bucket


class OfOffsets(nn.Module):
    """A learned bias by buckets of the offset."""

    def __init__(self, change=bucket, **said):
        super().__init__()
        torch.manual_seed(0)
        self.change, self.table = change, nn.Embedding(int(change(ARANGE(-600, 601)).max()) + 1, 4)
        for name, value in said.items():
            setattr(self, name, value)

    def forward(self, i, j):
        offset = ARANGE(j) - ARANGE(j - i, j)[:, None]
        return self.table(self.change(offset)).permute(2, 0, 1)


def narrowing(offset):
    """Buckets of six and then of two distances, the wrong way round."""
    distance = offset.abs()
    return torch.where(distance < 12, distance // 6, 2 + ((distance - 12) // 2).clamp(0, 20)) + 23 * (offset > 0)


def widening(offset):
    distance = offset.abs()
    return torch.where(distance < 12, distance // 2, 6 + ((distance - 12) // 6).clamp(0, 16)) + 23 * (offset > 0)


def test_buckets_widen_with_the_distance():
    assert diagnose(OfOffsets(widening), heads=4).healthy, str(diagnose(OfOffsets(widening), heads=4))
    report = diagnose(OfOffsets(narrowing), heads=4)
    assert ids(report) == {"buckets-wrong"}
    assert "6 neighboring distances share a number and the next ones, further off, only 2" in str(report).replace(
        "\n             ", " "
    )


@pytest.mark.parametrize("said", [{"bidirectional": True}, {"is_decoder": False}, {"causal": False}])
@pytest.mark.parametrize("change", [lambda offset: bucket(-offset.abs()), lambda offset: bucket(offset.clamp(max=0))])
def test_code_that_says_that_it_tells_both_directions_apart(change, said):
    assert "one-direction-lost" in ids(diagnose(OfOffsets(change, **said), heads=4))


@pytest.mark.parametrize("said", [{}, {"bidirectional": False}, {"is_decoder": True}])
@pytest.mark.parametrize("change", [lambda offset: bucket(-offset.abs()), lambda offset: bucket(offset.clamp(max=0))])
def test_code_that_says_nothing_of_the_kind(change, said):
    assert "one-direction-lost" not in ids(diagnose(OfOffsets(change, **said), heads=4))


def of_function(change):
    def bias(n_heads, i, j):
        offset = (ARANGE(j) - ARANGE(j - i, j)[:, None]).double()
        return change(offset, -slopes(n_heads)[:, None, None] * offset.abs())

    return diagnose(bias, heads=4)


def test_every_key_of_a_query_gets_the_same():
    assert ids(of_function(lambda offset, made: made[:, :, :1].expand_as(made))) == {"absolute"}


def test_a_bias_of_zeros_is_noted():
    assert of_function(lambda offset, made: 0 * made).finding("offsets").verdict == "note"


def test_a_constant_of_each_query_is_noted():
    report = of_function(lambda offset, made: made - made[:, :, :1])
    assert report.healthy, str(report)
    assert "a constant of each query" in report.finding("offsets").words


def at_places(change, positions, key_positions):
    q, k = positions, key_positions
    return -slopes(4)[:, None, None] * change(q[:, None], k)


@pytest.mark.parametrize(
    ("change", "verdict", "said"),
    [
        (lambda q, k: (q - k).abs().float(), "ok", "the same at 1,000,000"),
        (lambda q, k: (q - k).abs().clamp(max=5), "ok", "the same at 1,000,000"),
        (lambda q, k: (q.bfloat16() - k.bfloat16()).abs().float(), "wrong", "neighbors share a number"),
        (lambda q, k: (q - k).abs() * (1.0 + (q > 9_000)), "note", "from position 10,000 on the numbers are others"),
        (lambda q, k: (q - k).abs() * (1.0 + (q > 900_000)), "note", "from position 1,000,000 on"),
    ],
)
def test_a_bias_far_out(change, verdict, said):
    report = diagnose(lambda positions, key_positions: at_places(change, positions, key_positions), heads=4)
    assert report.finding("far positions").verdict == verdict, str(report)
    assert said in report.finding("far positions").words


def test_positions_that_raise_far_out_are_noted():
    table = -ARANGE(5_000.0)

    def bias(positions, key_positions):
        return (
            slopes(4)[:, None, None]
            * table[(positions.max() - positions)[:, None] * 0 + positions.max() - 0 * key_positions]
            - slopes(4)[:, None, None] * (positions[:, None] - key_positions).abs()
        )

    report = diagnose(bias, heads=4)
    assert [found.verdict for found in report.findings if found.check == "far positions"] == ["note"]
    assert "position 10,000 raises IndexError" in report.finding("far positions").words


class Remembers(nn.Module):
    """ALiBi that keeps what a call made, by how many keys it was asked for, or as it came."""

    def __init__(self, fault=""):
        super().__init__()
        self.fault, self.kept = fault, {}

    def forward(self, i, j):
        key = j if self.fault == "by keys" else (i, j)
        if key not in self.kept:
            if self.fault == "raises" and self.kept:
                raise RuntimeError("a second size")
            self.kept[key] = -slopes(4)[:, None, None] * (ARANGE(j - i, j)[:, None] - ARANGE(j)).abs()
        return self.kept[key][:, -i:]


def test_what_is_kept_between_calls():
    assert diagnose(Remembers(), heads=4).healthy, str(diagnose(Remembers(), heads=4))
    assert "cache-stale" in ids(diagnose(Remembers("raises"), heads=4))


def decoded(change):
    def bias(n_heads, i, j):
        made = -slopes(n_heads)[:, None, None] * (ARANGE(j - i, j)[:, None] - ARANGE(j)).abs()
        return change(made, i, j)

    return diagnose(bias, heads=4)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda made, i, j: made if i == j else 0 * made, "gets no bias at all"),
        (lambda made, i, j: made if i == j else made.expand(4, 2, j), "one query after"),
        (lambda made, i, j: made if i == j else made[:, :, :0], "one query after"),
    ],
)
def test_one_query_after_its_keys(change, said):
    report = decoded(change)
    assert report.finding("decoding").verdict == "note", str(report)
    assert said in report.finding("decoding").words


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (lambda made: made / max(made.shape[-1], 64), "length-dependent"),
        (lambda made: made * (1 + 0.01 * (ARANGE(made.shape[-2])[:, None] > 100)), "absolute"),
        (lambda made: made.clamp(min=-40 * made[:, -1, -2].abs()[:, None, None]), "clipped"),
    ],
)
def test_many_keys(change, cause):
    def bias(n_heads, i, j):
        return change(-slopes(n_heads)[:, None, None] * (ARANGE(j - i, j)[:, None] - ARANGE(j)).abs())

    assert cause in ids(diagnose(bias, heads=4)), str(diagnose(bias, heads=4))


class Places(Boxes):
    """The bias by boxes, where something beside the offsets is read, or one axis alone."""

    def __init__(self, how):
        super().__init__()
        self.how = how

    def forward(self, bbox):
        x, y = bbox[:, :, 0].long(), bbox[:, :, 3].long()
        right, below = (place[:, None, :] - place[:, :, None] for place in (x, y))
        made = {
            "places": lambda: self.x(bucket(right)) + self.y(bucket(below)) + self.y(y // 32)[:, :, None],
            "along x": lambda: self.x(bucket(right)),
            "along y": lambda: self.x(bucket(below)),
            "one table": lambda: self.x(bucket(right)) + self.x(bucket(below)),
            "added up": lambda: self.x(bucket(right + below)),
        }
        return made[self.how]().permute(0, 3, 1, 2)


def on_a_page(how, name="Places", tables=2):
    module = Places(how)
    if tables == 1:
        module.y = nn.Identity()
    module.__class__ = type(name, (Places,), {})
    return diagnose(module, heads=4)


@pytest.mark.parametrize(
    ("how", "name", "causes"),
    [
        ("places", "Places", {"absolute"}),
        ("along x", "Places", {"axis-lost"}),
        ("along y", "Places", {"axis-lost"}),
        ("along x", "HorizontalBias", set()),
        ("along y", "VerticalBias", set()),
        ("along x", "VerticalBias", {"axes-swapped"}),
        ("along y", "HorizontalBias", {"axes-swapped"}),
        ("added up", "Places", {"axes-swapped"}),
    ],
)
def test_which_axes_of_a_page_are_seen(how, name, causes):
    report = on_a_page(how, name)
    assert ids(report) == causes, str(report)


def test_both_axes_of_a_page_may_share_one_table():
    report = on_a_page("one table", tables=1)
    assert report.healthy, str(report)
    assert "share their numbers" in report.finding("axes").words
