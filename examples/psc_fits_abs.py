"""Can one layer learn |x|? Not after a rectifier.

With one weight per sign it can, and at no greater size.

A rectified linear model ``w [x]+ + b`` can lose no less than 2/15 of the squared error on [-1, 1],
however it is trained. A phase selective layer loses nothing. A static one finds, by itself, outputs
for both signs, and deploys to a plain layer's size.
"""

import torch
from torch import nn

import gatewise as gw
from gatewise.layers import PSLinear
from gatewise_papers.psc import StaticPSLinear, anneal_splits

X = torch.linspace(-1, 1, 513).unsqueeze(1)


def integral_loss(model: nn.Module) -> torch.Tensor:
    """Squared error to |x|, integrated over [-1, 1]; several outputs of a layer are added up."""
    error = (model(X).sum(1) - X[:, 0].abs()).square()
    return torch.trapezoid(error, X[:, 0])


def train(model: nn.Module, steps: int = 800, anneal: bool = False) -> None:
    """Minimise the loss; cool the model's learned splits on the way if told to."""
    optimiser = torch.optim.Adam(model.parameters(), lr=0.05)
    for step in range(steps):
        if anneal:
            anneal_splits(model, step / steps)
        optimiser.zero_grad()
        integral_loss(model).backward()
        optimiser.step()
    model.eval()


def count(model: nn.Module) -> int:
    """How many numbers are trained."""
    return sum(p.numel() for p in model.parameters())


def main() -> None:
    """Train the three models and print what each loses."""
    torch.manual_seed(0)
    plain = nn.Sequential(gw.nn.ReLU(), nn.Linear(1, 1))
    selective = PSLinear(1, 1)
    static = StaticPSLinear(1, 4)
    with torch.no_grad():
        static.split_logits[4] = (
            2.0  # begin, against its interest, with all outputs on the positive side
        )
    train(plain)
    train(selective)
    train(static, anneal=True)
    deployed = static.deploy()

    print(
        f"lost by w [x]+ + b       {integral_loss(plain):.6f}   (no less than 2/15 = {2 / 15:.6f})"
    )
    print(
        f"lost by PSLinear         {integral_loss(selective):.6f}   W+ = {selective.weight.item():+.3f}, "
        f"W- = {selective.weight_neg.item():+.3f}"
    )
    print(
        f"lost by StaticPSLinear   {integral_loss(deployed):.6f}   {deployed.boundary()} of 4 outputs positive"
    )
    print(
        f"parameters: {count(static)} while it learns its split, {count(deployed)} deployed, "
        f"{count(nn.Linear(1, 4))} in a plain layer"
    )
    print(f"deployed output is bit-equal: {torch.equal(deployed(X), static(X))}")


if __name__ == "__main__":
    main()
