"""Watch units die in training, then revive them without changing what the network computes."""

import torch
from torch import nn
from torch.nn import functional as F

import gatewise as gw


def train(model: nn.Module, x: torch.Tensor, y: torch.Tensor, lr: float, steps: int) -> float:
    """Train on one batch, and return the last loss."""
    optimizer = torch.optim.SGD(model.parameters(), lr)
    for _ in range(steps):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def main() -> None:
    """Print the numbers of dead units, and the receipt of the revival."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2)
    )
    x = torch.randn(512, 8)
    y = (x[:, 0] * x[:, 1] > 0).long()
    with gw.GateMonitor(model, x) as monitor:
        print(f"{dead(monitor)} dead units at the start")
        train(model, x, y, lr=20.0, steps=3)  # far too large a rate
        print(f"{dead(monitor)} dead units after three steps with a rate of 20")
        before = model(x)
        receipt = gw.revive(model, x)
        print(receipt)
        change = (model(x) - before).abs().max().item()
        print(f"{change:.0e} largest change of the output")
        print(f"{dead(monitor)} dead units now")
    loss = train(model, x, y, lr=0.1, steps=300)
    print(f"{loss:.2f} loss after 300 more steps")


def dead(monitor: gw.GateMonitor) -> int:
    """Measure, and return the number of dead units."""
    return sum(len(site.dead) for site in monitor.measure().sites)


if __name__ == "__main__":
    main()
