"""The page that `python -m posenc_book real` writes: the ledger as a table, and pictures, in one file."""

import io
from html import escape
from statistics import mean
from string import Template
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

PAGE = Template("""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>$model: what positions do in it</title>
<style>
  body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; font: 1rem/1.5 system-ui, sans-serif }
  table { border-collapse: collapse }
  td, th { padding: .15rem .6rem; text-align: left; border-bottom: 1px solid #ddd; vertical-align: top }
  td:last-child { overflow-wrap: anywhere }
  td.number { text-align: right; font-variant-numeric: tabular-nums }
  svg { max-width: 100%; height: auto }
  pre { overflow-x: auto; background: #f4f4f4; padding: .6rem }
</style>
<h1>$model: what positions do in it</h1>
<p>Read: $text. Losses are in nats a token; differences are on the same tokens. What each row means:
<a href="https://posenc.github.io/posenc/chapters/7-real/">In real models</a>.</p>
<pre>$plan</pre>
$sections
</html>
""")


def page(report: dict[str, Any]) -> str:
    """Return the page of what `measure` has returned."""
    parts = {"ledger": _ledger, "pairs": _pairs, "stretch": _stretch}
    sections = "\n".join(parts[name](report[name], report) for name in parts if report.get(name))
    texts = {name: escape(report[name]) for name in ("model", "text", "plan")}
    return PAGE.substitute(texts, sections=sections)


def _ledger(rows: dict[str, Any], report: dict[str, Any]) -> str:
    right = rows["as it was trained"]
    cost = {name: mean(row["loss"]) - mean(right["loss"]) for name, row in rows.items()}
    order = sorted(rows, key=lambda name: -cost[name])
    lines = [
        f'<tr><td>{escape(name)}<td class="number">{cost[name]:+.3f}<td>{escape(rows[name]["writes"])}'
        for name in order
    ]
    figure, axes = plt.subplots(figsize=(9, 3.5))
    # More curves than that cannot be told apart.
    for name in order[:6]:
        by_position = np.subtract(rows[name]["by position"], right["by position"])
        axes.plot(32 * np.arange(len(by_position)) + 16, by_position, label=name)
    axes.set(xlabel="position", ylabel="nats over the right loss")
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1))  # beside the curves, which fill the frame
    return (
        f"<h2>What each mistake costs</h2><p>Right: {mean(right['loss']):.3f} nats.</p>{_svg(figure)}"
        f"<table><tr><th>mistake<th>nats<th>what it writes after Once upon a time{''.join(lines)}</table>"
    )


def _pairs(rows: dict[str, Any], report: dict[str, Any]) -> str:
    names = [name.removesuffix(" stopped") for name in rows if name.endswith(" stopped")]
    figure, (bars, heat) = plt.subplots(1, 2, figsize=(11, 3.8), layout="constrained")
    right = mean(rows["as it is"]["loss"])
    for n, how in enumerate(("stopped", "removed")):
        height = [mean(rows[f"{name} {how}"]["loss"]) - right for name in names]
        bars.bar(np.arange(len(names)) + 0.4 * n, height, width=0.38, label=how)
    bars.set_xticks(np.arange(len(names)) + 0.2, names, rotation=60, fontsize=8)
    bars.set(ylabel="nats over the right loss", title="pairs stopped and removed")
    bars.legend(fontsize=8)
    shown = heat.imshow(rows["lengths"]["k"], aspect="auto")
    heat.set(xlabel="pair, from fast to slow", ylabel="layer", title="mean length of keys")
    figure.colorbar(shown, ax=heat)
    return f"<h2>Which pairs it uses</h2>{_svg(figure)}"


def _stretch(rows: dict[str, Any], report: dict[str, Any]) -> str:
    figure, axes = plt.subplots(figsize=(9, 3.5))
    for name, row in rows.items():
        axes.plot(1024 * np.arange(len(row["loss"])) + 512, row["loss"], label=name)
    axes.axvline(report["trained on"], color="#808080", linestyle=":")
    axes.set(xlabel="position", ylabel="nats a token")
    axes.legend(fontsize=8)
    return f"<h2>Longer than it was trained</h2><p>Dotted: the trained length.</p>{_svg(figure)}"


def _svg(figure: Figure) -> str:
    text = io.StringIO()
    figure.savefig(text, format="svg", bbox_inches="tight")
    plt.close(figure)
    # Without the XML head, an SVG may stand within HTML.
    return text.getvalue().partition("<svg")[2].join(["<svg", ""])
