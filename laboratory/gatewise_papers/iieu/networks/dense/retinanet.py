"""RetinaNet: a ResNet, a pyramid of its maps, and two heads that all levels share."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gatewise.errors import ArgumentError
from gatewise.models import network
from gatewise.models.blocks import check_sizes
from gatewise_papers.iieu.networks.dense.boxes import ANCHORS, anchor_boxes
from gatewise_papers.iieu.networks.dense.stages import ResNetStages
from gatewise_papers.iieu.networks.resnet import resnet, stage_channels

PRIOR = 0.01  # the score of every class at every anchor before training
DEVIATION = 0.01  # of the initial weights of the last layers
FEWEST_LEVELS = 3  # those of stages 2 to 4; more are convolutions of stage 4


class FeaturePyramid(nn.Module):
    """Maps of equal width at falling resolution, each with what the coarser ones know.

    Args:
        channels: of the maps of the backbone, from fine to coarse.
        width: channels of all levels.
        levels: how many; those beyond the maps are convolutions of stride 2.
    """

    def __init__(self, channels: Sequence[int], width: int, levels: int) -> None:
        super().__init__()
        self.lateral = nn.ModuleList(nn.Conv2d(count, width, 1) for count in channels)
        self.out = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in channels)
        reads = [channels[-1], *[width] * (levels - len(channels))]
        self.more = nn.ModuleList(
            nn.Conv2d(read, width, 3, stride=2, padding=1)
            for read in reads[: levels - len(channels)]
        )

    def forward(self, maps: Sequence[Tensor]) -> list[Tensor]:
        sides = [lateral(features) for lateral, features in zip(self.lateral, maps, strict=True)]
        for place in range(len(sides) - 1, 0, -1):
            finer = sides[place - 1]
            sides[place - 1] = finer + F.interpolate(sides[place], size=finer.shape[-2:])
        levels = [out(side) for out, side in zip(self.out, sides, strict=True)]
        last = maps[-1]
        for more in self.more:
            last = more(last)
            levels.append(last)
        return levels


class BoxHead(nn.Module):
    """Convolutions with ReLU, and a last one with some numbers for each anchor.

    Args:
        width: channels.
        convolutions: before the last one.
        numbers: for each anchor.
        prior: the initial value of sigmoid(output).
    """

    def __init__(self, width: int, convolutions: int, numbers: int, prior: float = 0.5) -> None:
        super().__init__()
        parts: list[nn.Module] = []
        for _ in range(convolutions):
            parts += [nn.Conv2d(width, width, 3, padding=1), nn.ReLU()]
        self.tower = nn.Sequential(*parts)
        self.last = nn.Conv2d(width, ANCHORS * numbers, 3, padding=1)
        self.numbers = numbers
        self.prior = prior
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the last layer small, so that every anchor starts near the prior."""
        nn.init.normal_(self.last.weight, std=DEVIATION)
        if self.last.bias is not None:
            nn.init.constant_(self.last.bias, -math.log(1 / self.prior - 1))

    def forward(self, features: Tensor) -> Tensor:
        """Return (N, anchors, numbers)."""
        found = self.last(self.tower(features))
        return found.permute(0, 2, 3, 1).reshape(len(features), -1, self.numbers)


class RetinaNet(nn.Module):
    """Scores of classes, and offsets of the box, for every anchor.

    Shape: ``(N, channels, H, W) -> (N, anchors, classes + 4)``. The first ``classes`` numbers are
    logits; the last four are the offsets of :func:`box_offsets` from :meth:`anchors`.

    Args:
        backbone: returns the maps of four stages.
        pyramid: returns the levels.
        classes: heads for the scores.
        offsets: head for the boxes.
        strides: pixels between the positions of each level.
    """

    def __init__(
        self,
        backbone: nn.Module,
        pyramid: nn.Module,
        classes: nn.Module,
        offsets: nn.Module,
        strides: Sequence[int],
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.pyramid = pyramid
        self.classes = classes
        self.offsets = offsets
        self.strides = tuple(strides)

    def forward(self, x: Tensor) -> Tensor:
        levels = self.pyramid(self.backbone(x)[1:])
        found = []
        for features in levels:
            found.append(torch.cat([self.classes(features), self.offsets(features)], 2))
        return torch.cat(found, 1)

    def anchors(self, height: int, width: int) -> Tensor:
        """Return the boxes that offsets are counted from, (anchors, 4), for images of a size."""
        return anchor_boxes(height, width, self.strides)


@network(
    title="RetinaNet on a ResNet, for detection",
    reads=(3, 800, 1344),
    paper="paper 003 (IIEU), table 6; arXiv:1708.02002",
    passes_to=resnet,
    sets=("classes",),
    predicts="detection",
)
def retinanet(
    *,
    width: int = 256,
    levels: int = 5,
    convolutions: int = 4,
    classes: int = 80,
    **options: Any,
) -> RetinaNet:
    """A ResNet whose last three stages feed a pyramid with two heads.

    The unit stands in the backbone; the heads have ReLU.

    Args:
        width: channels of the pyramid and of the heads.
        levels: of the pyramid, from 3.
        convolutions: of each head before its last one.
        classes: of objects.
        **options: of the backbone, as in :func:`~gatewise_papers.iieu.networks.resnet.resnet`.
    """
    check_sizes("retinanet", classes=classes, width=width, convolutions=convolutions)
    if type(levels) is not int or not FEWEST_LEVELS <= levels <= 8:
        raise ArgumentError("retinanet: option levels is not allowed", got=levels, allowed="3 .. 8")
    backbone = ResNetStages(**options)
    channels = stage_channels(options.get("scale", 1.0))[1:]
    first = 2 * options.get("stem_stride", 4)
    return RetinaNet(
        backbone,
        FeaturePyramid(channels, width, levels),
        BoxHead(width, convolutions, classes, PRIOR),
        BoxHead(width, convolutions, 4),
        [first * 2**level for level in range(levels)],
    )
