"""A network with functional activations, and digits in the forms in which users hold data."""

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 8, 3, padding=1, stride=2)
        self.head = nn.Linear(8, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.conv2(torch.relu(self.conv1(x))))
        return self.head(x.mean((2, 3)))


def digits(count: int = 80) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    found = load_digits()
    images = torch.tensor(found.images[: 2 * count], dtype=torch.float32)[:, None] / 16
    labels = torch.tensor(found.target[: 2 * count])
    return (images[:count], labels[:count]), (images[count:], labels[count:])


def loaders(count: int = 80) -> tuple[DataLoader, DataLoader]:
    train, test = digits(count)
    return DataLoader(TensorDataset(*train), 20), DataLoader(TensorDataset(*test), 20)
