"""SqueezeNet v1.1 as it was trained on ImageNet, and photographs to run it on."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

WEIGHTS = Path("pretrained") / "squeezenet_v1.1_imagenet_fp16.npz"
MEANS = np.array([104, 117, 123], dtype=np.float32)  # of blue, green and red
SIDE = 227
FIRES = {2: (64, 16, 64), 3: (128, 16, 64), 4: (128, 32, 128), 5: (256, 32, 128)}
FIRES |= {6: (256, 48, 192), 7: (384, 48, 192), 8: (384, 64, 256), 9: (512, 64, 256)}


class Fire(nn.Module):
    """A squeezing layer and two that expand what it gives."""

    def __init__(self, channels: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self.squeeze1x1 = nn.Conv2d(channels, squeezed, 1)
        self.expand1x1 = nn.Conv2d(squeezed, expanded, 1)
        self.expand3x3 = nn.Conv2d(squeezed, expanded, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.squeeze1x1(x))
        return torch.cat((F.relu(self.expand1x1(x)), F.relu(self.expand3x3(x))), 1)


class SqueezeNet(nn.Module):
    """Layers named as in the file of its weights."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.relu1 = nn.Conv2d(3, 64, 3, stride=2), nn.ReLU()
        for number, sizes in FIRES.items():
            self.add_module(f"fire{number}", Fire(*sizes))
        self.conv10 = nn.Conv2d(512, 1000, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = pooled(self.relu1(self.conv1(x)))
        for number in FIRES:
            x = self.get_submodule(f"fire{number}")(x)
            x = pooled(x) if number in (3, 5) else x
        return F.relu(self.conv10(x)).mean((2, 3))


def pooled(x: Tensor) -> Tensor:
    return F.max_pool2d(x, 3, 2, ceil_mode=True)


def load(folder: Path) -> SqueezeNet:
    """The network with the weights under ``folder``."""
    model = SqueezeNet().eval()
    with np.load(folder / WEIGHTS) as arrays:
        model.load_state_dict(
            {name: torch.from_numpy(arrays[name].astype(np.float32)) for name in arrays.files}
        )
    return model


def prepared(picture: np.ndarray) -> Tensor:
    """``(height, width, 3)`` bytes, red first, as the network was given them.

    ``(3, 227, 227)``, blue first.
    """
    side = min(picture.shape[:2])
    top, left = ((size - side) // 2 for size in picture.shape[:2])
    square = picture[top : top + side, left : left + side, ::-1].astype(np.float32) - MEANS
    return F.interpolate(
        torch.from_numpy(square.copy()).movedim(2, 0)[None], (SIDE, SIDE), mode="bilinear"
    )[0]


def photographs(across: int = 4) -> Tensor:
    """Parts of the two photographs that scikit-learn ships, ``across`` along each side of each."""
    from sklearn.datasets import load_sample_images

    found = []
    for picture in load_sample_images().images:
        height, width = picture.shape[:2]
        side = height // 2
        for row in range(across):
            for column in range(across):
                top, left = (
                    row * (height - side) // max(1, across - 1),
                    column * (width - side) // max(1, across - 1),
                )
                found.append(prepared(picture[top : top + side, left : left + side]))
    return torch.stack(found)
