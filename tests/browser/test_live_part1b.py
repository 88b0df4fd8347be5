"""The live figures of chapters 1.5 to 1.7 and of the labs say what the package, or the page that feeds them, says."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from matplotlib import pyplot as plt

from galley.read.page import parse
from posenc.add.sinusoidal import kernel
from tests.browser.live import awake, said

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[2]
LABS = json.loads((ROOT / "docs/assets/data/labs.json").read_text(encoding="utf-8"))["capability"]


def live(site, visit, path, name):
    """Open a page and return its figure, alive."""
    seen = visit(site + path)
    figure = awake(seen.page, name)
    assert not seen.errors
    return figure


def press(control, key, times=1):
    """Do what a reader without a mouse does."""
    control.focus()
    for _ in range(times):
        control.press(key)


def numbers(text):
    return [float(found.replace("−", "-")) for found in re.findall(r"−?\d+(?:\.\d+)?", text)]


def scope_of(path, name):
    """Run a page's blocks until `name` has a value, and return all names."""
    plt.switch_backend("agg")
    scope = {}
    for block in parse((ROOT / "docs" / path).read_text(encoding="utf-8")).blocks:
        if name not in scope and block.runs and not {"raises", "standalone"} & block.options.keys():
            exec(block.code, scope)
    plt.close("all")
    return scope


def test_the_labs_open_with_a_bet(site, visit):
    figure = live(site, visit, "labs/", "capability-matrix")
    canvas = figure.locator("canvas")
    figure.get_by_role("radio", name="latest").check()
    figure.get_by_role("combobox").select_option("T5")
    press(canvas, "ArrowDown")  # the next row
    figure.get_by_role("radio", name="256").check()
    assert "closed" in said(figure)
    assert "KERPLE" in said(figure)
    assert canvas.get_attribute("aria-label").count("closed") == 3
    press(figure.get_by_role("button", name="Bet on KERPLE"), "Enter")
    seeds = LABS["KERPLE"]["latest"]["256"]
    shares = {name: np.mean(found["latest"]["256"]) for name, found in LABS.items()}
    told = [f"{np.mean(seeds):.0%}", *(f"{seed:.0%}" for seed in seeds)]
    assert re.findall(r"\d+%", said(figure))[:4] == told
    assert ("No other does better" in said(figure)) == (max(shares, key=shares.get) == "KERPLE")
    assert "You bet on KERPLE: well bet" in said(figure)
    figure.get_by_role("checkbox").check()
    best_second = sorted(shares, key=shares.get)[-2]
    press(canvas, "ArrowDown")
    assert re.match(rf"{best_second} \([\w ]+\) answers {shares[best_second]:.0%}", said(figure))


@pytest.mark.parametrize("place", [0, 27, 40])
def test_two_readers_name_what_the_probe_names(site, visit, place):
    figure = live(site, visit, "chapters/1-sinusoidal/adding/", "token-scale")
    press(figure.get_by_label("the scale of the tokens"), "ArrowRight", place)
    page = scope_of("chapters/1-sinusoidal/adding.md", "seen_from")
    token, position = page["probe"](64, page["grid"][place])
    told = numbers(said(figure))
    assert told[0] == pytest.approx(page["grid"][place], rel=0.05)
    assert told[-2:] == pytest.approx([100 * token, 100 * position], abs=1)


def verdict(looks):
    """Say who has a job: the most of its weight, and twice an even share, on 1 or 3 back."""
    jobs = {name: look.argmax() for name, look in zip("AB", looks, strict=True) if look.max() > 2 / len(look)}
    jobs = {name: int(job) for name, job in jobs.items() if job in (1, 3)}
    if len(jobs) < 2:
        return f"Only head {next(iter(jobs))} has found a job." if jobs else "Neither has found a job."
    return f"Both look {jobs['A']} back." if jobs["A"] == jobs["B"] else "They have shared the jobs."


def test_two_heads_look_where_the_page_saw_them_look(site, visit):
    figure = live(site, visit, "chapters/1-sinusoidal/in-a-transformer/", "trained-head")
    page = scope_of("chapters/1-sinusoidal/in-a-transformer.md", "runs")
    for run, step in ((1, 7), (1, 30), (0, 0), (0, 3), (0, 12)):
        press(figure.get_by_role("radio").nth(run), "Space")
        slider = figure.get_by_label("step of training")
        press(slider, "Home")
        press(slider, "ArrowRight", step)
        looks, loss = page["runs"][run]["looks"][step], page["runs"][run]["losses"][step]
        told = [float(n) for n in re.findall(r"\d\.\d\d", said(figure))]
        assert said(figure).startswith(f"Step {10 * step},")
        assert told == pytest.approx([loss, *looks[:, [1, 3]].ravel()], abs=0.03)
        assert said(figure).endswith(f" {verdict(looks)}")
    figure.get_by_role("button", name="both 1 back").click()
    assert "Yes: at step" in figure.inner_text()
    assert "Both look 1 back" in said(figure)


def test_shadows_add_up_to_the_kernel_at_any_time(site, visit):
    figure = live(site, visit, "chapters/1-sinusoidal/geometry/", "clock-wedges")
    time, gap = figure.get_by_label("time p"), figure.get_by_label("ticks between, Δ")
    for later, wider in ((0, 0), (90, 0), (37, 41)):
        press(time, "ArrowRight", later)
        press(gap, "ArrowRight", wider)
        distance = float(gap.input_value())
        *_, named, total = numbers(said(figure))
        assert named == pytest.approx(distance)
        assert total == pytest.approx(kernel(distance, 8, base=16), abs=0.006)
        shadows = numbers(figure.locator("canvas").get_attribute("aria-label"))[2:-1]
        assert sum(shadows) == pytest.approx(total, abs=0.02)
