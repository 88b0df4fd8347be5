"""Examine a whole model: token ids come in, logits for each token come out.

What is promised there needs no weights: a token does not see those ahead, a text does not depend on its neighbors in
the batch, decoding with the cache gives what prefill gives, padding that is hidden changes nothing.
"""

from typing import Any

import torch
from torch import Tensor, nn

from posenc.diagnosis.calling.attempt import attempt
from posenc.diagnosis.compare import far
from posenc.diagnosis.models import decode, rows
from posenc.diagnosis.models.text import SAME, Model, Text, ids_of
from posenc.diagnosis.report import Finding, findings, note, ok, unchecked, wrong

LONG = 1_024


def as_model(function: Any) -> nn.Module | None:
    """Return what is handed in if it is a torch module that takes token ids and embeds them itself, else None."""
    if not isinstance(function, nn.Module) or isinstance(function, nn.Embedding) or not ids_of(function):
        return None
    return function if any(isinstance(part, nn.Embedding) for part in function.modules()) else None


def only_embeds(module: nn.Module) -> bool:
    """Tell whether tokens do not meet in it and no logits come out: it embeds them, and no more."""
    text, failed = attempt(lambda: Text(Model(module)))
    if failed or text.logits.shape[-1] == text.model.vocabulary:
        return False
    moved, failed = attempt(lambda: [text.moved(place) for place in (0, text.ids.shape[1] - 1)])
    return not failed and max(float(moved[0][1:].max()), float(moved[1][:-1].max())) < SAME


def examine(module: nn.Module) -> tuple[list[Finding], dict[str, Any]]:
    """Return the findings on a model, and what was examined.

    Raises:
        ValueError: If a call with token ids gives no logits.
    """
    model = Model(module)
    text, failed = attempt(Text, model)
    if failed:
        raise ValueError(
            f"doctor: function must be a model that gives logits (b, t, vocabulary) for ids (b, t), got {failed}"
        )
    about = {
        "sizes": f"{model.vocabulary:,} words",
        "takes": f"takes {', '.join(model.told)}" if model.told else "takes ids alone",
        "positions": f"a table of {model.rows:,} positions" if model.rows else "no table of positions",
    }
    checks = (repeatable, future, order, rows.batch, shift, *decode.CHECKS, *rows.CHECKS, longer, limit, half_precision)
    return findings(checks, text), about


def repeatable(text: Text) -> Finding:
    """Check that two calls agree."""
    off = far(text.model(text.ids), text.logits)
    if off < SAME:
        return ok("two calls of the same agree", off)
    return wrong("dropout-on", f"two calls of the same differ by {off:.2g}: dropout stays on in eval mode?", off)


