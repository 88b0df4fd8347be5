"""Commands for contributors, each run as `python -m dev.NAME` from the top of a checkout."""

from pathlib import Path

ROOT = Path(__file__).parents[3]
