"""Examine whose content logits are made of, and whether what a module holds for positions reaches them."""

import re

import torch
from torch import Tensor, nn

from posenc.doctor.attempt import attempt
from posenc.doctor.attention.measure import Case, T
from posenc.doctor.report import Finding, note, wrong

AT = torch.tensor([8, 13])  # the tokens that change, of T
NEAR, MOVED = 1e-3, 5e-3
TINY = 1e-5
FEW = 5  # columns that a row must see: their median is what the softmax moves them all by
POSITIONAL = re.compile(r"^(?!.*\.bias$).*(rel|pos|alibi|dist|slope|content_bias|[rk]_bias|r_w|r_r)")  # no layer's bias
HELD = "is in the module and changes nothing: what it tells of positions is not added to the logits"


def contents(case: Case) -> Finding | None:
    """Change two queries: only their rows of logits may change; change two keys: only their columns."""
    if case.shown < T:
        return None
    of_q, of_k = _moved(case, True), _moved(case, False)
    if of_q is None or of_k is None:
        return None
    others = torch.tensor([place for place in range(T) if place not in AT])
    keys_of_queries, queries_of_keys = of_q[others][:, AT].any(), of_k[AT][:, others].any()
    elsewhere = of_q[others][:, others].any()
    if keys_of_queries and queries_of_keys:
        return wrong("swapped", "the query of a token is taken for its key, and the key for its query: exchange them")
    if elsewhere:
        return _mixed(case)
    if keys_of_queries or queries_of_keys:
        one, other = ("keys", "queries") if keys_of_queries else ("queries", "keys")
        words = f"{one} are made of the content of {other}, in part or whole: a name exchanged?"
        return wrong("one-for-both", words)
    return None


def _mixed(case: Case) -> Finding:
    words = "the weights of a query change with the content of another query"
    if held(case):
        why = "the bias of a row is taken from the row above or below. Check how the columns of a row are shifted"
        return wrong("queries-mixed", f"{words}: {why}")
    return note(f"{words}: a convolution over tokens?")


def _moved(case: Case, query: bool) -> Tensor | None:
    """Return which logits (t, s) change with the queries, or the keys, of two tokens."""
    q, k, _ = (part / 5 for part in case.inputs(14))  # so that no weight is tiny
    other = q if query else k
    other = other.index_copy(2, AT, -other[:, :, AT])
    before = case.attend.weights(q, k)
    after = case.attend.weights(*((other, k) if query else (q, other)))
    if not _sums_to_one(before):
        return None
    seen, change = _change(before, after)
    return ((change > MOVED) & (seen.sum(-1, keepdim=True) >= FEW)).flatten(0, 1).any(0)


def _sums_to_one(weights: Tensor) -> bool:
    """Tell whether these come of a softmax over keys: nothing else can be read."""
    return bool((weights.sum(-1) - 1).abs().max() < NEAR)


def _change(before: Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
    """Return which weights can be seen, and how much their logarithms change beside the others of their row."""
    seen = (before > TINY) & (after > TINY)
    change = torch.where(seen, (after / before).log(), torch.nan)
    return seen, (change - change.nanmedian(-1, keepdim=True).values).abs().nan_to_num(0)


def held(case: Case) -> dict[str, nn.Parameter]:
    """Return what an opened module learns about positions, by name."""
    if not case.attend.opened:
        return {}
    ours = {weight for layer in case.attend.opened.layers.values() for weight in layer.weights}
    *_, attention = (part for part in case.attend.code.modules if ours <= {*part.parameters()})  # the innermost of them
    with_check_name = attention.named_parameters()
    return {name: one for name, one in with_check_name if one not in ours and POSITIONAL.search(name.lower())}


def unused(case: Case) -> Finding | None:
    """Look for what is learned about positions and gets no gradient, or on one side only."""
    table = held(case)
    if not table:
        return None
    for parameter in table.values():
        parameter.grad = None
    with torch.enable_grad():
        case.attend.at(*case.inputs(15)).square().sum().backward()
    grads = {name: one.grad for name, one in table.items()}
    dead = [name for name, grad in grads.items() if grad is None or not grad.any()]
    if dead:
        return wrong("bias-lost", f"{' and '.join(dead)} {HELD}")
    halves = [name for name, grad in grads.items() if grad is not None and _one_half(grad)]
    if halves and not case.causal:
        words = f"of {' and '.join(halves)} one half is never read: keys ahead, or keys behind, all count as distance 0"
        return wrong("one-direction-lost", f"{words}. Clamp offsets on both sides")
    return None


def _one_half(grad: Tensor) -> bool:
    """Tell whether of a table of offsets from -n to n only 0 and those of one sign are read."""
    seen = grad.any(-1).flatten()
    rows, read, middle = [*range(len(seen))], seen.nonzero().flatten().tolist(), len(seen) // 2
    behind, ahead = rows[: middle + 1][-T:], rows[middle:][:T]
    return len(rows) % 2 == 1 and read != rows and read in (behind, ahead)


def lengths(case: Case) -> Finding | None:
    """Compare the weights of the first tokens among each other with and without tokens that follow."""
    if case.shown < T:
        return None
    q, k, _ = case.inputs(16)
    few = T - 5
    short, failed = attempt(case.attend.weights, q[:, :, :few], k[:, :, :few])
    if failed or not _sums_to_one(short):
        return None
    _, change = _change(short, case.attend.weights(q, k)[:, :, :few, :few])
    off = float(change.max())
    if off < MOVED:
        return None
    words = f"the weights of tokens among each other change by {off:.2g} (in their logarithm) when tokens follow"
    words = f"{words}: positions are counted, or scaled, by the length of the call"
    if case.causal:
        return wrong("length-dependent", f"{words}, so each step of decoding moves the tokens before it", off)
    return note(f"{words}: right for texts of one length only", off)
