"""Five questions about random tokens: two ask what, three ask where. None can be answered from the token alone.

Each task is called as task(batch, length, generator) and returns ids (b, t) and the wanted answers (b, t), with
UNASKED where there is no question. Tokens are drawn at random, so that nothing but the rule can be learned.

Key:   b batch, t tokens
"""

from collections.abc import Callable

import torch
from torch import Generator, Tensor

UNASKED = -100  # the target that cross_entropy ignores
Task = Callable[[int, int, Generator], tuple[Tensor, Tensor]]


def copy_back(offset: int, tokens: int = 16) -> Task:
    """Return the task "which token stood `offset` back?": a fixed offset. Needs `tokens` different tokens.

    Examples:
        >>> copy_back(2)(1, 5, torch.Generator().manual_seed(0))
        (tensor([[12, 15,  5,  0,  3]]), tensor([[-100, -100,   12,   15,    5]]))
    """

    def task(batch: int, length: int, generator: Generator) -> tuple[Tensor, Tensor]:
        ids = torch.randint(tokens, (batch, length), generator=generator)  # (b, t)
        return ids, _from(ids, torch.arange(length) - offset)

    return task


def named_offset(offsets: int = 8, tokens: int = 16) -> Task:
    """Return the task "which token stood k back?", where each token itself names its k below `offsets`.

    Needs tokens * offsets different tokens, each a letter and a k, and `tokens` answers.

    Examples:
        >>> ids, target = named_offset()(1, 5, torch.Generator().manual_seed(0))
        >>> (ids % 16).tolist(), (ids // 16).tolist(), target.tolist()  # letters, k, answers
        ([[12, 15, 5, 0, 3]], [[3, 3, 7, 1, 3]], [[-100, -100, -100, 5, 15]])
    """

    def task(batch: int, length: int, generator: Generator) -> tuple[Tensor, Tensor]:
        letters = torch.randint(tokens, (batch, length), generator=generator)  # (b, t)
        back = torch.randint(offsets, (batch, length), generator=generator)  # (b, t)
        return letters + tokens * back, _from(letters, torch.arange(length) - back)

    return task


def first_token(tokens: int = 16) -> Task:
    """Return the task "which token came first?": a place. Needs `tokens` different tokens.

    Examples:
        >>> first_token()(1, 4, torch.Generator().manual_seed(0))
        (tensor([[12, 15,  5,  0]]), tensor([[-100,   12,   12,   12]]))
    """

    def task(batch: int, length: int, generator: Generator) -> tuple[Tensor, Tensor]:
        ids = torch.randint(tokens, (batch, length), generator=generator)  # (b, t)
        target = ids[:, :1].repeat(1, length)  # (b, t)
        target[:, 0] = UNASKED
        return ids, target

    return task


def look_up(keys: int = 16, answers: int = 16) -> Task:
    """Return the task "what is the value of this key?": content alone. Half records, then questions.

    In one text a key always has one value. A record is key * answers + value, a question keys * answers + key.
    Needs keys * answers + keys different tokens.

    Examples:
        >>> ids, target = look_up()(1, 6, torch.Generator().manual_seed(0))
        >>> ids[0, :3] // 16, ids[0, :3] % 16  # three records: keys and their values
        (tensor([ 8, 12, 10]), tensor([9, 4, 5]))
        >>> ids[0, 3:] - 256, target[0, 3:]  # three questions and their answers
        (tensor([ 8, 10, 10]), tensor([9, 5, 5]))
    """

    def task(batch: int, length: int, generator: Generator) -> tuple[Tensor, Tensor]:
        value_of = torch.randint(answers, (batch, keys), generator=generator)
        told = torch.randint(keys, (batch, length // 2), generator=generator)
        chosen = torch.randint(length // 2, (batch, length - length // 2), generator=generator)
        asked = told.gather(1, chosen)  # only keys that were told
        ids = torch.cat([told * answers + value_of.gather(1, told), keys * answers + asked], dim=1)  # (b, t)
        return ids, torch.cat([torch.full_like(told, UNASKED), value_of.gather(1, asked)], dim=1)

    return task


def latest(keys: int = 8, answers: int = 16) -> Task:
    """Return the task "what value did this key have last?": content and recency. Records and questions alternate.

    A key gets new values all the time. Tokens as in `look_up`.

    Examples:
        >>> ids, target = latest()(1, 6, torch.Generator().manual_seed(0))
        >>> ids[0, ::2] // 16, ids[0, ::2] % 16  # three records: keys and their values
        (tensor([4, 7, 5]), tensor([ 0,  3, 11]))
        >>> ids[0, 1::2] - 128, target[0, 1::2]  # the question after each, and the answer
        (tensor([4, 4, 4]), tensor([0, 0, 0]))
    """

    def task(batch: int, length: int, generator: Generator) -> tuple[Tensor, Tensor]:
        records, questions = (length + 1) // 2, length // 2
        key = torch.randint(keys, (batch, records), generator=generator)
        value = torch.randint(answers, (batch, records), generator=generator)
        told = torch.arange(records)[:, None] <= torch.arange(questions)  # record r is known to question n
        chosen = torch.rand(batch, records, questions, generator=generator).masked_fill(~told, -1).argmax(dim=1)
        asked = key.gather(1, chosen)
        same = (key[:, :, None] == asked[:, None, :]) & told
        last = (same * torch.arange(1, records + 1)[:, None]).argmax(dim=1)
        ids = torch.empty(batch, length, dtype=torch.int64)  # (b, t)
        ids[:, ::2], ids[:, 1::2] = key * answers + value, keys * answers + asked
        target = torch.full_like(ids, UNASKED)  # (b, t)
        target[:, 1::2] = value.gather(1, last)
        return ids, target

    return task


def _from(ids: Tensor, source: Tensor) -> Tensor:
    """Return the tokens (b, t) that stand at `source` (t,) or (b, t), UNASKED where that lies before the start."""
    source = source.expand_as(ids)
    return ids.gather(1, source.clamp(min=0)).masked_fill(source < 0, UNASKED)
