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

SHAPE = (
    2,
    6,
    4,
    6,
)  # batch, channels, height, width: divisible by 2 and 3 in the two dimensions units group along
SMALL = (2, 6, 1, 2)  # the same, for finite differences to every element


class Subject(Protocol):
    """What a check needs to know of the thing it checks: how to build it, and inputs for it."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of an input, batch first."""
        ...

    @property
    def tolerance(self) -> float:
        """How far apart two float32 ways to the same value may be, relative or absolute."""
        ...

    def build(self, dtype: torch.dtype = torch.float32, device: str = "cpu") -> nn.Module:
        """A fresh module in evaluation mode, the same numbers every time."""
        ...

    def sample(
        self, dtype: torch.dtype = torch.float32, shape: tuple[int, ...] = ..., seed: int = 0
    ) -> Tensor:
        """A random input."""
        ...

    def smooth_sample(self, *copies: int) -> Tensor:
        """A small float64 input away from kinks, with the dimensions ``copies`` before its own."""
        ...


@dataclass(frozen=True)
class Case:
    """A unit and the options its module is built with."""

    unit: Unit
    options: Mapping[str, Any]

    def __str__(self) -> str:
        shown = ", ".join(f"{k}={v!r}" for k, v in self.options.items())
        return f"{self.unit.name}({shown})"

    def build(self, dtype: torch.dtype = torch.float32, device: str = "cpu") -> UnitModule:
        """A fresh module in evaluation mode, the same numbers every time."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return self.unit.module(**self.options).to(device=device, dtype=dtype).eval()

    def arguments(self, x: Tensor, dtype: torch.dtype | None = None) -> dict[str, Any]:
        """What the function is called with to look at single elements of ``x``.

        Detached, in ``dtype`` if given.
        """
        made = self.unit.probe(x) if self.unit.probe else self.build().arguments(x)
        return {
            k: v.detach().to(dtype or v.dtype) if isinstance(v, Tensor) else v
            for k, v in made.items()
        }

    def function(self, x: Tensor) -> Tensor:
        """The unit's function on ``x``."""
        return self.unit.function(x, **self.arguments(x))

    def reference(self, x: Tensor) -> Tensor:
        """The reference on ``x`` in float64."""
        wide = x.double()
        return self.unit.reference(wide, **self.arguments(wide, torch.float64))

    @property
    def dim(self) -> int:
        """The channel dimension."""
        option = self.unit.options.get("dim")
        return self.options.get("dim", option.default if option is not None else 1)

    @property
    def channels(self) -> int:
        """How many channels an input must have; 1 where it does not matter."""
        return self.options.get("channels") or 1

    @property
    def ratio(self) -> Fraction:
        """Output channels per input channel, as declared."""
        return Fraction(self.unit.fact("channel_ratio", **self.options))

    @property
    def kinks(self) -> Mapping[float, float]:
        """Point: derivative there, as declared for these options."""
        return self.unit.fact("kinks", **self.options)

    @property
    def limits(self) -> Limits:
        """Values at the infinities, as declared for these options."""
        return self.unit.fact("limits", **self.options)

    @property
    def looks_around(self) -> bool:
        """Whether an output element depends on more than one input element."""
        return self.unit.probe is not None or self.ratio < 1

    @property
    def takes_any_shape(self) -> bool:
        """Whether a single number without dimensions is a valid input."""
        needs_dim = "dim" in inspect.signature(self.unit.function).parameters and (
            self.channels > 1 or self.ratio != 1
        )
        return not needs_dim and not self.looks_around

    def spread(self, values: Tensor) -> Tensor:
        """``values`` as an input ``(1, C, n)``.

        Each channel sees all, in another order where channels are compared.
        """
        values = torch.cat(
            (values, values[: -values.numel() % 12])
        )  # some twice, so that any group size divides them
        if self.ratio < 1 and self.dim == 1:
            return torch.stack([values.roll(1009 * c) for c in range(SHAPE[1])])[None]
        return values.expand(1, self.channels, -1).clone()

    def away_from_kinks(self, x: Tensor, margin: float = 1e-3) -> Tensor:
        """``x`` with values nearer than ``margin`` to a kink moved to twice that distance."""
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
        """A small float64 input away from kinks, with the dimensions ``copies`` before its own."""
        return self.away_from_kinks(self.sample(torch.float64, (*copies, *SMALL)))

    def sample(
        self, dtype: torch.dtype = torch.float32, shape: tuple[int, ...] = SHAPE, seed: int = 0
    ) -> Tensor:
        """A random input, two standard deviations wide."""
        generator = torch.Generator().manual_seed(seed)
        return (2 * torch.randn(shape, generator=generator, dtype=torch.float64)).to(dtype)


def require(condition: bool, what: str, **details: Any) -> None:
    """Raise a ContractError saying ``what`` unless ``condition`` holds."""
    if not condition:
        raise ContractError(what, **details)
