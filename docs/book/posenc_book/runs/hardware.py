"""What this machine has: the device for models, how many cells it measures at a time, and its description."""

import os
import platform

import torch


def device() -> str:
    """Return "cuda" where torch sees a GPU, else "cpu".

    Examples:
        >>> torch.zeros(2, device=device()).tolist()
        [0.0, 0.0]
    """
    return "cuda" if torch.cuda.is_available() else "cpu"


def default_workers(gpu: bool) -> int:
    """Return one worker for each GPU where they are used and there are any, else one for each core."""
    if gpu and torch.cuda.is_available():
        return torch.cuda.device_count()
    # A container or a scheduler may lend fewer cores than there are.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def take_gpu(number: int) -> None:
    """Let "cuda" mean the GPU of this number in this process, if there is any; numbers go round."""
    if torch.cuda.is_available():
        torch.cuda.set_device(number % torch.cuda.device_count())


def machine(gpu: bool) -> str:
    """Return system, processor and cores, and the GPU where it is used."""
    parts = [f"{platform.system()} {platform.machine()}", f"{os.cpu_count()} cores"]
    if gpu and torch.cuda.is_available():
        parts.append(torch.cuda.get_device_name())
    return ", ".join(parts)
