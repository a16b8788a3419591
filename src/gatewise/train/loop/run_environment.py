"""What a run ran on: recorded with every checkpoint, because a change of it changes last bits."""

import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from typing import Any

import torch

from gatewise.native import library

# A checkpoint is continued only where all of these are as they were; see Note [What changes last
# bits].
DECISIVE = ("gatewise", "torch", "threads", "cpu_capability", "units", "processes")
WARMED = (
    "exp",
    "log",
    "sqrt",
    "tanh",
    "sigmoid",
    "erf",
    "erfc",
    "sin",
    "cos",
    "expm1",
    "log1p",
    "rsqrt",
)


def environment(processes: int = 1) -> dict[str, str | int]:
    """Versions, thread count, processor, and whether units have their compiled forms.

    Note [What changes last bits]

    A sum over several threads is grouped by their number, kernels are chosen by the processor's
    vector instructions, a unit's compiled form is not its plain one bit by bit, and a new version
    of torch or of this library may compute anything in another order.
    """
    return {
        "gatewise": _own_version(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "threads": torch.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "units": "compiled" if library("elementwise").handle is not None else "plain",
        "processes": processes,
    }


def differences(before: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    """What is no longer as it was, in words, of the things that decide about last bits."""
    return [
        f"{key} was {before.get(key)}, is {now[key]}"
        for key in DECISIVE
        if before.get(key) != now[key]
    ]


@contextmanager
def deterministic() -> Iterator[None]:
    """Let torch use only algorithms that give the same bits every time, and restore its settings afterwards."""
    was, warned = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    memory: Any = torch.utils.deterministic  # its attributes are made at run time
    filled = memory.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    memory.fill_uninitialized_memory = (
        False  # finds bugs in kernels, at the cost of a pass over every new tensor
    )
    _warm_up()
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(was, warn_only=warned)
        memory.fill_uninitialized_memory = filled


def _warm_up() -> None:
    """Call the vector functions once.

    Some builds of the library behind them give poor first results otherwise.
    """
    for name in WARMED:
        getattr(torch, name)(torch.full((1,), 0.5))


def _own_version() -> str:
    try:
        return metadata.version("gatewise")
    except metadata.PackageNotFoundError:
        return "0+not.installed"
