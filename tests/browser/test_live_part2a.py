"""The live figures of chapters 2.1 to 2.3, set as a reader sets them, against the package."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from posenc.add.learned import Learned, resize, resize_grid
from tests.browser.live import awake

pytestmark = pytest.mark.full

CHAPTERS = "chapters/2-learned/"


@pytest.fixture
def figure(site, visit):
    """Return a function that opens a page and waits until one of its figures is alive."""

    def opened(chapter: str, name: str):
        return awake(visit(f"{site}{CHAPTERS}{chapter}/").page, name)

    return opened


def says(figure, words: str) -> str:
    """Wait until the line under a figure has these words, and return it."""
    figure.locator(".stage-say", has_text=words).wait_for()
    return figure.locator(".stage-say").inner_text()


def test_table_theater(figure):
    theater = figure("table", "table-theater")
    theater.get_by_role("radio", name="of any length").press("Space")
    theater.get_by_role("slider", name="look at row").press("End")
    line = says(theater, "Row 1,023")
    steps, texts = 250, 8
    longer = 1 - np.arange(1024) / 1024
    expected = steps * texts * longer, steps * (1 - (1 - longer) ** texts)
    drawn = np.random.RandomState(2).random_sample((steps, texts)) < longer[1023]
    assert f"{(expected[0] >= 50).sum()} of 1,024 rows" in line
    assert f"expects {expected[0][1023]:.1f} visits and {expected[1][1023]:.1f} updates" in line
    assert f"it had {drawn.sum()} and {drawn.any(axis=1).sum()}." in line


def test_smooth_tables(figure):
    smooth = figure("what-it-learns", "smooth-tables")
    smooth.get_by_role("slider", name="rows blended each way").press("End")
    line = says(smooth, "over 16 rows")
    rows, margin = 64, 48
    noise = np.random.RandomState(0).standard_normal((rows + 2 * margin, 64))
    p = np.arange(rows)
    table = np.exp(-0.5 * ((np.arange(len(noise)) - margin - p[:, None]) / 16) ** 2)
    table *= abs(np.arange(len(noise)) - margin - p[:, None]) <= margin
    table = table @ noise
    profiles = np.linalg.svd(table - table.mean(axis=0))[0]
    waves = np.cos(np.pi * np.outer(p + 0.5, [1, 2, 3]) / rows) * (2 / rows) ** 0.5
    one, two, three = abs((profiles[:, :3] * waves).sum(axis=0))
    assert f"agree {one:.2f}, {two:.2f} and {three:.2f} with" in line


def test_table_film(figure):
    from posenc_book.lab import Model, copy_back, train

    film = figure("what-it-learns", "table-film")
    film.get_by_role("slider", name="training step").press("End")
    line = says(film, "step 250")
    torch.manual_seed(0)
    model = Model(add=Learned(dim=64, length=64))
    train(model, copy_back(4), 250, length=64, batch=12, seed=0)
    rows = F.normalize(model.add.weight.detach().double(), dim=1)
    cosine = (rows[1:] * rows[:-1]).sum(dim=1).mean().item()
    shown = float(line.split("mean cosine of ")[1].split(";")[0])
    assert shown == pytest.approx(cosine, abs=0.02)
    assert "right 100% of the time" in line


def test_ruler_pull(figure):
    ruler = figure("beyond-the-table", "ruler-pull")
    ruler.get_by_role("radio", name="stretch").press("Space")
    ruler.get_by_role("slider", name="query").press("ArrowRight")
    line = says(ruler, "Token 41 of 64")
    weights = resize(torch.eye(32), 64).double()
    scores = 14 * weights[41, 4:] @ weights[:42, :-4].T
    looks = scores.softmax(dim=0)
    assert f"old row {41 * 31 / 63:.1f}." in line
    assert f"{looks.max():.2f} to key {looks.argmax()}, {41 - looks.argmax()} back" in line
    street = ruler.locator("canvas").first
    size = street.bounding_box()
    street.click(position={"x": size["width"] - 10, "y": size["height"] / 2})
    says(ruler, "Token 63 of 64 carries old row 31.")


def test_grid_probe(figure):
    probe = figure("beyond-the-table", "grid-probe")
    probe.get_by_role("radio", name="class row inside").press("Space")
    probe.locator("select").select_option("cubic, antialias")
    places = torch.cartesian_prod(*[torch.arange(8.0)] * 2).double()
    with_class = torch.cat([torch.full((1, 2), -1.0).double(), places])
    taken = resize_grid(with_class[:-1], (8, 8), (10, 10))
    centers = (torch.arange(10).double() + 0.5) * 0.8 - 0.5
    astray = (taken - torch.cartesian_prod(centers, centers)).norm(dim=1)
    line = says(probe, f"over the image is {astray.mean():.2f}.")
    assert f": {astray[27]:.2f} patches astray" in line
    row, column = taken[27].tolist()
    assert f"from ({row:.2f}, {column:.2f}) and should" in line
    probe.get_by_role("button", name="as one line").click()
    slipped = resize_grid(with_class[:-1], (8, 8), (10, 10), mode="linear")
    one_line = resize(places, 100)
    swapped = resize_grid(places, (8, 8), (10, 10), mode="linear").unflatten(0, (10, 10)).transpose(0, 1).flatten(0, 1)
    centers = torch.cartesian_prod(centers, centers)
    means = [(rows - centers).norm(dim=1).mean() for rows in (slipped, one_line, swapped)]
    told = "class row inside {:.2f}, as one line {:.2f}, axes swapped {:.2f} patches".format(*means)
    assert told in probe.locator(".stage-predict [role=status]").inner_text()
    says(probe, f"over the image is {max(means):.2f}.")
