"""Machine profiles: environment variables under which the libraries compute as on another machine.

A library chooses its kernels by the processor that it finds, and each has a variable that makes it choose others. They
round differently, in another order of the same sum. MKL asks besides whether Intel made the processor; `as_intel`
answers yes, so that its Intel kernels can be tried on any x86-64 machine that has a C compiler.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

AVX512 = "X86_V4 AVX512_ICL AVX512_SPR"  # what NumPy 2.4 calls them
IS_INTEL = "int mkl_serv_intel_cpu_true(void) { return 1; }\n"


@dataclass(frozen=True)
class Profile:
    """A machine to compute as: variables, whether MKL is to take it for Intel's, and what surrounds the project."""

    about: str
    variables: dict[str, str] = field(default_factory=dict)
    intel: bool = False
    strange: bool = False  # another path, no git, no home


PROFILES = {
    "here": Profile("this machine as it is"),
    "Intel AVX-512": Profile("MKL's kernels for Intel's servers", intel=True),
    "Intel AVX2": Profile(
        "each library's kernels for Intel's desktops",
        {
            "MKL_ENABLE_INSTRUCTIONS": "AVX2",
            "ATEN_CPU_CAPABILITY": "avx2",
            "ONEDNN_MAX_CPU_ISA": "AVX2",
            "OPENBLAS_CORETYPE": "Haswell",
            "NPY_DISABLE_CPU_FEATURES": AVX512,
            "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F_Usable",
        },
        intel=True,
    ),
    "AMD AVX2": Profile(
        "each library's kernels for AMD's processors before Zen 4",
        {
            "ATEN_CPU_CAPABILITY": "avx2",
            "ONEDNN_MAX_CPU_ISA": "AVX2",
            "OPENBLAS_CORETYPE": "Zen",
            "NPY_DISABLE_CPU_FEATURES": AVX512,
            "MKL_CBWR": "AVX2",
        },
    ),
    "compatible": Profile("MKL's kernels that are the same on each processor", {"MKL_CBWR": "COMPATIBLE"}),
    "SSE4.2": Profile(
        "each library's oldest kernels",
        {
            "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
            "ATEN_CPU_CAPABILITY": "default",
            "ONEDNN_MAX_CPU_ISA": "SSE41",
            "OPENBLAS_CORETYPE": "Nehalem",
            "NPY_DISABLE_CPU_FEATURES": f"X86_V3 {AVX512}",
            "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2_Usable,-FMA_Usable,-AVX512F_Usable",
        },
        intel=True,
    ),
    "four threads": Profile("sums are split among four threads", {"GALLEY_THREADS": "4"}),
    "surroundings": Profile(
        "another hash seed, locale, time zone and path, no git, no home",
        {
            "GALLEY_HASH_SEED": "4711",
            "PYTHONHASHSEED": "4711",
            "LC_ALL": "tr_TR.UTF-8",
            "TZ": "Pacific/Kiritimati",
            "COLUMNS": "40",
            "HOME": "/nonexistent",
        },
        strange=True,
    ),
}


def environment(profile: Profile, folder: Path) -> dict[str, str]:
    """Return the variables of a process that computes as `profile`; `folder` keeps what they need."""
    variables = os.environ | profile.variables
    library = as_intel(folder) if profile.intel else None
    if library:
        variables["LD_PRELOAD"] = str(library)
    if profile.strange:
        variables["PATH"] = str(without_git(folder))
        variables["TMPDIR"] = str(folder / "tmp é b")
        Path(variables["TMPDIR"]).mkdir(parents=True, exist_ok=True)
    return variables


def as_intel(folder: Path) -> Path | None:
    """Return a library that makes MKL take the processor for Intel's; None where no compiler makes one."""
    compiler = shutil.which("cc")
    library = folder / "intel.so"
    if not sys.platform.startswith("linux") or not compiler:
        return None
    if not library.exists():
        command = [compiler, "-shared", "-fPIC", "-x", "c", "-o", str(library), "-"]
        subprocess.run(command, input=IS_INTEL, text=True, check=True)
    return library


def without_git(folder: Path) -> Path:
    """Return a folder with a link to each program in PATH but git."""
    programs = folder / "programs"
    programs.mkdir(parents=True, exist_ok=True)
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).glob("*"):
            link = programs / program.name
            if not program.name.startswith("git") and not link.is_symlink():
                link.symlink_to(program)
    return programs
