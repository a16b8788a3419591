"""Which unit suits a network you have? Its own activations against three others, on your data, with paired statistics.

The network calls ``torch.relu`` in its forward method: no module to exchange. Surgery finds the calls, puts each unit
in, widens or halves what a unit needs, and keeps a receipt. All runs of a seed see the same batches, and layers of
equal shape start from the same weights. The differences are tested seed by seed, and corrected for their number.
"""

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import gatewise as gw


class Net(nn.Module):
    """Two convolutions and a head, as one would write it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1, stride=2)
        self.head = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Shape: ``(N, 1, 8, 8) -> (N, 10)``."""
        x = torch.relu(self.conv1(x))
        x = torch.relu(self.conv2(x))
        return self.head(x.mean((2, 3)))


def loaders() -> tuple[DataLoader, DataLoader]:
    """300 digits to train on, 500 to test on."""
    digits = load_digits()
    images, labels = (
        torch.tensor(digits.images).float().unsqueeze(1) / 16,
        torch.tensor(digits.target),
    )
    train, test = (
        TensorDataset(images[:300], labels[:300]),
        TensorDataset(images[300:800], labels[300:800]),
    )
    return DataLoader(train, batch_size=50), DataLoader(test, batch_size=100)


recipe = gw.train.find_recipe("adam", changes=["optimiser.lr = 0.02", "batch = 30"])
units = ["swish", "crelu", "psc"]
found = gw.compare(Net, units, loaders(), seeds=7, recipe=recipe, epochs=12, progress=False)
print(found)
receipt = next(group["receipt"] for group in found.content["groups"] if group["unit"] == "crelu")
before, after = receipt["parameters"]
print(f"\ncrelu went to {len(receipt['sites'])} sites; parameters {before} to {after}")
