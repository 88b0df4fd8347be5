"""Find what a name stands for, such as "mypackage.model:rotate" or "transformers:LlamaAttention"."""

import inspect
import re
import sys
from importlib import import_module
from importlib.util import find_spec
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
    spec = find_spec("transformers")
    if spec is None or spec.origin is None or not name:
        return ""
    folder = Path(spec.origin).parent / "models"
    wanted = re.compile(rf"^(class|def) {re.escape(name)}\b", re.M)
    near = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower().partition("_")[0]
    files = sorted(folder.glob("*/modeling_*.py"), key=lambda file: (not file.parent.name.startswith(near), file.name))
    for file in files:
        if "_tf_" not in file.name and "_flax_" not in file.name and wanted.search(file.read_text(encoding="utf-8")):
            return f"transformers.models.{file.parent.name}.{file.stem}"
    return ""


def is_layer_of_transformers(function: Any) -> bool:
    """Tell whether something is an attention layer of transformers, or the class of one."""
    cls = function if isinstance(function, type) else type(function)
    ours = cls.__module__.startswith("transformers.models.") and "transformers" in sys.modules
    if not ours or not hasattr(cls, "forward") or "config" not in inspect.signature(cls).parameters:
        return False
    return "hidden_states" in inspect.signature(cls.forward).parameters and "Attention" in cls.__name__
