"""Do orthogonal filters help a small network, and what do they cost?

A convolution network learns the 8x8 digits of scikit-learn: as it is, with the penalty, and with
filters that are orthonormal by construction. Reported: the largest cosine between two filters of a
layer, test accuracy over two seeds, and training time.
"""

import time

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F

import gatewise as gw
from gatewise.layers import orthogonal, orthogonality_penalty

SEEDS, EPOCHS, BATCH = 2, 20, 50


def network(exact: bool) -> nn.Sequential:
    """Three convolutions.

    The first has 8 filters of 9 numbers: more than 9 could not be orthogonal.
    """
    make = (lambda layer: orthogonal(layer, gain=True)) if exact else (lambda layer: layer)
    return nn.Sequential(
        make(nn.Conv2d(1, 8, 3, padding=1)),
        gw.create_unit("swish"),
        make(nn.Conv2d(8, 32, 3, stride=2, padding=1)),
        gw.create_unit("swish"),
        make(nn.Conv2d(32, 64, 3, stride=2, padding=1)),
        gw.create_unit("swish"),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    )


def coherence(model: nn.Module) -> float:
    """The largest cosine, by magnitude, between two filters of one convolution."""
    layers = [m for m in model.modules() if isinstance(m, nn.Conv2d)]
    rows = [F.normalize(layer.weight.detach().flatten(1)) for layer in layers]
    return max((r @ r.mT - torch.eye(len(r))).abs().max().item() for r in rows)


def train(
    exact: bool, penalty: float, seed: int, data: tuple[Tensor, ...]
) -> tuple[float, float, float]:
    """Coherence, test accuracy in percent, and seconds."""
    torch.manual_seed(seed)
    x, y, x_test, y_test = data
    model = network(exact)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    start = time.process_time()
    for _ in range(EPOCHS):
        for part in torch.randperm(len(x)).split(BATCH):
            loss = F.cross_entropy(model(x[part]), y[part])
            if penalty:
                loss = loss + orthogonality_penalty(model, weight=penalty)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    seconds = time.process_time() - start
    right = (model(x_test).argmax(1) == y_test).float().mean().item()
    return coherence(model), 100 * right, seconds


def main() -> None:
    """Train each kind and print one line of it."""
    torch.set_num_threads(1)
    images, labels = load_digits(return_X_y=True)
    x, y = torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16, torch.tensor(labels)
    data = (x[:500], y[:500], x[500:], y[500:])
    plain = None
    for name, exact, penalty in (
        ("plain", False, 0.0),
        ("penalty", False, 1e-2),
        ("exact", True, 0.0),
    ):
        runs = torch.tensor([train(exact, penalty, seed, data) for seed in range(SEEDS)])
        largest, accuracy, seconds = runs.mean(0).tolist()
        plain = plain or seconds
        print(
            f"{name:8} coherence {largest:.1e}   accuracy {accuracy:.1f} %   time {seconds / plain:.2f} x plain"
        )


if __name__ == "__main__":
    main()
