"""Write Matplotlib's colormaps for the live figures: `python -m dev.colormaps`."""

import base64

import matplotlib as mpl
import numpy as np

from dev import ROOT

PATH = ROOT / "docs/assets/js/kit/colormaps.js"
NAMES = ("RdBu_r", "viridis")
HEAD = "// The colormaps of the book's figures, 256 colors each. Written by `make update`, from Matplotlib.\n"


def module() -> str:
    """Return the text of colormaps.js."""
    lines = [f'  {name}:\n    "{base64.b64encode(_bytes(name)).decode()}",\n' for name in NAMES]
    return f"{HEAD}\nexport const MAPS = {{\n{''.join(lines)}}}\n"


def _bytes(name: str) -> bytes:
    return mpl.colormaps[name](np.arange(256), bytes=True)[:, :3].tobytes()


if __name__ == "__main__":
    PATH.write_text(module(), encoding="utf-8")
