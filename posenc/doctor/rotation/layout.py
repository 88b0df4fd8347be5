"""Examine what a rotation turns: which channels pair, in what sense, from where on, and queries as keys."""

import torch

from posenc.doctor.numerics import random, relative_difference, wrap_angle
from posenc.doctor.report import Finding, note, passed, wrong
from posenc.doctor.rotation.measure_angles import SLIGHT, Case

LAYOUTS = {
    "half": "half layout, pairs (i, i + r/2), as in Llama of transformers and GPT-NeoX",
    "interleaved": "interleaved layout, pairs (2i, 2i + 1), as in GPT-J and Meta's Llama",
}
TURNS = {
    "half": "in halves, pairs (i, i + r/2)",
    "interleaved": "in neighbors, pairs (2i, 2i + 1)",
    "none": "not at all",
}


def check_layout(case: Case) -> Finding:
    """Name the pairs of channels, unless queries and keys differ in them."""
    pairs, name = case.reading.pairs, case.reading.layout
    if differs := difference(case):
        return differs
    width = 2 * len(pairs)
    part = "all channels turn" if width == case.dim else f"{width} of {case.dim} channels turn"
    if name in LAYOUTS:
        warning = "Weights for the other layout run without an error and are wrong"
        return passed(f"{LAYOUTS[name]}; {part}. {warning}", width)
    if pairs:
        return note(f"pairs are neither half nor interleaved (several axes?); {part}", width)
    return note("channels mix in more than pairs: no layout, no frequencies to read")


def difference(case: Case) -> Finding | None:
    """Compare the pairs, frequencies and start of queries with those of keys."""
    of_q, of_k = case.reading, case.of_keys
    if of_q.layout != of_k.layout:
        return _left_behind(case) or _one_way_each(of_q.layout, of_k.layout)
    width, of_keys = 2 * len(of_q.pairs), 2 * len(of_k.pairs)
    if width != of_keys:
        words = f"{width} channels of queries turn and {of_keys} of keys: give both one rotary width"
        return wrong("sides-differ", words, of_keys)
    if (of_q.theta.abs() - of_k.theta.abs()).norm() > SLIGHT * of_q.theta.norm():
        words = "queries and keys turn at different speeds: give both one base and one scaling"
        return wrong("sides-differ", words)
    if (of_q.start - of_k.start).norm() > SLIGHT:
        words = "queries and keys at one position are turned by different angles, so a token does not stand at itself"
        return wrong("sides-differ", f"{words}: one of the two counts from another start. Count both alike")
    return None


def _left_behind(case: Case) -> Finding | None:
    """Tell one side that counts from 0 in each call from one that does not turn."""
    layouts = [case.reading.layout, case.of_keys.layout]
    if "none" not in layouts or case.code.takes("v") or not case.code.takes("q", "k"):  # attentions are read otherwise
        return None
    x = random(1, case.heads, 8, case.dim, seed=18)
    if relative_difference(case.rotate(x, of_keys=layouts[-1] == "none"), x) < SLIGHT:
        return None
    words = "one of queries and keys counts from 0 in each call while the other starts where the call says"
    return wrong("sides-differ", f"{words}: hand it on to both")


def _one_way_each(of_q: str, of_k: str) -> Finding:
    one, other = (TURNS.get(name, "otherwise") for name in (of_q, of_k))
    words = f"queries turn {one}, keys {other}, so logits do not see offsets. Turn both in one way"
    return wrong("one-side" if "none" in (of_q, of_k) else "sides-differ", words)


def direction(case: Case) -> Finding | None:
    """Check the sense of rotation, of queries against keys first."""
    of_q, of_k = case.reading.theta.sign(), case.of_keys.theta.sign()
    if of_q.any() and torch.equal(of_q, -of_k):
        return wrong(
            "opposite",
            "queries turn one way and keys the other, so logits see the sum of positions. "
            "Use the same sign of the sine for both",
            -1.0,
        )
    if (of_q < 0).all():
        return note(
            "turns backwards, (x1, x2) -> (x1 cos + x2 sin, x2 cos - x1 sin): logits are those of the usual sense "
            "mirrored, so weights trained with the other sense do not fit",
            -1.0,
        )
    return None


def origin(case: Case) -> Finding | None:
    """Say where position 0 stands."""
    start, theta, slack = case.reading.start, case.reading.theta, case.reading.slack
    near = [place for place in range(-8, 9) if wrap_angle(start - place * theta).abs().max() < slack]
    if 0 in near:
        return None
    place = max(near, default=None)
    where = f"as position {place} should be" if near else "too"
    return note(
        f"position 0 is turned {where}: harmless while queries and keys agree, wrong once one of them is counted "
        "from 0 elsewhere (a cache, another framework). Count from 0",
        place,
    )
