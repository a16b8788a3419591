"""Gates that are drawn once for each training example and unit, and stored."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gatewise.checks import check_count, check_number, is_sequence
from gatewise.errors import ArgumentError
from gatewise.units import Device, LeafModule, allocating, check_generator

_INTEGERS = (torch.int64, torch.int32)


class RandomGate(LeafModule):
    r"""Fixed random gates: one coin per training example and unit, tossed when the layer is made.

    .. math:: G_s(i) \sim \mathrm{Bernoulli}(\mu), \qquad s = 0, \ldots, n - 1

    The gates are stored by example index, as one byte each: ``examples * units`` bytes for this
    layer, ``n (d - 1) w`` for a network. They are part of ``state_dict``. They do not extend to
    inputs outside of the training data, so such a layer cannot be tested on new data. The paper
    uses it to study optimisation only.

    Args:
        examples: the number of training examples; indices run from 0 to ``examples - 1``.
        units: the output's shape without its batch dimension: ``w`` for a linear layer, ``(C, H,
            W)`` for a convolution, or ``(C, 1, 1)`` for one coin per channel.
        mu: the probability that a gate is open.
        generator: the source of random numbers; torch's global generator by default.
        device: the device of the gates.

    Shape: indices ``(N,) -> (N, *units)``, 0 or 1 in float32.

    Lakshminarayanan and Singh, 2020, "Deep Gated Networks", arXiv:2002.03996 (DGN-FRG).
    """

    open: Tensor  # (examples, *units), a buffer of booleans

    def __init__(
        self,
        examples: int,
        units: int | Sequence[int],
        *,
        mu: float = 0.5,
        generator: torch.Generator | None = None,
        device: Device = None,
    ) -> None:
        super().__init__()
        self.examples = check_count("RandomGate", "examples", examples, least=1)
        self.units: tuple[Any, ...] = tuple(units) if is_sequence(units) else (units,)
        for size in self.units:
            check_count("RandomGate", "units", size, least=1)
        self.mu = check_number("RandomGate", "mu", mu, above=0.0, most=1.0)
        with allocating("RandomGate", device):
            gates = torch.empty(self.examples, *self.units, dtype=torch.bool, device=device)
        self.register_buffer("open", gates)
        self.reset_parameters(generator=generator)

    def reset_parameters(self, *, generator: torch.Generator | None = None) -> None:
        """Draw every gate again.

        Args:
            generator: the source of random numbers; torch's global generator by default.
        """
        self.open.bernoulli_(self.mu, generator=check_generator("RandomGate", generator))

    def forward(self, source: Tensor | None = None) -> Tensor:
        index = self._check_index(source)
        return self.open.index_select(0, index).to(torch.float32)

    def _check_index(self, index: Tensor | None) -> Tensor:
        if index is None:
            raise self._error("the example index is missing", got="None")
        what = "the example index must be a 1-dimensional tensor of integers"
        if not isinstance(index, Tensor):
            raise self._error(what, got=type(index).__name__)
        if index.dtype not in _INTEGERS or index.dim() != 1:
            raise self._error(what, got=f"{index.dtype} of shape {tuple(index.shape)}")
        if index.device != self.open.device:
            raise self._error(
                "gates and example index are on different devices", got=f"index on {index.device}"
            )
        if _is_outside(index, self.examples):
            raise self._error("there are no gates for an example of that index", got=index.tolist())
        return index

    def _error(self, what: str, got: object) -> ArgumentError:
        return ArgumentError(
            f"RandomGate: {what}",
            got=got,
            allowed=f"indices 0 to {self.examples - 1} of training examples",
            fix="layer(x, index); random gates do not extend to test inputs: "
            "use a hard or soft gate to test a network",
        )

    def extra_repr(self) -> str:
        stored = self.examples * math.prod(self.units)
        return f"examples={self.examples}, units={self.units}, mu={self.mu}, bytes={stored}"


def _is_outside(index: Tensor, count: int) -> bool:
    """Return whether an index is out of range; ``False`` if it cannot be read, as in a trace.

    Torch then checks the index when it runs.
    """
    if torch.compiler.is_compiling():
        return False
    try:
        return bool(((index < 0) | (index >= count)).any())
    except RuntimeError:  # on meta, or batched by vmap
        return False
