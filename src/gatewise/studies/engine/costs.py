"""What a network costs, counted before it is trained.

Parameters, operations and bytes kept for the backward pass.
"""

from dataclasses import asdict, dataclass

import torch
from torch import nn

from gatewise.errors import GatewiseError
from gatewise.graph import parameter_count
from gatewise.surgery import cost as count
from gatewise.surgery import run
from gatewise.train import RunConfig, build_model, size_read

EXAMPLES = (
    16  # run at once; what is done once for a batch, to weights say, is shared out among them
)


@dataclass(frozen=True)
class Facts:
    """What a network has to know of its data."""

    classes: int
    shape: tuple[int, int, int]


@dataclass(frozen=True)
class Cost:
    """Of one network: numbers trained; operations and bytes kept for one example.

    None where they cannot be counted.
    """

    parameters: int
    flops: (
        int | None
    )  # a multiplication and its addition are two; each element of an activation is one
    saved_bytes: int | None

    def to_dict(self) -> dict[str, int | None]:
        """Plain values by name."""
        return asdict(self)


def measure(config: RunConfig, facts: Facts) -> Cost:
    """The cost of the configuration's network, in float32."""
    return cost_of(
        build_model(config, classes=facts.classes, shape=facts.shape), example_for(config, facts)
    )


def cost_of(network: nn.Module, example: torch.Tensor) -> Cost:
    """The cost of ``network``, in float32, by running it on ``example``; shape ``(n, ...)``."""
    flops = saved = None
    try:
        saved = run(network, ((example,), {}), training=True).saved // len(example)
        flops = round(count(network.eval(), "flops", example) / len(example))
    except (GatewiseError, RuntimeError, NotImplementedError):
        pass  # a network that cannot be read as a graph is trained all the same
    return Cost(parameter_count(network), flops, saved)


def example_for(config: RunConfig, facts: Facts) -> torch.Tensor:
    """Some images as the network reads them."""
    size = size_read(config, facts.shape)
    return torch.randn(EXAMPLES, facts.shape[0], *size, generator=torch.Generator().manual_seed(0))
