"""Read the parameters of compiled code, such as torch's attention, off the call with which its documentation begins."""

import ast
import inspect
import re
from typing import Any

CALL = re.compile(r"\s*\w+\((.*?)\)", re.S)


def as_documented(function: Any) -> dict[str, inspect.Parameter]:
    """Return the parameters that the documentation names, none where it begins otherwise."""
    call = CALL.match(getattr(function, "__doc__", None) or "")
    try:
        tree = ast.parse(f"(lambda {call[1] if call else ''}: 0)")
        (told,) = (node for node in ast.walk(tree) if isinstance(node, ast.arguments))
        late = [ast.literal_eval(default) for default in told.defaults]
    except (SyntaxError, ValueError):  # words in brackets
        return {}
    defaults = [inspect.Parameter.empty] * (len(told.args) - len(late)) + late
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    pairs = zip((each.arg for each in told.args), defaults, strict=True)
    return {name: inspect.Parameter(name, kind, default=default) for name, default in pairs}
