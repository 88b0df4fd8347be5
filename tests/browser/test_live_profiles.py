"""The live figure of profiles: what the page says is what the package says."""

import re

import numpy as np
import pytest

from posenc.score.profiles import profiles
from tests.browser.live import put

pytestmark = pytest.mark.full


def test_profile_mixer(figure):
    mixer, data, said = figure("chapters/4-biases/profiles/", "profile-mixer")
    bank = np.array(data["bank"])
    keys = np.arange(bank.shape[1])[::-1]
    for turn, length in ((9, 4), (21, 8), (0, 2.5)):
        put(mixer, direction_of_the_query=turn, its_length=length)
        angle = 2 * np.pi * turn / 36
        states = length * np.array([np.cos(angle), np.sin(angle)])
        scores = profiles(np.zeros((1, 1, 1)), keys[None, :, None], [len(keys) - 1], keys, bank=bank, states=[[states]])
        scores = scores[0, 0]
        weights = np.exp(scores) / np.exp(scores).sum()
        highest = f"{scores.max():.2f}".rstrip("0").rstrip(".")
        assert f"the highest score {highest} is at distance {scores.argmax()}." in said()
        assert f"this one gets {100 * weights.max():.0f}% of the weight." in said()
    put(mixer, its_length=0)
    assert said().startswith("States 0 and 0: no distance is preferred and each gets 8%")
    mixer.get_by_role("button", name="at 2").click()
    tried = np.array([[np.cos(a), np.sin(a)] for a in np.linspace(0, 2 * np.pi, 3600)]) @ bank
    missed = set(range(bank.shape[1])) - set(tried.argmax(axis=1).tolist())
    replied = mixer.locator(".stage-predict [role=status]").inner_text()
    assert replied.startswith(f"No: at {bank.shape[1] - len(missed)}.")
    assert re.search(r"Distance (\d+) lies between", replied)[1] == str(*missed)
