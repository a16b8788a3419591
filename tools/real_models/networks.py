"""Networks whose packages hold their weights. Their code has the form of the original's."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

PITCHES = 360
SIZES = {"tiny": (128, 16, 16, 16, 32, 64), "full": (1024, 128, 128, 128, 256, 512)}
ALEXNET = ((64, 11, 4, 2), (192, 5, 1, 2), (384, 3, 1, 1), (256, 3, 1, 1), (256, 3, 1, 1))
VGG16 = (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512)


class Crepe(nn.Module):
    """Pitch of a sound (CREPE). One helper method serves six layers of different widths.

    Args:
        size: ``"tiny"`` or ``"full"``.
    """

    def __init__(self, size: str) -> None:
        super().__init__()
        before = 1
        for number, width in enumerate(SIZES[size], start=1):
            kernel, stride = ((512, 1), (4, 1)) if number == 1 else ((64, 1), (1, 1))
            norm = nn.BatchNorm2d(width, eps=0.0010000000474974513, momentum=0.0)
            self.add_module(f"conv{number}", nn.Conv2d(before, width, kernel, stride))
            self.add_module(f"conv{number}_BN", norm)
            before = width
        self.features = 4 * before
        self.classifier = nn.Linear(self.features, PITCHES)

    def forward(self, x: Tensor) -> Tensor:
        """Return the probability of each pitch for windows of 1,024 samples."""
        x = self.embed(x)
        x = self.layer(x, self.conv6, self.conv6_BN)
        x = x.permute(0, 2, 1, 3).reshape(-1, self.features)
        return torch.sigmoid(self.classifier(x))

    def embed(self, x: Tensor) -> Tensor:
        """Return what the first five layers make of windows."""
        x = x[:, None, :, None]
        x = self.layer(x, self.conv1, self.conv1_BN, (0, 0, 254, 254))
        x = self.layer(x, self.conv2, self.conv2_BN)
        x = self.layer(x, self.conv3, self.conv3_BN)
        x = self.layer(x, self.conv4, self.conv4_BN)
        return self.layer(x, self.conv5, self.conv5_BN)

    def layer(
        self,
        x: Tensor,
        conv: nn.Module,
        norm: nn.Module,
        padding: tuple[int, int, int, int] = (0, 0, 31, 32),
    ) -> Tensor:
        """Return what one layer makes of ``x``."""
        x = F.pad(x, padding)
        x = conv(x)
        x = F.relu(x)
        x = norm(x)
        return F.max_pool2d(x, (2, 1), (2, 1))


class FaceNet(nn.Module):
    """A network of MTCNN, which finds faces: convolutions, PReLU and pooling, then its heads.

    Args:
        widths: of the convolutions.
        kernels: of them.
        pools: kernel of the pooling after each; 0 for none.
        dense: inputs and outputs of the dense layer; ``None`` if the heads are convolutions.
        heads: outputs of each head; the first is a pair of probabilities.
    """

    def __init__(
        self,
        widths: Sequence[int],
        kernels: Sequence[int],
        pools: Sequence[int],
        dense: tuple[int, int] | None,
        heads: Sequence[int],
    ) -> None:
        super().__init__()
        self.pools = tuple(pools)
        before = 3
        for number, (width, kernel) in enumerate(zip(widths, kernels, strict=True), start=1):
            self.add_module(f"conv{number}", nn.Conv2d(before, width, kernel))
            self.add_module(f"prelu{number}", nn.PReLU(width))
            before = width
        number = len(widths) + 1
        self.dense = f"dense{number}" if dense is not None else ""
        if dense is not None:
            self.add_module(self.dense, nn.Linear(*dense))
            self.add_module(f"prelu{number}", nn.PReLU(dense[1]))
            number += 1
        self.heads = []
        for place, width in enumerate(heads, start=1):
            name = f"dense{number}_{place}" if dense is not None else f"conv{number}_{place}"
            head = nn.Conv2d(before, width, 1) if dense is None else nn.Linear(dense[1], width)
            self.add_module(name, head)
            self.heads.append(name)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return the probability of a face, then the other heads."""
        for number, kernel in enumerate(self.pools, start=1):
            x = self.get_submodule(f"conv{number}")(x)
            x = self.get_submodule(f"prelu{number}")(x)
            if kernel:
                x = F.max_pool2d(x, kernel, 2, ceil_mode=True)
        if self.dense:
            x = self.get_submodule(self.dense)(x.permute(0, 3, 2, 1).flatten(1))
            x = self.get_submodule(f"prelu{len(self.pools) + 1}")(x)
        found = [self.get_submodule(name)(x) for name in self.heads]
        return (F.softmax(found[0], 1), *found[1:])


def face_net(name: str) -> FaceNet:
    """Return a network of MTCNN without its weights.

    Args:
        name: ``"pnet"``, ``"rnet"`` or ``"onet"``.
    """
    if name == "pnet":
        return FaceNet((10, 16, 32), (3, 3, 3), (2, 0, 0), None, (2, 4))
    if name == "rnet":
        return FaceNet((28, 48, 64), (3, 3, 2), (3, 3, 0), (576, 128), (2, 4))
    return FaceNet((32, 64, 64, 128), (3, 3, 3, 2), (3, 3, 2, 0), (1152, 256), (2, 4, 10))


class AlexNetFeatures(nn.Module):
    """The convolutions of AlexNet, with the mean of the last layer over positions as output."""

    def __init__(self) -> None:
        super().__init__()
        layers = []
        before = 3
        for width, kernel, stride, padding in ALEXNET:
            layers.append(nn.Conv2d(before, width, kernel, stride, padding))
            before = width
        self.convolutions = nn.ModuleList(layers)
        self.act = nn.ModuleList(nn.ReLU() for _ in layers)

    def forward(self, x: Tensor) -> Tensor:
        """Return 256 features of images."""
        for number, (layer, act) in enumerate(zip(self.convolutions, self.act, strict=True)):
            x = act(layer(x))
            if number < 2:
                x = F.max_pool2d(x, 3, 2)
        return x.mean((2, 3))


class VGG16Features(nn.Module):
    """The convolutions of VGG16, with the mean of the last layer over positions as output."""

    def __init__(self) -> None:
        super().__init__()
        widths = [width for width in VGG16 if width]
        layers = []
        before = 3
        for width in widths:
            layers.append(nn.Conv2d(before, width, 3, padding=1))
            before = width
        self.convolutions = nn.ModuleList(layers)
        self.act = nn.ModuleList(nn.ReLU() for _ in layers)

    def forward(self, x: Tensor) -> Tensor:
        """Return 512 features of images."""
        number = 0
        for width in VGG16:
            if not width:
                x = F.max_pool2d(x, 2, 2)
                continue
            x = self.act[number](self.convolutions[number](x))
            number += 1
        return x.mean((2, 3))
