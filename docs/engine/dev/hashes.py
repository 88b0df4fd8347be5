"""Write .github/hashes.txt: the hashes of all that constraints.txt pins, for every platform. Run by `make hashes`.

The workflows install by it, so that a file which someone has replaced in a registry is refused. PyTorch stands in
constraints.txt alone: the workflows install its CPU build, whose files are others than those that carry CUDA.
"""

import re
import subprocess
import sys

from dev import ROOT

CONSTRAINTS, HASHES = ROOT / "constraints.txt", ROOT / ".github/hashes.txt"
LEFT_OUT = "torch"
HEADER = "# What the workflows install, by the hashes of its files. Written by `make hashes` from constraints.txt.\n"
COMPILE = ["--universal", "--python-version=3.11", "--no-deps", "--generate-hashes", "--no-header", "--no-annotate"]


def pins(text: str) -> list[str]:
    """Return what a file of requirements pins: `numpy==2.4.6 ; python_full_version < '3.12'`."""
    return [line.removesuffix("\\").strip() for line in text.split("\n") if re.match(r"[\w.-]+==", line)]


def hashed() -> str:
    """Ask the registry for the hashes."""
    command = [
        sys.executable,
        "-m",
        "uv",
        "pip",
        "compile",
        *COMPILE,
        f"--no-emit-package={LEFT_OUT}",
        str(CONSTRAINTS),
    ]
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout


if __name__ == "__main__":
    HASHES.write_text(HEADER + hashed(), encoding="utf-8", newline="\n")
