"""The live figures of Part 5: PoPE and its phases, seeds and intervals, words that act, the group of a generator."""

import re

import numpy as np
import pytest
import torch

from posenc.bias.alibi import alibi
from posenc.rotate.pope import pope
from posenc.rotate.rope import rope
from tests.browser.live_figures import numbers, pick, predict, press, slide
from tests.scripts.javascript import Script

pytestmark = pytest.mark.full

PART = "chapters/5-pope/"
CONTENT, RETARGET, SEEDS = (Script(f"math/{name}.js") for name in ("content", "retarget", "seeds"))


def test_polar_tuner(open_figure):
    figure, data, readout = open_figure(f"{PART}what-and-where/", "polar-tuner")
    q = np.array([[0.7, -0.45]])
    k, theta = np.array([data["k"]]), np.array(data["theta"])
    slide(figure, query_12=0.7, query_13=-0.45, offset_Δ=5)

    def of_pope(**phase):
        return pope(q[None], k[None], np.array([5]), np.array([0]), theta=theta, **phase).item()

    of_rope = (rope(q, np.array([5]), theta=theta[:1], layout="interleaved") @ k[0]).item()
    peak = (np.angle(complex(*k[0])) - np.angle(complex(*q[0]))) / theta[0]
    assert f"At offset 5 q · k is {of_rope:.2f} in RoPE and {of_pope():.2f} in PoPE." in readout()
    assert f"RoPE's is highest at offset {peak:.1f}" in readout()
    assert readout().endswith("PoPE's is highest at offset 0.0.")
    press(figure, "phase bias δ 12", "ArrowLeft", times=6)
    assert f"and {of_pope(phase=np.array([[-6 * np.pi / 36, 0]])):.2f} in PoPE." in readout()
    slide(figure, query_12=0, query_13=0)
    assert "RoPE's is 0 at every offset" in readout()


def assert_tops(line, data, pair, back, reach, learned=False):
    """Assert where the logits of both heads, sent to `back`, peak: for a pair of letters, and of how many at `back`."""
    phase = data["pope"]["phase"] if learned else np.zeros(len(data["pope"]["theta"])).tolist()
    heads = {
        "RoPE": ("ofPairs(a, b)", data["rope"], back - data["taught"]),
        "PoPE": ("ofChannels(a, b, phase)", data["pope"], back - data["taught"] if learned else back),
    }
    tops = {}
    for name, (hands, head, nearer) in heads.items():
        arguments = {"q": head["q"], "k": head["k"], "theta": head["theta"], "phase": phase, "nearer": nearer}
        all_hands = f"q.flatMap((a) => k.map((b) => {hands}))"
        best = RETARGET(f"bestDistances({all_hands}, theta, nearer, reach)", reach=reach, **arguments)
        tops[name] = np.reshape(best, (16, 16))
    in_rope, in_pope = tops.values()
    assert re.search(rf"RoPE's logit is highest at {in_rope[pair]} and PoPE's\D* at {in_pope[pair]}\. ", line)
    assert f"{(in_rope == back).sum()} of 256 pairs have their peak at {back} in RoPE" in line
    assert f"{(in_pope == back).sum()} in PoPE." in line


def test_retarget(open_figure):
    figure, data, readout = open_figure(f"{PART}pope/", "retarget")
    pair = tuple(data["pair"])
    new = data["told"]
    assert_tops(readout(), data, pair, data["taught"], 32)
    predict(figure, "all in PoPE")
    assert_tops(readout(), data, pair, new, 32)
    assert "256 in PoPE." in readout()
    slide(figure, query=8, key=0)
    assert "with I as query and A as key" in readout()
    assert_tops(readout(), data, (8, 0), new, 32)
    q, k, theta = data["rope"]["q"][8], data["rope"]["k"][0], data["rope"]["theta"]
    arguments = {"q": q, "k": k, "theta": theta, "distance": 3 - (new - data["taught"])}
    share = RETARGET("agreement(ofPairs(q, k), theta, distance)", **arguments)
    slide(figure, offset_Δ=3)
    assert f"At offset 3 the logit of this pair is {share:.2f} and " in readout()
    for learned in (True, False):
        figure.get_by_role("checkbox").set_checked(learned)
        pick(figure, "256")
        slide(figure, wanted_offset_r=100)
        assert_tops(readout(), data, (8, 0), 100, 256, learned)
    pick(figure, "32")
    assert "Sent to offset 31" in readout()


def phases(data, run):
    """Return the stored phase biases of a run, (snapshot, head and channel): two digits of base 36 each."""
    text = run["phases"]
    whole = [int(text[i : i + 2], 36) for i in range(0, len(text), 2)]
    return ((np.array(whole) - data["zero"]) * data["step"]).reshape(len(data["steps"]), -1)


