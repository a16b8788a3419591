"""A comparison in a process that is killed: augmented loaders, an own unit, slow enough to hit."""

import sys
import time
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import gatewise as gw
from gatewise.train import Pace

X = torch.randn(48, 5, generator=torch.Generator().manual_seed(0))


class Noisy(Dataset):
    """Examples with noise; reading one takes a moment."""

    def __init__(self, pause: float) -> None:
        self.pause = pause

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        time.sleep(self.pause)
        return X[index] + 0.1 * torch.randn(5), int(X[index, 0] > 0)


class Curve(nn.Module):
    """A unit of a user with a trained number."""

    def __init__(self) -> None:
        super().__init__()
        self.sharpness = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(self.sharpness * x)


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.2), nn.ReLU(), nn.Linear(8, 2))


def compared(out: Path | str, pause: float = 0.0):
    loaders = DataLoader(Noisy(pause), 8, shuffle=True), DataLoader(Noisy(0.0), 16)
    return gw.compare(
        net,
        [Curve],
        loaders,
        seeds=2,
        epochs=2,
        tune=False,
        progress=False,
        out=out,
        pace=Pace(checkpoint_seconds=0),
    )


if __name__ == "__main__":
    compared(sys.argv[1], pause=0.005)
