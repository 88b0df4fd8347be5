"""The tables by which a configuration is read, as plain JSON for a reader in another language.

The page Reference → Read a config.json hands them to its JavaScript.
"""

from typing import Any

from posenc.config import layer_types, model_types, rotation, scales, sentences
from posenc.config.formats import detection
from posenc.models import from_config

# tables of plain values, each handed on under its name
TABLES = {
    from_config: (
        "ALIASES",
        "BASE_KEYS",
        "SHARE_KEYS",
        "ROPE_KEYS",
        "TOP_KEYS",
        "ALIKE",
        "ALIKE_INSIDE",
        "FOREIGN",
        "NEUTRAL",
    ),
    detection: ("FORMATS", "VLLM_KEYS", "VLLM_ROPE_TYPES"),
    layer_types: ("RENAMED", "WITHOUT_ATTENTION", "WINDOW_KEYS"),
    model_types: ("COMMON_TYPES", "MOST_LAYERS"),
    rotation: ("FROM_TRAINED", "PER_LAYER"),
    scales: ("QUERY_SCALES",),
}


def rules() -> dict[str, Any]:
    """Return the tables of this package and of posenc.models.from_config, under their names there.

    `ROPE_TYPES` has for each rope_type the name of its formula and the keys that it needs,
    `sentences` what a plan says, `model_types` the facts of every model type.

    Examples:
        >>> rules()["ALIASES"]["type"]
        'rope_type'
    """
    tables = {}
    for module, names in TABLES.items():
        for name in names:
            table = getattr(module, name)
            tables[name] = sorted(table) if isinstance(table, set) else table
    rope_types = {
        name: {"formula": formula.__name__, "needed": needed}
        for name, (formula, needed, _) in from_config.ROPE_TYPES.items()
    }
    return {
        **tables,
        "ROPE_TYPES": rope_types,
        "sentences": {name: text for name, text in vars(sentences).items() if name.isupper()},
        "model_types": model_types.facts(),
    }
