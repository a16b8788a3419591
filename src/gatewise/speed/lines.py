"""Every line of the benchmark: what is measured, against what, and the target."""

import importlib
from collections.abc import Callable

import torch
from torch import Tensor, nn

from gatewise.fused import start_recording, stop_recording, without_compiler
from gatewise.speed.block_lines import block_lines
from gatewise.speed.composed_lines import composed_lines
from gatewise.speed.line import Line, Measured
from gatewise.speed.measuring import Timing, compare_times, forward_and_backward, kept_bytes
from gatewise.speed.placing import place
from gatewise.speed.profiles import cache_in_words
from gatewise.speed.simplest import UNITS, measured_unit, simplest_unit
from gatewise.units import PlainForm

AGAINST_EXPRESSION = (16, 64, 56, 56)
AGAINST_RELU = (32, 64, 56, 56)
# Times of native ReLU that a unit may take, forward and backward.
RELU_TARGETS = {
    "crelu": 1.2,
    "swish": 1.2,
    "acon_c": 1.2,
    "prelu": 1.2,
    "leaky_relu": 1.2,
    "beta_vq": 1.2,
    "gelu": 1.8,
    "smu": 1.8,
    "smu1": 1.8,
    "erfact": 2.5,
    "pserf": 2.5,
}
HALF_UNITS = ("silu", "gelu", "elu", "mish", "softplus")


def _maps(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
    return place(torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype))


def _steps(
    ours: nn.Module,
    theirs: Callable[[Tensor], Tensor],
    x: Tensor,
    seconds: float,
) -> Measured:
    """Compare forward and backward of two modules, and name the form of the first."""
    ours = place(ours)
    theirs = place(theirs) if isinstance(theirs, nn.Module) else theirs
    their_parameters = list(theirs.parameters()) if isinstance(theirs, nn.Module) else []
    our_step = forward_and_backward(ours, x, list(ours.parameters()))
    recording = start_recording()
    our_step()
    form = stop_recording(recording)
    their_step = forward_and_backward(theirs, x, their_parameters)
    return compare_times(our_step, their_step, seconds=seconds), form


def _profiled(
    target: float,
    name: str,
    theirs: Callable[[Tensor], Tensor],
    shape: tuple[int, ...],
    dtype: torch.dtype = torch.float32,
) -> str:
    """Say where the time of a unit and of the other side goes."""
    return cache_in_words(measured_unit(name, shape[1]), theirs, target, shape, dtype)


def _against_expression(name: str) -> Line:
    def measure(seconds: float) -> Measured:
        x = _maps(AGAINST_EXPRESSION)
        channels = x.shape[1]
        return _steps(measured_unit(name, channels), simplest_unit(name, channels), x, seconds)

    return Line(
        f"expression/{name}",
        f"{name} over its simplest torch expression, forward and backward",
        1.1,
        "at most",
        measure,
        lambda target: _profiled(target, name, simplest_unit(name, 64), AGAINST_EXPRESSION),
    )


def _kept(name: str) -> Line:
    def measure(seconds: float) -> Measured:
        x = _maps((4, 64, 28, 28)).requires_grad_()
        ratio = []
        recording = start_recording()
        for module in map(place, (measured_unit(name, 64), simplest_unit(name, 64))):
            ratio.append(kept_bytes(lambda m=module: m(x), *module.parameters()))
        form = stop_recording(recording)
        value = ratio[0] / ratio[1]
        return Timing(value, value, value, 1), form

    return Line(
        f"kept/{name}",
        f"bytes that {name} keeps for the backward pass over those of its simplest expression",
        1.0,
        "at most",
        measure,
    )


def _against_relu(name: str, target: float) -> Line:
    def measure(seconds: float) -> Measured:
        x = _maps(AGAINST_RELU)
        return _steps(measured_unit(name, x.shape[1]), torch.relu, x, seconds)

    return Line(
        f"relu/{name}",
        f"{name} over native relu, forward and backward, 32x64x56x56",
        target,
        "at most",
        measure,
        lambda _: _profiled(target, name, torch.relu, AGAINST_RELU),
    )


def _half(name: str, dtype: torch.dtype) -> Line:
    def measure(seconds: float) -> Measured:
        x = _maps(AGAINST_EXPRESSION, dtype)
        return _steps(measured_unit(name, 64), simplest_unit(name, 64), x, seconds)

    kind = str(dtype).removeprefix("torch.")
    return Line(
        f"{kind}/{name}",
        f"{name} over torch's own in {kind}, forward and backward",
        1.2,
        "at most",
        measure,
        lambda target: _profiled(target, name, simplest_unit(name, 64), AGAINST_EXPRESSION, dtype),
    )


def _without_compiler(name: str) -> Line:
    def measure(seconds: float) -> Measured:
        x = _maps(AGAINST_EXPRESSION)
        plain = plain_form(name)
        own = simplest_unit(name, 64)
        with torch.no_grad():
            timing = compare_times(
                lambda: without_compiler(plain, x, ()), lambda: own(x), seconds=seconds
            )
        return timing, "plain"

    return Line(
        f"plain/{name}",
        f"{name} without a compiler over torch's own, forward",
        2.5,
        "at most",
        measure,
    )


def plain_form(name: str) -> PlainForm:
    """Return the plain form of a unit without numbers."""
    return importlib.import_module(f"gatewise.units.catalogue.{name}")._plain


def _all_lines() -> tuple[Line, ...]:
    lines = [_against_expression(name) for name in UNITS]
    lines += [_kept(name) for name in UNITS]
    lines += [_against_relu(name, target) for name, target in RELU_TARGETS.items()]
    for dtype in (torch.bfloat16, torch.float16):
        lines += [_half(name, dtype) for name in HALF_UNITS]
    lines += [_without_compiler(name) for name in ("silu", "gelu", "mish")]
    lines += composed_lines()
    lines += block_lines()
    return tuple(lines)


LINES = _all_lines()
