"""The views of what is added to tokens, turns queries and keys, or is added to logits by place."""

import numpy as np

from posenc.add.conditional import conditional
from posenc.add.convolution import convolution
from posenc.add.fourier import fourier
from posenc.add.grid import grid
from posenc.bias.sandwich import sandwich
from posenc.bias.window import window
from posenc.models.mrope import mrope_positions
from posenc.rotate.axial import axial
from posenc.rotate.fope import fope
from posenc.rotate.latent import latent
from posenc.rotate.lerope import lerope
from posenc.rotate.liere import liere
from posenc.rotate.mrope import mrope
from posenc.rotate.repo import repo
from posenc.rotate.selective import selective
from posenc.rotate.xpos import xpos
from posenc_book.explorer.inputs import Shown, contents, learned, patches, products


def _fourier(s: dict) -> Shown:
    t, d = s["length"], s["width"]
    options = {"powers": {}, "bands": {"kind": "bands", "resolution": t}}
    options["gaussian"] = {"cycles": s["scale"] * learned(s).standard_normal(d // 2)}
    table = fourier(np.arange(t) / t, d, **options[s["features"]])
    return products(table, table)


def _grid(s: dict) -> Shown:
    table = grid(patches(s), s["width"], s["base"], s["axes_order"])
    return products(table, table)


def _convolution(s: dict) -> Shown:
    d, taps = s["width"], s["taps"]
    weight = learned(s).standard_normal((d, 1, taps)) * 2 / (taps * d) ** 0.5
    added = convolution(contents(s)[0], np.arange(s["length"]), weight, 0, taps, d)
    return products(added, added)


def _conditional(s: dict) -> Shown:
    places = patches(s)
    added = conditional(contents(s, len(places))[0], places, learned(s).standard_normal((s["width"], 3, 3)) / 3, 0)
    return products(added, added)


def _xpos(s: dict) -> Shown:
    places, d, fade = np.arange(s["length"]), s["width"], s["scale_base"]
    q, k = contents(s)
    score = xpos(q[None], k[None], places, places, s["base"], fade)[0]
    pair = np.arange(0, d, 2) / d
    turn = ((pair + 0.4) / 1.4) ** (places[:, None] / fade) * np.exp(1j * places[:, None] * s["base"] ** -pair)
    return (np.ascontiguousarray(q).view(complex) * turn).view(float), score


def _axial(s: dict) -> Shown:
    places = patches(s)
    return products(*(axial(x, places, s["base"], s["layout"]) for x in contents(s, len(places))))


def _mrope(s: dict) -> Shown:
    kinds = [0] * s["before"] + [1] * s["side"] ** 2 + [0] * s["before"]
    places, _ = mrope_positions(kinds, image_grids=[(1, 2 * s["side"], 2 * s["side"])])
    both = contents(s, len(places))
    return products(*(mrope(x, places, interleaved=s["interleaved"], base=s["base"]) for x in both))


def _fope(s: dict) -> Shown:
    theta = s["base"] ** (-np.arange(0, s["width"], 2) / s["width"])
    f = (theta >= 2 * np.pi / s["original_length"]).sum()
    mixes = np.eye(f) + s["gain"] * (2 / (f * (1 + f))) ** 0.5 * learned(s).standard_normal((2, 1, f, f))
    places = np.arange(s["length"])
    return products(*(fope(x[None], places, s["original_length"], s["base"], *mixes)[0] for x in contents(s)))


def _lerope(s: dict) -> Shown:
    alpha = s["spread"] * learned(s).standard_normal(s["width"] // 2)
    return products(*(lerope(x, np.arange(s["length"]), alpha, s["base"]) for x in contents(s)))


def _latent(s: dict) -> Shown:
    rotary = round(s["share"] * s["width"])
    places = np.arange(s["length"])
    return products(*(latent(x, places, rotary, base=s["base"], layout=s["layout"]) for x in contents(s)))


def _liere(s: dict) -> Shown:
    places, block = patches(s), int(s["block"])
    shape = (2, s["width"] // block, block, block)
    generators = 2 * np.pi * s["spread"] * learned(s).random_sample(shape)
    return products(*(liere(x, places / s["side"], generators) for x in contents(s, len(places))))


def _selective(s: dict) -> Shown:
    places, d = np.arange(s["length"]), s["width"]
    q, k = contents(s)
    weight, bias = s["strength"] * learned(s).standard_normal((d // 2, d)), np.ones(d // 2)
    score = selective(q[None], k[None], places, places, weight, bias, s["base"])[0]
    phases = s["base"] ** (-np.arange(0, d, 2) / d) * (k @ weight.T + bias)
    turned = (q[:, : d // 2] + 1j * q[:, d // 2 :]) * np.exp(1j * np.cumsum(phases, axis=0))
    return np.concatenate([turned.real, turned.imag], axis=1), score


def _repo(s: dict) -> Shown:
    draw, d, strength = learned(s), s["width"], s["strength"]
    gate, inner = strength * draw.standard_normal((2, max(1, d // 8), d))
    final = strength * draw.standard_normal((1, max(1, d // 8)))
    return products(*(repo(x[None], gate, inner, final, s["base"])[0] for x in contents(s)))


def _sandwich(s: dict) -> Shown:
    t, places = s["length"], np.arange(s["length"])
    options = {"heads": s["heads"], "dim": s["width"], "base": s["base"]}
    by_distance = sandwich([0], np.arange(t - 1, -t, -1), **options)[:, 0]
    return by_distance, sandwich(places, places, **options)[s["head"]]


def _window(s: dict) -> Shown:
    places, size = patches(s), s["window"]
    wide = 2 * size - 1
    weight = learned(s).standard_normal((wide**2, s["heads"]))
    score = window(places, places, weight, window=(size, size))[s["head"]]
    return weight[:, s["head"]].reshape(wide, wide), score


MAKERS = {
    "fourier": _fourier,
    "grid": _grid,
    "convolution": _convolution,
    "conditional": _conditional,
    "xpos": _xpos,
    "axial": _axial,
    "mrope": _mrope,
    "fope": _fope,
    "lerope": _lerope,
    "latent": _latent,
    "liere": _liere,
    "selective": _selective,
    "repo": _repo,
    "sandwich": _sandwich,
    "window": _window,
}
