"""Networks with opposite filters, exact or nearly so, wherever merging must find them."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@torch.no_grad()
def plant(layer: nn.Module, pairs: list[tuple[int, int, float]], noise: float = 0.0) -> nn.Module:
    """Make filter ``j`` a negative multiple of filter ``i``, plus relative ``noise``."""
    weight = layer.get_parameter("weight")
    for i, j, length in pairs:
        weight[j] = -length * weight[i]
        weight[j] += (
            noise
            * weight[j].norm()
            * F.normalize(torch.randn_like(weight[j]).flatten(), dim=0).view_as(weight[j])
        )
    return layer


PAIRS = [(0, 3, 2.5), (1, 6, 0.3)]


class Chain(nn.Module):
    """Modules, pooling, a flattened linear reader, a pair in two layers one after the other."""

    def __init__(self, noise: float = 0.0) -> None:
        super().__init__()
        self.first = plant(nn.Conv2d(3, 8, 3), PAIRS, noise)
        self.act1 = nn.ReLU(inplace=True)
        self.pool = nn.MaxPool2d(2)
        self.second = plant(nn.Conv2d(8, 8, 3, bias=False), PAIRS, noise)
        self.act2 = nn.ReLU()
        self.average = nn.AvgPool2d(2)
        self.head = nn.Linear(8 * 2 * 2, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.act1(self.first(x)))
        return self.head(self.average(self.act2(self.second(x))).flatten(1))


class Branches(nn.Module):
    """Functional calls, a concatenation with two readers, a residual that cannot be reordered."""

    def __init__(self, noise: float = 0.0) -> None:
        super().__init__()
        self.left, self.right = plant(nn.Conv2d(3, 8, 1), PAIRS, noise), nn.Conv2d(3, 4, 1)
        self.one, self.other = (
            plant(nn.Conv2d(12, 8, 3, padding=1), PAIRS, noise),
            nn.Conv2d(12, 8, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat((self.right(x).tanh(), F.relu(self.left(x))), 1)
        return (F.relu(self.one(x)) + self.other(x)).mean((2, 3))


class Tokens(nn.Module):
    """Linear layers over sequences: the channels are the last dimension."""

    def __init__(self, noise: float = 0.0) -> None:
        super().__init__()
        self.up, self.down = plant(nn.Linear(6, 8), PAIRS, noise), nn.Linear(8, 6)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(torch.relu(self.up(x)))


class Sequence1d(nn.Module):
    """A convolution over sequences, unbatched dimensions apart."""

    def __init__(self, noise: float = 0.0) -> None:
        super().__init__()
        self.net = nn.Sequential(
            plant(nn.Conv1d(2, 8, 3), PAIRS, noise), nn.ReLU(), nn.Conv1d(8, 3, 3, stride=2)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


EXAMPLES = {
    Chain: torch.randn(4, 3, 16, 16, generator=torch.Generator().manual_seed(1)),
    Branches: torch.randn(4, 3, 6, 6, generator=torch.Generator().manual_seed(2)),
    Tokens: torch.randn(4, 7, 6, generator=torch.Generator().manual_seed(3)),
    Sequence1d: torch.randn(4, 2, 20, generator=torch.Generator().manual_seed(4)),
}
MERGED = {Chain: 4, Branches: 4, Tokens: 2, Sequence1d: 2}
