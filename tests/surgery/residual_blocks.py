"""Residual blocks in several spellings, and each written by hand with IIEU in it.

A hand-written form is given the original block and the units of the changed one by name; it is
built on ``gw.nn.ConvIIEU``, which keeps layer, norm and unit together, and on nothing of surgery's.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gatewise.layers.iieu import ConvIIEU

WIDTH = 16
Units = Mapping[str, nn.Module]


def conv_iieu(conv: nn.Module, norm: nn.Module | None, unit: nn.Module) -> ConvIIEU:
    """A ConvIIEU of these very parts, in the mode of the layer."""
    made = ConvIIEU(conv, norm).train(conv.training)
    made.unit = unit.train(conv.training)
    return made


def conv(channels: int = WIDTH, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(channels, WIDTH, 3, stride=stride, padding=1, bias=False)


class Basic(nn.Module):
    """One activation module for both calls, an in-place addition, a shortcut with a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv(3, stride=2), nn.BatchNorm2d(WIDTH)
        self.relu = nn.ReLU(inplace=True)
        self.conv2, self.bn2 = conv(), nn.BatchNorm2d(WIDTH)
        self.downsample = nn.Sequential(
            nn.Conv2d(3, WIDTH, 1, stride=2, bias=False), nn.BatchNorm2d(WIDTH)
        )

    def forward(self, x: Tensor) -> Tensor:
        identity = x
        out = self.conv1(x)
        out = self.bn1(out)
        out = self.relu(out)
        out = self.conv2(out)
        out = self.bn2(out)
        identity = self.downsample(x)
        out += identity
        return self.relu(out)


def basic_by_hand(
    m: Basic, units: Units, x: Tensor, join: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    y = conv_iieu(m.conv1, m.bn1, units["relu"])(x)
    main = conv_iieu(m.conv2, m.bn2, units["relu@1/0"])(y)
    side = conv_iieu(m.downsample[0], m.downsample[1], units["relu@1/1"])(x)
    return join(main, side)


class Functional(nn.Module):
    """Functional activations, an addition by operator, a shortcut first and without a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = conv(3)
        self.conv1, self.conv2 = conv(), conv()

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.stem(x))
        return F.relu(x + self.conv2(F.relu(self.conv1(x))))


def functional_by_hand(
    m: Functional, units: Units, x: Tensor, join: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    x = conv_iieu(m.stem, None, units["(model):relu#0"])(x)
    y = conv_iieu(m.conv1, None, units["(model):relu#1"])(x)
    return join(x, conv_iieu(m.conv2, None, units["(model):relu#2/0"])(y))


class Own(nn.Module):
    """Shortcut and branch in separate modules with separate methods, joined by ``torch.add``."""

    class Shortcut(nn.Module):
        """A layer and its norm, called one after the other."""

        def __init__(self) -> None:
            super().__init__()
            self.convolution, self.normalization = conv(3), nn.BatchNorm2d(WIDTH)

        def forward(self, x: Tensor) -> Tensor:
            y = self.convolution(x)
            return self.normalization(y)

    def __init__(self) -> None:
        super().__init__()
        self.side = Own.Shortcut()
        self.body = nn.Sequential(
            conv(3), nn.BatchNorm2d(WIDTH), nn.ReLU(), nn.Sequential(conv(), nn.BatchNorm2d(WIDTH))
        )
        self.act = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.act(torch.add(self.body(x), self.side(x)))


def own_by_hand(
    m: Own, units: Units, x: Tensor, join: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    y = conv_iieu(m.body[0], m.body[1], units["body.2"])(x)
    main = conv_iieu(m.body[3][0], m.body[3][1], units["act/0"])(y)
    return join(main, conv_iieu(m.side.convolution, m.side.normalization, units["act/1"])(x))


class TwoMethods(nn.Module):
    """The layer is called by one method, its activation by another, as in dense blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.relu1, self.conv1 = nn.BatchNorm2d(3), nn.ReLU(), conv(3)
        self.norm2, self.relu2, self.conv2 = nn.BatchNorm2d(WIDTH), nn.ReLU(), conv()

    def bottleneck(self, inputs: list[Tensor]) -> Tensor:
        joined = torch.cat(inputs, 1)
        if joined.shape[1] > 1000:
            return joined
        return self.conv1(self.relu1(self.norm1(joined)))

    def forward(self, x: Tensor) -> Tensor:
        y = self.bottleneck([x[:, :1], x[:, 1:]])
        return self.conv2(self.relu2(self.norm2(y)))


def two_methods_by_hand(m: TwoMethods, units: Units, x: Tensor, join: object) -> Tensor:
    return m.conv2(conv_iieu(m.conv1, m.norm2, units["relu2"])(m.relu1(m.norm1(x))))


class InARow(nn.Sequential):
    """Layers, norms and activations in a Sequential, with a linear end."""

    def __init__(self) -> None:
        super().__init__(
            *(conv(3), nn.BatchNorm2d(WIDTH), nn.ReLU(), conv(), nn.ReLU(), nn.Flatten()),
            *(nn.Linear(WIDTH * 64, 10), nn.ReLU(), nn.Linear(10, 4)),
        )


def in_a_row_by_hand(m: InARow, units: Units, x: Tensor, join: object) -> Tensor:
    from gatewise.layers.iieu import LinearIIEU

    x = conv_iieu(m[3], None, units["4"])(conv_iieu(m[0], m[1], units["2"])(x))
    linear = LinearIIEU(m[6])
    linear.unit = units["7"]
    return m[8](linear(x.flatten(1)))


BLOCKS: dict[type[nn.Module], Callable[..., Tensor]] = {
    Basic: basic_by_hand,
    Functional: functional_by_hand,
    Own: own_by_hand,
    TwoMethods: two_methods_by_hand,
    InARow: in_a_row_by_hand,
}
WITH_SUMS: tuple[type[nn.Module], ...] = (Basic, Functional, Own)