def test_phase_wall(open_figure):
    figure, data, readout = open_figure(f"{PART}phase-bias/", "phase-wall")
    for run in data["runs"]:
        pick(figure, str(run["back"]))
        pick(figure, run["held"])
        stored = phases(data, run)
        for snapshot in (0, 1, 6, 13):
            slide(figure, training_step=snapshot)
            outside = int(((stored[snapshot] > 0) | (stored[snapshot] < -2 * np.pi)).sum())
            steps = "1 step" if snapshot == 1 else f"{data['steps'][snapshot]} steps"
            assert f"After {steps} {outside} of 64 phase biases lie outside -2π to 0" in readout()
            assert f"The loss is {run['loss'][snapshot]:.2f} nats." in readout()
            assert ("no gradient comes back" in readout()) == (run["held"] == "clamp" and outside > 0)
        assert readout().endswith(f"the layer is right in {100 * run['right']:.1f}% of the cases.")
    assert predict(figure, "worse").startswith("No well: 9")
    assert figure.get_by_role("radio", name="4").is_checked()
    assert "After 160 steps" in readout()


def test_a_clamped_phase_of_phase_wall_stays_behind_the_wall(open_figure):
    _, data, _ = open_figure(f"{PART}phase-bias/", "phase-wall")
    for run in data["runs"]:
        stored = phases(data, run)
        assert not stored[0].any()
        if run["held"] == "clamp":
            first, last = stored[1] > 0, stored[-1] > 0
            assert last[first].all()
    right = {(run["held"], run["back"]): run["right"] for run in data["runs"]}
    assert right["clamp", 2] < 0.5 < 0.9 < min(right["clamp", 4], right["free", 2], right["free", 4])


def laboratories(data, stream, gap, runs):
    """Return how many find the better one ahead, how many of them significantly, and the same of the worse one."""
    samples = np.random.RandomState(stream).normal(size=(data["labs"], 2, 20))[:, :, :runs]
    middle = gap + samples[:, 0].mean(axis=1) - samples[:, 1].mean(axis=1)
    half = data["visible"][runs - 1] * np.sqrt(samples.var(axis=2, ddof=1).mean(axis=1)) if runs > 1 else np.inf
    return [int(cases.sum()) for cases in (middle > 0, middle > half, middle < 0, middle < -half)]


def assert_long_run(shares, data, gap, runs):
    """Assert in percent how often the worse one leads, the gap is significant, and how large it looks there."""
    chances = SEEDS("chances(gap, runs, visible)", gap=gap, runs=runs, visible=data["visible"][runs - 1])
    assert shares[:2] == pytest.approx([100 * chances["behind"], 100 * chances["clear"]], abs=0.51)
    assert shares[2] == pytest.approx(chances["found"] / gap, abs=0.051)


def assert_gap(figure, data, readout, stream, runs, gap):
    slide(figure, seeds_each=runs, true_gap=gap)
    ahead, clear, reversed_, clearly_reversed = laboratories(data, stream, gap, runs)
    assert f"Of 40 laboratories with {runs} seeds each and a true gap of {gap} SD {ahead} find" in readout()
    better = f"find the better one ahead {clear} of them significantly"
    assert f"{better} and {reversed_} the worse one {clearly_reversed} of" in readout()
    shares = r"leads in ([\d.]+)% the gap is significant in ([\d.]+)% where it looks ([\d.]+) times"
    assert_long_run(numbers(" ".join(re.search(shares, readout()).groups())), data, gap, runs)


def assert_no_gap(figure, data, readout, stream):
    slide(figure, true_gap=0, seeds_each=20)
    assert "In the long run 5.0% find a significant gap that is not there." in readout()
    slide(figure, seeds_each=1)
    first, _, second, _ = laboratories(data, stream, 0, 1)
    assert f"{first} find the first one ahead and {second} the second one. One run has no interval" in readout()
    assert readout().endswith("In the long run each leads in half.")


def assert_published_cases(figure, data, readout):
    case = figure.get_by_role("combobox")
    for number, (name, gap) in enumerate(data["cases"]):
        case.select_option(name)
        assert f"a true gap of {gap:g} SD" in readout()
        assert case.input_value() == str(number)
    press(figure, "true gap", "Home")
    readout()
    assert case.input_value() == "own"
    reply = re.search(r"seven: (\d+)% and .* looks ([\d.]+) times .* leads in (\d+)%", predict(figure, "nearly always"))
    shows, large, worse = numbers(" ".join(reply.groups()))
    assert 1 / 8 < shows / 100 < 1 / 6
    assert_long_run([worse, shows, large], data, 0.3, 20)
    assert "with 20 seeds each and a true gap of 0.3 SD" in readout()
    assert case.input_value() == "0"


