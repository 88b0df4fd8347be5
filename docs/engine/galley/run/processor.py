"""What the last digits of numbers hang on: the processor, and variables by which libraries choose their path."""

import os
import platform
import re
from pathlib import Path

CHOOSING = re.compile(r"(?:MKL|ATEN|ONEDNN|DNNL|OPENBLAS|NPY|OMP|GLIBC|GALLEY)_|LD_PRELOAD$")


def description() -> str:
    """Return processor and variables as text: where it is the same, so is each library's choice of kernels."""
    variables = (f"{name}={value}" for name, value in sorted(os.environ.items()) if CHOOSING.match(name))
    return "\n".join([platform.machine(), _processor(), *variables])


def _processor() -> str:
    """Return what Linux says of the first processor, without its changing frequency, or what other systems call it."""
    try:
        first = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0]
    except OSError:
        return platform.processor()
    # Libraries choose by the model and the instructions that it has: `flags` on x86, `Features` on ARM.
    fields = ("vendor_id", "cpu family", "model", "stepping", "flags", "Features")
    return "\n".join(line for line in first.splitlines() if line.partition("\t")[0].rstrip() in fields)
