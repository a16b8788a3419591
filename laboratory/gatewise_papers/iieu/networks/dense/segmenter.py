"""A ResNet with the all-MLP decoder of SegFormer: a class for every pixel."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gatewise.models import network
from gatewise.models.blocks import RELU, check_sizes, conv_block
from gatewise_papers.iieu.networks.dense.stages import ResNetStages
from gatewise_papers.iieu.networks.resnet import resnet, stage_channels

DROPOUT = 0.1


class AllMlpDecoder(nn.Module):
    """Maps of several sizes to scores of classes, by linear layers at each position.

    Every map becomes ``width`` channels and is resized to the first map. One linear layer with
    batch norm and ReLU joins them, another one gives the scores.

    Args:
        channels: of each map.
        width: channels of the decoder.
        classes: scores.
    """

    def __init__(self, channels: Sequence[int], width: int, classes: int) -> None:
        super().__init__()
        self.embed = nn.ModuleList(nn.Conv2d(count, width, 1) for count in channels)
        self.join = conv_block(len(channels) * width, width, 1, RELU)
        self.dropout = nn.Dropout2d(DROPOUT)
        self.classify = nn.Conv2d(width, classes, 1)

    def forward(self, maps: Sequence[Tensor]) -> Tensor:
        size = maps[0].shape[-2:]
        parts = []
        for embed, features in zip(self.embed, maps, strict=True):
            parts.append(_resized(embed(features), size))
        return self.classify(self.dropout(self.join(torch.cat(parts, 1))))


class ResNetSegmenter(nn.Module):
    """A ResNet, an all-MLP decoder, and scores resized to the image.

    Shape: ``(N, channels, H, W) -> (N, classes, H, W)``.

    Args:
        backbone: returns the maps of its stages.
        decoder: returns scores at the positions of the first map.
    """

    def __init__(self, backbone: nn.Module, decoder: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone
        self.decoder = decoder

    def forward(self, x: Tensor) -> Tensor:
        return _resized(self.decoder(self.backbone(x)), x.shape[-2:])


@network(
    title="ResNet with an all-MLP decoder, for segmentation",
    reads=(3, 320, 1216),
    paper="paper 003 (IIEU), table 7; the decoder is that of arXiv:2105.15203",
    passes_to=resnet,
    sets=("classes",),
    predicts="segmentation",
)
def resnet_segmenter(*, width: int = 1024, classes: int = 20, **options: Any) -> ResNetSegmenter:
    """A ResNet whose four stages are read by an all-MLP decoder.

    With width 1024 it has the parameters that paper 003 prints. The unit stands in the backbone;
    the decoder has one ReLU.

    Args:
        width: channels of the decoder.
        classes: scores for each pixel.
        **options: of the backbone, as in :func:`~gatewise_papers.iieu.networks.resnet.resnet`.
    """
    check_sizes("resnet_segmenter", classes=classes, width=width)
    backbone = ResNetStages(**options)
    channels = stage_channels(options.get("scale", 1.0))
    return ResNetSegmenter(backbone, AllMlpDecoder(channels, width, classes))


def _resized(maps: Tensor, size: torch.Size) -> Tensor:
    """Return the maps at another size, by bilinear interpolation."""
    return F.interpolate(maps, size=size, mode="bilinear", align_corners=False)
