"""Rotations: pairs and layouts, RoPE and PoPE, where scores peak, phases, angles that are rounded, steps of a group."""

import numpy as np
import pytest
import torch

from posenc.models.checkpoints import layout_order
from posenc.rotate.axial import axial
from posenc.rotate.frequencies import proportional
from posenc.rotate.pope import pope
from posenc.rotate.rope import RoPE, rope
from tests.scripts.javascript import Script, assert_close

ROPE, POPE = Script("math/rope.js"), Script("math/pope.js")
LAYOUTS = Script("math/layouts.js")
GROUPS = Script("math/groups.js")
NEEDLES = Script("math/needles.js")
PEAKS = Script("math/peaks.js")
PHASES = Script("math/phases.js")
RETARGET = Script("math/retarget.js")
PARTIAL = Script("math/partial.js")


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_channels_of_a_pair(layout):
    turned = rope(np.eye(8), np.ones(8), layout=layout)  # row c: where channel c goes
    for i in range(4):
        first, second = ROPE("channels(i, 8, layout)", i=i, layout=layout)
        assert set(np.flatnonzero(turned[first])) == set(np.flatnonzero(turned[second])) == {first, second}


LAYOUT_NAMES = ("interleaved", "half")


@pytest.mark.parametrize("layout", LAYOUT_NAMES)
@pytest.mark.parametrize("dim", [2, 4, 8, 10, 64])
def test_pairs_are_those_that_turn(dim, layout):
    options = {"dim": dim, "layout": layout}
    reached = rope(np.eye(dim), np.ones(dim), layout=layout)
    for place in range(dim):
        turned = np.flatnonzero(abs(reached[place]) > 1e-9).tolist()
        assert sorted([place, LAYOUTS("partner(place, dim, layout)", place=place, **options)]) == turned
        speed = np.arctan2(np.delete(reached[place, turned], turned.index(place))[0], reached[place, place])
        pair = LAYOUTS("pairAt(place, dim, layout)", place=place, **options)
        assert_close(abs(speed), 10_000.0 ** (-2 * pair / dim), atol=0)


@pytest.mark.parametrize("dim", [2, 4, 8, 10, 64])
def test_rows_move_as_the_package_moves_them(dim):
    x = np.random.default_rng(dim).normal(size=dim)
    order = layout_order(dim, "half")
    np.testing.assert_array_equal(LAYOUTS("laidOut(x, 'half')", x=x), x[order])
    np.testing.assert_array_equal(LAYOUTS("laidOut(x, 'interleaved')", x=x), x)
    places = [LAYOUTS("placeOf(c, dim, 'half')", c=c, dim=dim) for c in order.tolist()]
    assert places == list(range(dim))


