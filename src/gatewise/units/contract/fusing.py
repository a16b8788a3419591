"""Units compiled by torch.compile: one pass forward, one backward, and only the inputs kept.

Note [Inputs kept]. Plain torch.compile of a unit keeps what it finds cheapest, often masks of
booleans, which are slow on a CPU. Here a function of autograd keeps the inputs, and its value and
its vector-Jacobian product are compiled apart. Where something watches torch's operations, and
where a second derivative is wanted, the unit's own function runs.

Note [One cache each]. The compiler keeps what it made with the code object of a function, and gives
up after eight variants. So each unit, with its options, number of dimensions and dtype, gets a code
object of its own.
"""

import os
import shutil
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.errors import ArgumentError
from gatewise.units.contract.safe_calls import is_watched

Expression = Callable[..., Tensor]
FIRST_CALL = (
    "The first call of each kind compiles it: about 10 s for the first and 3 s for each further "
    "one, or 0.2 s where torch's cache has it."
)


@dataclass(frozen=True)
class Fused:
    """What :func:`fuse` did to a model.

    Attributes:
        compiled: how many units of each class will be compiled.
        left: how many units of each class have a kernel already; they stay as they are.
        problem: why the units stay eager; empty if they do not.
    """

    compiled: dict[str, int]
    left: dict[str, int]
    problem: str = ""

    def __repr__(self) -> str:
        lines = []
        if self.compiled:
            lines.append(f"fused: {_counts(self.compiled)}. {self.problem or FIRST_CALL}")
        else:
            lines.append("fused: nothing")
        if self.left:
            lines.append(f"left alone, they have a kernel: {_counts(self.left)}")
        return "\n".join(lines)


def fuse(model: nn.Module) -> Fused:
    """Let the units of ``model`` run as code compiled by torch.compile, in place.

    A fused unit runs one pass forward and one backward, and keeps only its input. Values agree with
    those of the unit within its stated error. The setting is an attribute of each unit's module: it
    is kept by copies and pickles, and is no part of the state dict. :func:`unfuse` undoes it.

    The unit's own function runs under ``torch.compile``, ``torch.export``, ``torch.func``, forward
    differentiation and modes, for second derivatives, and where the compiler fails.

    Args:
        model: a model with units of the catalogue, or a unit.

    Returns:
        What was fused, and what the first call costs. Without a C++ compiler it says so, and the
        units stay eager.
    """
    compiled: Counter[str] = Counter()
    left: Counter[str] = Counter()
    problem = _compiler_problem()
    for module in _units_of(model):
        if not (module.fusable and hasattr(type(module), "function")):
            left[type(module).__name__] += 1
            continue
        module.fused = not problem
        compiled[type(module).__name__] += 1
    return Fused(dict(compiled), dict(left), problem)


def unfuse(model: nn.Module) -> None:
    """Undo :func:`fuse`: the units of ``model`` run as torch's operations again.

    Args:
        model: a model with fused units.
    """
    for module in _units_of(model):
        vars(module).pop("fused", None)


def run_fused(unit: Any, function: Expression, x: Tensor) -> Tensor:
    """Return ``unit(x)`` by compiled code where that is safe.

    Args:
        unit: a fused unit.
        function: of the unit.
        x: an ordinary tensor.
    """
    numbers = unit.arguments(x)
    if is_watched():
        return function(x, **numbers)
    names = tuple(name for name, value in numbers.items() if isinstance(value, Tensor))
    options = tuple((name, value) for name, value in numbers.items() if name not in names)
    compiled = type(unit).fused_function or function
    try:
        kernel = _kernel(compiled, names, options, x.dim(), x.dtype, x.device.type)
    except TypeError:  # an option that has no hash
        return function(x, **numbers)
    return kernel(x, *(numbers[name] for name in names))


