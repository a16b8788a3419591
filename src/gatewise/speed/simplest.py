"""The simplest torch code for every elementwise unit, with which its time is compared.

This is what most people write. It is not right everywhere: some forms overflow or lose digits.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

Expression = Callable[..., Tensor]


def by_channel(value: Tensor, x: Tensor) -> Tensor:
    """Return one number per channel, in a shape that broadcasts with maps."""
    return value.reshape(1, -1, *[1] * (x.dim() - 2))


def _acon(x: Tensor, p1: Tensor, p2: Tensor, beta: Tensor) -> Tensor:
    gap = (p1 - p2) * x
    return gap * torch.sigmoid(beta * gap) + p2 * x


def _smu(x: Tensor, mu: Tensor) -> Tensor:
    return 0.5 * (1.25 * x + 0.75 * x * torch.erf(mu * 0.75 * x))


def _smu1(x: Tensor, mu: Tensor) -> Tensor:
    return 0.5 * (1.25 * x + torch.sqrt((0.75 * x) ** 2 + mu**2))


def _pau(x: Tensor, *c: Tensor) -> Tensor:
    top = c[0] + x * (c[1] + x * (c[2] + x * (c[3] + x * (c[4] + x * c[5]))))
    size = x.abs()
    bottom = size * (c[6].abs() + size * (c[7].abs() + size * (c[8].abs() + size * c[9].abs())))
    return top / (1.0 + bottom)


def _jump_relu(x: Tensor, log_threshold: Tensor) -> Tensor:
    threshold = torch.exp(log_threshold)
    fixed = threshold.detach()
    near = ((x - fixed).abs() < 0.0005).float()
    return torch.where(x > fixed, x, 0.0) - near * fixed / 0.001 * (threshold - fixed)


def _xielu(x: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
    above = functional.softplus(positive)
    below = 0.5 + functional.softplus(negative)
    low = torch.expm1(torch.clamp(x, max=0.0)) - x
    return torch.where(x > 0, above * x * x + 0.5 * x, below * low + 0.5 * x)


# Unit: its options, the numbers of the expression (all trained, per channel), the expression.
TRAINED: dict[str, tuple[dict[str, Any], tuple[float, ...], Expression]] = {
    "acon_c": ({}, (1.2, -0.3, 1.0), _acon),
    "pserf": ({}, (1.25, 0.85), lambda x, g, d: x * torch.erf(g * functional.softplus(d * x))),
    "erfact": ({}, (0.75, 0.75), lambda x, a, b: x * torch.erf(a * torch.exp(b * x))),
    "smu": ({"mu": 1.0}, (1.0,), _smu),
    "smu1": ({"mu": 0.5}, (0.5,), _smu1),
    "swish": ({}, (1.0,), lambda x, b: x * torch.sigmoid(b * x)),
    "beta_vq": ({"learn_beta": True}, (1.0,), lambda x, b: x * torch.sigmoid(b * x)),
    "dyt": ({"dim": 1}, (0.5, 1.0, 0.0), lambda x, a, w, b: w * torch.tanh(a[:, :1] * x) + b),
    "star_relu": ({}, (1.0, 0.0), lambda x, s, b: s * torch.relu(x) ** 2 + b),
    "jump_relu": ({"threshold": 0.1}, (-2.3,), _jump_relu),
    "xielu": ({}, (0.2, -1.05), _xielu),
}
FIXED: dict[str, Expression] = {
    "silu": functional.silu,
    "gelu": functional.gelu,
    "elu": functional.elu,
    "mish": functional.mish,
    "softplus": functional.softplus,
    "soft_relu": lambda x: 1.1 * x * torch.sigmoid(4.0 * x),
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "tanhshrink": functional.tanhshrink,
    "logsigmoid": functional.logsigmoid,
    "softsign": functional.softsign,
    "selu": functional.selu,
    "celu": functional.celu,
    "hardsigmoid": functional.hardsigmoid,
    "hardswish": functional.hardswish,
    "hardtanh": functional.hardtanh,
    "relu6": functional.relu6,
    "threshold": lambda x: functional.threshold(x, 0.01, 0.0),
    "relu2": lambda x: torch.relu(x) ** 2,
    "leaky_relu2": lambda x: functional.leaky_relu(x, 0.5) ** 2,
    "telu": lambda x: x * torch.tanh(torch.exp(x)),
    "relu": torch.relu,
    "leaky_relu": functional.leaky_relu,
    "abs": torch.abs,
    "crelu": lambda x: torch.cat((torch.relu(x), torch.relu(-x)), 1),
}


class SimplestUnit(nn.Module):
    """The simplest expression of a unit, with trained numbers per channel.

    Args:
        expression: of the input and the numbers.
        starts: the start values.
        channels: how many; ``None`` for one number each.
    """

    def __init__(
        self,
        expression: Expression,
        starts: tuple[float, ...],
        channels: int | None,
    ) -> None:
        super().__init__()
        self.expression = expression
        count = channels or 1
        self.numbers = nn.ParameterList(
            [nn.Parameter(torch.full((count,), start)) for start in starts]
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the expression of ``x``."""
        return self.expression(x, *(by_channel(number, x) for number in self.numbers))


def simplest_unit(name: str, channels: int) -> nn.Module:
    """Return the simplest torch module for a unit.

    Args:
        name: of the unit.
        channels: of its input.
    """
    if name == "prelu":
        return nn.PReLU(channels)
    if name == "pau":
        from gatewise.units import create_unit

        starts = create_unit("pau")
        numbers = [float(c) for each in starts.parameters() for c in each.detach()]
        return SimplestUnit(_pau, tuple(numbers), None)
    if name in TRAINED:
        _, starts, expression = TRAINED[name]
        return SimplestUnit(expression, starts, channels)
    return SimplestUnit(FIXED[name], (), None)


def measured_unit(name: str, channels: int) -> nn.Module:
    """Return our module for a unit, with trained numbers per channel where it has them.

    Args:
        name: of the unit.
        channels: of its input.
    """
    from gatewise.units import create_unit

    if name == "prelu":
        return create_unit("prelu", channels=channels)
    if name in TRAINED:
        return create_unit(name, channels=channels, **TRAINED[name][0])
    return create_unit(name)


UNITS = (*TRAINED, "pau", "prelu", *FIXED)
