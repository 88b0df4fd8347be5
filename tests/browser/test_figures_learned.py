"""The live figures of Part 2: learned tables, tables made longer, and what relative encodings see."""

import re

import numpy as np
import pytest
import torch

from posenc.add.learned import resize, resize_grid
from posenc.bias.t5 import t5_bucket
from tests.browser.live_figures import numbers, pick, predict, press, select, slide
from tests.scripts.javascript import Script

pytestmark = pytest.mark.full

PART = "chapters/2-learned/"
RELATIVE = f"{PART}from-absolute-to-relative/"
BAGS, COMPONENTS = Script("math/bags.js"), Script("math/components.js")


def test_table_visits(open_figure):
    figure, _, readout = open_figure(f"{PART}table/", "table-visits")
    pick(figure, "of any length")
    slide(figure, look_at_row=1023)
    steps, texts = 250, 8
    longer = 1 - np.arange(1024) / 1024  # the share of texts that reach a row
    visits, updates = steps * texts * longer, steps * (1 - (1 - longer) ** texts)
    visited_rows = np.random.RandomState(2).random_sample((steps, texts)) < longer[1023]
    assert f"{(visits >= 50).sum()} of 1024 rows" in readout()
    assert f"expects {visits[1023]:.1f} visits and {updates[1023]:.1f} updates" in readout()
    assert f"it had {visited_rows.sum()} and {visited_rows.any(axis=1).sum()}." in readout()


def test_smooth_tables(open_figure):
    figure, _, readout = open_figure(f"{PART}what-it-learns/", "smooth-tables")
    slide(figure, rows_averaged_each_way=16)
    table = np.reshape(COMPONENTS("blended(noise(64, 64, 48, 0), 64, 48, 16)"), (64, 64))
    profiles = np.linalg.svd(table - table.mean(axis=0))[0]
    waves = np.cos(np.pi * np.outer(np.arange(64) + 0.5, [1, 2, 3]) / 64) * (2 / 64) ** 0.5
    expected = [16, *abs((profiles[:, :3] * waves).sum(axis=0))]
    assert numbers(readout())[:4] == pytest.approx(expected, abs=0.006)


def test_table_film(open_figure):
    figure, data, readout = open_figure(f"{PART}what-it-learns/", "table-film")
    for film in data["films"]:
        pick(figure, film["task"])
        for number in (0, len(film["frames"]) - 1):
            slide(figure, training_step=number)
            frame = film["frames"][number]
            expected = [frame["step"], 100 * frame["right"], frame["near"], 100 * frame["share"]]
            assert readout().startswith(film["task"].capitalize())
            assert numbers(readout()) == pytest.approx(expected, abs=0.51)
            assert numbers(readout())[2] == pytest.approx(frame["near"], abs=0.006)


def test_resized_rows(open_figure):
    figure, _, readout = open_figure(f"{PART}beyond-the-table/", "resized-rows")
    pick(figure, "interpolate")
    press(figure, "query", "ArrowRight")
    weights = resize(torch.eye(32), 64).double()
    looks = (14 * weights[41, 4:] @ weights[:42, :-4].T).softmax(dim=0)
    assert f"Token 41 of 64 has old row {41 * 31 / 63:.1f}." in readout()
    assert f"{looks.max():.2f} to key {looks.argmax()} {41 - looks.argmax()} back" in readout()
    strip = figure.locator("canvas").first
    size = strip.bounding_box()
    strip.click(position={"x": size["width"] - 10, "y": size["height"] / 2})
    assert "Token 63 of 64 has old row 31." in readout()


def test_grid_probe(open_figure):
    figure, _, readout = open_figure(f"{PART}beyond-the-table/", "grid-probe")
    pick(figure, "class row inside")
    select(figure, "cubic, antialias")
    places = torch.cartesian_prod(*[torch.arange(8.0)] * 2).double()
    with_class = torch.cat([torch.full((1, 2), -1.0).double(), places])
    centers = torch.cartesian_prod(*[(torch.arange(10).double() + 0.5) * 0.8 - 0.5] * 2)
    sources = resize_grid(with_class[:-1], (8, 8), (10, 10))
    astray = (sources - centers).norm(dim=1)
    row, column = sources[27].tolist()
    assert f"from ({row:.2f} {column:.2f}) and should" in readout()
    assert f": {astray[27]:.2f} patches astray. The mean over the image is {astray.mean():.2f}." in readout()
    linear = resize_grid(places, (8, 8), (10, 10), mode="linear")
    bugs = {
        "class row inside": resize_grid(with_class[:-1], (8, 8), (10, 10), mode="linear"),
        "as one line": resize(places, 100),
        "axes swapped": linear.unflatten(0, (10, 10)).transpose(0, 1).flatten(0, 1),
    }
    means = {bug: (rows - centers).norm(dim=1).mean() for bug, rows in bugs.items()}
    assert " ".join(f"{bug} {mean:.2f}" for bug, mean in means.items()) in predict(figure, "as one line")
    assert f"over the image is {max(means.values()):.2f}." in readout()


def bucket_line(offsets, back, **options):
    """Return bucket, first and last offset, and the best accuracy at `back` of a figure that shows `offsets`."""
    bucket = t5_bucket([-back], **options)[0]
    shared = offsets[t5_bucket(-offsets, **options) == bucket]
    first, last = sorted(abs(shared[[0, -1]]))
    return bucket, first, last, round(BAGS("largestShare(n, 16)", n=len(shared)), 2)


def read_bucket(line):
    parts = re.search(r"bucket (\d+) .* of (\d+) to (\d+) .* in (\d\.\d\d) of", line)
    return tuple(float(number) for number in parts.groups())


def test_t5_staircase(open_figure):
    figure, _, readout = open_figure(RELATIVE, "t5-staircase")
    assert "bucket 15 to itself" in readout()
    press(figure, "offset Δ", "ArrowRight")
    back = np.arange(160)
    assert read_bucket(readout()) == bucket_line(back, 16, bidirectional=False)
    figure.get_by_role("button", name="the small T5").click()
    small = {"buckets": 16, "max_distance": 64}
    assert read_bucket(readout()) == bucket_line(back, 12, **small, bidirectional=False)
    press(figure, "offset Δ", "End")
    farthest = np.flatnonzero(t5_bucket(-back, **small, bidirectional=False) == 15)
    assert f"all of {farthest[0]} and more back: a bag of {len(farthest)} letters if the text" in readout()
    slide(figure, buckets=24)
    pick(figure, "both ways")
    readout()  # the slider has its new end
    slide(figure, offset_Δ=-19)
    assert read_bucket(readout()) == bucket_line(np.arange(-159, 160), -19, buckets=24, max_distance=64)


# Of the four terms of a logit, content–content to position–position: how many change when all positions move, or move
# apart. Added positions change the three with a position, and each relative encoding changes with the offset where it
# has a term for it. RoPE has all in one.
SHIFTED = {"added": 3}
STRETCHED = {"added": 3, "Shaw": 1, "Transformer-XL": 2, "DeBERTa": 2, "T5": 1, "RoPE": 1}


@pytest.mark.parametrize(
    ("slider", "changed"),
    [({"first_position": 100}, SHIFTED), ({"neighbors_apart": 3}, STRETCHED)],
    ids=["shift", "gap"],
)
def test_four_terms(open_figure, slider, changed):
    figure, _, readout = open_figure(RELATIVE, "four-terms")
    assert readout().endswith("…: none yet.")
    slide(figure, **slider)
    assert {name: int(count) for count, name in re.findall(r"(\d) of ([\w-]+)", readout())} == changed
