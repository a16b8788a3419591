"""The machine and the versions with which a record was made."""

import os
import platform
from importlib import metadata
from pathlib import Path


def machine() -> dict[str, str]:
    """Return what the processor is, and how many cores there are."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    name = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    return {"processor": name, "cores": str(cores), "system": platform.system()}


def versions() -> dict[str, str]:
    """Return the versions of everything that decides the numbers."""
    import torch

    from gatewise.train import NUMERICS

    packages = {}
    for name in ("gatewise", "torch", "numpy", "scipy"):
        try:
            packages[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            packages[name] = "unknown"  # a source tree can be run without being installed
    return {
        **packages,
        "numerics": str(NUMERICS),
        "python": platform.python_version(),
        "machine": f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}",
        "threads": str(torch.get_num_threads()),
    }
