"""Generated functions, compiled and called on tensors."""

import ctypes
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from gatewise.fused.safe_calls import dense, passes_caches
from gatewise.fused.source import source_text
from gatewise.fused.tracing import trace
from gatewise.native import (
    COUNT,
    POINTER,
    Library,
    handle_or_warning,
    library_of_source,
    struct_fields,
)

MOST_NUMBERS = 12
MOST_DIMS = 6
MOST_CHUNKS = 32
LEAST_PART = 1 << 16  # elements that pay for a thread
# Neither option changes a value: both sides of a choice may be computed, and no errno is set.
OPTIONS = ("-fno-trapping-math", "-fno-math-errno")
# GCC must not turn choices by related conditions into jumps, which keep a loop from using vectors.
# Other compilers may not know the option.
WITHOUT_JUMPS = ("-fno-thread-jumps",)
# Every processor with AVX2 also converts float16 (F16C).
VECTORS = {
    "AVX2": ("-mavx2", "-mfma", "-mf16c"),
    "AVX512": (
        "-mfma",
        "-mf16c",
        "-mavx512f",
        "-mavx512dq",
        "-mavx512bw",
        "-mavx512vl",
        "-mprefer-vector-width=512",
    ),
}
_DTYPES = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2}
Number = float | Tensor


class _Call(ctypes.Structure):
    _fields_ = [
        *struct_fields((POINTER, "x above out")),
        ("numbers", POINTER * MOST_NUMBERS),
        ("elements", POINTER * MOST_NUMBERS),
        ("element_out", POINTER * MOST_NUMBERS),
        ("sums", POINTER * MOST_NUMBERS),
        ("lengths", COUNT * MOST_NUMBERS),
        ("steps", COUNT * (MOST_NUMBERS * MOST_DIMS)),
        ("sizes", COUNT * MOST_DIMS),
        *struct_fields((COUNT, "dims count chunks dtype threads wants_sums streams")),
    ]


class Layout(NamedTuple):
    """How the elements of a tensor and the numbers of a function lie in memory.

    Attributes:
        order: the dimensions of the tensor, slowest first.
        sizes: of the dimensions that differ for the numbers, slowest first.
        steps: of each number along these dimensions.
    """

    order: tuple[int, ...]
    sizes: tuple[int, ...]
    steps: tuple[tuple[int, ...], ...]


