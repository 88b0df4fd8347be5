"""Patients of the doctor that public code has brought: each with one fault, beside the sound version."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from posenc.doctor import diagnose, model
from posenc.doctor.report import run_checks
from tests.doctor import cases
from tests.doctor.cases import ids, rotation, slopes, table, thetas, turned

# Queries and keys mixed up


def turned_pair(q, k, positions):
    return rotation(q, positions), rotation(k, positions)


MIXED = {
    "queries for both": (lambda q, k, positions: (rotation(q, positions),) * 2, "one-for-both"),
    "keys for both": (lambda q, k, positions: (rotation(k, positions),) * 2, "one-for-both"),
    "exchanged": (lambda q, k, positions: turned_pair(k, q, positions), "swapped"),
}


@pytest.mark.parametrize("name", MIXED)
def test_each_of_queries_and_keys_comes_out_of_its_own_content(name):
    function, cause = MIXED[name]
    report = diagnose(function)
    assert ids(report) == {cause}, str(report)
    assert diagnose(turned_pair).healthy


# Few positions


class Short(nn.Module):
    def __init__(self, dim, length=256):
        super().__init__()
        self.angle = torch.arange(length)[:, None] * thetas(dim)

    def forward(self, x, positions):
        return turned(x, self.angle[positions])


class ShortFromZero(Short):
    def forward(self, x):
        return turned(x, self.angle[: x.shape[2]])


@pytest.mark.parametrize("length", [16, 64, 256, 512])
@pytest.mark.parametrize("cls", [Short, ShortFromZero])
def test_a_rotation_of_few_positions_is_examined(cls, length):
    report = diagnose(cls(64, length))
    assert report.healthy, str(report)
    assert report.finding("limit").number == length - 1
    assert "base 10,000" in report.finding("frequencies").words


def test_positions_that_start_again_are_said_to_do_so():
    def rotate(x, positions):
        return rotation(x, positions % 4096)

    finding = diagnose(rotate).finding("limit")
    assert finding.id == "wrapped"
    assert "position 4,096 is turned as an earlier one is" in finding.words


def test_tokens_beyond_the_table_that_are_not_turned_are_said_so():
    def rotate(x, positions):
        return torch.where((positions < 4096)[:, None], rotation(x, positions), x)

    assert "are not turned at all" in diagnose(rotate).finding("limit").words


# Axes


def test_axes_t_b_h_d():
    def rotate(x):
        return rotation(x.permute(1, 2, 0, 3), torch.arange(x.shape[0])).permute(2, 0, 1, 3)

    report = diagnose(rotate, order="tbhd")
    assert report.healthy, str(report)
    assert report.examined["axes"] == "(t, b, h, d)"
    assert ids(diagnose(rotate)) == {"batch-axis"}


def test_a_rotation_along_the_heads():
    def rotate(x):
        return rotation(x.transpose(1, 2), torch.arange(x.shape[1])).transpose(1, 2)

    assert ids(diagnose(rotate, order="bhtd")) == {"heads-axis"}
    report = diagnose(rotate)
    assert report.finding("axes").verdict == "note"
    assert "(b, t, h, d)" in report.finding("axes").words


def grid_angles(rows, columns, dim, lost=False):
    places = torch.arange(rows * columns)
    along, down = places % columns, places // columns
    parts = [(along if lost else down)[:, None] * thetas(dim // 2), along[:, None] * thetas(dim // 2)]
    return torch.cat(parts, -1)


@pytest.mark.parametrize("lost", [False, True])
def test_a_rotation_of_rows_and_columns(lost):
    def rotate(x):
        return turned(x, grid_angles(4, 4, x.shape[-1], lost)) if x.shape[2] == 16 else 1 / 0

    report = diagnose(rotate)
    assert report.kind == "rotation"
    if lost:
        assert "axis-lost" in ids(report) or not report.healthy
    else:
        assert report.healthy, str(report)
        assert report.examined["grid"] == "on a grid of rows of 4"


@pytest.mark.parametrize("lost", [False, True])
def test_positions_of_several_axes(lost):
    def rotate(x, positions):
        """Positions (t, 2), rows and columns."""
        parts = [positions[:, 0, None] * thetas(32), positions[:, 0 if lost else 1, None] * thetas(32)]
        return turned(x, torch.cat(parts, -1))

    report = diagnose(rotate)
    assert report.finding("positions").words == "passed as a pair for each token, (t, 2)"
    assert ids(report) == ({"axis-lost"} if lost else set()), str(report)


def grid_table(dim, height, width, swapped=False, lost=False):
    down, along = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="xy" if swapped else "ij")
    down = along if lost else down
    halves = [cases.sines_and_cosines(axis.flatten()[:, None] * thetas(dim // 2)) for axis in (down, along)]
    return torch.cat(halves, -1)


def test_a_table_of_a_grid():
    report = diagnose(grid_table)
    assert report.healthy, str(report)
    assert "a grid of 4 by 6" in report.examined["grid"]
    assert ids(diagnose(lambda dim, height, width: grid_table(dim, height, width, swapped=True))) == {"axes-swapped"}
    in_front = diagnose(lambda dim, height, width: grid_table(dim, height, width).reshape(height * width, 1, dim))
    assert "a grid of 4 by 6" in in_front.examined["grid"], str(in_front)
    assert ids(diagnose(lambda dim, height, width: grid_table(dim, height, width, lost=True))) == {"axis-lost"}


class Window(nn.Module):
    """A bias by the offset of rows and columns, as in Swin."""

    def __init__(self, heads=4, size=4, step=None):
        super().__init__()
        torch.manual_seed(0)
        self.heads, self.size = heads, size
        self.numbers = nn.Parameter(torch.randn((2 * size - 1) ** 2, heads))
        places = torch.stack(torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")).flatten(1)
        offset = places[:, :, None] - places[:, None] + size - 1
        self.index = offset[0] * (2 * size - 1 if step is None else step) + offset[1]

    def forward(self):
        return self.numbers[self.index].permute(2, 0, 1)


def test_the_bias_of_a_window():
    report = diagnose(Window())
    assert report.healthy, str(report)
    assert report.examined["grid"] == "a window of rows of 4"
    assert ids(diagnose(Window(step=3))) == {"buckets-wrong"}


# Tables


def test_exponents_that_went_wrong():
    def flat(length, dim):
        return cases.sines_and_cosines(torch.arange(length)[:, None] * 10_000.0 ** -(torch.arange(0, dim, 2) // dim))

    def halved(length, dim):
        return cases.sines_and_cosines(torch.arange(length)[:, None] * 10_000 ** (-torch.arange(dim // 2) / dim))

    assert ids(diagnose(flat)) == {"exponent-flat"}
    assert ids(diagnose(halved)) == {"exponent-halved"}


def test_a_table_in_bfloat16_and_one_with_sines_alone():
    assert ids(diagnose(lambda length, dim: table(length, dim).bfloat16().float())) == {"angles-rounded"}
    assert ids(diagnose(lambda length, dim: table(length, dim).repeat_interleave(2, -1)[:, ::4].repeat(1, 2))) == {
        "order-broken"
    }


def test_a_base_that_does_not_arrive():
    def deaf(length, dim, base=10_000.0):
        return table(length, dim)

    def heeds(length, dim, base=10_000.0):
        return cases.sines_and_cosines(torch.arange(length)[:, None] * thetas(dim, base))

    def turns_deaf(x, positions, base=10_000.0):
        return rotation(x, positions)

    assert ids(diagnose(deaf)) == ids(diagnose(turns_deaf)) == {"base-ignored"}
    assert diagnose(heeds).healthy


# Biases


def test_a_bias_of_places_in_bfloat16():
    def bloom(mask, heads, dtype):
        """Slope times the place of the key, as BLOOM's code makes it: (heads, 1, s)."""
        return (slopes(heads)[:, None].to(dtype) * torch.arange(mask.shape[-1]).to(dtype))[:, None]

    report = diagnose(bloom)
    assert "bias-rounded" in ids(report), str(report)
    assert "rounded before they are subtracted" in report.finding("rounding").words


