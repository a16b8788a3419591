"""Networks in which a layer and something that is no layer read the same activation."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Split(nn.Module):
    """A convolution reads the activation, and so does what a subclass says."""

    def __init__(self, width: int = 6):
        super().__init__()
        self.stem, self.act = nn.Conv2d(3, width, 3, padding=1), nn.ReLU()
        self.body = nn.Conv2d(width, width, 3, padding=1)
        self.pool, self.norm = nn.AvgPool2d(3, 1, 1), nn.BatchNorm2d(width)
        self.head = nn.Linear(width, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.act(self.stem(x))
        return self.head(self.join(self.body(x), x).mean((2, 3)))


class Plus(Split):
    def join(self, y: Tensor, x: Tensor) -> Tensor:
        return y + x


class PlusFirst(Split):
    def join(self, y: Tensor, x: Tensor) -> Tensor:
        return torch.tanh(x + y)


class InPlace(Split):
    def join(self, y: Tensor, x: Tensor) -> Tensor:
        y += x
        return y


class InPlaceFirst(Split):
    def join(self, y: Tensor, x: Tensor) -> Tensor:
        x = x.clone()
        x += y
        return x


class Function(Split):
    def join(self, y: Tensor, x: Tensor) -> Tensor:
        return torch.add(y, x)


class Method(Split):
    def join(self, y: Tensor, x: Tensor) -> Tensor:
        return y.add(x)


class Averaged(Split):
    def join(self, y: Tensor, x: Tensor) -> Tensor:
        return y * x.mean((2, 3), keepdim=True)


class PooledByFunction(Split):
    def join(self, y: Tensor, x: Tensor) -> Tensor:
        return torch.cat((y, F.avg_pool2d(x, 3, stride=1, padding=1)), 1)[:, 3:9]


class PooledByModule(Split):
    def join(self, y: Tensor, x: Tensor) -> Tensor:
        return y - self.pool(x)


class Normed(Split):
    def join(self, y: Tensor, x: Tensor) -> Tensor:
        return y + self.norm(x)


class Smoothed(Split):
    def join(self, y: Tensor, x: Tensor) -> Tensor:
        return y + F.gelu(x)


class Attended(Split):
    def join(self, y: Tensor, x: Tensor) -> Tensor:
        return y @ x


class Both(Split):
    """Both operands of one addition."""

    def join(self, y: Tensor, x: Tensor) -> Tensor:
        return y + (x + x)


class Gate(nn.Module):
    """Squeeze and excite, the activation being read by a layer through the product alone."""

    def __init__(self, width: int = 6):
        super().__init__()
        self.stem, self.up, self.out = (
            nn.Conv2d(3, width, 1),
            nn.Conv2d(width, width, 1),
            nn.Conv2d(width, 4, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.stem(x))
        return self.out(x * torch.sigmoid(self.up(x.mean((2, 3), keepdim=True))) * 0.5).mean((2, 3))


class Leaky(Plus):
    def __init__(self):
        super().__init__()
        self.act = nn.LeakyReLU(0.3)


class Mixed(nn.Module):
    """Channels of both kinds are averaged.

    Those of the activation, and others that may be negative.
    """

    def __init__(self):
        super().__init__()
        self.one, self.other, self.act = (
            nn.Conv2d(3, 4, 1),
            nn.Conv2d(3, 5, 1),
            nn.ReLU(inplace=True),
        )
        self.body, self.head = nn.Conv2d(9, 9, 3, padding=1), nn.Linear(9, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat((self.other(x), self.act(self.one(x))), 1)
        return self.head(F.avg_pool2d(x, 8).flatten(1) + self.body(x).amax((2, 3)))


class Looped(nn.Module):
    """One addition in the source, run once for each layer; the first round reads no activation."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(3, 3, 1) for _ in range(4))
        self.acts = nn.ModuleList(nn.ReLU() for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        for layer, act in zip(self.layers, self.acts, strict=False):
            x = act(layer(x) + x)
        return self.layers[3](x).mean((2, 3))


class Twice(nn.Module):
    """A block that is called twice, on activations that change one after the other."""

    def __init__(self):
        super().__init__()
        self.stem, self.block = nn.Conv2d(3, 6, 1), Block()
        self.one, self.other, self.act = nn.ReLU(), nn.ReLU(), nn.ReLU()
        self.a, self.b, self.head = nn.Conv2d(6, 6, 1), nn.Conv2d(6, 6, 1), nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.one(self.stem(x))
        y = self.other(self.a(x))
        return self.head(self.act(self.block(x) + self.block(y) + self.b(y).amax((2, 3))))


class Block(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean((2, 3))


class Chain(nn.Module):
    """Two residual blocks; in the first, each activation ends the other's branch."""

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(6 if i else 3, 6, 3, padding=1) for i in range(5))
        self.norm, self.head = nn.BatchNorm2d(6), nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm(self.convs[0](x)))
        x = F.relu(self.convs[2](F.relu(self.convs[1](x))) + x)
        x = F.relu(self.convs[4](F.relu(self.convs[3](x))) + x)
        return self.head(x.mean((2, 3)))


# by name: how to make it, the sites that change, and the calls before which the activation is put
# back
SPLIT: dict[str, tuple[Callable[[], nn.Module], int, list[str]]] = {
    "plus": (Plus, 1, ["add"]),
    "plus first": (PlusFirst, 1, ["add"]),
    "in place": (InPlace, 1, ["add"]),
    "in place first": (InPlaceFirst, 1, ["add"]),
    "function": (Function, 1, ["add"]),
    "method": (Method, 1, ["add"]),
    "mean": (Averaged, 1, ["mean"]),
    "pooled by function": (PooledByFunction, 1, ["avg_pool2d"]),
    "pooled by module": (PooledByModule, 1, ["avg_pool2d"]),
    "norm": (Normed, 1, ["batch_norm"]),
    "another activation": (Smoothed, 1, ["gelu"]),
    "attention": (Attended, 1, ["matmul"]),
    "both operands": (Both, 1, ["add"]),
    "gate": (Gate, 1, ["mean"]),
    "leaky": (Leaky, 1, ["add"]),
    "mixed channels": (Mixed, 1, ["avg_pool2d"]),
    "loop": (Looped, 3, ["add", "add"]),
    "chain": (Chain, 4, ["add", "add"]),
}


def image(batch: int = 2) -> Tensor:
    return torch.randn(batch, 3, 8, 8, generator=torch.Generator().manual_seed(batch))
