"""Examine how a model decodes: with its cache token by token, in pieces, and against all at once."""

from typing import Any

import torch

from posenc.diagnosis.calling.attempt import attempt
from posenc.diagnosis.compare import far
from posenc.diagnosis.models.text import SAME, Text
from posenc.diagnosis.report import Finding, ok, unchecked, wrong

FIRST = 5


def decoding(text: Text) -> Finding:
    """Hand in a few tokens, then one at a time with the cache."""
    if not text.model.takes("cache"):
        return unchecked("needs a parameter for a cache")
    made, failed = attempt(_stepped, text, False)
    if failed:
        return unchecked(f"with the cache: {failed}")
    off = far(made, text.logits[:, FIRST:])
    if off < 10 * SAME:
        return ok("token by token with the cache gives what all at once gives", off)
    again, failed = attempt(_stepped, text, True)
    if not failed and far(again, text.logits[:, FIRST:]) < 10 * SAME:
        words = "right only where position_ids are given: by default each call counts from 0"
        return wrong("offset-ignored", f"token by token differs by {off:.2g} from all at once, {words}", off)
    return wrong(
        "cache-wrong",
        f"token by token with the cache differs by {off:.2g} from all at once: new tokens stand at another position, "
        "cached keys are turned again, or the mask is aligned with the first keys",
        off,
    )


def pieces(text: Text) -> Finding:
    """Hand in the text in two pieces with the cache."""
    if not text.model.takes("cache"):
        return unchecked("needs a parameter for a cache")
    t = text.ids.shape[1]
    made, failed = attempt(_in_pieces, text, t // 2)
    if failed:
        return unchecked(f"several tokens after a cache: {failed}")
    off = far(made, text.logits[:, t // 2 :])
    if off < 10 * SAME:
        return ok("two pieces with the cache give what all at once gives", off)
    return wrong(
        "cache-wrong",
        f"the second of two pieces differs by {off:.2g} from all at once: its mask or its positions do not count the "
        "first piece",
        off,
    )


def begun(text: Text, first: int) -> Any:
    """Return the cache of the first tokens, and what is to be given with it.

    Raises:
        ValueError: If no cache comes back.
    """
    given = {"use_cache": True} if text.model.takes("use_cache") else {}
    _, cache = text.model.whole(text.ids[:, :first], **given)
    if cache is None:
        raise ValueError(f"doctor: cache must be in the result, got {type(cache).__name__}")
    return cache, given


def _stepped(text: Text, placed: bool) -> torch.Tensor:
    cache, given = begun(text, FIRST)
    outs = []
    for i in range(FIRST, text.ids.shape[1]):
        places = {"positions": torch.full((len(text.ids), 1), i)} if placed else {}
        logits, cache = text.model.whole(text.ids[:, i : i + 1], cache=cache, **given, **places)
        outs.append(logits)
    return torch.cat(outs, 1)


def _in_pieces(text: Text, first: int) -> torch.Tensor:
    cache, given = begun(text, first)
    return text.model.whole(text.ids[:, first:], cache=cache, **given)[0]


CHECKS = (decoding, pieces)
