"""Properties of every encoding, most of them in attention; for each, the encodings that lack it, and why.

The encodings come from tests/doors.py, so that a new file is tried here without being named. A table of exceptions can
hide no regression: what it names must lack the property, and plainly so, by a thousand times the tolerance and more.

Sums enter as DETR lets them, added to queries and to keys, so that one test serves all four doors.
"""

import functools
import inspect
import itertools
from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatchcase

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from posenc.attention import attention
from posenc.positions import packed_documents, packed_positions, padded_positions, shard, shard_positions, unshard
from tests import doors
from tests.doors import POSITIONS, Encoding, G, H

EACH = [variant for encoding in doors.encodings() for variant in encoding.variants()]
EACH += [replace(e, options=e.options | {"on_values": True}) for e in EACH if "on_values" in e.takes("forward", False)]

# Where a property does not hold: patterns of str(encoding), and the reason

NORMS = {
    "rotate/fope*": "a pair is multiplied by a sum of waves, not by one",
    "rotate/pope*": "a length is the softplus of the content",
    "rotate/xpos*": "queries grow and keys shrink with their distance from the center",
}
OFFSETS = {
    "add/*": "the product of two sums holds what one token has at the place of the other",
    "bias/fire*": "its yardstick is the place of the query, once that is far",
    "rotate/fope*": "products of waves of two frequencies do not depend on the offset alone",
    "rotate/liere-init=0.2": "its generators do not commute",
    "rotate/liere-axes=3-block=4*": "its generators do not commute",
}
PAIRS = {
    "score/cope*": "the tokens between are counted",
    "score/forget*": "the tokens between make forget",
    "score/path*": "the tokens between reflect the key",
}
UNTOLD_PADDING = {
    "add/*": OFFSETS["add/*"],
    "bias/fire-threshold=4*": "its yardstick is the place of the query, far where the threshold is 4",
    "rotate/fope*": OFFSETS["rotate/fope*"],
}
TABLES = {"norms": NORMS, "offsets": OFFSETS, "pairs": PAIRS, "untold padding": UNTOLD_PADDING}
