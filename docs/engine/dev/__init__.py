"""Commands for contributors, each run as `python -m dev.NAME` from the top of a checkout."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
EXPENSIVE = re.compile(r"_(compile[sd]?|exported)_")  # in the name of a test that takes seconds
