# Written by `make update` from __init__.py and the files of the doors.
# fmt: off
# ruff: noqa
"""Positional encodings, one self-contained file each: read it, test it, copy it."""
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
DOORS = ('add', 'rotate', 'bias', 'score')
TOOLS = {'doctor': 'posenc.checkup', 'Report': 'posenc.checkup.report', 'Finding': 'posenc.checkup.report', 'check': 'posenc.workbook', 'Verdict': 'posenc.workbook.verdict'}
_HERE = Path(__file__).parent
_PAPER = re.compile('^Paper:\\s+(?P<authors>.+?),\\s+(?P<year>\\d{4}),\\s+"(?P<title>.+?)",\\s+(?P<url>https://\\S+?)[,.;]?\\s', re.M | re.S)

class Encoding(NamedTuple):
    """What the head of an encoding's file says; `module` imports the file."""
    door: str
    name: str
    cls: str
    paper: str
    authors: str
    year: int
    url: str

    @property
    def module(self) -> ModuleType:
        """The module that holds the NumPy function `name` and the torch class `cls`."""
        ...

def encodings() -> dict[str, Encoding]:
    """Return every encoding by its key, such as "add/sinusoidal"; a new file in a door appears by itself.

    A file is an encoding if it has a torch class of its own name; the others, such as rotate/frequencies, serve one.
    """
    ...

def _paper(source: str) -> dict[str, Any]:
    ...

def _files() -> list[Path]:
    ...

def _modules() -> set[str]:
    """Return the names of the doors and of the files beside them."""
    ...

def _names() -> Iterator[tuple[str, str]]:
    """Yield each public function and class of the package with the module that defines it, importing none."""
    ...

from posenc.add.fourier import fourier as fourier, fourier_cycles as fourier_cycles, Fourier as Fourier
from posenc.add.grid import grid as grid, detr_coordinates as detr_coordinates, Grid as Grid
from posenc.add.learned import learned as learned, row_statistics as row_statistics, resize as resize, resize_grid as resize_grid, Learned as Learned
from posenc.add.sinusoidal import sinusoidal as sinusoidal, wavelengths as wavelengths, kernel as kernel, shift_matrix as shift_matrix, Sinusoidal as Sinusoidal
from posenc.rotate.axial import axial as axial, Axial as Axial
from posenc.rotate.axial_convention import axial_convention as axial_convention, axial_theta as axial_theta, axial_coordinates as axial_coordinates
from posenc.rotate.fope import fope as fope, FoPE as FoPE
from posenc.rotate.frequencies import rope_frequencies as rope_frequencies, linear as linear, ntk as ntk, dynamic_ntk as dynamic_ntk, by_parts as by_parts, yarn as yarn, longrope as longrope, llama3 as llama3, proportional as proportional, from_config as from_config, attention_temperature as attention_temperature, softmax_scale as softmax_scale
from posenc.rotate.layouts import layout_order as layout_order, convert_layout as convert_layout, convert_lora as convert_lora, convert_checkpoint as convert_checkpoint
from posenc.rotate.liere import liere as liere, LieRE as LieRE
from posenc.rotate.mrope import mrope as mrope, MRoPE as MRoPE
from posenc.rotate.mrope_positions import mrope_positions as mrope_positions
from posenc.rotate.pope import pope as pope, PoPE as PoPE
from posenc.rotate.rerotate import rerotate as rerotate
from posenc.rotate.rope import rope as rope, RoPE as RoPE
from posenc.rotate.xpos import xpos as xpos, XPos as XPos
from posenc.bias.alibi import alibi_slopes as alibi_slopes, alibi as alibi, ALiBi as ALiBi
from posenc.bias.fire import fire as fire, FIRE as FIRE
from posenc.bias.kerple import kerple as kerple, KERPLE as KERPLE
from posenc.bias.sandwich import sandwich as sandwich, Sandwich as Sandwich
from posenc.bias.t5 import t5_bucket as t5_bucket, t5 as t5, T5 as T5
from posenc.bias.window import window as window, window_positions as window_positions, relative_index as relative_index, log_coordinates as log_coordinates, resize_window as resize_window, Window as Window
from posenc.score.cope import cope as cope, CoPE as CoPE
from posenc.score.deberta import deberta as deberta, deberta_bucket as deberta_bucket, DeBERTa as DeBERTa
from posenc.score.forget import forget as forget, Forget as Forget
from posenc.score.music import music as music, skew as skew, Music as Music
from posenc.score.path import path as path, PaTH as PaTH
from posenc.score.shaw import shaw as shaw, shaw_values as shaw_values, Shaw as Shaw
from posenc.score.transformer_xl import transformer_xl as transformer_xl, TransformerXL as TransformerXL
from posenc.attention import attention_weights as attention_weights
from posenc.positions import padded_positions as padded_positions, packed_documents as packed_documents, packed_positions as packed_positions, random_positions as random_positions, shifted_positions as shifted_positions, augmented_positions as augmented_positions, interpolated_positions as interpolated_positions, grid_positions as grid_positions, shard_positions as shard_positions, shard as shard, unshard as unshard
from posenc.checkup import doctor as doctor
from posenc.checkup.report import Report as Report, Finding as Finding
from posenc.workbook import check as check
from posenc.workbook.verdict import Verdict as Verdict
