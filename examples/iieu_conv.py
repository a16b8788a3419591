"""What does IIEU-B put in place of conv-bn-relu, and does it learn? A small network on 8x8 digits.

ConvIIEU weights each response by a gate: how similar its patch and its filter are (Term-S) plus a
shift that the whole image sets (Term-B). Here its terms are read off before and after training,
beside the same network with ReLU; then the batch norms are folded away.
"""

from itertools import pairwise

import torch
from sklearn.datasets import load_digits
from torch import nn

from gatewise.layers import ConvIIEU

WIDTHS, EPOCHS, BATCH = (1, 16, 32), 6, 64


def network(unit: str) -> nn.Sequential:
    """Two convolutions and a classifier; ConvIIEU takes the place of conv, norm and ReLU."""
    layers = []
    for inputs, outputs in pairwise(WIDTHS):
        conv, norm = (
            nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        layers += [ConvIIEU(conv, norm)] if unit == "iieu_b" else [conv, norm, nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(WIDTHS[-1], 10))


def train(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> None:
    """A few epochs, with weight decay for matrices and filters only."""
    spared = {
        f"{at}.{name}"
        for at, m in model.named_modules()
        if isinstance(m, ConvIIEU)
        for name in m.no_weight_decay()
    }
    groups = {True: [], False: []}
    for name, parameter in model.named_parameters():
        groups[name in spared or parameter.dim() == 1].append(parameter)
    decay = [
        {"params": groups[False], "weight_decay": 1e-2},
        {"params": groups[True], "weight_decay": 0.0},
    ]
    optimiser = torch.optim.AdamW(decay, lr=3e-3)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(x)).split(BATCH):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
            optimiser.step()


def show_terms(layer: ConvIIEU, x: torch.Tensor, when: str) -> None:
    """What the gates of ``layer`` are made of.

    With a norm the similarity is no cosine and may leave [-1, 1].
    """
    s, nu, eta, gate = (each.detach() for each in layer.terms(x))
    print(
        f"  {when}: similarity {s.min():+.2f} to {s.max():+.2f}, shift {nu.min():.2f} to {nu.max():.2f}, "
        f"threshold {eta.mean():.3f}, gate {gate.mean():.2f} +- {gate.std():.2f}"
    )


def main() -> None:
    """Train both networks on the same batches, and print what they learned."""
    digits = load_digits()
    x = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
    y = torch.tensor(digits.target)
    train_x, test_x, train_y, test_y = x[:1400], x[1400:], y[:1400], y[1400:]
    for unit in ("relu", "iieu_b"):
        torch.manual_seed(0)
        model = network(unit)
        count = sum(p.numel() for p in model.parameters())
        print(f"{unit}: {count:,} parameters")
        if unit == "iieu_b":
            show_terms(model.eval()[0], test_x, "before")
        train(model.train(), train_x, train_y)
        with torch.no_grad():
            accuracy = (model.eval()(test_x).argmax(1) == test_y).float().mean()
        if unit == "iieu_b":
            show_terms(model[0], test_x, "after ")
        print(f"  {accuracy:.1%} of {len(test_y)} unseen digits right after {EPOCHS} epochs")
    folded = nn.Sequential(*(part.fold() if isinstance(part, ConvIIEU) else part for part in model))
    with torch.no_grad():
        print(
            f"folded: batch norms gone, outputs moved by {(folded(test_x) - model(test_x)).abs().max():.1e}"
        )


if __name__ == "__main__":
    main()
