"""Read a whole model from its configuration: for every layer, how position enters it.

    print(posenc.plan("config.json"))        or        posenc read config.json

What the code of transformers has and a configuration does not state, such as the layout or the
layers without rotation, is in model_types.json, which is measured on that code.
"""

from posenc.config.layer import Layer, Plan

__all__ = ["Layer", "Plan"]