def future(text: Text) -> Finding:
    """Change the last tokens and look at the logits before them."""
    t = text.ids.shape[1]
    seen = [text.moved(place) for place in (t - 1, t // 2)]
    ahead = max(float(change[: place - 1].max()) for place, change in zip((t - 1, t // 2), seen, strict=True))
    if ahead < SAME:
        last = max(float(change[place - 1]) for place, change in zip((t - 1, t // 2), seen, strict=True))
        if last < SAME:
            return ok("causal: no token sees those ahead")
        words = f"each token sees the next one (its logits change by {last:.2g}), so training leaks the answer"
        return wrong("future-seen", f"{words}: the diagonal of the mask is off by one", last)
    if text.model.is_encoder:
        return note("every token sees every other: right for an encoder only")
    decodes = attempt(decode.begun, text, t // 2)[0] is not None
    if not decodes and float(seen[1][0]) > SAME and float(seen[0][0]) > SAME:
        return note("every token sees every other: right for an encoder only; a decoder would be told the answer")
    why = "training leaks the answer" + ", and what is decoded with the cache is something else" * decodes
    return wrong("future-seen", f"tokens ahead change the logits by {ahead:.2g}, so {why}", ahead)


def order(text: Text) -> Finding:
    """Shuffle the tokens before the last one."""
    t = text.ids.shape[1]
    mixed = torch.tensor([*reversed(range(t - 1)), t - 1])
    off = far(text.model(text.ids[:, mixed])[:, -1], text.logits[:, -1])
    if off > SAME:
        return ok("the order of the tokens matters", off)
    return wrong("positions-ignored", "shuffled tokens give the same logits at the end: no position arrives", off)


def shift(text: Text) -> Finding:
    """Move all positions together."""
    if not text.model.takes("positions"):
        return unchecked("needs a parameter for position_ids")
    places = torch.arange(text.ids.shape[1]).expand(text.ids.shape)
    off = far(text.model(text.ids, positions=places), text.logits)
    if off > SAME:
        words = f"position_ids of 0, 1, 2 ... change the logits by {off:.2g}: by default they count from elsewhere"
        return wrong("positions-shifted", words, off)
    moved, failed = attempt(text.model, text.ids, positions=places + 17)
    if failed:
        return note(f"positions from 17 on raise {failed}")
    off = far(moved, text.logits)
    if off < SAME:
        return ok("moving all positions together changes nothing: it sees offsets only", off)
    if text.model.rows:
        return ok(f"moving all positions together changes the logits by {off:.2g}: it has a table of positions", off)
    words = f"moving all positions together changes the logits by {off:.2g}, and there is no table of positions"
    return wrong("absolute", f"{words}: queries and keys are turned to different places", off)


def longer(text: Text) -> Finding:
    """Compare the first logits of a long text with those of a short one."""
    if float(text.moved(text.ids.shape[1] - 1)[0]) > SAME:
        return unchecked("every token sees every other, so a longer text is another one")
    most = text.model.limit or LONG
    length = min(most + 64, LONG)
    long = text.random(length)
    made, failed = attempt(text.model, long)
    if failed:
        length = min(most, LONG)
        made, failed = attempt(text.model, long[:, :length])
    if failed:
        return note(f"{length:,} tokens raise {failed}")
    off = far(made[:, :16], text.model(long[:, :16]))
    if off < 10 * SAME:
        return ok(f"the first logits of {length:,} tokens are those of a short text", off)
    return wrong(
        "length-dependent",
        f"the first logits change by {off:.2g} in a text of {length:,} tokens: frequencies depend on the length "
        "(dynamic NTK, LongRoPE), and cached keys then belong to other ones",
        off,
    )


def limit(text: Text) -> Finding:
    """Ask for more tokens than there are positions."""
    rows = text.model.rows
    if not rows:
        return ok("no table, so no row where it ends")
    if rows > 4_096:
        return unchecked(f"the table has {rows:,} rows: too long a text to try")
    _, failed = attempt(text.model, text.random(rows + 1)[:1])
    if failed:
        return ok(f"{rows + 1:,} tokens are refused: {failed}", rows)
    if not text.model.takes("positions"):
        return note(f"takes {rows + 1:,} tokens, and its table has {rows:,} rows: where do the others come from?", rows)
    one = text.random(1)[:1]
    ends = [attempt(text.model, one, positions=torch.tensor([[place]]))[0] for place in (0, 1, rows, rows + 1)]
    if isinstance(ends[3], Tensor) and far(ends[2], ends[3]) == 0 < far(ends[0], ends[1]):
        return wrong("clipped", f"from position {rows:,} on all tokens get one row, without a word", rows)
    return note(f"takes {rows + 1:,} tokens with a table of {rows:,} rows", rows)


def half_precision(text: Text) -> Finding:
    """Cast the model to bfloat16: are logits finite, and which buffers of angles are rounded with it?"""
    other = text.model.fresh()
    other.module.to(torch.bfloat16)
    made, failed = attempt(other, text.ids)
    if failed:
        return unchecked(f"bfloat16 raises {failed}")
    if not made.isfinite().all():
        return wrong("precision-lost", "in bfloat16 logits are not finite: a mask or a bias overflows")
    names = [name for name, buffer in text.model.module.named_buffers() if buffer.is_floating_point()]
    angles = [name for name in names if any(part in name.lower() for part in ("freq", "theta", "cos", "sin", "rot"))]
    off = far(made, text.logits)
    if angles:
        return note(
            f"after model.bfloat16() the buffers of angles ({angles[0]}{', ...' if len(angles) > 1 else ''}) are "
            "rounded with it: far tokens stand elsewhere. Load in bfloat16 by the library's own setting, or cast "
            "parameters only",
            off,
        )
    return ok(f"bfloat16 within {off:.1g} of float32", off)
