"""Triton kernels called on tensors, and checked once on each GPU before they are used."""

import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gatewise.fused.gpu.building import ELEMENTS, OPTIONS, has_triton, kernels_of
from gatewise.fused.kernels import Layout, Number, layout_of
from gatewise.fused.safe_calls import dense
from gatewise.native import is_switched_off
from gatewise.units import run_plain

MOST_SIZES = 3  # outer, middle, inner
GIVEN, PER_ROW, PER_COLUMN = 0, 1, 2


class Tiling(NamedTuple):
    """How the elements of a tensor are divided into tiles.

    Attributes:
        layout: of the tensor and the numbers.
        sizes: outer, middle and inner size.
        steps: of each number along these.
        kinds: of each number: given, one per row, or one per column.
        rows: of a tile.
        cols: of a tile.
    """

    layout: Layout
    sizes: tuple[int, ...]
    steps: tuple[tuple[int, ...], ...]
    kinds: tuple[int, ...]
    rows: int
    cols: int

    @property
    def across(self) -> int:
        """How many tiles a row has."""
        return -(-self.sizes[2] // self.cols)

    @property
    def down(self) -> int:
        """How many tiles there are from the first row of an outer index to its last."""
        return -(-self.sizes[1] // self.rows)


class GpuKernel:
    """An elementwise function and its derivatives as Triton kernels.

    Args:
        kernels: by name.
    """

    def __init__(self, kernels: dict[str, Any]) -> None:
        self._kernels = kernels

    def values(self, x: Tensor, numbers: Sequence[Number]) -> Tensor:
        """Return the function at ``x``, with dtype and memory layout of ``x``.

        Args:
            x: the elements.
            numbers: floats, or float32 tensors that broadcast with ``x``.
        """
        x = dense(x)
        out = torch.empty_like(x)
        if x.numel():
            self._launch("values", (x, out), numbers, _tiling(x, numbers))
        return out

    def slopes(
        self,
        x: Tensor,
        numbers: Sequence[Number],
        gradient: Tensor,
        wanted: Sequence[bool],
    ) -> tuple[Tensor, list[Tensor | None]]:
        """Return ``gradient`` times the derivatives of the function.

        Args:
            x: the elements.
            numbers: floats, or float32 tensors that broadcast with ``x``.
            gradient: of the output.
            wanted: for each number, whether its gradient is wanted. Tiles are summed in float32,
                and their sums in float64, always in the same order.

        Returns:
            The gradient to ``x``, and those to the numbers.
        """
        x = dense(x)
        if gradient.stride() != x.stride() or gradient.dtype != x.dtype:
            gradient = torch.empty_like(x).copy_(gradient)
        out = torch.empty_like(x)
        wants = [want and isinstance(n, Tensor) for want, n in zip(wanted, numbers, strict=True)]
        if not x.numel():
            pairs = zip(numbers, wants, strict=True)
            return out, [torch.zeros_like(n) if want else None for n, want in pairs]  # pyright: ignore[reportArgumentType] (a tensor)
        tiling = _tiling(x, numbers)
        if not any(wants):
            self._launch("slopes", (x, gradient, out), numbers, tiling)
            return out, [None] * len(numbers)
        if any(middle and inner for _, middle, inner in tiling.steps):
            tiling = tiling._replace(rows=1)  # a tile has one number per column
        sums = [_space(tiling, k, x.device) if want else None for k, want in enumerate(wants)]
        self._launch("terms", (x, gradient, out), numbers, tiling, sums)
        return out, [
            None if each is None else _total(each, numbers[k], k, tiling)
            for k, each in enumerate(sums)
        ]

    def _launch(
        self,
        name: str,
        elements: Sequence[Tensor],
        numbers: Sequence[Number],
        tiling: Tiling,
        sums: Sequence[Tensor | None] = (),
    ) -> None:
        """Run one kernel on all elements."""
        given: list[Any] = []
        for each in elements:
            each = each.detach()
            given.append(each.view(torch.int16) if each.dtype is torch.bfloat16 else each)
        for k, number in enumerate(numbers):
            if not isinstance(number, Tensor):
                given.append(float(number))
            elif tiling.steps[k] == (0, 0, 0):
                given.append(number.detach().reshape(()))
            else:
                given.append(number.detach().permute(tiling.layout.order).contiguous())
        for outer, middle, _ in tiling.steps:
            given += [outer, middle]
        given += [elements[0] if each is None else each for each in sums]
        given += [*tiling.sizes[1:], *tiling.kinds]
        for k, each in enumerate(sums):
            group = PER_COLUMN if tiling.steps[k][2] else PER_ROW
            given.append(0 if each is None else group)
        given += [tiling.rows, tiling.cols]
        with _on(elements[0]):
            grid = (tiling.sizes[0] * tiling.down * tiling.across,)
            self._kernels[name][grid](*given, **OPTIONS)


def _on(x: Tensor) -> AbstractContextManager[object]:
    """Return a context in which the device of ``x`` is the current one."""
    return torch.cuda.device(x.device) if x.is_cuda else nullcontext()


def _layout(x: Tensor, numbers: Sequence[Number]) -> Layout:
    shapes = []
    for number in numbers:
        if isinstance(number, Tensor) and number.numel() != 1:
            shapes.append(tuple(number.shape))
        else:
            shapes.append(())
    return layout_of(tuple(x.shape), x.stride(), tuple(shapes))


def _tiling(x: Tensor, numbers: Sequence[Number]) -> Tiling:
    layout = _layout(x, numbers)
    missing = MOST_SIZES - len(layout.sizes)
    sizes = (1,) * missing + layout.sizes
    steps = tuple((0,) * missing + each for each in layout.steps)
    kinds = []
    for number, each in zip(numbers, steps, strict=True):
        kind = PER_COLUMN if each[2] else PER_ROW
        kinds.append(kind if isinstance(number, Tensor) else GIVEN)
    cols = min(_power_of_two(sizes[2]), ELEMENTS)
    rows = min(_power_of_two(sizes[1]), ELEMENTS // cols)
    return Tiling(layout, sizes, steps, tuple(kinds), rows, cols)


def _power_of_two(size: int) -> int:
    """Return the smallest power of two that is at least ``size``."""
    return 1 << (size - 1).bit_length()


def _space(tiling: Tiling, k: int, device: torch.device) -> Tensor:
    """Return space for the sums of all tiles for number ``k``."""
    outer, middle, inner = tiling.sizes
    is_per_column = bool(tiling.steps[k][2])
    shape = (outer, tiling.down, inner) if is_per_column else (outer, middle, tiling.across)
    return torch.empty(shape, dtype=torch.float32, device=device)


def _total(sums: Tensor, number: Number, k: int, tiling: Tiling) -> Tensor:
    """Return the gradient to number ``k`` from the sums of tiles."""
    assert isinstance(number, Tensor)  # noqa: S101  its gradient is wanted
    shared = [dim for dim, step in enumerate(tiling.steps[k]) if not step]
    total = sums.double().sum(shared) if shared else sums
    total = total.to(number.dtype)
    if number.numel() == 1:
        return total.reshape(number.shape)
    order = tiling.layout.order
    back = [order.index(dim) for dim in range(len(order))]
    return total.reshape([number.shape[dim] for dim in order]).permute(back)


def gpu_kernel(
    function: Callable[..., Tensor],
    x: Tensor,
    numbers: Sequence[Number],
) -> GpuKernel | None:
    """Return the Triton form of a function for a call, if it has one and may be used.

    Args:
        function: an elementwise function.
        x: the elements, on a GPU.
        numbers: of the function.
    """
    if len(_layout(x, numbers).sizes) > MOST_SIZES:
        return None
    return _checked_kernel(function, len(numbers), x.device)


@cache
def _checked_kernel(
    function: Callable[..., Tensor],
    numbers: int,
    device: torch.device,
) -> GpuKernel | None:
    """Return the kernel of a function if it agrees with the plain form on this device."""
    if is_switched_off() or not has_triton():
        return None
    try:
        kernel = GpuKernel(kernels_of(function, numbers))
        problem = _difference(kernel, function, numbers, device)
    except Exception as error:  # any fault of a compiler or driver: the plain form runs instead
        kernel, problem = None, f"{type(error).__name__}: {error}"
    if problem:
        warnings.warn(
            f"gatewise uses torch's operations for {function.__qualname__} on {device}, because "
            f"the Triton form cannot be used: {problem}",
            RuntimeWarning,
            stacklevel=4,
        )
        return None
    return kernel


def _difference(
    kernel: GpuKernel,
    function: Callable[..., Tensor],
    numbers: int,
    device: torch.device,
) -> str:
    """Return how a kernel differs from the plain form on some inputs; empty if it does not."""
    x = torch.linspace(-8.0, 8.0, 4 * 5 * 13, device=device).reshape(4, 5, 13)
    given = [torch.linspace(0.5, 1.0, 5, device=device).reshape(1, 5, 1) for _ in range(numbers)]
    leaves = [each.requires_grad_() for each in (x, *given)]
    with torch.enable_grad():
        y = run_plain(function, leaves[0], leaves[1:])
    above = torch.ones_like(y)
    want = torch.autograd.grad(y, leaves, above, materialize_grads=True)
    slope, others = kernel.slopes(x, given, above, [True] * numbers)
    found = [kernel.values(x, given), slope, *others]
    for ours, plain in zip(found, [y.detach(), *want], strict=True):
        assert ours is not None  # noqa: S101  every gradient is wanted
        if not torch.allclose(ours, plain, rtol=1e-3, atol=1e-3, equal_nan=True):
            return f"it is off by up to {float((ours - plain).abs().max()):.3g}"
    return ""
