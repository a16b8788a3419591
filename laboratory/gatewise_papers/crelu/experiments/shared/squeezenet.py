"""The convolutions of SqueezeNet v1.1, trained on ImageNet, in the place of the paper's AlexNet."""

from io import BytesIO

import torch
from torch import nn

from gatewise.data import Published, data_folder, read_other
from gatewise.errors import DamagedFileError
from gatewise.files import digest

PATH = "pretrained/squeezenet_v1.1_imagenet_fp16.npz"
FETCH = (
    "write its convolutions there as arrays NAME.weight and NAME.bias: "
    "of SqueezeNet v1.1 by forresti/SqueezeNet"
)
FIRST = "conv1"


def convolutions() -> tuple[nn.ModuleDict, str]:
    """Return the convolutions in their order, without biases, and the sha256 of their file.

    Colours are in the order red, green, blue.

    Raises:
        DamagedFileError: if the file has no such arrays.
    """
    import numpy as np

    data = read_other(data_folder(fetch=FETCH), Published(PATH), fetch=FETCH)
    weights: dict[str, torch.Tensor] = {}
    try:
        with np.load(BytesIO(data), allow_pickle=False) as arrays:
            for name in arrays.files:
                tensor = torch.from_numpy(arrays[name].astype(np.float32))
                if tensor.ndim == 4:
                    weights[name.removesuffix(".weight")] = tensor
    except (ValueError, OSError) as problem:
        raise DamagedFileError(
            f"{PATH} is not a file of arrays",
            got=str(problem),
            fix=FETCH,
        ) from problem
    if FIRST not in weights or weights[FIRST].shape[1] != 3:
        raise DamagedFileError(
            f"{PATH} has no first convolution of colour images",
            got=sorted(weights),
            fix=FETCH,
        )
    weights[FIRST] = weights[FIRST].flip(1)  # it was trained on images with blue first
    layers = {name.replace(".", "/"): _convolution(weight) for name, weight in weights.items()}
    return nn.ModuleDict(layers), digest(data)


def _convolution(weight: torch.Tensor) -> nn.Conv2d:
    """Return a convolution with this weight and no bias."""
    filters, channels, height, width = weight.shape
    conv = nn.Conv2d(channels, filters, (height, width), bias=False, device="meta")
    conv.weight = nn.Parameter(weight, requires_grad=False)
    return conv
