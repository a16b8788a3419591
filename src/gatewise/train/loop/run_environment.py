"""The environment of a run. It is kept in every checkpoint, because it decides the last bits."""

import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from typing import Any

import torch

from gatewise.devices import describe_device, has_fast_bfloat16

# Raised when training computes other numbers from the same settings: another order of batches, say.
NUMERICS = 1
# A checkpoint is resumed only if none of these has changed; see Note [What changes last bits].
DECISIVE = (
    "numerics",
    "gatewise",
    "torch",
    "threads",
    "cpu_capability",
    "processes",
    "device",
    "fast_bfloat16",
)
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


def environment(processes: int = 1, device: torch.device | None = None) -> dict[str, str | int]:
    """Return versions, thread count, processor, and device.

    Args:
        processes: of the run.
        device: that the run computes on; the processor if not given.

    Note [What changes last bits]

    A sum over several threads is grouped by their number, kernels are chosen by the processor's
    vector instructions, and a new version of torch or of this library may compute anything in
    another order.
    """
    device = device or torch.device("cpu")
    return {
        "numerics": NUMERICS,
        "gatewise": _gatewise_version(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "threads": torch.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "processes": processes,
        "device": describe_device(device),
        "fast_bfloat16": has_fast_bfloat16(device),  # what the precision "auto" means here
    }


def differences(before: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    """Return in words what has changed of the things that decide the last bits."""
    changes = []
    for key in DECISIVE:
        was = before.get(key, "cpu" if key == "device" else None)
        if was != now[key]:
            changes.append(f"{key} was {was}, is {now[key]}")
    return changes


@contextmanager
def deterministic(*, strict: bool = True) -> Iterator[None]:
    """Let torch use only deterministic algorithms for the block, then restore its settings.

    Args:
        strict: whether an operation without a deterministic form is an error. If not, torch warns
            and runs it: on accelerators, and in code of the user.
    """
    enabled = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    memory: Any = torch.utils.deterministic  # its attributes are made at run time
    filled = memory.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True, warn_only=not strict)
    # Filling memory finds bugs in kernels, at the cost of a pass over every new tensor.
    memory.fill_uninitialized_memory = False
    _warm_up()
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(enabled, warn_only=warn_only)
        memory.fill_uninitialized_memory = filled


def _warm_up() -> None:
    """Call the vector functions once: in some builds the first results are inaccurate."""
    for name in WARMED:
        getattr(torch, name)(torch.full((1,), 0.5))


def _gatewise_version() -> str:
    """Return the version of this library."""
    try:
        return metadata.version("gatewise")
    except metadata.PackageNotFoundError:
        return "0+not.installed"
