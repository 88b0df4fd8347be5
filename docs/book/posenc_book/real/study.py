"""The study of real models, whose results lie in docs/assets/data/real.json; `make models` installs what it needs.

Less than an hour of two cores, most of it for the longest texts of `stretch`:

stretch    the loss by position up to four times the trained length, with frequencies stretched in each known way
ledger     what each mistake with the rotation costs, by position, and what the model then writes
batches    padding and packing
pairs      how long each pair is, what stopping or removing it costs, which heads read which, copying, layers unrotated
caches     sinks, windows, moved texts, chunks used elsewhere, keys in few bits
where      passages repeated from different depths, attention by distance
tables     circles in MiniLM's and Whisper's tables, order of words, past the end of a table
gemma      what the local and the global layers of Gemma 3 270M need; only where that model lies, which is put there by
           hand, since its terms bind who passes it on
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch

from posenc_book.real import batches, caches, gemma, ledger, pairs, stretch, tables, where
from posenc_book.real.language_model import LanguageModel
from posenc_book.real.mistakes import mistakes
from posenc_book.real.packages import GEMMA, MINILM, SMOLLM2, WHISPER, origin, origin_of_gemma, path_of
from posenc_book.runs.cell import Cell, Study, rounded
from posenc_book.runs.hardware import device
from posenc_book.runs.labs import text_digest
from posenc_book.runs.provenance import code_digest

Keys = tuple[str, ...]
# A row is kept as long as the keys of its cell and the code of its section stay: keys name what a cell is called with.
Cases = dict[Keys, Callable[[], Any]]
KINDS = ["linear", "NTK", "YaRN", "Llama 3", stretch.SELF_EXTEND]
BASE, LENGTH, PAIRS, LAYERS = 100_000.0, 8192, 32, 30  # of SmolLM2-135M, known before it is read


@cache
def smollm2() -> LanguageModel:
    """Return SmolLM2-135M-Instruct."""
    return LanguageModel(path_of(SMOLLM2), device())


@cache
def gemma3() -> LanguageModel:
    """Return Gemma 3 270M."""
    return LanguageModel(GEMMA, device())


def _smollm2(measure: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
    return lambda: measure(smollm2(), *arguments)


def _stretch() -> Cases:
    """Return the longest texts first, so that no process waits for the last of them."""
    return {
        **{("4 times", kind): _smollm2(stretch.read, kind, 4.0, 4.0) for kind in ["none", *KINDS]},
        **{("2 times", kind): _smollm2(stretch.read, kind, 2.0, 2.0) for kind in KINDS},
        **{("1.5 times, another text", kind): _smollm2(stretch.read, kind, 2.0, 1.5, 1) for kind in ("none", "YaRN")},
        ("4 times", "after 1,024"): _smollm2(stretch.read_after_little, 4.0, [7, 9, 11, 15, 19, 23, 27, 31]),
        ("1.5 times, another text", "after 1,024"): _smollm2(stretch.read_after_little, 1.5, [7, 9, 10, 11], 1),
    }


def _ledger() -> Cases:
    return {(name,): _smollm2(ledger.of_mistake, name) for name in mistakes(BASE, LENGTH)}


def _batches() -> Cases:
    return {(name,): _smollm2(batches.of_case, name) for name in batches.CASES}


def _pairs() -> Cases:
    groups = pairs.groups(PAIRS)
    copies = [(gap, "as it is", None, None) for gap in (64, 256, 1024)]
    copies += [(gap, f"{which} {how}", how, which) for gap, how, which in COPIED_WITHOUT]
    return {
        ("as it is",): _smollm2(pairs.as_it_is),
        ("lengths",): _smollm2(pairs.lengths),
        ("heads",): _smollm2(pairs.heads),
        **{(how, which): _smollm2(pairs.ablation, how, which) for how in pairs.ABLATIONS for which in groups},
        **{("unrotated layer", str(n)): _smollm2(pairs.layer_unrotated, n) for n in range(LAYERS)},
        **{("copying", str(gap), name): _smollm2(pairs.copied, gap, how, which) for gap, name, how, which in copies},
    }


COPIED_WITHOUT = [
    (gap, how, which)
    for gap in (64, 256, 1024)
    for how, which in (("stopped", "slow half"), ("stopped", "0-3"), ("removed", "20-23"))
]


def _caches() -> Cases:
    few_bits = {
        ("keys in few bits", str(b), w): _smollm2(caches.rounded_keys, b, w) for b in (4, 3) for w in caches.WHERE
    }
    return {
        **{("sinks", name): _smollm2(caches.sink, name) for name in caches.SINKS},
        **{("windows", name): _smollm2(caches.windowed, *case) for name, case in caches.WINDOWS.items()},
        **{("moved", dtype, str(shift)): _smollm2(caches.moved, dtype, shift) for dtype, shift in caches.MOVES},
        **{("chunks", name): _smollm2(caches.reused, name) for name in caches.REUSED},
        **few_bits,
    }


def _where() -> Cases:
    return {
        ("recall", "8,192", "as it is"): _smollm2(where.recall, 8192, 24, 2, "as it is"),
        **{("recall", "2,048", how): _smollm2(where.recall, 2048, 11, 4, how) for how in where.HOW},
        **{("attention", how): _smollm2(where.attention_by_distance, how) for how in ("as it is", "nothing turned")},
    }


def _tables() -> Cases:
    return {
        **{("rows", name): partial(tables.table, name) for name in tables.TABLES},
        **{("sines", exponent): partial(tables.sines, exponent) for exponent in ("d/2 - 1", "d/2")},
        **{("order", way): partial(tables.order, way) for way in tables.WAYS},
        **{("beyond", way): partial(tables.beyond, way) for way in tables.PAST_THE_END},
    }


def _gemma() -> Cases:
    if not GEMMA.exists():
        return {}
    return {
        **{("mistakes", name): lambda name=name: gemma.case(gemma3(), name) for name in gemma.CASES},
        **{("copying", name): lambda name=name: gemma.copied(gemma3(), name) for name in gemma.COPIED},
        ("energy",): lambda: gemma.energy(gemma3()),
    }


# What each section measures, and the modules beside those of STUDY that its results depend on
SECTIONS: dict[str, tuple[Callable[[], Cases], tuple[str, ...]]] = {
    "stretch": (_stretch, ("stretch", "ledger")),
    "ledger": (_ledger, ("ledger", "mistakes")),
    "batches": (_batches, ("batches",)),
    "pairs": (_pairs, ("pairs", "mistakes")),
    "caches": (_caches, ("caches", "where")),
    "where": (_where, ("where", "pairs")),
    "tables": (_tables, ("tables", "encoder", "whisper")),
    "gemma": (_gemma, ("gemma", "pairs", "mistakes")),
}


def cells() -> list[Cell]:
    """Return every cell once."""
    return [Cell(section, keys) for section, (cases, _) in SECTIONS.items() for keys in cases()]


def measure(cell: Cell) -> Any:
    """Return the result of a cell; what it draws at random is drawn by seeds of its own."""
    with torch.device(device()):
        cases, _ = SECTIONS[cell.section]
        return cases()[cell.keys]()


def provenance(cell: Cell) -> dict[str, Any]:
    """Return the package, version and digest of the weights, and digests of the text and of the section's own code."""
    if cell.section == "tables":
        weights = [origin(MINILM), origin(WHISPER)]
    else:
        weights = [origin_of_gemma() if cell.section == "gemma" else origin(SMOLLM2)]
    modules = tuple(f"posenc_book.real.{name}" for name in SECTIONS[cell.section][1])
    return {"weights": weights, "text": text_digest(), "code": code_digest(modules)[:16]}


def gather(results: dict[Cell, Any]) -> Any:
    """Return the results of a section nested by the keys of their cells, rounded to four places."""
    root: dict[str, Any] = {}
    for cell, result in results.items():
        level = root
        for name in cell.keys[:-1]:
            level = level.setdefault(name, {})
        level[cell.keys[-1]] = rounded(result)
    return root


STUDY = Study(
    name="real",
    description="What positions do in models that somebody else trained.",
    cells=cells,
    measure=measure,
    provenance=provenance,
    sources=(
        "posenc.attention",
        "posenc.rotate.rope",
        "posenc.rotate.frequencies",
        "posenc.add.learned",
        "posenc_book.real.decoder",
        "posenc_book.real.gguf_file",
        "posenc_book.real.language_model",
        "posenc_book.real.texts",
        "posenc_book.real.tokens",
    ),
    gather=gather,
    gpu=True,
)