class Kernel:
    """A compiled elementwise function and its derivatives.

    Args:
        handle: the compiled library.
        numbers: how many numbers the function takes besides the element.
    """

    def __init__(self, handle: ctypes.CDLL, numbers: int) -> None:
        self.numbers = numbers
        self._run = handle.gw_run
        self._run.argtypes = (POINTER, POINTER)
        self._run.restype = None

    def values(self, x: Tensor, numbers: Sequence[Number]) -> Tensor:
        """Return the function at ``x``, with dtype and memory layout of ``x``.

        Args:
            x: the elements.
            numbers: floats, float32 tensors that broadcast with ``x``, or tensors like ``x``.
        """
        x = dense(x)
        out = torch.empty_like(x)
        call, _kept = _prepared(x, numbers)
        call.x = x.data_ptr()
        call.out = out.data_ptr()
        call.streams = passes_caches(out)
        self._run(ctypes.byref(call), None)
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
            numbers: floats, float32 tensors that broadcast with ``x``, or tensors like ``x``.
            gradient: of the output.
            wanted: for each number, whether its gradient is wanted. It is summed in float64 where
                several elements have one number.

        Returns:
            The gradient to ``x``, and those to the numbers.
        """
        x = dense(x)
        if gradient.stride() != x.stride() or gradient.dtype != x.dtype:
            gradient = torch.empty_like(x).copy_(gradient)
        out = torch.empty_like(x)
        call, kept = _prepared(x, numbers)
        call.x = x.data_ptr()
        call.above = gradient.data_ptr()
        call.out = out.data_ptr()
        call.streams = passes_caches(out)
        sums: list[Tensor | None] = []
        found: list[Tensor | None] = []
        for k, number in enumerate(kept):
            is_wanted = wanted[k] and isinstance(numbers[k], Tensor)
            is_like_x = is_like(numbers[k], x)
            found.append(torch.empty_like(x) if is_wanted and is_like_x else None)
            is_summed = is_wanted and not is_like_x
            sums.append(torch.zeros(number.shape, dtype=torch.float64) if is_summed else None)
            call.lengths[k] = number.numel()
            call.element_out[k] = _address(found[k])
            call.sums[k] = _address(sums[k])
        lengths = [each.numel() for each in sums if each is not None]
        call.wants_sums = bool(lengths) or any(each is not None for each in found)
        call.chunks = _chunks(x.numel(), sum(lengths))
        more = (call.chunks - 1) * sum(lengths)
        space = torch.zeros(more, dtype=torch.float64) if more else None
        self._run(ctypes.byref(call), _address(space))
        for k, total in enumerate(sums):
            if total is not None:
                found[k] = _gradient(total, numbers[k], x)
        return out, found


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def is_like(number: Number, x: Tensor) -> bool:
    """Return whether each element of ``x`` has a number of its own, of the same dtype.

    Args:
        number: of a function.
        x: its elements.
    """
    if not isinstance(number, Tensor) or number.numel() == 1:
        return False
    return number.shape == x.shape and number.dtype == x.dtype


def _gradient(total: Tensor, number: Number, x: Tensor) -> Tensor:
    """Return the gradient to a number in its own order of dimensions and dtype."""
    assert isinstance(number, Tensor)  # noqa: S101  its gradient is wanted
    if number.numel() == 1:
        return total.to(number.dtype).reshape(number.shape)
    order = layout_of(tuple(x.shape), x.stride(), (tuple(number.shape),)).order
    back = [order.index(dim) for dim in range(len(order))]
    return total.to(number.dtype).permute(back)


def _prepared(x: Tensor, numbers: Sequence[Number]) -> tuple[_Call, list[Tensor]]:
    """Return a call with everything but pointers to elements, and tensors to keep alive."""
    shapes = []
    for number in numbers:
        if isinstance(number, Tensor) and number.numel() != 1 and not is_like(number, x):
            shapes.append(tuple(number.shape))
        else:
            shapes.append(())
    layout = layout_of(tuple(x.shape), x.stride(), tuple(shapes))
    call = _Call()
    kept = []
    for k, number in enumerate(numbers):
        if not isinstance(number, Tensor):
            number = _as_tensor(number)
        elif is_like(number, x):
            if number.stride() != x.stride():
                number = torch.empty_like(x).copy_(number)
            call.elements[k] = number.data_ptr()
        elif shapes[k]:
            number = number.permute(layout.order).contiguous()
        else:
            number = number.reshape(())
        call.numbers[k] = number.data_ptr()
        call.steps[k * MOST_DIMS : k * MOST_DIMS + len(layout.sizes)] = layout.steps[k]
        kept.append(number)
    call.sizes[: len(layout.sizes)] = layout.sizes
    call.dims = len(layout.sizes)
    call.count = x.numel()
    call.chunks = _chunks(x.numel(), 0)
    call.dtype = _DTYPES[x.dtype]
    call.threads = torch.get_num_threads()
    return call, kept


def _chunks(count: int, sums: int) -> int:
    """Return into how many parts the elements are divided, each with sums of its own.

    It does not depend on the number of threads, so that no bit of a sum does.
    """
    chunks = max(1, min(MOST_CHUNKS, count // LEAST_PART))
    # The sums of all parts together must stay small beside the elements.
    if sums:
        return max(1, min(chunks, count // (16 * sums)))
    return chunks


@lru_cache(maxsize=256)
def _as_tensor(number: float) -> Tensor:
    return torch.tensor(number, dtype=torch.float32)


@lru_cache(maxsize=1024)
def layout_of(
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    shapes: tuple[tuple[int, ...], ...],
) -> Layout:
    """Return the fewest dimensions by which all numbers can be found, slowest first.

    Args:
        shape: of the tensor.
        strides: of the tensor, which is dense.
        shapes: of the numbers; ``()`` for one value.
    """
    order = tuple(sorted(range(len(shape)), key=lambda dim: (-strides[dim], shape[dim] == 1)))
    steps = [_steps_of(number, order) for number in shapes]
    sizes: list[int] = []
    merged: list[list[int]] = [[] for _ in shapes]
    for place, dim in enumerate(order):
        if shape[dim] == 1:
            continue
        own = [number[place] for number in steps]
        outer = [number[-1] for number in merged] if sizes else []
        if sizes and all(a == b * shape[dim] for a, b in zip(outer, own, strict=True)):
            sizes[-1] *= shape[dim]
            for number, step in zip(merged, own, strict=True):
                number[-1] = step
        else:
            sizes.append(shape[dim])
            for number, step in zip(merged, own, strict=True):
                number.append(step)
    if not sizes:
        sizes = [1]
        merged = [[0] for _ in shapes]
    return Layout(order, tuple(sizes), tuple(tuple(number) for number in merged))


def _steps_of(shape: tuple[int, ...], order: tuple[int, ...]) -> list[int]:
    """Return the steps of a dense number along the dimensions in ``order``; 0 where it has one."""
    if not shape:
        return [0] * len(order)
    steps = [0] * len(order)
    step = 1
    for place in reversed(range(len(order))):
        size = shape[order[place]]
        if size != 1:
            steps[place] = step
            step *= size
    return steps


def fits(x: Tensor, numbers: Sequence[Number]) -> bool:
    """Return whether the shapes of the numbers are of a kind that a kernel can read."""
    for number in numbers:
        if isinstance(number, Tensor) and number.numel() != 1:
            if number.dim() != x.dim():
                return False
            for own, size in zip(number.shape, x.shape, strict=True):
                if own not in (1, size):
                    return False
    return x.dim() <= MOST_DIMS and len(numbers) <= MOST_NUMBERS


@cache
def load(function: Callable[..., Tensor], numbers: int) -> Library:
    """Trace and compile a function; the library says why if that is not possible.

    Args:
        function: an elementwise function of ``x`` and numbers.
        numbers: how many.
    """
    name = f"unit-{function.__module__.rpartition('.')[2]}-{function.__qualname__}"
    name = "".join(letter if letter.isalnum() else "-" for letter in name)
    return compiled(name, source_text(trace(function, numbers), numbers))


def compiled(name: str, text: str) -> Library:
    """Compile a source with the vectors that torch uses here, or without if that fails.

    Args:
        name: of the compiled file.
        text: the source.
    """
    vectors = VECTORS.get(torch.backends.cpu.get_cpu_capability(), ())
    loaded = library_of_source(name, text, (*OPTIONS, *WITHOUT_JUMPS, *vectors))
    for fewer in ((*OPTIONS, *vectors), OPTIONS):
        if loaded.handle is None:
            loaded = library_of_source(name, text, fewer)
    return loaded


@cache
def kernel_of(function: Callable[..., Tensor], numbers: int) -> Kernel | None:
    """Return the compiled form of a function; ``None``, after a warning, without a compiler."""
    handle = handle_or_warning(load(function, numbers))
    return None if handle is None else Kernel(handle, numbers)
