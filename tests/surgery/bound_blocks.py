"""Blocks with a convolution before their activations, and the same blocks with bound units."""

from collections.abc import Callable

from torch import nn
from torch.nn import functional as F

WIDTH = 6
BLOCKS: dict[type[nn.Module], Callable] = {}
PAIRS: dict[
    type[nn.Module], list[tuple[str, int]]
] = {}  # the layer, and which activation call is bound to it


def block(pairs: list[tuple[str, int]], oracle: Callable) -> Callable:
    """Enter a class, what is bound to what, and its oracle."""

    def enter(kind: type[nn.Module]) -> type[nn.Module]:
        BLOCKS[kind], PAIRS[kind] = oracle, pairs
        return kind

    return enter


def conv(stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(WIDTH, WIDTH, 3, stride=stride, padding=1, bias=False)


class Convolutions(nn.Module):
    """Two convolutions with their norms."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv(), nn.BatchNorm2d(WIDTH)
        self.relu = nn.ReLU(inplace=True)
        self.conv2, self.bn2 = conv(), nn.BatchNorm2d(WIDTH)


def by_hand(m, u, x):
    y = u[0](m.bn1(m.conv1(x)), x, m.conv1)
    return u[1](m.bn2(m.conv2(y)) + x, y, m.conv2)


@block([("conv1", 0), ("conv2", 1)], by_hand)
class BasicBlock(Convolutions):
    """As in a residual network.

    Statement by statement, the second activation after the addition.
    """

    def forward(self, x):
        identity = x
        out = self.conv1(x)
        out = self.bn1(out)
        out = self.relu(out)
        out = self.conv2(out)
        out = self.bn2(out)
        out += identity
        out = self.relu(out)
        return out


@block([("conv1", 0), ("conv2", 1)], by_hand)
class Functional(Convolutions):
    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(input=x)), inplace=True)
        return (self.bn2(self.conv2(y)) + x).relu()


@block(
    [("conv1", 0), ("conv1", 1)],
    lambda m, u, x: u[1](m.conv1(y := u[0](m.conv1(x), x, m.conv1)), y, m.conv1),
)
class Loop(Convolutions):
    def forward(self, x):
        for _ in range(2):
            x = F.relu(self.conv1(x))
        return x


@block(
    [("conv1", 0), ("conv1", 1)],
    lambda m, u, x: u[0](y := m.conv1(x), x, m.conv1) - u[1](-y, x, m.conv1),
)
class OneLayerTwoUnits(Convolutions):
    def forward(self, x):
        y = self.conv1(x)
        return F.relu(y) - F.relu(-y)


@block([("0", 0), ("3", 1)], lambda m, u, x: u[1](m[3](y := u[0](m[1](m[0](x)), x, m[0])), y, m[3]))
class InASequential(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(conv(), nn.BatchNorm2d(WIDTH), nn.ReLU(), conv(2), nn.GELU())


@block([("0", 0)], lambda m, u, x: 2 * u[0](m[1](m[0](x + 1)), x + 1, m[0]))
class OwnForward(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(conv(), nn.BatchNorm2d(WIDTH), nn.ReLU())

    def forward(self, x):
        return 2 * super().forward(x + 1)


class NormWithActivation(nn.BatchNorm2d):
    """A norm that hides its activation, as some libraries have it."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.act(super().forward(x))


def norm(module: nn.BatchNorm2d, x):
    return nn.BatchNorm2d.forward(module, x)


def hidden_by_hand(m, u, x):
    y = u[0](norm(m.bn1, m.conv1(x)), x, m.conv1)
    return u[1](norm(m.bn2, m.conv2(y)), y, m.conv2) + x


@block([("conv1", 0), ("conv2", 1)], hidden_by_hand)
class HiddenInTheNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv(), NormWithActivation(WIDTH)
        self.conv2, self.bn2 = conv(), NormWithActivation(WIDTH)

    def forward(self, x):
        y = self.bn1(self.conv1(x))
        y = self.conv2(y)
        return self.bn2(y) + x
