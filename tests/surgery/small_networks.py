"""Small networks that surgery is tried on, one idea each."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def plain(width: int = 8) -> nn.Sequential:
    """Convolution, norm, rectifier, pooling, flattening, linear layers.

    Nothing that is refused but the end.
    """
    return nn.Sequential(
        *(
            nn.Conv2d(3, width, 3, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
        ),
        *(nn.Conv2d(width, width, 3, padding=1, groups=2), nn.ReLU(), nn.Flatten()),
        *(nn.Linear(width * 16, 10), nn.ReLU(), nn.Linear(10, 4)),
    )


class Residual(nn.Module):
    def __init__(self, width: int = 8):
        super().__init__()
        self.stem, self.act0 = nn.Conv2d(3, width, 3, padding=1), nn.ReLU()
        self.a, self.norm, self.act1 = (
            nn.Conv2d(width, width, 3, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
        )
        self.b, self.act2 = nn.Conv2d(width, width, 3, padding=1), nn.ReLU()
        self.head = nn.Linear(width, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.act0(self.stem(x))
        x = self.act2(self.b(self.act1(self.norm(self.a(x)))) + x)
        return self.head(x.mean((2, 3)))


class Excited(nn.Module):
    """A depthwise layer and a gate over its activation."""

    def __init__(self, width: int = 8):
        super().__init__()
        self.stem, self.act0 = nn.Conv2d(3, width, 1), nn.ReLU()
        self.depth, self.act1 = nn.Conv2d(width, width, 3, padding=1, groups=width), nn.ReLU()
        self.down, self.up = nn.Conv2d(width, 2, 1), nn.Conv2d(2, width, 1)
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, width).view(width, 1, 1))
        self.out = nn.Conv2d(width, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.act1(self.depth(self.act0(self.stem(x))))
        x = x * torch.sigmoid(self.up(F.relu(self.down(x.mean((2, 3), keepdim=True)))))
        return self.out(x * self.scale).mean((2, 3))


class WithAuxiliary(nn.Module):
    """A second head that exists in training only."""

    def __init__(self):
        super().__init__()
        self.stem, self.act = nn.Conv2d(3, 8, 3), nn.ReLU()
        self.body, self.aux = nn.Conv2d(8, 4, 1), nn.Conv2d(8, 4, 1)

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        x = self.act(self.stem(x))
        main = self.body(x).mean((2, 3))
        return (main, self.aux(x).mean((2, 3))) if self.training else main


class HardView(nn.Module):
    """A size written out in the code."""

    def __init__(self):
        super().__init__()
        self.stem, self.act, self.head = (
            nn.Conv2d(3, 8, 3, padding=1),
            nn.ReLU(),
            nn.Linear(8 * 64, 4),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.act(self.stem(x)).view(-1, 8 * 64))


class TwoChannelShuffle(nn.Module):
    """Two channels seen as two groups of one.

    As a shape, not to be told from two channels beside a new dimension.
    """

    def __init__(self):
        super().__init__()
        self.stem, self.act, self.out = nn.Conv2d(3, 2, 1), nn.ReLU(), nn.Conv2d(2, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.act(self.stem(x))
        n, c, h, w = x.shape
        x = x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)
        return self.out(x).mean((2, 3))


class Tied(nn.Module):
    """Two layers with one weight, of which one reads the activation."""

    def __init__(self):
        super().__init__()
        self.a, self.act, self.b, self.c = (
            nn.Linear(6, 6),
            nn.ReLU(),
            nn.Linear(6, 6),
            nn.Linear(6, 6),
        )
        self.c.weight = self.b.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.c(x) + self.b(self.act(self.a(x)))


class ZeroHead(nn.Module):
    """Nothing moves the output before the head is trained."""

    def __init__(self):
        super().__init__()
        self.a, self.act, self.b, self.head = (
            nn.Linear(6, 6),
            nn.ReLU(),
            nn.Linear(6, 6),
            nn.Linear(6, 4),
        )
        nn.init.zeros_(self.head.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.b(self.act(self.a(x))))


def image(batch: int = 2) -> Tensor:
    return torch.randn(batch, 3, 8, 8, generator=torch.Generator().manual_seed(batch))


def rows(batch: int = 2) -> Tensor:
    return torch.randn(batch, 6, generator=torch.Generator().manual_seed(batch))
