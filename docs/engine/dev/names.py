"""`python -m dev.names` writes posenc/_typing_exports.py: the names at the top of posenc, for who does not run it.

Type checkers, editors and programs that freeze an app read imports; posenc itself finds its encodings in its folders.
"""

from itertools import groupby
from operator import itemgetter

import posenc
from dev import ROOT
from posenc import _index

PATH = ROOT / "posenc" / "_typing_exports.py"
FILE = '''\
"""What `from posenc import` offers, for type checkers, editors and programs that freeze an app. Never run.

Written by `make update`.
"""

# ruff: noqa
from typing import TYPE_CHECKING

if TYPE_CHECKING:
{imports}
'''


def exports() -> list[tuple[str, str]]:
    """Return each name at the top of posenc with its module, by module."""
    places = _index.places() | posenc.FUNCTIONS
    names = {*getattr(posenc, "__all__")} - {"encodings"}  # noqa: B009
    return sorted((places[name], name) for name in names)


def text() -> str:
    """Return the file as the folders would have it."""
    lines = []
    for module, names in groupby(exports(), itemgetter(0)):
        lines += [f"    from {module} import {name} as {name}" for _, name in names]
    return FILE.format(imports="\n".join(lines))


if __name__ == "__main__":
    PATH.write_text(text(), encoding="utf-8")
