"""The stages of a ResNet as the backbone of a network of dense prediction."""

from typing import Any

from torch import Tensor, nn

from gatewise_papers.iieu.networks.resnet import resnet

STAGES = ("stage1", "stage2", "stage3", "stage4")


class ResNetStages(nn.Module):
    """The maps of the four stages of a ResNet.

    Shape: ``(N, channels, H, W)`` -> four maps, each half as high and wide as the one before.

    Args:
        options: of the network ``resnet`` of the catalogue, without ``classes``.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.features = resnet(**options).features

    def forward(self, x: Tensor) -> list[Tensor]:
        maps = []
        for name, part in self.features.named_children():
            x = part(x)
            if name in STAGES:
                maps.append(x)
        return maps
