"""Examine a whole model: token ids come in, logits for each token come out.

What is promised there needs no weights: a token does not see those ahead, a text does not depend on its neighbors in
the batch, decoding with the cache gives what prefill gives, padding that is hidden changes nothing.
"""

from typing import Any

import torch
from torch import nn

from posenc.doctor.attempt import attempt
from posenc.doctor.model import decode, rows
from posenc.doctor.model.text import CLOSE, LAST, MIDDLE, SAME, TOKENS, Model, Text, takes_ids
from posenc.doctor.numerics import relative_difference
from posenc.doctor.report import Finding, not_checked, note, passed, run_checks, wrong

MOST = 4_096  # rows of a table, for a text of more tokens


def is_meant(function: Any, kind: str | None) -> bool:
    """Tell whether it is to be examined as a whole model, by default what embeds token ids and lets them meet."""
    if kind is not None or not isinstance(function, nn.Module) or isinstance(function, nn.Embedding):
        return kind == "model"  # a table of positions may ask for ids, too, to count them
    embeds = any(isinstance(part, nn.Embedding) for part in function.modules())
    return embeds and takes_ids(function) and not _only_embeds(function)


def _only_embeds(function: nn.Module) -> bool:
    """Tell whether tokens do not meet in it and no logits come out."""
    text, failed = attempt(_text_of, function)
    if failed or text.logits.shape[-1] == text.model.vocabulary:
        return False
    return float(text.moved(MIDDLE).max()) < SAME


def _text_of(function: Any) -> Text:
    return Text(Model(function))


def examine(function: Any) -> tuple[list[Finding], dict[str, Any]]:
    """Return the findings on a model, and what was examined.

    Raises:
        ValueError: If a call with token ids gives no logits.
    """
    text, failed = attempt(_text_of, function)
    if failed:
        raise ValueError(
            f"doctor: function must be a model that gives logits (b, t, vocabulary) for ids (b, t), got {failed}"
        )
    model = text.model
    about = {
        "sizes": f"{model.vocabulary:,} words",
        "takes": f"takes {', '.join(model.told)}" if model.told else "takes ids alone",
        "positions": f"a table of {model.rows:,} positions" if model.rows else "no table of positions",
    }
    checks = (repeatable, future, order, rows.batch, shift, *decode.CHECKS, *rows.CHECKS, longer, limit, half_precision)
    return run_checks(checks, text), about


def repeatable(text: Text) -> Finding:
    """Check that two calls agree."""
    off = relative_difference(text.model(text.ids), text.logits)
    if off < SAME:
        return passed("two calls of the same agree", off)
    return wrong("dropout-on", f"two calls of the same differ by {off:.2g}: dropout stays on in eval mode?", off)


def future(text: Text) -> Finding:
    """Change the last token and look at the logits before it."""
    changes = text.moved(LAST)
    ahead = float(changes.max())
    if ahead < SAME:
        return passed("causal: no token sees those ahead")
    _, failed = attempt(decode.in_pieces, text, MIDDLE)
    if failed and float(changes.min()) > SAME:
        return note("every token sees every other: right for an encoder only; a decoder would be told the answer")
    why = "training leaks the answer" if failed else "what is decoded with the cache is something else"
    return wrong("future-seen", f"the last token changes the logits before it by {ahead:.2g}, so {why}", ahead)


def order(text: Text) -> Finding:
    """Shuffle the tokens before the last one."""
    mixed = torch.cat((text.ids[:, :LAST].flip(1), text.ids[:, LAST:]), 1)
    off = relative_difference(text.model(mixed)[:, LAST], text.logits[:, LAST])
    if off > SAME:
        return passed("the order of the tokens matters", off)
    return wrong("positions-ignored", "shuffled tokens give the same logits at the end: no position arrives", off)


def shift(text: Text) -> Finding:
    """Move all positions together."""
    if not text.model.takes("positions"):
        return not_checked("needs a parameter for position_ids")
    off = relative_difference(text.model(text.ids, positions=text.places), text.logits)
    if off > SAME:
        words = f"position_ids of 0, 1, 2 ... change the logits by {off:.2g}: by default they count from elsewhere"
        return wrong("positions-shifted", words, off)
    moved, failed = attempt(text.model, text.ids, positions=text.places + 17)
    if failed:
        return note(f"positions from 17 on raise {failed}")
    off = relative_difference(moved, text.logits)
    if off < SAME:
        return passed("moving all positions together changes nothing: it sees offsets only", off)
    if text.model.rows:
        return passed(
            f"moving all positions together changes the logits by {off:.2g}: it has a table of positions", off
        )
    words = f"moving all positions together changes the logits by {off:.2g}, and there is no table of positions"
    return wrong("absolute", f"{words}: queries and keys are turned to different places", off)


def longer(text: Text) -> Finding:
    """Compare the first logits of a long text with those of a short one."""
    if float(text.moved(LAST).max()) > SAME:
        return not_checked("tokens see those ahead, so a longer text is another one")
    most = text.model.longest
    ids = text.random(most + 64)
    made, failed = attempt(text.model, ids)
    if failed:
        made, failed = attempt(text.model, ids[:, :most])
    if failed:
        return note(f"{most:,} tokens raise {failed}")
    off, length = relative_difference(made[:, :TOKENS], text.logits), f"{made.shape[1]:,} tokens"
    if off < CLOSE:
        return passed(f"the first logits of {length} are those of a short text", off)
    return wrong(
        "length-dependent",
        f"the first logits change by {off:.2g} in a text of {length}: frequencies depend on the length "
        "(dynamic NTK, LongRoPE), and cached keys then belong to other ones",
        off,
    )


def limit(text: Text) -> Finding:
    """Ask for more tokens than there are positions."""
    rows = text.model.rows
    if not rows:
        return passed("no table, so no row where it ends")
    if rows > MOST:
        return not_checked(f"the table has {rows:,} rows: too long a text to try")
    _, failed = attempt(text.model, text.random(rows + TOKENS))
    if failed:
        return passed(f"more tokens than {rows:,} are refused: {failed}", rows)
    if text.model.takes("positions"):
        beyond = torch.full_like(text.ids, rows)
        one, others = (text.model(text.ids, positions=places) for places in (beyond, beyond + text.places))
        if relative_difference(one, others) < SAME < relative_difference(one, text.logits):
            return wrong("clipped", f"from position {rows:,} on all tokens get one row, without a word", rows)
    return note(f"takes more tokens than the {rows:,} rows of its table: where do the others come from?", rows)


def half_precision(text: Text) -> Finding:
    """Cast the model to bfloat16: are logits finite, and which buffers of angles are rounded with it?"""
    other = text.model.fresh()
    other.module.to(torch.bfloat16)
    made, failed = attempt(other, text.ids)
    if failed:
        return not_checked(f"bfloat16 raises {failed}")
    if not made.isfinite().all():
        return wrong("precision-lost", "in bfloat16 logits are not finite: a mask or a bias overflows")
    names = [name for name, buffer in text.model.module.named_buffers() if buffer.is_floating_point()]
    angles = [name for name in names if any(part in name.lower() for part in ("freq", "theta", "cos", "sin", "rot"))]
    off = relative_difference(made, text.logits)
    if angles:
        return note(
            f"after model.bfloat16() the buffers of angles ({angles[0]}{', ...' if len(angles) > 1 else ''}) are "
            "rounded with it: far tokens stand elsewhere. Load in bfloat16 by the library's own setting, or cast "
            "parameters only",
            off,
        )
    return passed(f"bfloat16 within {off:.1g} of float32", off)
