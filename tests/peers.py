"""The peers: other people's libraries, installed with the extra `peers`, whose results ours are compared with.

    llama = peer("transformers.models.llama.modeling_llama")

imports a module of a peer, or skips the test where it is not installed; REQUIRE_PEERS=1 makes that a failure.
"""

import importlib
import importlib.util
import os
import sys
import warnings
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest


def peer(name: str) -> ModuleType:
    """Import a module of a peer, without its warnings."""
    library = name.partition(".")[0]
    if library not in sys.modules and importlib.util.find_spec(library) is None:
        if os.environ.get("REQUIRE_PEERS"):
            pytest.fail(f"{library} is not installed: make peers")
        pytest.skip(f"{library} is not installed: make peers")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if library == "timm":
            _skip_the_init_of("timm", "timm.layers", "timm.models")
        return importlib.import_module(name)


def _skip_the_init_of(*packages: str) -> None:
    """Stand in for packages of timm whose own start needs torchvision; their modules import as they are."""
    if packages[0] not in sys.modules:
        root = Path(importlib.util.find_spec(packages[0]).origin).parent.parent
        for package in packages:
            stand_in = ModuleType(package)
            stand_in.__spec__ = ModuleSpec(package, None, is_package=True)  # others ask whether it is there
            stand_in.__path__ = [str(root / package.replace(".", "/"))]
            sys.modules[package] = stand_in
