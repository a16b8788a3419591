"""One unit with one set of options, ready to be checked."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from gatewise.errors import ContractError
from gatewise.units import Limits, Unit, UnitModule

# Batch, channels, height, width. The dimensions along which units group are divisible by 2 and 3.
SHAPE = (2, 6, 4, 6)
# The same, small enough for finite differences to every element.
SMALL = (2, 6, 1, 2)


class Subject(Protocol):
    """What a check needs to know about the thing it checks: how to build it, and inputs for it."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of an input, batch first."""
        ...

    @property
    def tolerance(self) -> float:
        """The largest difference of two float32 ways to the same value, relative or absolute."""
        ...

    def build(self, dtype: torch.dtype = torch.float32, device: str = "cpu") -> nn.Module:
        """Return a new module in evaluation mode, with the same numbers every time."""
        ...

    def sample(
        self,
        dtype: torch.dtype = torch.float32,
        shape: tuple[int, ...] = ...,
        seed: int = 0,
    ) -> Tensor:
        """Return a random input."""
        ...

    def smooth_sample(self, *copies: int) -> Tensor:
        """Return a small float64 input away from kinks, with ``copies`` as leading dimensions."""
        ...


@dataclass(frozen=True)
class Case:
    """A unit and the options with which its module is built.

    Args:
        unit: the unit.
        options: the options of its module.
    """

    unit: Unit
    options: Mapping[str, Any]

    def __str__(self) -> str:
        shown = ", ".join(f"{k}={v!r}" for k, v in self.options.items())
        return f"{self.unit.name}({shown})"

    def build(self, dtype: torch.dtype = torch.float32, device: str = "cpu") -> UnitModule:
        """Return a new module in evaluation mode, with the same numbers every time.

        Args:
            dtype: the dtype of its parameters.
            device: the device of its parameters.
        """
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            with torch.device(device):
                return self.unit.module(**self.options).to(dtype=dtype).eval()

    def arguments(self, x: Tensor, dtype: torch.dtype | None = None) -> dict[str, Any]:
        """Return the arguments with which the function is called to check single elements of ``x``.

        Args:
            x: the input.
            dtype: the dtype of tensors among them, if it is to be changed.

        Returns:
            The arguments by name, detached.
        """
        if self.unit.probe is None:
            arguments = self.build().arguments(x)
        elif self.ratio < 1:  # of two responses: the probe gives the second
            arguments = self.build().arguments(x) | self.unit.probe(x)
        else:
            arguments = self.unit.probe(x)
        for name, value in arguments.items():
            if isinstance(value, Tensor):
                arguments[name] = value.detach().to(dtype or value.dtype)
        return arguments

    def function(self, x: Tensor) -> Tensor:
        """Return the unit's function on ``x``."""
        return self.unit.function(x, **self.arguments(x))

    def reference(self, x: Tensor) -> Tensor:
        """Return the reference on ``x`` in float64."""
        wide = x.double()
        return self.unit.reference(wide, **self.arguments(wide, torch.float64))

    @property
    def dim(self) -> int:
        """The channel dimension."""
        option = self.unit.options.get("dim")
        return self.options.get("dim", option.default if option is not None else 1)

    @property
    def channels(self) -> int:
        """The number of channels that an input must have; 1 if it does not matter."""
        return self.options.get("channels") or 1

    @property
    def ratio(self) -> Fraction:
        """Output channels per input channel, as declared."""
        return Fraction(self.unit.fact("channel_ratio", **self.options))

    @property
    def probed_ratio(self) -> Fraction:
        """Outputs per input of :meth:`function`; a unit of two responses gets the second one."""
        if self.unit.probe is not None and self.ratio < 1:
            return Fraction(1)
        return self.ratio

    @property
    def kinks(self) -> Mapping[float, float]:
        """The declared points where the derivative jumps, and the derivative there."""
        return self.unit.fact("kinks", **self.options)

    @property
    def limits(self) -> Limits:
        """The values at the infinities, as declared for these options."""
        return self.unit.fact("limits", **self.options)

    @property
    def looks_around(self) -> bool:
        """Whether an output element depends on more than one input element."""
        return self.unit.probe is not None or self.ratio < 1

    @property
    def takes_any_shape(self) -> bool:
        """Whether a single number without dimensions is a valid input."""
        has_dim = "dim" in inspect.signature(self.unit.function).parameters
        needs_dim = has_dim and (self.channels > 1 or self.ratio != 1)
        return not needs_dim and not self.looks_around

    def spread(self, values: Tensor) -> Tensor:
        """Return ``values`` as an input ``(1, C, n)``.

        Each channel gets all values, in another order if channels are compared.

        Args:
            values: a tensor of one dimension.
        """
        # Some values occur twice, so that any group size divides their number.
        values = torch.cat((values, values[: -values.numel() % 12]))
        if self.probed_ratio < 1 and self.dim == 1:
            rolled = [values.roll(1009 * c) for c in range(SHAPE[1])]
            return torch.stack(rolled)[None]
        return values.expand(1, self.channels, -1).clone()

    def away_from_kinks(self, x: Tensor, margin: float = 1e-3) -> Tensor:
        """Return ``x`` with values nearer than ``margin`` to a kink moved to twice that distance.

        Args:
            x: the input.
            margin: the smallest distance.
        """
        for kink in self.kinks:
            x = torch.where((x - kink).abs() < margin, kink + 2 * margin, x)
        return x

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of an input, batch first."""
        return SHAPE

    @property
    def tolerance(self) -> float:
        """A few float32 roundings in another order."""
        return 1e-5

    def smooth_sample(self, *copies: int) -> Tensor:
        """Return a small float64 input away from kinks, with ``copies`` as leading dimensions.

        Args:
            *copies: the leading dimensions.
        """
        return self.away_from_kinks(self.sample(torch.float64, (*copies, *SMALL)))

    def sample(
        self,
        dtype: torch.dtype = torch.float32,
        shape: tuple[int, ...] = SHAPE,
        seed: int = 0,
    ) -> Tensor:
        """Return a random input with standard deviation 2.

        Args:
            dtype: the dtype of the input.
            shape: the shape of the input.
            seed: the seed of the random numbers.
        """
        generator = torch.Generator().manual_seed(seed)
        # In float64 first, so that all dtypes get the same numbers.
        values = 2 * torch.randn(shape, generator=generator, dtype=torch.float64)
        return values.to(dtype)


def require(condition: bool, what: str, **details: Any) -> None:
    """Raise a ContractError with the message ``what`` unless ``condition`` holds."""
    if not condition:
        raise ContractError(what, **details)
