"""What `from posenc import` offers, for type checkers, editors and programs that freeze an app. Never run.

Written by `make update`.
"""

# ruff: noqa
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from posenc.add.conditional import Conditional as Conditional
    from posenc.add.convolution import Convolution as Convolution
    from posenc.add.fourier import Fourier as Fourier
    from posenc.add.fourier import fourier as fourier
    from posenc.add.grid import Grid as Grid
    from posenc.add.learned import Learned as Learned
    from posenc.add.sinusoidal import Sinusoidal as Sinusoidal
    from posenc.add.sinusoidal import sinusoidal as sinusoidal
    from posenc.bias.alibi import ALiBi as ALiBi
    from posenc.bias.alibi import alibi as alibi
    from posenc.bias.alibi import alibi_slopes as alibi_slopes
    from posenc.bias.fire import FIRE as FIRE
    from posenc.bias.kerple import KERPLE as KERPLE
    from posenc.bias.kerple import kerple as kerple
    from posenc.bias.sandwich import Sandwich as Sandwich
    from posenc.bias.sandwich import sandwich as sandwich
    from posenc.bias.t5 import T5 as T5
    from posenc.bias.t5 import t5 as t5
    from posenc.bias.t5 import t5_bucket as t5_bucket
    from posenc.bias.window import Window as Window
    from posenc.config.plan import plan as plan
    from posenc.doctor import diagnose as diagnose
    from posenc.models.from_config import from_config as from_config
    from posenc.rotate.axial import Axial as Axial
    from posenc.rotate.axial import axial as axial
    from posenc.rotate.fope import FoPE as FoPE
    from posenc.rotate.fope import fope as fope
    from posenc.rotate.latent import Latent as Latent
    from posenc.rotate.latent import latent as latent
    from posenc.rotate.lerope import LeRoPE as LeRoPE
    from posenc.rotate.lerope import lerope as lerope
    from posenc.rotate.liere import LieRE as LieRE
    from posenc.rotate.liere import liere as liere
    from posenc.rotate.mrope import MRoPE as MRoPE
    from posenc.rotate.mrope import mrope as mrope
    from posenc.rotate.pope import PoPE as PoPE
    from posenc.rotate.pope import pope as pope
    from posenc.rotate.query_scale import QueryScale as QueryScale
    from posenc.rotate.query_scale import query_scale as query_scale
    from posenc.rotate.repo import RePo as RePo
    from posenc.rotate.repo import repo as repo
    from posenc.rotate.rope import RoPE as RoPE
    from posenc.rotate.rope import rope as rope
    from posenc.rotate.selective import Selective as Selective
    from posenc.rotate.selective import selective as selective
    from posenc.rotate.xpos import XPos as XPos
    from posenc.rotate.xpos import xpos as xpos
    from posenc.score.cope import CoPE as CoPE
    from posenc.score.cope import cope as cope
    from posenc.score.deberta import DeBERTa as DeBERTa
    from posenc.score.deberta import deberta as deberta
    from posenc.score.decomposed import Decomposed as Decomposed
    from posenc.score.decomposed import decomposed as decomposed
    from posenc.score.forget import Forget as Forget
    from posenc.score.gated import Gated as Gated
    from posenc.score.gated import gated as gated
    from posenc.score.music import Music as Music
    from posenc.score.path import PaTH as PaTH
    from posenc.score.profiles import Profiles as Profiles
    from posenc.score.shaw import Shaw as Shaw
    from posenc.score.shaw import shaw as shaw
    from posenc.score.transformer_xl import TransformerXL as TransformerXL
    from posenc.score.transformer_xl import transformer_xl as transformer_xl
