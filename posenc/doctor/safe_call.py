"""Call somebody else's code, which may raise anything."""

from collections.abc import Callable
from typing import Any


def attempt(call: Callable[..., Any], *arguments: Any, **keywords: Any) -> tuple[Any, str]:
    """Return the result and "", or None and the error in one line."""
    try:
        return call(*arguments, **keywords), ""
    except Exception as error:
        return None, error_line(error)


def error_line(error: Exception) -> str:
    """Return the type of an error and the first line of its message, which may be empty."""
    name = type(error).__name__
    lines = str(error).strip().splitlines()
    if not lines:
        return name
    line = lines[0]
    # The doctor's own errors say at their end what to do.
    return f"{name}: {line if line.startswith('doctor: ') else line[:120]}"
