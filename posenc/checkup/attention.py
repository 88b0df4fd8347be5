"""Examine an attention: order, future, decoding, what is done to values, scale, padding, grouped heads, dtype."""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from posenc.checkup import caching
from posenc.checkup.patient import Patient, attempt, far, random
from posenc.checkup.report import Finding

T = 12


class Attend:
    """An attention as a function of q, k, v (b, h, t, d), or of x (b, t, d) alone."""

    def __init__(self, patient: Patient) -> None:
        self.patient = patient
        self.alone = not patient.takes("v")

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, **given: Any) -> Tensor:
        """Return the result (b, h, t, d) for arguments by role."""
        if self.alone:
            x = q.transpose(1, 2).flatten(2)
            made = _first(self.patient(x=x, **given))
            return made.unflatten(-1, (q.shape[1], -1)).transpose(1, 2)
        swap = self.patient.order == "bthd"
        q, k, v = (part.transpose(1, 2) if swap else part for part in (q, k, v))
        made = _first(self.patient(q=q, k=k, v=v, **given))
        return made.transpose(1, 2) if swap else made

    def at(self, q: Tensor, k: Tensor, v: Tensor, start: int = 0, **given: Any) -> Tensor:
        """Return the result with queries at the last of the keys' places, keys from `start` on, where it can be told."""
        keys = start + torch.arange(k.shape[2])
        queries = keys[k.shape[2] - q.shape[2] :]
        named = {"positions": queries, "key_positions": keys, "offset": int(queries[0])}
        return self(q, k, v, **{role: named[role] for role in named if self.patient.takes(role)}, **given)

    @property
    def placed(self) -> bool:
        """Whether positions of both queries and keys can be told."""
        return self.patient.takes("positions") and (self.alone or self.patient.takes("key_positions"))


def _first(made: Any) -> Any:
    return made[0] if isinstance(made, tuple) else made


