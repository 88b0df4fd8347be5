"""The views of what is added to logits by content."""

from collections.abc import Callable

import numpy as np

from posenc.bias.t5 import t5_bucket
from posenc.score.cope import cope
from posenc.score.deberta import deberta
from posenc.score.decomposed import decomposed
from posenc.score.forget import forget
from posenc.score.gated import gated
from posenc.score.music import music
from posenc.score.path import path
from posenc.score.profiles import profiles
from posenc.score.shaw import shaw
from posenc.score.transformer_xl import transformer_xl
from posenc_book.explorer.inputs import Shown, contents, learned, patches


def _asked(s: dict) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return what each encoding is called with: queries and keys of one head, and both positions."""
    q, k = contents(s)
    places = np.arange(s["length"])
    return q[None], k[None], places, places


def _tabled(score: Callable, rows: Callable[[dict], int]) -> Callable[[dict], Shown]:
    """Return what makes the view of a score whose pattern is a learned table of so many rows."""

    def _made(s: dict) -> Shown:
        table = learned(s).standard_normal((rows(s), s["width"])) / s["width"] ** 0.5
        return table, score(*_asked(s), table)[0]

    return _made


def _transformer_xl(s: dict) -> Shown:
    draw, t, d = learned(s), s["length"], s["width"]
    u, v, weight = (draw.standard_normal(shape) / d**0.5 for shape in ((1, d), (1, d), (1, d, d)))
    angle = np.arange(1 - t, t)[:, None] * s["base"] ** (-np.arange(0, d, 2) / d)
    waves = np.concatenate([np.sin(angle), np.cos(angle)], axis=1)
    return waves, transformer_xl(*_asked(s), u, v, weight, s["base"])[0]


def _deberta(s: dict) -> Shown:
    keyed, queried = learned(s).standard_normal((2, 2 * s["buckets"], s["width"])) / s["width"] ** 0.5
    return keyed, deberta(*_asked(s), keyed[None], queried[None], s["max_distance"])[0]


def _profiles(s: dict) -> Shown:
    draw, d = learned(s), s["width"]
    weight = draw.standard_normal((1, s["rank"], d)) / d**0.5
    bank = 0.02 * draw.standard_normal((s["rank"], s["extent"]))
    return bank, profiles(*_asked(s), weight, bank)[0]


def _gated(s: dict) -> Shown:
    draw, t, d, buckets = learned(s), s["length"], s["width"], s["buckets"]
    weight, gate = draw.standard_normal((buckets, 1)), draw.standard_normal((d, 2)) / d**0.5
    offset = np.arange(t - 1, -t, -1)
    score = gated(*_asked(s), weight, gate, 0, [1], s["max_distance"])[0]
    return weight[t5_bucket(offset, buckets, s["max_distance"])].T, score


def _decomposed(s: dict) -> Shown:
    places = patches(s)
    q, k = contents(s, len(places))
    rows, columns = learned(s).standard_normal((2, 2 * s["side"] - 1, s["width"])) / s["width"] ** 0.5
    return rows, decomposed(q[None], k[None], places, places, rows, columns)[0]


def _forget(s: dict) -> Shown:
    asked = _asked(s)
    weight = learned(s).standard_normal((1, s["width"])) / s["width"] ** 0.5
    gates = 1 / (1 + np.exp(-weight @ asked[1][0].T - s["opening"]))
    return gates, forget(*asked, weight, [s["opening"]])[0]


def _path(s: dict) -> Shown:
    draw, d = learned(s), s["width"]
    weight, gate = draw.standard_normal((d, d)) / d**0.5, draw.standard_normal(d) / d**0.5
    asked = _asked(s)
    ways = asked[1][0] @ weight.T
    return ways / np.linalg.norm(ways, axis=1, keepdims=True), path(*asked, weight, gate, 0)[0]


MAKERS = {
    "shaw": _tabled(shaw, lambda s: 2 * s["clip"] + 1),
    "music": _tabled(music, lambda s: s["clip"]),
    "cope": _tabled(cope, lambda s: s["clip"]),
    "transformer_xl": _transformer_xl,
    "deberta": _deberta,
    "profiles": _profiles,
    "gated": _gated,
    "decomposed": _decomposed,
    "forget": _forget,
    "path": _path,
}
