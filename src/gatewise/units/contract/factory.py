"""Creation of parameters: an impossible dtype, device or size raises our error."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from gatewise.errors import ArgumentError

HALVES = (torch.float16, torch.bfloat16)
WIDE = (torch.float32, torch.float64)
FLOATS = (*HALVES, *WIDE)
# What torch raises for a device that this machine or this build of torch does not have.
_NO_DEVICE = (RuntimeError, TypeError, ValueError, AssertionError, ImportError, NotImplementedError)


def check_factory(owner: str, device: Any = None, dtype: Any = None) -> None:
    """Raise an error unless parameters can be made on ``device`` in ``dtype``.

    ``None`` is torch's default.
    """
    if dtype is not None and (not isinstance(dtype, torch.dtype) or dtype not in FLOATS):
        raise ArgumentError(
            f"{owner}: dtype must be a floating point one",
            got=dtype,
            allowed=", ".join(map(str, FLOATS)),
        )
    try:
        torch.empty(0, device=device)
    except _NO_DEVICE as error:
        raise ArgumentError(
            f"{owner}: device cannot be used",
            got=device,
            allowed=f"'cpu', 'meta', or what this machine has (torch: {_first_sentence(error)})",
        ) from None


@contextmanager
def allocating(owner: str, device: Any = None, dtype: Any = None) -> Iterator[None]:
    """Create parameters of ``owner`` inside this context, which turns torch's errors into ours."""
    check_factory(owner, device, dtype)
    try:
        yield
    # What torch raises for sizes that are too large or do not fit into 64 bits.
    except (RuntimeError, MemoryError, OverflowError, TypeError) as error:
        raise ArgumentError(
            f"{owner}: tensors of these sizes cannot be made",
            got=_first_sentence(error),
            fix="smaller sizes",
        ) from None


def _first_sentence(error: BaseException) -> str:
    return str(error).split(". ")[0].split("\n")[0]
