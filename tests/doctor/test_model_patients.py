"""Models with a learned table of positions and a mask: each with one fault, beside the sound version."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from posenc.doctor import diagnose
from tests.doctor.test_models import Tiny


class Learned(nn.Module):
    """A causal layer that learns a row for each position, in steps that a patient may get wrong."""

    def __init__(self, rows=32, words=50, dim=32):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.wpe = nn.Embedding(words, dim), nn.Embedding(rows, dim)
        self.layer, self.read = nn.Linear(dim, 3 * dim), nn.Linear(dim, words)

    def default(self, ids, mask):
        return torch.arange(ids.shape[1]).expand(ids.shape)

    def at(self, places):
        return self.wpe(places)

    def seen(self, places):
        t = places.shape[1]
        return torch.ones(t, t, dtype=torch.bool).tril()

    def hide(self, seen, mask):
        """Hide what a mask (b, s) or (b, 1, t, s) hides, but from itself."""
        shown = mask.bool() if mask.ndim == 4 else mask[:, None, None].bool()
        return (seen & shown) | torch.eye(seen.shape[-1], dtype=torch.bool)

    def forward(self, input_ids, attention_mask=None, position_ids=None):
        places = self.default(input_ids, attention_mask) if position_ids is None else position_ids
        x = self.embed(input_ids) + self.at(places)
        seen = self.seen(places)
        seen = seen if attention_mask is None else self.hide(seen, attention_mask)
        q, k, v = (y[:, None] for y in self.layer(x).chunk(3, -1))
        return self.read(x + F.scaled_dot_product_attention(q, k, v, attn_mask=seen)[:, 0])


class CountsRealTokens(Learned):
    def default(self, ids, mask):
        return super().default(ids, mask) if mask is None or mask.ndim == 4 else (mask.cumsum(1) - 1).clamp(min=0)


class CountsFromTwo(Learned):
    def default(self, ids, mask):
        return super().default(ids, mask) + 2


class PartsDocuments(Learned):
    def seen(self, places):
        document = (places == 0).cumsum(-1)
        return super().seen(places) & (document[:, None, :, None] == document[:, None, None])


class AddsItsMask(Learned):
    """Takes a mask of four axes as numbers to add only."""

    def hide(self, seen, mask):
        if mask.ndim == 4:
            return torch.where(seen, 0.0, -1e9) + mask.float()
        return super().hide(seen, mask)


class LeavesTheMaskAway(Learned):
    def hide(self, seen, mask):
        return seen


class SeesAll(Learned):
    def seen(self, places):
        return super().seen(places) | True


class SeesOneAhead(Learned):
    def seen(self, places):
        t = places.shape[1]
        return torch.ones(t, t, dtype=torch.bool).tril(1)


class Clips(Learned):
    def at(self, places):
        return self.wpe(places.clamp(max=self.wpe.num_embeddings - 1))


class BeginsAgain(Learned):
    def at(self, places):
        return self.wpe(places % self.wpe.num_embeddings)


class TakesIdsAlone(BeginsAgain):
    def forward(self, input_ids):
        return super().forward(input_ids)


class Drops(Learned):
    def at(self, places):
        return F.dropout(self.wpe(places), training=True)


class ForgetsPositions(Learned):
    def at(self, places):
        return 0 * self.wpe(places)


class Overflows(Learned):
    """Multiplies the lowest number of float32 by 0 where nothing is hidden: in bfloat16 that number is -inf."""

    def seen(self, places):
        kind = self.wpe.weight.dtype
        return (1 - super().seen(places).to(kind)) * torch.tensor(torch.finfo(torch.float32).min, dtype=kind)

    def hide(self, seen, mask):
        return super().hide(seen == 0, mask)


class HasABufferOfTwenty(Learned):
    def seen(self, places):
        return torch.ones(20, 20, dtype=torch.bool).tril()[: places.shape[1], : places.shape[1]]


class KeepsAngles(Learned):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(4))
        self.register_buffer("inv_freq", torch.ones(4))
        self.register_buffer("cos", torch.ones(4))


class IsOfFloat32(Learned):
    def at(self, places):
        return self.wpe(places).float()


TOLD = [
    (Learned, "right padding", "ok", "hidden padding on the right"),
    (Learned, "left padding", "note", "unless position_ids are given"),
    (CountsRealTokens, "left padding", "ok", "hidden padding on the left"),
    (Learned, "packed", "ok", "a mask of blocks"),
    (AddsItsMask, "packed", "ok", "a mask of blocks"),
    (PartsDocuments, "packed", "ok", "start again, do not see each other"),
    (LeavesTheMaskAway, "packed", "note", "no mask of blocks"),
    (HasABufferOfTwenty, "packed", "not checked", "your code raises"),
    (HasABufferOfTwenty, "longer", "note", "32 tokens raise"),
    (lambda: Learned(rows=16), "shift", "note", "positions from 17 on raise"),
    (Learned, "shift", "ok", "it has a table of positions"),
    (Learned, "limit", "ok", "more tokens than 32 are refused"),
    (lambda: Learned(rows=5_000), "limit", "not checked", "the table has 5,000 rows"),
    (BeginsAgain, "limit", "note", "more tokens than the 32 rows of its table"),
    (TakesIdsAlone, "limit", "note", "where do the others come from"),
    (SeesAll, "future", "note", "a decoder would be told the answer"),
    (SeesAll, "longer", "not checked", "a longer text is another one"),
    (KeepsAngles, "half precision", "note", "(inv_freq, ...) are rounded"),
    (IsOfFloat32, "half precision", "not checked", "bfloat16 raises"),
]


@pytest.mark.parametrize(("make", "check", "verdict", "words"), TOLD)
def test_what_is_told_of_a_model_without_a_fault(make, check, verdict, words):
    report = diagnose(make(), kind="model")
    assert report.finding(check).verdict == verdict, str(report)
    assert words in report.finding(check).words


WRONG = [
    (Drops, "repeatable", "dropout-on"),
    (SeesOneAhead, "future", "future-seen"),
    (ForgetsPositions, "order", "positions-ignored"),
    (CountsFromTwo, "shift", "positions-shifted"),
    (Clips, "limit", "clipped"),
    (LeavesTheMaskAway, "left padding", "mask-ignored"),
    (Overflows, "half precision", "precision-lost"),
]


@pytest.mark.parametrize(("make", "check", "cause"), WRONG)
def test_a_bug_in_a_model_with_a_table(make, check, cause):
    assert diagnose(make(), kind="model").finding(check).id == cause


class KeepsNoCache(Tiny):
    def forward(self, input_ids, position_ids=None, past_key_values=None):
        return super().forward(input_ids, position_ids, past_key_values)[0]


class SeesAllAndKeeps(Tiny):
    def seen(self, t, s):
        return torch.ones(t, s, dtype=torch.bool)


class TakesOneAfterTheCache(Tiny):
    def seen(self, t, s):
        if 1 < t < s:
            raise ValueError("one token at a time")
        return super().seen(t, s)


def test_a_cache_that_does_not_come_back_cannot_be_checked():
    report = diagnose(KeepsNoCache())
    assert [report.finding(name).verdict for name in ("decoding", "pieces")] == ["not checked"] * 2


def test_a_decoder_that_sees_all_leaks_and_decodes_something_else():
    told = diagnose(SeesAllAndKeeps()).finding("future")
    assert told.id == "future-seen"
    assert "what is decoded with the cache is something else" in told.words


def test_pieces_that_are_refused_cannot_be_checked():
    report = diagnose(TakesOneAfterTheCache())
    assert report.finding("decoding").verdict == "ok"
    assert "one token at a time" in report.finding("pieces").words


class KnowsItsLimit(Tiny):
    """Slows down beyond the number of tokens that it says itself, as dynamic NTK does."""

    block_size = 64

    def places(self, ids, past):
        return past + torch.arange(ids.shape[1]) * (1.0 if ids.shape[1] <= self.block_size else 0.5)


def test_frequencies_that_change_beyond_the_limit_are_seen():
    assert "in a text of 128 tokens" in diagnose(KnowsItsLimit()).finding("longer").words


class ReadsTheLastAlone(Tiny):
    """Gives the logits of all tokens where targets are given, and of the last one else."""

    def forward(self, idx, targets=None):
        logits = super().forward(idx)[0]
        return (logits[:, -1:], None) if targets is None else (logits, torch.zeros(()))


class GivesALossAlone(Tiny):
    def forward(self, idx, targets=None):
        logits = super().forward(idx)[0]
        return (logits, None) if targets is None else torch.zeros(())


class AsksForItsCache(Tiny):
    """Gives its cache where that is asked for, behind a loss."""

    def forward(self, idx, past_kv=None, use_cache=False, targets=None):
        logits, kept = super().forward(idx, past_key_values=past_kv)
        return logits, None if targets is None else torch.zeros(()), kept if use_cache else None


class Embeds(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.embed = nn.Embedding(50, dim)

    def forward(self, ids):
        return self.embed(ids)


class SumsItsWords(Embeds):
    def forward(self, ids):
        return super().forward(ids).cumsum(1)


@pytest.mark.parametrize("make", [ReadsTheLastAlone, GivesALossAlone, AsksForItsCache, lambda: Tiny(words=3)])
def test_models_that_are_called_otherwise_are_healthy(make):
    report = diagnose(make())
    assert (report.kind, report.healthy) == ("model", True), str(report)
    assert report.finding("decoding").verdict == ("not checked" if "takes ids alone" in str(report) else "ok")


def test_tokens_that_meet_make_a_model_and_so_do_logits():
    assert diagnose(SumsItsWords()).finding("order").id == "positions-ignored"
    assert diagnose(Embeds(50)).finding("order").id == "positions-ignored"
    assert diagnose(Embeds(50), kind="table").kind == diagnose(Embeds(32)).kind == "table"


@pytest.mark.parametrize("function", [lambda idx: idx, ReadsTheLastAlone().read, nn.Embedding(50, 32)])
def test_what_is_no_model_is_refused_as_one(function):
    with pytest.raises(ValueError, match="doctor: function must be a model that gives logits"):
        diagnose(function, kind="model")