class _Kernel:
    """The compiled value and vector-Jacobian product of a function of tensors.

    Args:
        function: of the first tensor.
        names: of the other tensors.
        options: further arguments.
    """

    def __init__(self, function: Expression, names: Sequence[str], options: Any) -> None:
        fixed = dict(options)

        def plain(x: Tensor, *tensors: Tensor) -> Tensor:
            return function(x, **dict(zip(names, tensors, strict=True)), **fixed)

        def slopes(above: Tensor, *inputs: Tensor) -> Any:
            found: Any = torch.func.vjp(plain, *inputs)
            return found[1](above)

        self.plain = plain
        self.values = torch.compile(_with_own_cache(plain), dynamic=True)
        self.slopes = torch.compile(_with_own_cache(slopes), dynamic=True)
        self.fails = False

    def __call__(self, *inputs: Tensor) -> Tensor:
        if self.fails:
            return self.plain(*inputs)
        if torch.is_grad_enabled() and any(each.requires_grad for each in inputs):
            return _Recompute.apply(self, *inputs)  # pyright: ignore[reportReturnType] (untyped)
        return self.try_compiled(self.values, self.plain, inputs)

    def try_compiled(self, compiled: Any, plain: Any, inputs: Sequence[Tensor]) -> Any:
        """Return the result of compiled code, or of ``plain`` if it cannot be compiled."""
        if self.fails:
            return plain(*inputs)
        try:
            return compiled(*inputs)
        except Exception as problem:  # whatever the compiler raises; an error of ours comes again
            result = plain(*inputs)
            self.fails = True
            reason = str(problem).strip().partition("\n")[0]
            warnings.warn(
                f"gatewise.fuse: torch.compile failed, so a unit stays eager: {reason}",
                RuntimeWarning,
                stacklevel=2,
            )
            return result


@cache
def _kernel(function: Expression, names: tuple[str, ...], options: Any, *_: object) -> _Kernel:
    """Return the kernel of a function. See Note [One cache each]."""
    return _Kernel(function, names, options)


class _Recompute(torch.autograd.Function):
    """A kernel that keeps its inputs. See Note [Inputs kept]."""

    @staticmethod
    def forward(ctx: Any, kernel: _Kernel, *inputs: Tensor) -> Tensor:
        ctx.kernel = kernel
        ctx.save_for_backward(*inputs)
        # The compiler looks at more of a tensor that has a history.
        fixed = [each.detach() for each in inputs]
        return kernel.try_compiled(kernel.values, kernel.plain, fixed)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (above,) = gradients
        inputs = ctx.saved_tensors
        wanted = ctx.needs_input_grad[1:]
        kernel: _Kernel = ctx.kernel

        def plain(above: Tensor, *inputs: Tensor) -> list[Tensor | None]:
            return gradients_of(lambda given: kernel.plain(*given), above, inputs, wanted)

        if torch.is_grad_enabled() or is_watched():
            return None, *plain(above, *inputs)
        fixed = [each.detach() for each in inputs]
        found = kernel.try_compiled(kernel.slopes, plain, (above, *fixed))
        pairs = zip(found, wanted, strict=True)
        return None, *(each if is_wanted else None for each, is_wanted in pairs)


def gradients_of(
    function: Callable[[Sequence[Any]], Tensor],
    above: Tensor,
    inputs: Sequence[Tensor | None],
    wanted: Sequence[bool],
) -> list[Tensor | None]:
    """Return the gradients of a function by torch's operations; they can be differentiated again.

    Args:
        function: of the inputs.
        above: the gradient of its output.
        inputs: tensors, or ``None``.
        wanted: whether the gradient to each input is wanted.
    """
    again = torch.is_grad_enabled()
    given: list[Tensor | None] = []
    leaves: list[Tensor] = []
    with torch.enable_grad():
        for each, is_wanted in zip(inputs, wanted, strict=True):
            if each is not None and is_wanted:
                # Another tensor: hooks of the input must not run on this gradient.
                each = each.view_as(each) if again else each.detach().requires_grad_()
                leaves.append(each)
            given.append(each)
        y = function(given)
        found = iter(torch.autograd.grad(y, leaves, above, create_graph=again, allow_unused=True))
    return [next(found) if is_wanted else None for is_wanted in wanted]


def _with_own_cache(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function with a code object of its own. See Note [One cache each]."""
    copy = FunctionType(
        function.__code__.replace(),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    return copy


def _units_of(model: nn.Module) -> list[Any]:
    if not isinstance(model, nn.Module):
        raise ArgumentError(
            "fuse: a model is needed", got=type(model).__name__, allowed="an nn.Module with units"
        )
    return [module for module in model.modules() if hasattr(type(module), "fused_function")]


def _counts(units: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(units.items()))


def _compiler_problem() -> str:
    """Return why torch.compile cannot work here, or nothing."""
    if sys.platform == "win32":
        return "torch.compile needs a C++ compiler here, so they stay eager."
    named = os.environ.get("CXX", "g++")
    if any(map(shutil.which, (named, "g++", "clang++", "c++"))):
        return ""
    return f"There is no C++ compiler ({named}) on the path, so they stay eager."