def test_seed_luck(open_figure):
    figure, data, readout = open_figure(f"{PART}evidence/", "seed-luck")
    settings = ((3, 0.3), (2, 1.2), (8, 1.2), (20, 0.3))
    for stream, (runs, gap) in enumerate(settings):
        assert_gap(figure, data, readout, stream, runs, gap)
        figure.get_by_role("button", name="Other laboratories").click()
    assert_no_gap(figure, data, readout, len(settings))
    assert_published_cases(figure, data, readout)


def effects(acts, gate):
    """Return how the first token seems to the last: its count, the weight let through, and its sign."""
    arguments = {"acts": acts, "gate": gate, "m": len(acts) - 1}
    return CONTENT("[counted(acts, m, 0), faded(acts, gate, m, 0), turned(acts, m, 0)]", **arguments)


def test_who_acts(open_figure):
    figure, data, readout = open_figure(f"{PART}content-aware/", "who-acts")
    acts, gate, place = data["acts"], data["gate"], data["at"]
    _, fade, sign = effects(acts, gate)
    assert sign == -1
    assert readout().startswith("From “Ada” to “she”: offset 13 and 3 of these tokens act. Count: 3.")
    assert readout().endswith(f"Factor of the weight: {fade:.2f}. Sign: -.")
    slide(figure, **{"“and rained”, times": 2})
    assert readout().startswith("From “Ada” to “she”: offset 17 and 3 of these tokens act. Count: 3.")
    assert readout().endswith(f"Factor of the weight: {fade:.2f}. Sign: -.")
    slide(figure, the_others_act_by=0.15)
    longer = [*acts[:place], 0, 0, 0, 0, *acts[place:]]
    count, fade, sign = effects([1 if act == 1 else 0.15 for act in longer], gate)
    assert f"3 of these tokens act the others by 15%. Count: {count:.2f}." in readout()
    assert f"Factor of the weight: {fade:.2f}. Sign: {sign:.2f}." in readout().replace("≈0.", "0.00.")
    slide(figure, key_n=14)
    figure.get_by_role("button", name="Let act: “slept”").click()
    slide(figure, key_n=0, the_others_act_by=0)
    longer[14] = 1
    count, fade, _ = effects(longer, gate)
    assert f"4 of these tokens act. Count: {count:.0f}. Factor of the weight: {fade:.2f}. Sign: +." in readout()
    predict(figure, "stripes along the diagonal")
    slope = -alibi([1], [0], 1, slopes=-np.log(data["gate"])).item()
    assert readout().endswith(f"All act alike: Shaw's table; ALiBi slope {slope:.2f}; RoPE θ = π.")
    assert "offset 13 and 13 of these tokens act. Count: 14." in readout()


def scores(theta, c, degrees, reach):
    """Return the scores of a key at this angle, twenty to a token, by the exponential of the generator."""
    generator = theta * torch.tensor([[0, 1.0], [-c, 0]], dtype=torch.float64)
    key = np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))])
    return [(torch.linalg.matrix_exp(steps * generator).numpy() @ key)[0] for steps in np.arange(0, reach, 0.05)]


def test_turn_to_shear(open_figure):
    figure, data, readout = open_figure(f"{PART}four-doors-one-group/", "turn-to-shear")
    theta, share = data["theta"], data["shares"][2]
    assert readout() == f"A rotation as in RoPE: wavelength {2 * np.pi / theta:.1f} tokens logits up to 1.00."
    predict(figure, "it grows")
    period = 2 * np.pi / theta / np.sqrt(share)
    top = max(scores(theta, share, -90, 200))
    assert readout() == f"Between rotation and shear: wavelength {period:.1f} tokens logits up to {top:.2f}."
    slide(figure, angle_of_the_key=30, c=0.16)
    assert f"logits up to {max(scores(theta, 0.16, 30, 200)):.2f}." in readout()
    slide(figure, c=0)
    slope = np.diff(scores(theta, 0, 30, 2))[0] / 0.05
    assert readout() == f"A shear: the logit rises linearly by {slope:.2f} a token."
    slide(figure, angle_of_the_key=-90)
    assert readout() == f"A shear: the logit falls linearly by {theta:.2f} a token which is ALiBi."
    slide(figure, angle_of_the_key=180)
    assert "here the logit stays" in readout()
    slide(figure, angle_of_the_key=-90, c=-0.04)
    grown = scores(theta, -0.04, -90, 200)
    assert f"grows up or down by {grown[-1] / grown[-21] - 1:.1%} a token." in readout()
