"""Run an elementwise function in one compiled pass forward and one backward, where it is safe."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gatewise.fused.blocks import run_in_blocks
from gatewise.fused.gpu import GpuKernel, gpu_kernel
from gatewise.fused.kernels import Kernel, Number, fits, is_like, kernel_of
from gatewise.fused.safe_calls import holds_its_numbers, is_on_gpu, is_readable, is_watched
from gatewise.units import FEW_PASSES, FewPasses, PlainForm, run_plain

RECORDS: list[set[str]] = []


def start_recording() -> set[str]:
    """Record which forms of elementwise units run from now on."""
    forms: set[str] = set()
    RECORDS.append(forms)
    return forms


def stop_recording(forms: set[str]) -> str:
    """Return which forms ran since the recording was started.

    It is ``"fused"`` or ``"plain"``, both joined by ``and``, or ``"native"`` if no elementwise unit
    ran but functions of torch.

    Args:
        forms: the result of :func:`start_recording`.
    """
    # By identity: two recordings may hold the same.
    for place, record in enumerate(RECORDS):
        if record is forms:
            del RECORDS[place]
            break
    return " and ".join(sorted(forms)) or "native"


def record_form(form: str) -> None:
    """Tell all recordings which form runs.

    Args:
        form: its name.
    """
    for record in RECORDS:
        record.add(form)


def elementwise(plain: PlainForm, x: Tensor, numbers: Sequence[Number]) -> Tensor:
    """Return the function ``plain`` of ``x`` and numbers, by compiled code where that is safe.

    Args:
        plain: the function as torch operations. It runs where compiled code may not.
        x: the input.
        numbers: floats, or tensors that broadcast with ``x`` and have its rank or one value. One
            with the shape and dtype of ``x`` is another element.
    """
    kernel = None
    is_safe = not is_watched() and _are_readable(x, numbers)
    if is_safe and fits(x, numbers):
        on_gpu = is_on_gpu(x)
        kernel = gpu_kernel(plain, x, numbers) if on_gpu else kernel_of(plain, len(numbers))
    record_form("plain" if kernel is None else "fused")
    if kernel is None:
        return without_compiler(plain, x, numbers) if is_safe else run_plain(plain, x, numbers)
    if torch.is_grad_enabled():
        for each in (x, *numbers):
            if isinstance(each, Tensor) and each.requires_grad:
                return _Elementwise.apply(kernel, plain, x, *numbers)  # pyright: ignore[reportReturnType] (untyped)
    return kernel.values(x, numbers)


def without_compiler(plain: PlainForm, x: Tensor, numbers: Sequence[Number]) -> Tensor:
    """Return the function ``plain`` in as few operations of torch as its unit declares.

    Args:
        plain: the function as torch operations.
        x: the input, which nothing observes.
        numbers: of the function.
    """
    few = FEW_PASSES.get(plain)
    is_fixed = not any(isinstance(number, Tensor) for number in numbers)
    if few is None or not is_fixed or x.dtype is not torch.float32 or not x.is_cpu:
        return run_plain(plain, x, numbers)
    if torch.is_grad_enabled() and x.requires_grad:
        return _FewPasses.apply(few, plain, x, *numbers)  # pyright: ignore[reportReturnType] (untyped)
    return run_in_blocks(lambda x, out: few.values(x, out, *numbers), x)


class _FewPasses(torch.autograd.Function):
    """A function in few operations. Second derivatives are taken of the plain form."""

    @staticmethod
    def forward(
        ctx: Any,
        few: FewPasses,
        plain: PlainForm,
        x: Tensor,
        *numbers: float,
    ) -> Tensor:
        ctx.few = few
        ctx.plain = plain
        ctx.numbers = numbers
        ctx.save_for_backward(x)
        return run_in_blocks(lambda x, out: few.values(x, out, *numbers), x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        (x,) = ctx.saved_tensors
        inputs = (x, *ctx.numbers)
        wanted = [True, *(False for _ in ctx.numbers)]
        readable = is_readable(gradient) and is_readable(x)
        if torch.is_grad_enabled() or is_watched() or not readable:
            return None, None, *plain_gradients(ctx.plain, inputs, gradient, wanted)

        def write(x: Tensor, above: Tensor, out: Tensor) -> None:
            if ctx.few.slopes is None:
                one = torch.ones_like(above)
                slope = plain_gradients(ctx.plain, (x, *ctx.numbers), one, wanted)[0]
                assert slope is not None  # noqa: S101  it is wanted
                torch.mul(slope, above, out=out)
            else:
                ctx.few.slopes(above, x, out, *ctx.numbers)

        return None, None, run_in_blocks(write, x, gradient), *(None for _ in ctx.numbers)


def _are_readable(x: Tensor, numbers: Sequence[Number]) -> bool:
    if not ((x.is_cpu or is_on_gpu(x)) and holds_its_numbers(x)):
        return False
    for number in numbers:
        if isinstance(number, Tensor):
            if number.device != x.device or not holds_its_numbers(number):
                return False
            if is_like(number, x):
                if not x.is_cpu:  # kernels for GPUs read one element
                    return False
            elif number.dtype is not torch.float32:
                return False
    return True


class _Elementwise(torch.autograd.Function):
    """A kernel and its derivative. Second derivatives are taken of the plain form."""

    @staticmethod
    def forward(
        ctx: Any,
        kernel: Kernel | GpuKernel,
        plain: PlainForm,
        x: Tensor,
        *numbers: Number,
    ) -> Tensor:
        ctx.kernel = kernel
        ctx.plain = plain
        ctx.fixed = [None if isinstance(number, Tensor) else number for number in numbers]
        ctx.save_for_backward(x, *(number for number in numbers if isinstance(number, Tensor)))
        return kernel.values(x, numbers)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        x, *saved = ctx.saved_tensors
        saved = iter(saved)
        numbers = [next(saved) if number is None else number for number in ctx.fixed]
        to_x, *to_numbers = ctx.needs_input_grad[2:]
        readable = _are_readable(x, numbers) and _are_readable(gradient, ())
        readable = readable and gradient.device == x.device
        if torch.is_grad_enabled() or is_watched() or not readable:
            wanted = [to_x, *to_numbers]
            return None, None, *plain_gradients(ctx.plain, (x, *numbers), gradient, wanted)
        x_gradient, others = ctx.kernel.slopes(x, numbers, gradient, to_numbers)
        return None, None, x_gradient if to_x else None, *others


def plain_gradients(
    plain: PlainForm,
    inputs: Sequence[Number | None],
    gradient: Tensor,
    wanted: Sequence[bool],
) -> list[Tensor | None]:
    """Return the gradients to the inputs of a plain form; ``None`` if not wanted.

    They can be differentiated again if gradients are being recorded.

    Args:
        plain: a function of torch's operations.
        inputs: its arguments, the element first.
        gradient: of the output.
        wanted: for each argument, whether its gradient is wanted.
    """
    again = torch.is_grad_enabled()
    leaves: list[Tensor] = []
    given: list[Any] = []
    with torch.enable_grad():
        for each, is_wanted in zip(inputs, wanted, strict=True):
            if is_wanted and isinstance(each, Tensor):
                each = _alias(each, again)
                leaves.append(each)
            given.append(each)
        x, *numbers = given
        assert isinstance(x, Tensor)  # noqa: S101  the first input is the element
        y = run_plain(plain, x, numbers)
        results = iter(
            torch.autograd.grad(y, leaves, gradient, create_graph=again, allow_unused=True)
        )
    return [next(results) if is_wanted else None for is_wanted in wanted]


def _alias(tensor: Tensor, again: bool) -> Tensor:
    """Return another tensor with the same numbers.

    Hooks of ``tensor`` must run on the gradient that the caller gets, and not on this one.
    """
    if again:
        return tensor.view_as(tensor)
    return tensor.detach().requires_grad_()