class Case(NamedTuple):
    """What the checks share: the attention, a width and a number of heads, whether it is causal."""

    attend: Attend
    dim: int
    heads: int
    causal: bool

    def inputs(self, seed: int = 0, t: int = T, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
        """Return random q, k, v."""
        if self.attend.alone:
            x = random(2, self.heads, t, self.dim, seed=seed, dtype=dtype)
            return x, x, x
        q, k, v = (random(2, self.heads, t, self.dim, seed=3 * seed + i, dtype=dtype) for i in range(3))
        return q, k, v


def accepts(patient: Patient, dim: int, heads: int) -> bool:
    """Tell whether the code can be called as an attention."""
    case = Case(Attend(patient), dim, heads, False)
    q, k, v = case.inputs()
    made = case.attend.at(q, k, v)
    return isinstance(made, Tensor) and made.shape[:3] == q.shape[:3]


def examine(patient: Patient, dim: int, heads: int) -> list[Finding]:
    """Return the findings on an attention with heads of `dim` channels."""
    case = Case(Attend(patient.fresh()), dim, heads, False)
    case = case._replace(causal=not _sees_ahead(case))
    checks = (future, order, values, decay, scale, shift, decoding, padding, grouped_heads, half_precision)
    found = []
    for check in checks if not case.attend.alone else (future, shift, half_precision):
        result, failed = attempt(check, case)
        found.append(Finding(check.__name__.replace("_", " "), "not checked", failed) if failed else result)
    if patient.takes("cache"):
        found += caching.examine(patient, dim, heads)
    else:
        found.append(
            Finding(
                "cache",
                "not checked",
                "needs a parameter cache and a result (out, cache); keys that were "
                "rotated before they came in cannot be seen",
            )
        )
    return [finding for finding in found if finding]


def _sees_ahead(case: Case, **given: Any) -> bool:
    q, k, v = case.inputs(1)
    before = case.attend.at(q, k, v, **given)
    q, k, v = q.clone(), k.clone(), v.clone()
    for part in (k, v, q) if case.attend.alone else (k, v):
        part[:, :, T // 2 :] += 1
    after = case.attend.at(q, k, v, **given)
    return far(after[:, :, : T // 2], before[:, :, : T // 2]) > 1e-4


def future(case: Case) -> Finding:
    """Say whether a query sees keys ahead of it, and whether `causal` is heeded."""
    if case.attend.patient.takes("causal"):
        sees = {causal: _sees_ahead(case, causal=causal) for causal in (False, True)}
        if sees[True]:
            return Finding(
                "future", "wrong", "with causal=True a query still sees keys ahead of it: training leaks the answer"
            )
        return Finding(
            "future",
            "ok" if sees[False] else "note",
            "causal=True hides the keys ahead" + ("" if sees[False] else ", and so does causal=False"),
        )
    said = (
        "causal: no query sees keys ahead" if case.causal else "every query sees every key: right for an encoder only"
    )
    return Finding("future", "ok" if case.causal else "note", said)


def order(case: Case) -> Finding:
    """Say whether the order of the keys matters to the last query."""
    q, k, v = case.inputs(2)
    mixed = torch.tensor([*reversed(range(T - 1)), T - 1])
    before = case.attend.at(q[:, :, -1:], k, v) if not case.causal else case.attend.at(q, k, v)[:, :, -1:]
    after = (
        case.attend.at(q[:, :, -1:], k[:, :, mixed], v[:, :, mixed])
        if not case.causal
        else case.attend.at(q, k[:, :, mixed], v[:, :, mixed])[:, :, -1:]
    )
    off = far(after, before)
    if off > 1e-4:
        return Finding("order", "ok", "sees the order of the keys", off)
    hint = "; the causal mask alone tells order to a deep stack" if case.causal else ""
    return Finding(
        "order",
        "note",
        "blind to order: shuffled keys give the same, so position has to come from outside (an "
        f"added table, or q and k already rotated){hint}",
        off,
    )


def _weights(case: Case, q: Tensor, k: Tensor, start: int = 0) -> Tensor:
    """Return the weights (b, h, t, s), read off by values that name their key."""
    v = torch.zeros(*k.shape[:3], case.dim)
    v[:, :, torch.arange(k.shape[2]), torch.arange(k.shape[2])] = 1
    return case.attend.at(q, k, v, start)[..., : k.shape[2]].double()


def values(case: Case) -> Finding:
    """Check that equal values come out as they are: weights sum to 1 and values do not turn."""
    q, k, v = case.inputs(3)
    v = v[:, :, :1].expand_as(v).contiguous()
    off = far(case.attend.at(q, k, v), v)
    if off < 1e-4:
        return Finding("values", "ok", "values come through as they are", off)
    made = case.attend.at(torch.zeros_like(q), torch.zeros_like(k), v)
    turned = (
        "their lengths shrink: values are rotated or moved along with the keys. Rotate q and k only"
        if (made.norm(dim=-1) < v.norm(dim=-1) * 0.999).any()
        else "weights do not sum to 1, or something is added to values"
    )
    return Finding("values", "wrong", f"equal values come out different (by {off:.2g}); {turned}", off)


def decay(case: Case) -> Finding:
    """Look at the weights of the last query where queries are 0, so that position alone decides."""
    q, k, _ = case.inputs(4)
    w = _weights(case, torch.zeros_like(q), k)[0, :, -1]
    if (w.amax(-1) - w.amin(-1)).max() < 1e-5:
        return Finding("decay", "ok", "without content all keys weigh the same: no bias by distance")
    steps = w.clamp(min=1e-12).log().diff(dim=-1)
    if (steps >= -1e-6).all():
        return Finding("decay", "ok", "without content near keys weigh more than far ones", float(steps.max()))
    if (steps <= 1e-6).all():
        return Finding(
            "decay",
            "wrong",
            "without content far keys weigh more than near ones: the sign of the bias is reversed",
            float(steps.min()),
        )
    return Finding("decay", "note", "without content weights neither rise nor fall with distance: a learned bias?")


def scale(case: Case) -> Finding:
    """Measure by what a product of query and key is multiplied before the softmax."""
    q, k = torch.zeros(1, case.heads, T, case.dim), torch.zeros(1, case.heads, T, case.dim)
    ratios = []
    for size in (0.0, 2.0):
        q[..., -1, :], k[..., -1, :] = 1.0, size * case.dim**-0.5
        w = _weights(case, q, k)[0, :, -1]
        ratios.append((w[:, -1] / w[:, -2]).log())
    factor = float((ratios[1] - ratios[0]).mean() / 2)
    if abs(factor - 1) < 0.01:
        return Finding("scale", "ok", "products are divided by sqrt(d)", factor)
    if abs(factor / case.dim**0.5 - 1) < 0.01:
        return Finding(
            "scale",
            "wrong",
            "products are not divided by sqrt(d), so the softmax saturates (right for T5's weights alone)",
            factor,
        )
    if abs(factor * case.dim**0.5 - 1) < 0.01:
        return Finding("scale", "wrong", "products are divided by d: the scale 1/sqrt(d) is applied twice", factor)
    return Finding(
        "scale",
        "note",
        f"products are multiplied by {factor:.4f} / sqrt(d): an attention factor (YaRN's, once?) or "
        "another width than d",
        factor,
    )


def shift(case: Case) -> Finding:
    """Check that moving all tokens together changes nothing."""
    if not case.attend.placed:
        return Finding("shift", "not checked", "needs parameters for positions and key_positions")
    q, k, v = case.inputs(5)
    before, after = case.attend.at(q, k, v), case.attend.at(q, k, v, 100)
    off = far(after, before)
    if off < 1e-3:
        return Finding("shift", "ok", "moving all tokens together changes nothing", off)
    return Finding(
        "shift",
        "wrong",
        f"moving all tokens together changes the result by {off:.2g}: something absolute is in it. "
        "A learned or added table left in beside the rotation?",
        off,
    )


def decoding(case: Case) -> Finding:
    """Compare the last query alone, and the last three, with the last of all."""
    q, k, v = case.inputs(6)
    whole = case.attend.at(q, k, v)
    off = max(far(case.attend.at(q[:, :, -n:], k, v), whole[:, :, -n:]) for n in (1, 3))
    alone = case.attend.at(q[:, :, -1:], k, v)
    if off < 1e-4 or (not case.causal and far(alone, whole[:, :, -1:]) < 1e-4):
        return Finding("decoding", "ok", "the last query alone gets what it gets among all", off)
    if far(alone, v[:, :, :1]) < 1e-4:
        return Finding(
            "decoding",
            "wrong",
            f"one query after {T} keys sees the first key only: queries are aligned with the first "
            "keys, as is_causal=True of scaled_dot_product_attention does. Align them with the last, or leave the "
            "mask out for one query",
            off,
        )
    return Finding(
        "decoding",
        "wrong",
        f"the last query alone, after all {T} keys, differs by {off:.2g} from the last of all: it "
        "is taken for the first token. Place queries at the last of the keys",
        off,
    )


def _padded(case: Case, shape: str) -> float:
    """Return how far the real tokens are off with three more before them, hidden by a mask of the given shape."""
    q, k, v = case.inputs(7)
    hidden = [torch.cat([random(2, case.heads, 3, case.dim, seed=80 + i), part], 2) for i, part in enumerate((q, k, v))]
    real = torch.ones(2, T + 3, dtype=torch.bool)
    real[:, :3] = False
    mask = {
        "(b, s)": real,
        "(b, 1, 1, s)": real[:, None, None],
        "(b, 1, t, s)": real[:, None, None].expand(-1, 1, T + 3, -1),
    }
    mask = {**mask, "additive": torch.where(real[:, None, None], 0.0, -1e9)}[shape]
    places = (real.long().cumsum(-1) - 1).clamp(min=0)
    given = {"positions": places, "key_positions": places, "mask": mask}
    taken = {role: given[role] for role in given if case.attend.patient.takes(role)}
    return far(case.attend(*hidden, **taken)[:, :, 3:], case.attend.at(q, k, v))


def padding(case: Case) -> Finding:
    """Check that padding on the left, hidden by the mask, leaves the real tokens alone."""
    if not case.attend.patient.takes("mask"):
        return Finding("padding", "not checked", "needs a parameter for a mask")
    tried = [attempt(_padded, case, shape) for shape in ("(b, 1, 1, s)", "(b, 1, t, s)", "(b, s)", "additive")]
    worked = [off for off, failed in tried if not failed and off is not None and math.isfinite(off)]
    if not worked:
        return Finding("padding", "not checked", f"no mask of booleans or numbers is taken: {tried[0][1]}")
    if min(worked) < 1e-4:
        return Finding("padding", "ok", "hidden padding on the left leaves the real tokens alone", min(worked))
    return Finding(
        "padding",
        "wrong",
        f"padding on the left, though hidden by the mask, changes the real tokens by {min(worked):.2g}: "
        "positions count the padding. Count real tokens, mask.cumsum(-1) - 1",
        min(worked),
    )


def grouped_heads(case: Case) -> Finding:
    """Try half as many heads of keys."""
    if case.heads % 2:
        return Finding("grouped heads", "not checked", "needs an even number of heads")
    q, k, v = case.inputs(8)
    k, v = k[:, ::2], v[:, ::2]
    made, failed = attempt(case.attend.at, q, k, v)
    if failed:
        return Finding("grouped heads", "note", f"fewer heads of keys than of queries raise {failed}")
    each = case.attend.at(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1))
    if (off := far(made, each)) < 1e-4:
        return Finding("grouped heads", "ok", "neighbouring query heads share a key head", off)
    return Finding(
        "grouped heads",
        "wrong",
        f"query heads share key heads in another order than neighbours (off by {off:.2g}): use "
        "repeat_interleave, not repeat",
        off,
    )


def half_precision(case: Case) -> Finding:
    """Compare bfloat16 with float32, far out where positions can be told."""
    start = 4000 if case.attend.placed else 0
    q, k, v = case.inputs(9, dtype=torch.bfloat16)
    made, failed = attempt(case.attend.at, q, k, v, start)
    if failed:
        return Finding("half precision", "not checked", f"bfloat16 raises {failed}")
    off = far(made, case.attend.at(q.float(), k.float(), v.float(), start))
    if off < 0.05:
        return Finding("half precision", "ok", f"bfloat16 within {off:.1g} of float32 at positions from {start:,}", off)
    return Finding(
        "half precision",
        "wrong",
        f"in bfloat16 off by {off:.2g} at positions from {start:,}: positions, angles or the "
        "bias are computed in the input's dtype. Compute them in float32",
        off,
    )
