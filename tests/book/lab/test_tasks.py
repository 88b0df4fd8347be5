"""The questions: each answer follows from the tokens by the rule that the task states, and none is missing."""

import pytest
import torch

from posenc_book.lab.tasks import UNASKED, copy_back, first_token, latest, look_up, named_offset

BATCH, LENGTH = 6, 33
TASKS = {
    "copy_back": (copy_back(4), 16),
    "named_offset": (named_offset(), 128),
    "first_token": (first_token(), 16),
    "look_up": (look_up(), 272),
    "latest": (latest(), 136),
}


def draw(task, seed=0):
    return task(BATCH, LENGTH, torch.Generator().manual_seed(seed))


def exercise(module):
    for task in (module.copy_back(2), module.named_offset(), module.first_token(), module.look_up(), module.latest()):
        draw(task)


def answers(name, ids):
    """Return what the rule says, token by token, in plain Python."""
    told, found = {}, []
    for m, token in enumerate(ids):
        if name == "copy_back":
            found.append(ids[m - 4] if m >= 4 else UNASKED)
        elif name == "first_token":
            found.append(ids[0] if m else UNASKED)
        elif name == "named_offset":
            found.append(ids[m - token // 16] % 16 if m >= token // 16 else UNASKED)
        elif token < (256 if name == "look_up" else 128):  # a record
            told[token // 16] = token % 16
            found.append(UNASKED)
        else:
            found.append(told[token - (256 if name == "look_up" else 128)])
    return found


@pytest.mark.parametrize("name", TASKS)
def test_answers_follow_the_rule(name):
    ids, target = draw(TASKS[name][0])
    assert ids.shape == target.shape == (BATCH, LENGTH)
    assert [answers(name, text) for text in ids.tolist()] == target.tolist()
    assert (target != UNASKED).any()


@pytest.mark.parametrize("name", TASKS)
def test_tokens_are_as_many_as_stated_and_a_seed_gives_one_text(name):
    task, tokens = TASKS[name]
    ids = torch.cat([draw(task, seed)[0] for seed in range(40)])
    assert ids.min() >= 0
    assert tokens - 16 <= ids.max() < tokens
    assert torch.equal(draw(task)[0], draw(task)[0])
    assert not torch.equal(draw(task)[0], draw(task, 1)[0])


def test_a_key_of_look_up_has_one_value_in_a_text_and_one_of_latest_has_many():
    for name, few in (("look_up", True), ("latest", False)):
        task, tokens = TASKS[name]
        ids = draw(task)[0]
        records = [{token for token in text if token < tokens // 17 * 16} for text in ids.tolist()]
        values = [len(pairs) / len({pair // 16 for pair in pairs}) for pairs in records]
        assert (max(values) == 1) == few
