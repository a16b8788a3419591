"""A block with many ways to call an activation, and the same block written by hand."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


class Nasty(nn.Module):
    """A training branch, a condition, a helper, a loop, a reused module, a method, a checkpoint."""

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)
        self.relu = nn.ReLU(inplace=True)
        self.early = False
        self.save_memory = True  # strict export cannot go through a checkpoint, of any module

    def helper(self, x):
        return F.gelu(self.second(x))

    def forward(self, x):
        x = self.first(x)
        if self.early:
            x = F.elu(x, alpha=0.7)
        if self.training:
            x = F.silu(x)
        y = self.relu(x + 1) + self.relu(x - 1)
        for _ in range(3):
            y = F.leaky_relu(y, 0.1)
        y = checkpoint(self.helper, y, use_reentrant=False) if self.save_memory else self.helper(y)
        return y.relu() + x


class ByHand(nn.Module):
    """The same with units; the names of its layers are those of :class:`Nasty`."""

    def __init__(self, nasty: Nasty, units: dict[str, nn.Module]) -> None:
        super().__init__()
        self.first, self.second, self.early = nasty.first, nasty.second, nasty.early
        self.units = nn.ModuleDict(units)

    def forward(self, x):
        u = self.units
        x = self.first(x)
        if self.early:
            x = u["early"](x)
        if self.training:
            x = u["branch"](x)
        y = u["left"](x + 1) + u["right"](x - 1)
        for number in range(3):
            y = u[f"round{number}"](y)
        y = u["helper"](self.second(y))
        return u["method"](y) + x


NAMES = ("early", "branch", "left", "right", "round0", "round1", "round2", "helper", "method")


def explode(x: torch.Tensor) -> torch.Tensor:
    raise RuntimeError("boom")
