"""What every unit's module shares.

It remembers its options, shows them, and is a thin shell over its function.
"""

import inspect
import math
from collections.abc import Sequence
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from gatewise.errors import ArgumentError
from gatewise.units.contract.factory import allocating

Device = torch.device | str | None
DType = torch.dtype | None
LARGEST_SIZE = 2**31 - 1  # of one dimension: some of torch's kernels count in 32 bits


class UnitModule(nn.Module):
    """A module whose ``forward(x)`` is its unit's function called with ``arguments(x)``."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options
        check_dim_option(type(self).__name__, options.get("dim", 1))

    def arguments(self, x: Tensor) -> dict[str, Any]:
        """Keyword arguments that make the unit's function compute what this module computes on ``x``."""
        return {}

    def extra_repr(self) -> str:
        """The options that differ from their defaults."""
        defaults = inspect.signature(type(self)).parameters
        shown = ((k, v) for k, v in self.options.items() if not _same(v, defaults[k].default))
        return ", ".join(f"{k}={v!r}" for k, v in shown)


class TrainableUnit(UnitModule):
    """A unit whose trainable numbers all start at given values: one each, or one per channel each.

    All parameters are 1-dimensional, which is what optimiser recipes go by when they spare
    parameters from weight decay.
    """

    def __init__(
        self,
        unit: str,
        starts: dict[str, float],
        *,
        channels: int | None,
        dim: int,
        device: Device,
        dtype: DType,
        **options: Any,
    ) -> None:
        super().__init__(**starts, **options, channels=channels, dim=dim)
        self.starts = {name: check_number(unit, name, value) for name, value in starts.items()}
        self.dim = dim
        count = check_channels(unit, channels) or 1
        with allocating(unit, device, dtype):
            for name in starts:
                self.register_parameter(
                    name, nn.Parameter(torch.empty(count, device=device, dtype=dtype))
                )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set every parameter to its starting value."""
        for name, value in self.starts.items():
            nn.init.constant_(self.get_parameter(name), value)

    def arguments(self, x: Tensor) -> dict[str, Any]:
        """The parameters by name, and the channel dimension."""
        return {name: getattr(self, name) for name in self.starts} | {"dim": self.dim}


def check_channels(unit: str, channels: int | None, *, required: bool = False) -> int | None:
    """``channels`` if it is a count a unit can be built with."""
    if channels is None and not required:
        return None
    if channels is None or not is_size(channels, 1):
        raise ArgumentError(
            f"{unit}: channels must be a positive integer",
            got=channels,
            fix=f"create({unit!r}, channels=C) with the input's C",
        )
    return channels


def check_number(
    unit: str, name: str, value: float, *, above: float = -math.inf, most: float = math.inf
) -> float:
    """``value`` if it is a finite number with ``above < value <= most``."""
    if torch.compiler.is_compiling():
        # a traced number has no value to look at; eager calls and constructors have looked
        return value
    allowed = "a finite number"
    if above > -math.inf or most < math.inf:
        allowed = f"a finite number, {above} < {name} <= {most}"
    wrong = (
        isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value)
    )
    if wrong or not above < value <= most:
        raise ArgumentError(f"{unit}: option {name} is not allowed", got=value, allowed=allowed)
    return float(value)


def check_count(unit: str, name: str, value: int, *, least: int) -> int:
    """``value`` if it is an integer of at least ``least``, and no larger than torch's sizes can be."""
    if not is_size(value, least):
        allowed = f"an integer >= {least}" + (
            f" and <= {LARGEST_SIZE}" if is_size(value, least, math.inf) else ""
        )
        raise ArgumentError(f"{unit}: option {name} is not allowed", got=value, allowed=allowed)
    return value


def is_size(value: object, least: int, most: float = LARGEST_SIZE) -> bool:
    """Whether ``value`` is an integer from ``least`` to ``most``, and not a truth value."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def is_sequence(value: object) -> TypeGuard[Sequence[Any]]:
    """Whether ``value`` is a sequence of things, and not text or bytes, whose elements only look like sizes."""
    return isinstance(value, Sequence) and not isinstance(
        value, str | bytes | bytearray | memoryview
    )


def check_dim_option(unit: str, dim: int) -> int:
    """``dim`` if it can be the number of a dimension."""
    if isinstance(dim, bool) or not isinstance(dim, int):
        raise ArgumentError(f"{unit}: option dim is not allowed", got=dim, allowed="an integer")
    return dim


def check_generator(unit: str, generator: torch.Generator | None) -> torch.Generator | None:
    """``generator`` if random numbers can be drawn from it; ``None`` is torch's global one."""
    if generator is not None and not isinstance(generator, torch.Generator):
        allowed = "a torch.Generator, or None for torch's global one"
        raise ArgumentError(
            f"{unit}: option generator is not allowed", got=generator, allowed=allowed
        )
    return generator


def check_flag(unit: str, name: str, value: bool) -> bool:
    """``value`` if it is True or False."""
    if not isinstance(value, bool):
        raise ArgumentError(
            f"{unit}: option {name} is not allowed", got=value, allowed="True or False"
        )
    return value


def check_choice(unit: str, name: str, value: str, allowed: tuple[str, ...]) -> str:
    """``value`` if it is one of ``allowed``."""
    if value not in allowed:
        raise ArgumentError(
            f"{unit}: option {name} is not allowed",
            got=value,
            allowed=", ".join(map(repr, allowed)),
        )
    return value


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and a == b
