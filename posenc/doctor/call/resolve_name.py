"""Find what a name stands for, such as "mypackage.model:rotate" or "transformers:LlamaAttention"."""

import inspect
import re
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any


def thing(name: str) -> Any:
    """Return what is called module:name; of transformers, a class of any of its models by its name alone.

    Raises:
        ValueError: If there is no such module or name.
    """
    module, _, inside = name.partition(":")
    try:
        if module == "transformers" and (found := _model_of(inside.partition(".")[0])):
            module = found
        return attrgetter(inside)(import_module(module))
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"doctor: function must be module:function, got {name}; {error}") from error


def _model_of(name: str) -> str:
    """Return the module of transformers that defines a class or function, "" if none does."""
    folder = Path(str(import_module("transformers").__file__)).parent / "models"
    wanted = re.compile(rf"^(class|def) {re.escape(name)}\b", re.M)
    near = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower().partition("_")[0]
    files = sorted(folder.glob("*/modeling_*.py"), key=lambda file: (not file.parent.name.startswith(near), file.name))
    for file in files:
        if wanted.search(file.read_text(encoding="utf-8")):
            return f"transformers.models.{file.parent.name}.{file.stem}"
    return ""


def is_layer_of_transformers(function: Any) -> bool:
    """Tell whether something is an attention layer of transformers, or the class of one."""
    cls = function if isinstance(function, type) else type(function)
    if not (cls.__module__.startswith("transformers.models.") and "Attention" in cls.__name__):
        return False
    return {"config", "hidden_states"} <= {
        *inspect.signature(cls).parameters,
        *inspect.signature(cls.forward).parameters,
    }
