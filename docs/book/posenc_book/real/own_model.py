"""The command `python -m posenc_book real PATH`: the same measurements on a reader's model, as a page and as JSON."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from posenc_book.runs.cell import rounded
from posenc_book.runs.hardware import device

SECTIONS = ("ledger", "pairs", "stretch")
LONGEST = 32_768  # tokens of a text that two cores read in minutes
Measure = Callable[[], Any]


def add_command(commands: Any) -> None:
    """Add `real` to the subcommands of a parser."""
    parser = commands.add_parser(
        "real",
        help="measure what positions do in your own model",
        description="Measure what mistakes with the rotation, stopped pairs and longer texts cost a model of yours. "
        "The results are a page and a file of numbers. A GGUF of a Llama needs gguf and tokenizers installed, a folder "
        "transformers.",
    )
    parser.add_argument("path", type=Path, help="a GGUF, or a folder that save_pretrained has written")
    parser.add_argument("--text", type=Path, help="what it reads, in UTF-8; by default the book's own prose")
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections: ledger,pairs,stretch")
    parser.add_argument(
        "--out", type=Path, default=Path("real"), help="name of the files, .html and .json; default: real"
    )
    parser.set_defaults(perform=_perform)


def _perform(arguments: argparse.Namespace) -> int:
    report = measure(arguments.path, arguments.text, tuple(arguments.only.split(",")))
    from posenc_book.real.report import page

    numbers, shown = (arguments.out.with_suffix(suffix) for suffix in (".json", ".html"))
    numbers.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    shown.write_text(page(report), encoding="utf-8")
    print(f"wrote {shown} and {numbers}")
    return 0


def measure(path: Path, text: Path | None = None, only: tuple[str, ...] = SECTIONS) -> dict[str, Any]:
    """Return what is measured on the model at `path`, by section, and with what.

    Args:
        path: A GGUF, or a folder of transformers.
        text: A file in UTF-8; by default the book's own prose.
        only: Sections to measure.

    Raises:
        ValueError: If a section is unknown, the model is of a kind that is not understood, or the text is too short.
    """
    for name in only:
        if name not in SECTIONS:
            raise ValueError(f"real: only must be among {', '.join(SECTIONS)}, got {name}")
    words = text.read_text(encoding="utf-8") if text else None
    # Loading takes seconds, so what can be refused is refused before.
    model = load(path)
    cases = [(section, *case) for section in only for case in _cases(model, section, words)]
    report: dict[str, Any] = {"model": path.name, "text": text.name if text else "the posenc book's prose"}
    report |= {"trained on": model.trained_length, "plan": str(model.plan)} | {section: {} for section in only}
    # What the measurements draw and count is made where the model is.
    with torch.device(model.device), tqdm(cases, unit="row", file=sys.stderr) as bar:
        for section, name, run in bar:
            bar.set_postfix_str(f"{section}: {name}")
            report[section][name] = rounded(run())
    return report


def load(path: Path) -> Any:
    """Return the model at `path`.

    Raises:
        ValueError: If there is none, or what reads it is not installed.
    """
    if not path.exists():
        raise ValueError(f"real: path must be a GGUF or a folder of transformers, got {path}, which does not exist")
    try:
        if path.is_dir():
            from posenc_book.real.transformers_model import TransformersModel

            return TransformersModel(path, device())
        from posenc_book.real.language_model import LanguageModel

        return LanguageModel(path, device())
    except ImportError as error:
        needed = "transformers" if path.is_dir() else "gguf tokenizers"
        raise ValueError(f"real: path must be of a kind that is installed, got {path}; pip install {needed}") from error


def _cases(model: Any, section: str, text: str | None) -> Iterator[tuple[str, Measure]]:
    """Yield the name and the measurement of each row of a section."""
    from posenc_book.real import ledger, pairs, stretch

    if section == "ledger":
        for name in ledger.mistakes_of(model):
            yield name, lambda name=name: ledger.of_mistake(model, name, text)
    elif section == "pairs":
        yield "as it is", lambda: pairs.as_it_is(model, text)
        yield "lengths", lambda: pairs.lengths(model, text)
        for how in pairs.ABLATIONS:
            for which in pairs.groups(len(model.layers[0].encoding.theta)):
                yield f"{which} {how}", lambda how=how, which=which: pairs.ablation(model, how, which, text)
    elif 2 * model.trained_length > LONGEST:
        print(f"stretch is left out: 2 x {model.trained_length:,} tokens are more than {LONGEST:,}", file=sys.stderr)
    else:
        for kind in ("none", *stretch.STRETCHES, stretch.SELF_EXTEND):
            yield kind, lambda kind=kind: stretch.read(model, kind, 2.0, 2.0, 0, text)
