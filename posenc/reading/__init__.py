"""Read a whole model from its configuration: for every layer, how position enters it.

    print(posenc.plan("config.json"))        or        python -m posenc read config.json

What the code of transformers knows and a configuration does not say, such as the layout or the
layers without rotation, stands in kinds.json, which is measured on that code.
"""

from posenc.reading.layer import Layer, Plan
from posenc.reading.plan import plan

__all__ = ["Layer", "Plan", "plan"]
