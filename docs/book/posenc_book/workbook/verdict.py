"""What the workbook says of an answer: whether it is right, in one sentence that also says why, or what is amiss."""

import textwrap
from dataclasses import dataclass

WIDTH = 88


@dataclass(frozen=True, repr=False)
class Verdict:
    """One judgment: true where the answer is right, and printed as its sentence, in lines of at most 88 characters.

    Examples:
        >>> Verdict("1.2", False, "Not yet: one off.")
        Not yet: one off.
        >>> bool(Verdict("1.2", True, "Right: a quarter period."))
        True
    """

    exercise: str
    right: bool
    words: str

    def __bool__(self) -> bool:
        return self.right

    def __str__(self) -> str:
        return textwrap.fill(self.words, WIDTH, break_long_words=False, break_on_hyphens=False)

    def __repr__(self) -> str:
        return str(self)
