"""Examine how a model decodes: with its cache token by token, in pieces, and against all at once."""

import torch

from posenc.doctor.attempt import attempt
from posenc.doctor.model.text import CLOSE, MIDDLE, TOKENS, Text
from posenc.doctor.numerics import relative_difference
from posenc.doctor.report import Finding, not_checked, passed, wrong

FIRST = 5


def decoding(text: Text) -> Finding:
    """Hand in a few tokens, then one at a time with the cache."""
    ones = [FIRST, *[1] * (TOKENS - FIRST)]
    made, failed = attempt(in_pieces, text, ones)
    if failed:
        return not_checked(f"with the cache: {failed}")
    off = relative_difference(made, text.logits)
    if off < CLOSE:
        return passed("token by token with the cache gives what all at once gives", off)
    placed, _ = attempt(in_pieces, text, ones, placed=True)
    if relative_difference(placed, text.logits) < CLOSE:
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
    made, failed = attempt(in_pieces, text, MIDDLE)
    if failed:
        return not_checked(f"several tokens after a cache: {failed}")
    off = relative_difference(made, text.logits)
    if off < CLOSE:
        return passed("two pieces with the cache give what all at once gives", off)
    return wrong(
        "cache-wrong",
        f"the second of two pieces differs by {off:.2g} from all at once: its mask or its positions do not count the "
        "first piece",
        off,
    )


def in_pieces(text: Text, lengths: int | list[int], placed: bool = False) -> torch.Tensor:
    """Return the logits of the text handed in piece by piece with the cache, and with positions where asked for.

    Raises:
        ValueError: If no cache goes in or comes back.
    """
    cache, outs = None, []
    for ids, places in zip(*(part.split(lengths, dim=1) for part in (text.ids, text.places)), strict=True):
        positions = {"positions": places} if placed else {}
        logits, cache = text.model.whole(ids, cache=cache, use_cache=True, **positions)
        if cache is None or not text.model.takes("cache"):
            raise ValueError(f"doctor: cache must be taken and in the result, got {type(cache).__name__} beside logits")
        outs.append(logits)
    return torch.cat(outs, 1)


CHECKS = (decoding, pieces)