def test_past_tokens_are_an_offset():
    def compute_bias(query_length, key_length, past_seen_tokens=0):
        query = past_seen_tokens + torch.arange(query_length)
        return -slopes(4)[:, None, None] * (query[:, None] - torch.arange(key_length)).abs()

    def forgets(query_length, key_length, past_seen_tokens=0):
        return compute_bias(query_length, key_length)

    assert diagnose(compute_bias).finding("decoding").verdict == "ok"
    assert diagnose(forgets).finding("decoding").id == "decode-aligned-first"


@pytest.mark.parametrize(("diagonal", "cause"), [(1, None), (0, "mask-off-by-one"), (2, "mask-off-by-one")])
def test_a_mask_inside_a_bias(diagonal, cause):
    def causal(heads, t, s):
        hidden = torch.ones(t, s, dtype=torch.bool).triu(diagonal + s - t)
        return cases.bias(heads, t, s).masked_fill(hidden, -math.inf)

    assert ids(diagnose(causal)) == ({cause} if cause else set())


# Attentions that take embeddings


class Embedded(nn.Module):
    """Causal attention with RoPE on embeddings, in steps that a patient may get wrong."""

    def __init__(self, d_model=64, heads=4):
        super().__init__()
        self.heads = heads
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(d_model, d_model) for _ in range(4))

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def join(self, x):
        return x.transpose(1, 2).flatten(2)

    def turn(self, q, k):
        places = torch.arange(q.shape[2])
        return rotation(q, places), rotation(k, places)

    def scores(self, q, k):
        return q @ k.mT / q.shape[-1] ** 0.5

    def forward(self, x):
        q, k, v = (self.split(layer(x)) for layer in (self.q_proj, self.k_proj, self.v_proj))
        seen = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        scores = self.scores(*self.turn(q, k)).masked_fill(~seen, -math.inf)
        return self.o_proj(self.join(scores.softmax(-1) @ v))


