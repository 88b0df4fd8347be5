"""Call what may raise anything."""

from collections.abc import Callable
from typing import Any


def attempt(call: Callable[..., Any], *arguments: Any, **with_check_name: Any) -> tuple[Any, str]:
    """Return the result and "", or None and the error in one line: their code may raise anything."""
    try:
        return call(*arguments, **with_check_name), ""
    except Exception as error:
        return None, error_line(error)


def error_line(error: Exception) -> str:
    """Return the kind of an error and its first line."""
    line = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {line if line.startswith('doctor: ') else line[:120]}"
