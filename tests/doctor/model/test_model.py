"""Whole models that are called with token ids: what a token sees, caches, padding, packed texts, longer texts."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from posenc import diagnose
from tests.doctor.assertions import assert_report, finding, verdicts, wrong_ids
from tests.doctor.blocks import below, frequencies, interleave
from tests.doctor.model.patients import Learned, Rotating

# With RoPE and a cache


class CountsFromTheCall(Rotating):
    """Count positions from 0 in each call, whatever is cached."""

    def positions(self, ids, past):
        return torch.arange(ids.shape[1])


class SeesOneAhead(Rotating):
    """See the next token."""

    def seen(self, t, s):
        return below(t, s, 1)


class SeesAll(Rotating):
    """See every token, so that what is decoded with the cache is something else."""

    def seen(self, t, s):
        return torch.ones(t, s, dtype=torch.bool)


class AlignedWithTheFirst(Rotating):
    """Align several new tokens with the first keys."""

    def seen(self, t, s):
        return torch.ones(t, s, dtype=torch.bool).tril() if t > 1 else torch.ones(t, s, dtype=torch.bool)


class KnowsTheLength(Rotating):
    """Slow down in texts of more than 64 tokens."""

    def positions(self, ids, past):
        return past + torch.arange(ids.shape[1]) * (0.5 if ids.shape[1] > 64 else 1.0)


class KnowsItsLimit(KnowsTheLength):
    """Slow down beyond the number of tokens that it says itself, as dynamic NTK does."""

    block_size = 64


class AlongTheBatch(Rotating):
    """Add the mean of the batch to the logits."""

    def forward(self, input_ids, position_ids=None, past_key_values=None):
        logits, cache = super().forward(input_ids, position_ids, past_key_values)
        return logits + logits.mean(0, keepdim=True), cache


class WithoutCache(Rotating):
    """Take a cache and give none back."""

    def forward(self, input_ids, position_ids=None, past_key_values=None):
        return super().forward(input_ids, position_ids, past_key_values)[0]


class OneAtATime(Rotating):
    """Refuse several tokens after a cache."""

    def seen(self, t, s):
        if 1 < t < s:
            raise ValueError("one token at a time")
        return super().seen(t, s)


ROTATING = {  # what is wrong, and the verdicts on decoding and on decoding in pieces
    Rotating: ("", ["ok", "ok"]),
    OneAtATime: ("", ["ok", "not checked"]),
    WithoutCache: ("", ["not checked", "not checked"]),
    CountsFromTheCall: ("cache-wrong offset-ignored", ["wrong", "wrong"]),
    AlignedWithTheFirst: ("cache-wrong", ["ok", "wrong"]),
    SeesOneAhead: ("cache-wrong future-seen", ["wrong", "wrong"]),
    SeesAll: ("cache-wrong future-seen", ["wrong", "wrong"]),
    KnowsTheLength: ("length-dependent", ["ok", "ok"]),
    KnowsItsLimit: ("length-dependent", ["ok", "ok"]),
    AlongTheBatch: ("batch-mixed", ["ok", "ok"]),
}


@pytest.mark.parametrize("cls", ROTATING)
def test_a_model_with_a_cache(cls):
    wrong, decoding = ROTATING[cls]
    report = diagnose(cls())
    assert report.kind == "model"
    assert_report(report, wrong)
    assert verdicts(report, "decoding", "pieces") == decoding


def test_a_sound_model_passes_each_check():
    assert verdicts(diagnose(Rotating()), "future", "batch", "shift") == ["ok"] * 3


@pytest.mark.parametrize("vocabulary", [2, 50, 997])
def test_each_token_is_replaced_by_another_whatever_the_vocabulary(vocabulary):
    assert wrong_ids(diagnose(SeesAll(vocabulary))) >= {"future-seen"}


def test_a_token_is_told_where_it_sees_ahead_and_decodes_otherwise():
    assert finding(diagnose(SeesAll()), "future").id == "future-seen"


def test_the_length_from_which_on_tokens_change_is_told():
    assert "128" in finding(diagnose(KnowsItsLimit()), "longer").words.split()


# With a learned table and a mask


class CountsRealTokens(Learned):
    def default(self, ids, mask):
        return super().default(ids, mask) if mask is None or mask.ndim == 4 else (mask.cumsum(1) - 1).clamp(min=0)


class CountsFromTwo(Learned):
    """Count from 2 where no positions are given."""

    def default(self, ids, mask):
        return super().default(ids, mask) + 2


class PartsDocuments(Learned):
    """Hide what lies before the last position 0."""

    def seen(self, positions):
        document = (positions == 0).cumsum(-1)
        return super().seen(positions) & (document[:, None, :, None] == document[:, None, None])


class AddsItsMask(Learned):
    """Take a mask of four axes as numbers to add only."""

    def hidden(self, seen, mask):
        if mask.ndim == 4:
            return torch.where(seen, 0.0, -1e9) + mask.float()
        return super().hidden(seen, mask)


class LeavesTheMaskAway(Learned):
    """Take a mask and ignore it."""

    def hidden(self, seen, mask):
        return seen


class EncodesAll(Learned):
    """See every token."""

    def seen(self, positions):
        return super().seen(positions) | True


class LeaksOne(Learned):
    """See the next token."""

    def seen(self, positions):
        return below(positions.shape[1], positions.shape[1], 1)


class Clips(Learned):
    """Give all positions behind the table its last row."""

    def rows(self, positions):
        return self.wpe(positions.clamp(max=self.wpe.num_embeddings - 1))


class BeginsAgain(Learned):
    """Take the first rows again behind the last."""

    def rows(self, positions):
        return self.wpe(positions % self.wpe.num_embeddings)


class Sinusoids(nn.Module):
    """Return the sinusoidal rows of positions (b, t)."""

    def forward(self, positions):
        return interleave(positions[..., None] * frequencies(32))


class AddsSinusoids(Learned):
    """Add sinusoidal rows, as XGLM does: there is no embedding of positions, and logits depend on them all the same."""

    def __init__(self):
        super().__init__()
        self.wpe = Sinusoids()


class TakesIdsAlone(BeginsAgain):
    def forward(self, input_ids):
        return super().forward(input_ids)


class Drops(Learned):
    """Keep dropout in eval mode."""

    def rows(self, positions):
        return F.dropout(self.wpe(positions), training=True)


class ForgetsPositions(Learned):
    """Multiply the rows of the table by 0."""

    def rows(self, positions):
        return 0 * self.wpe(positions)


class Overflows(Learned):
    """Multiply the lowest number of float32 by 0 where nothing is hidden: in bfloat16 that number is -inf."""

    def seen(self, positions):
        dtype = self.wpe.weight.dtype
        lowest = torch.tensor(torch.finfo(torch.float32).min, dtype=dtype)
        return (1 - super().seen(positions).to(dtype)) * lowest

    def hidden(self, seen, mask):
        return super().hidden(seen == 0, mask)


class TwentyTokens(Learned):
    """Hold a mask of twenty tokens."""

    def seen(self, positions):
        return below(20, 20)[: positions.shape[1], : positions.shape[1]]


class KeepsAngles(Learned):
    """Hold buffers of angles, which a cast rounds."""

    def __init__(self):
        super().__init__()
        for name in ("scale", "inv_freq", "cos"):
            self.register_buffer(name, torch.ones(4))


class InFloat32(Learned):
    """Make rows in float32 whatever the model is in."""

    def rows(self, positions):
        return self.wpe(positions).float()


SOUND = {  # the verdict on each of these checks
    "sound": (Learned, {"right padding": "ok", "left padding": "note", "packed": "ok", "shift": "ok", "limit": "ok"}),
    "counts real tokens": (CountsRealTokens, {"left padding": "ok"}),
    "adds its mask": (AddsItsMask, {"packed": "ok"}),
    "parts documents": (PartsDocuments, {"packed": "ok"}),
    "twenty tokens": (TwentyTokens, {"packed": "not checked", "longer": "note"}),
    "16 rows": (lambda: Learned(rows=16), {"shift": "note"}),
    "5,000 rows": (lambda: Learned(rows=5_000), {"limit": "not checked"}),
    "begins again": (BeginsAgain, {"limit": "note"}),
    "adds sinusoids": (AddsSinusoids, {"shift": "ok", "limit": "ok"}),
    "takes ids alone": (TakesIdsAlone, {"limit": "note"}),
    "encodes all": (EncodesAll, {"future": "note", "longer": "not checked"}),
    "keeps angles": (KeepsAngles, {"half precision": "note"}),
    "in float32": (InFloat32, {"half precision": "not checked"}),
}


@pytest.mark.parametrize("name", SOUND)
def test_a_model_with_a_table_is_sound_except_for_what_is_noted(name):
    make, expected = SOUND[name]
    report = diagnose(make(), kind="model")
    assert wrong_ids(report) == set()
    assert verdicts(report, *expected) == [*expected.values()], str(report)


@pytest.mark.parametrize(
    ("make", "check", "expected"),
    [
        (lambda: Learned(rows=16), "shift", "17"),
        (TwentyTokens, "longer", "32"),
        (KeepsAngles, "half precision", "inv_freq"),
    ],
    ids=["positions", "tokens", "buffers"],
)
def test_a_note_names_where_it_ends(make, check, expected):
    assert expected in finding(diagnose(make(), kind="model"), check).words


WRONG = {
    CountsFromTwo: "padding-counted positions-shifted",
    LeavesTheMaskAway: "mask-ignored",
    LeaksOne: "future-seen",
    Clips: "clipped",
    ForgetsPositions: "positions-ignored",
    Overflows: "precision-lost",
}


@pytest.mark.parametrize("cls", WRONG)
def test_a_fault_of_a_model_with_a_table(cls):
    assert_report(diagnose(cls(), kind="model"), WRONG[cls])


def test_dropout_that_stays_on():
    assert finding(diagnose(Drops(), kind="model"), "repeatable").id == "dropout-on"


# Models that are called otherwise


class LastLogits(Rotating):
    """Give the logits of all tokens where targets are given, and of the last one else."""

    def forward(self, idx, targets=None):
        logits = super().forward(idx)[0]
        return (logits[:, -1:], None) if targets is None else (logits, torch.zeros(()))


class LossAlone(Rotating):
    """Give a loss alone where targets are given."""

    def forward(self, idx, targets=None):
        logits = super().forward(idx)[0]
        return (logits, None) if targets is None else torch.zeros(())


class CacheOnRequest(Rotating):
    """Give the cache where it is asked for, behind a loss."""

    def forward(self, idx, past_kv=None, use_cache=False, targets=None):
        logits, cache = super().forward(idx, past_key_values=past_kv)
        return logits, None if targets is None else torch.zeros(()), cache if use_cache else None


@pytest.mark.parametrize(
    ("make", "decoding"),
    [
        (LastLogits, "not checked"),
        (LossAlone, "not checked"),
        (CacheOnRequest, "ok"),
        (lambda: Rotating(vocabulary=3), "ok"),
    ],
)
def test_models_that_are_called_otherwise_are_sound(make, decoding):
    report = diagnose(make())
    assert report.kind == "model"
    assert_report(report)
    assert verdicts(report, "decoding") == [decoding]


class Embeds(nn.Module):
    """Look words up, without positions."""

    def __init__(self, dim=32):
        super().__init__()
        self.embed = nn.Embedding(50, dim)

    def forward(self, ids):
        return self.embed(ids)


class SumsItsWords(Embeds):
    def forward(self, ids):
        return super().forward(ids).cumsum(1)


@pytest.mark.parametrize("make", [SumsItsWords, lambda: Embeds(50)], ids=["tokens that meet", "logits"])
def test_tokens_that_meet_make_a_model_and_so_do_logits(make):
    report = diagnose(make())
    assert report.kind == "model"
    assert_report(report, "positions-ignored")


@pytest.mark.parametrize(("dim", "kind"), [(50, "table"), (32, None)])
def test_words_that_are_looked_up_may_be_a_table(dim, kind):
    assert diagnose(Embeds(dim), kind=kind).kind == "table"


@pytest.mark.parametrize("patient", [lambda idx: idx, LastLogits().read, nn.Embedding(50, 32)])
def test_what_is_no_model_is_refused_as_one(patient):
    with pytest.raises(ValueError, match=r"doctor: function must be a model .*got"):
        diagnose(patient, kind="model")
