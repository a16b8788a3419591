"""Measured errors as rows for the page and the terminal."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gatewise.report import ErrorRow, bound

if TYPE_CHECKING:
    from gatewise.testing import Measured


@contextmanager
def one_thread() -> Iterator[None]:
    """One torch thread: the tensors are small, and on a busy machine several threads wait for each other."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def rows(measured: list["Measured"]) -> tuple[ErrorRow, ...]:
    """One row per dtype and direction: the worst over the sample options, broken if any is."""
    groups: dict[tuple[str, str], list[Measured]] = {}
    for found in measured:
        groups.setdefault((found.dtype, found.direction), []).append(found)
    return tuple(_row(group) for group in groups.values())


def _row(group: list["Measured"]) -> ErrorRow:
    steps = max(group, key=lambda m: m.ulps)
    size = max(group, key=lambda m: m.absolute)
    return ErrorRow(
        dtype=steps.dtype,
        direction=steps.direction,
        inputs=sum(m.inputs for m in group),
        promised=bound(steps.promised_ulps, steps.promised_absolute),
        ulps=steps.ulps,
        ulps_at=steps.ulps_at,
        absolute=size.absolute,
        absolute_at=size.absolute_at,
        kept=all(m.kept for m in group),
        torch_ulps=_largest([m.torch_ulps for m in group]),
        torch_absolute=_largest([m.torch_absolute for m in group]),
        torch_hidden=_largest([m.torch_hidden for m in group]),
    )


def _largest(values: list) -> Any:
    """The largest that is known."""
    return max((v for v in values if v is not None), default=None)
