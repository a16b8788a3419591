"""Measured rounding errors as rows of a table."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gatewise.report import ErrorRow, bound

if TYPE_CHECKING:
    from gatewise.testing import Measured


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one torch thread. The tensors are small, so several threads would only wait."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def rows(measured: list["Measured"]) -> tuple[ErrorRow, ...]:
    """Return one row per dtype and direction, with the largest error over the sample options."""
    groups: dict[tuple[str, str], list[Measured]] = {}
    for error in measured:
        groups.setdefault((error.dtype, error.direction), []).append(error)
    return tuple(map(_row, groups.values()))


def _row(group: list["Measured"]) -> ErrorRow:
    """Return the row for all errors of one dtype and direction."""
    largest_ulps = max(group, key=lambda error: error.ulps)
    largest_absolute = max(group, key=lambda error: error.absolute)
    return ErrorRow(
        dtype=largest_ulps.dtype,
        direction=largest_ulps.direction,
        inputs=sum(error.inputs for error in group),
        promised=bound(largest_ulps.promised_ulps, largest_ulps.promised_absolute),
        ulps=largest_ulps.ulps,
        ulps_at=largest_ulps.ulps_at,
        absolute=largest_absolute.absolute,
        absolute_at=largest_absolute.absolute_at,
        kept=all(error.kept for error in group),
        torch_ulps=_largest(group, "torch_ulps"),
        torch_absolute=_largest(group, "torch_absolute"),
    )


def _largest(group: list["Measured"], name: str) -> Any:
    """Return the largest value of the field ``name`` that is known."""
    values = [getattr(error, name) for error in group]
    return max((value for value in values if value is not None), default=None)