class Unscaled(Embedded):
    def scores(self, q, k):
        return q @ k.mT


class ScaledByTheModel(Embedded):
    def scores(self, q, k):
        return q @ k.mT / (self.heads * q.shape[-1]) ** 0.5


class FarWins(Embedded):
    def scores(self, q, k):
        distance = torch.arange(q.shape[2])[:, None] - torch.arange(k.shape[2])
        return super().scores(q, k) + slopes(self.heads)[:, None, None] * distance

    def turn(self, q, k):
        return q, k


class KeysTwice(Embedded):
    def turn(self, q, k):
        q, k = super().turn(q, k)
        return q, super().turn(k, k)[0]


class QueriesAlone(Embedded):
    def turn(self, q, k):
        return super().turn(q, q)[0], k


class KeysBackwards(Embedded):
    def turn(self, q, k):
        places = torch.arange(q.shape[2])
        return rotation(q, places), rotation(k, -places)


class OtherLayoutForKeys(Embedded):
    def turn(self, q, k):
        places = torch.arange(q.shape[2])
        return rotation(q, places), cases.neighbors(k, places)


class InvertedExponent(Embedded):
    def turn(self, q, k):
        angle = torch.arange(q.shape[2])[:, None] / thetas(q.shape[-1])
        return turned(q, angle), turned(k, angle)


class Joined(Embedded):
    def join(self, x):
        return x.flatten(2).reshape(x.shape[0], x.shape[2], -1)


EMBEDDED = [
    (Unscaled, "scale-missing"),
    (ScaledByTheModel, "scale-wrong"),
    (FarWins, "penalty-reversed"),
    (KeysTwice, "turned-twice"),
    (QueriesAlone, "one-side"),
    (KeysBackwards, "opposite"),
    (OtherLayoutForKeys, "sides-differ"),
    (InvertedExponent, "exponent-inverted"),
    (Joined, "heads-mixed"),
]


@pytest.mark.parametrize(("cls", "cause"), EMBEDDED)
def test_an_attention_of_embeddings_is_examined_inside(cls, cause):
    assert cause in ids(diagnose(cls())), str(diagnose(cls()))


def test_a_sound_attention_of_embeddings():
    report = diagnose(Embedded())
    assert report.healthy, str(report)
    assert "16 of 16 channels turn inside, half layout, base 10,000" in report.examined["layout"]
    assert report.finding("heads").verdict == report.finding("scale").verdict == "ok"


def test_a_function_around_a_module_is_examined_with_a_copy_of_it():
    layer = Unscaled()
    before = {name: value.clone() for name, value in layer.state_dict().items()}

    def call(x):
        return layer(x)

    assert "scale-missing" in ids(diagnose(call))
    assert all(torch.equal(value, before[name]) for name, value in layer.state_dict().items())


def test_what_cannot_be_examined_is_not_called_healthy():
    class Closed(Embedded):
        def __init__(self, d_model=64, heads=4):
            nn.Module.__init__(self)
            self.heads = heads
            self.one, self.two, self.three, self.four = (nn.Linear(d_model, d_model) for _ in range(4))

        def forward(self, x):
            q, k, v = (self.split(layer(x)) for layer in (self.one, self.two, self.three))
            return self.four(self.join(F.scaled_dot_product_attention(q, k, v, is_causal=True)))

    report = diagnose(Closed())
    assert report.finding("weights").verdict == "not checked"
    assert "projections were not found" in report.finding("weights").words


# Errors


def test_whose_error_it_is():
    """A patient that raises is told so; an error of a check is not put on the patient."""

    def far(case):
        return case.call(10**9)

    class Case:
        @staticmethod
        def call(position):
            raise IndexError("no such row")

    assert findings([far], Case)[0].words == "your code raises IndexError: no such row"
    assert run_checks([model.repeatable], None)[0].words.startswith("the check itself raises AttributeError: ")