@pytest.mark.parametrize("dim", [2, 4, 8, 10, 64])
def test_who_keeps_its_speed(dim):
    pair = {"interleaved": np.arange(dim) // 2, "half": np.arange(dim) % (dim // 2)}
    order = {"interleaved": np.arange(dim), "half": layout_order(dim, "half")}
    for rows in LAYOUT_NAMES:
        for code in LAYOUT_NAMES:
            keepers = np.sort(order[rows][pair[code] == pair["interleaved"][order[rows]]])
            assert LAYOUTS("keepers(dim, rows, code)", dim=dim, rows=rows, code=code) == keepers.tolist()
    assert LAYOUTS("keepers(dim, 'interleaved', 'half').length", dim=dim) == (2 if dim > 2 else dim)


@pytest.mark.parametrize("c", [1.0, 0.25, 0.04, 0.0, -0.04, -1.0])
def test_a_key_walks_as_the_exponential_says(c):
    theta, key = 0.25, [0.6, -0.8]
    for steps in (0, 1, 7.5, 40):
        whole = torch.linalg.matrix_exp(steps * theta * torch.tensor([[0, 1.0], [-c, 0]], dtype=torch.float64))
        place = GROUPS("walked(theta, c, key, steps)", theta=theta, c=c, key=key, steps=steps)
        assert place == pytest.approx((whole.numpy() @ key).tolist(), rel=1e-9, abs=1e-12)
        place = GROUPS("reached(theta, c, steps)", theta=theta, c=c, steps=steps)
        np.testing.assert_allclose(place, whole[0].numpy(), rtol=1e-9, atol=1e-12)


def random_needles(draw):
    count, base = int(draw.integers(1, 40)), float(draw.uniform(2, 20_000))
    settings = {"count": count, "base": base, "turn": float(draw.uniform(0, np.pi))}
    angle = settings["turn"] * np.arange(count)
    theta = base ** (-np.arange(count) / count) * np.stack([np.sin(angle), np.cos(angle)])
    return settings, theta


def scores(theta, offsets):
    """Return what a query of ones gives for keys of ones at these offsets, over what it gives for itself."""
    ones = np.ones((len(offsets), 2 * theta.shape[1]))
    keys, query = axial(ones, offsets, theta=theta), axial(ones[:1], np.zeros((1, 2)), theta=theta)
    return (keys @ query[0]) / (2 * theta.shape[1])


def test_needles_and_their_kernel(draw):
    settings, theta = random_needles(draw)
    ours = NEEDLES("needles(count, base, turn)", **settings)
    assert_close([ours["y"], ours["x"]], theta)
    y, x = draw.uniform(-20, 20, 2).tolist()
    kernel = NEEDLES("planeKernel(needles(count, base, turn), y, x)", y=y, x=x, **settings)
    assert_close(kernel, scores(theta, np.array([[y, x]]))[0])
    steps = np.sort(draw.uniform(-14, 14, 5))
    grid = np.stack(np.meshgrid(steps, steps, indexing="ij"), axis=-1).reshape(-1, 2)
    square = NEEDLES("planeMap(needles(count, base, turn), steps)", steps=steps, **settings)
    assert_close(square, scores(theta, grid))


def test_spread_on_a_ring(draw):
    settings, theta = random_needles(draw)
    radius, way = float(draw.uniform(1, 14)), 2 * np.pi * np.arange(90) / 90
    expected = scores(theta, radius * np.stack([np.sin(way), np.cos(way)], axis=-1))
    ring = NEEDLES("onRing(needles(count, base, turn), r, 90)", r=radius, **settings)
    assert_close(ring, expected)
    assert_close(NEEDLES("spread(ring)", ring=ring), expected.std())


def test_content_moves_the_peak_of_a_pair_of_rope(draw):
    q, k = draw.normal(size=(2, 1, 2))
    theta = draw.uniform(0.01, 1, 1)
    inputs = {"q": q[0], "k": k[0], "theta": theta.item()}
    angle = PEAKS("contentAngle(q, k)", **inputs)
    crossed = complex(*q[0]) * complex(*k[0]).conjugate()
    assert_close(angle, np.angle(crossed))
    peak = PEAKS("crest(theta, contentAngle(q, k))", **inputs)
    assert abs(peak) <= np.pi / theta
    at_peak = rope(q, np.array([peak]), theta=theta) @ k[0]
    assert_close(at_peak, np.linalg.norm(q) * np.linalg.norm(k))


@pytest.mark.parametrize("has_phase", [False, True])
def test_content_does_not_move_the_peak_of_pope(has_phase, draw):
    theta, places = draw.uniform(0.05, 0.2, 2), np.linspace(-15, 15, 2001)
    phase = draw.uniform(-1, 0, (1, 2)) if has_phase else np.zeros((1, 2))
    q, k = draw.normal(size=(2, 1, 1, 2))
    inputs = {"q": q.ravel(), "k": k.ravel(), "theta": theta, "phase": phase[0]}
    score = pope(q.repeat(2001, 1), k, places, np.array([0]), theta=theta, phase=phase)[0, :, 0]
    ours = POPE("places.map(scorer(q, k, theta, phase))", places=places, **inputs)
    assert_close(ours, score)
    heights = (np.logaddexp(0, q) * np.logaddexp(0, k)).ravel().tolist()
    wave = "(x) => heights[0] * Math.cos(phase[0] - x * theta[0]) + heights[1] * Math.cos(phase[1] - x * theta[1])"
    summit_place = PEAKS(f"summit({wave}, -15, 15)", heights=heights, **inputs)
    assert abs(summit_place - places[score.argmax()]) < 0.016
    best = pope(q, k, np.array([summit_place]), np.array([0]), theta=theta, phase=phase).item()
    assert best >= score.max() - 1e-9
    if not has_phase:
        assert abs(summit_place) < 1e-5


def test_one_direction_has_one_angle(draw):
    angle = float(draw.uniform(-60, 60))
    wrapped = PEAKS("wrap(angle)", angle=angle)
    assert -np.pi <= wrapped < np.pi
    assert_close(np.exp(1j * wrapped), np.exp(1j * angle))
    assert PEAKS("crest(0.1, 0)") == 0


TURN = 2 * np.pi
STORED = np.concatenate([np.random.default_rng(0).uniform(-9, 4, 40), [0, -TURN]])


@pytest.mark.parametrize("bound", ["clamp", "free"])
def test_the_phase_that_is_used(bound):
    ours = PHASES("stored.map((x) => used(x, bound))", stored=STORED, bound=bound)
    assert PHASES("TURN") == TURN
    np.testing.assert_allclose(ours, np.clip(STORED, -TURN, 0) if bound == "clamp" else STORED, rtol=0, atol=1e-12)


@pytest.mark.parametrize("bound", ["clamp", "free"])
@pytest.mark.parametrize("k", [1, 2, 4, 12])
def test_what_a_channel_gives_is_its_share_of_the_score(k, bound):
    ones, theta = np.ones((1, 1, 1)), 0.37
    top = pope(ones, ones, [0], [0], theta=[theta]).item()  # the lengths of query and key
    for stored in STORED:
        phase = np.array([[stored]])
        score = pope(ones, ones, [k], [0], theta=[theta], phase=phase, bound=bound).item()
        ours = PHASES("gives(k, theta, stored, bound)", k=k, theta=theta, stored=float(stored), bound=bound)
        assert ours == pytest.approx(score / top, abs=1e-9)


def test_which_phases_lie_outside():
    ours = PHASES("outside(stored)", stored=STORED)
    assert ours == ((STORED > 0) | (STORED < -TURN)).tolist()


@pytest.mark.parametrize("k", [1, 2, 4, 12])
def test_where_a_channel_is_loudest(k):
    for theta in (1.0, 0.56, 0.01):
        ahead = (k * theta) % TURN
        assert PHASES("tops(k, theta)", k=k, theta=theta) == pytest.approx([ahead - TURN, ahead], abs=1e-12)
        assert [PHASES("gives(k, theta, x, 'free')", k=k, theta=theta, x=x) for x in (ahead - TURN, ahead)] == [1, 1]


def test_packed_numbers():
    whole = np.random.default_rng(1).integers(0, 36**2, 50)
    text = "".join(np.base_repr(n, 36).lower().rjust(2, "0") for n in whole)
    np.testing.assert_allclose(PHASES("unpacked(text, 800, 0.01)", text=text), (whole - 800) * 0.01, rtol=0, atol=1e-12)
    assert PHASES("unpacked('m8', 800, 0.01)") == [0]


def random_hands(draw):
    """Return queries and keys (3, 8), frequencies of RoPE and PoPE, and how much further on the keys are told to be."""
    q, k = draw.normal(size=(2, 3, 8))
    return q, k, draw.uniform(0.01, 1, 4), draw.uniform(0.01, 1, 8), int(draw.integers(-5, 20))


def test_pairs_of_rope(draw):
    q, k, theta, _, nearer = random_hands(draw)
    scores = [[_rope(a, b, theta, np.arange(40) - nearer) for b in k] for a in q]
    inputs = {"q": q, "k": k, "theta": theta, "nearer": nearer}
    many = RETARGET("q.flatMap((a) => k.map((b) => ofPairs(a, b)))", **inputs)
    best = RETARGET("bestDistances(many, theta, nearer, 40)", many=many, **inputs)
    assert best == np.ravel(np.argmax(scores, 2)).tolist()
    shares = "many.map((pair) => agreement(pair, theta, 7 - nearer))"
    most = [np.sum(_lengths(a) * _lengths(b)) for a in q for b in k]
    assert_close(RETARGET(shares, many=many, **inputs), np.array(scores)[:, :, 7].ravel() / most)
    angles = RETARGET("turned({ start }, theta, 7)", start=many[0]["start"], **inputs)
    assert_close(np.sum(many[0]["size"] * np.cos(angles)), _rope(q[0], k[0], theta, [7]).item())


@pytest.mark.parametrize("has_phase", [False, True])
def test_channels_of_pope(has_phase, draw):
    q, k, _, theta, nearer = random_hands(draw)
    phase = draw.uniform(-6, 6, 8) if has_phase else np.zeros(8)
    key_phase = phase + nearer * theta
    far = -np.arange(40)
    scores = [[_pope(a, b, theta, key_phase, far) for b in k] for a in q]
    inputs = {"q": q, "k": k, "theta": theta, "phase": phase, "nearer": nearer}
    many = RETARGET("q.flatMap((a) => k.map((b) => ofChannels(a, b, phase)))", **inputs)
    best = RETARGET("bestDistances(many, theta, nearer, 40)", many=many, **inputs)
    assert best == np.ravel(np.argmax(scores, 2)).tolist()
    if not has_phase and nearer >= 0:
        assert set(best) == {nearer}  # Property 2 of chapter 5.2
    most = [np.sum(np.logaddexp(0, a) * np.logaddexp(0, b)) for a in q for b in k]
    shares = RETARGET("many.map((pair) => agreement(pair, theta, 7 - nearer))", many=many, **inputs)
    assert_close(shares, np.array(scores)[:, :, 7].ravel() / most)


def _rope(q, k, theta, distance):
    return rope(np.tile(k, (len(distance), 1)), -np.asarray(distance), theta=theta) @ q


def _pope(q, k, theta, phase, places):
    keys = np.tile(k, (len(places), 1))[None]
    return pope(q[None, None], keys, [0], places, theta=theta, phase=phase[None], bound="free")[0, 0]


def _lengths(x):
    return np.hypot(*np.split(x, 2))


def test_partial_rotation(draw):
    dim, base = int(draw.integers(2, 64)) * 2, float(np.exp(draw.uniform(np.log(2), np.log(1e6))))
    rotary = int(draw.integers(1, dim // 2 + 1)) * 2
    theta = np.array(PARTIAL("partial(dim, share, base)", dim=dim, share=rotary / dim, base=base))
    package = RoPE(dim, base=base, rotary_dim=rotary)
    assert_close(theta[: rotary // 2], package.theta)
    np.testing.assert_array_equal(theta[rotary // 2 :], np.zeros((dim - rotary) // 2))
    ones, far = np.ones((1, dim)), draw.uniform(0, 5000)
    match = (rope(ones, [far], base=base, rotary_dim=rotary) @ ones.T).item()
    assert_close(2 * np.cos(far * theta).sum(), match)


@pytest.mark.parametrize("fraction", [0.25, 0.5, 1])
@pytest.mark.parametrize(("first", "last"), [(1, 1), (3, 8), (500, 4096)])
def test_mean_match(fraction, first, last):
    theta = proportional(32, fraction)[0]
    ones = np.ones((1, 32))
    far = rope(np.tile(ones, (last - first + 1, 1)), np.arange(first, last + 1), theta=theta) @ ones.T
    ours = PARTIAL("meanMatch(theta, first, last)", theta=theta, first=first, last=last)
    assert_close(ours, far.mean() / 32)
