"""Does a gated layer learn more than a plain one when both have the same number of parameters?

Two-layer networks fit a product of inputs, which a gate can form directly, and a sum of bumps,
which it cannot. The gated ones are narrower, so that none has more parameters than the plain ReLU
network. One seed: a look, not a proof.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from gatewise_papers.deep_gated import GatedLinear, matched_width

INPUTS, HIDDEN, EXAMPLES, STEPS = 8, 48, 512, 400
FAMILY = {
    "GLU": "sigmoid",
    "bilinear": "identity",
    "ReGLU": "relu",
    "GEGLU": "gelu",
    "SwiGLU": "silu",
}


def products(x: Tensor) -> Tensor:
    """Sums of products of pairs of inputs."""
    return (x[:, ::2] * x[:, 1::2]).sum(1, keepdim=True) / 2


def bumps(x: Tensor) -> Tensor:
    """Sums of one curve per input."""
    return torch.sin(2 * x).sum(1, keepdim=True) / 2


def plain() -> nn.Module:
    """Linear, ReLU, linear."""
    return nn.Sequential(nn.Linear(INPUTS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1))


def gated(gate: str) -> nn.Module:
    """A gated layer and a linear one, at the width that the plain network's parameters allow."""
    width = matched_width(INPUTS, HIDDEN, 1, gate=gate)
    return nn.Sequential(GatedLinear(INPUTS, width, gate=gate), nn.Linear(width, 1))


def error_after_training(model: nn.Module, target: Callable[[Tensor], Tensor]) -> float:
    """Mean squared error on new points after training, in units of the target's variance."""
    generator = torch.Generator().manual_seed(0)
    x, new = (torch.randn(EXAMPLES, INPUTS, generator=generator) for _ in range(2))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        optimiser.zero_grad()
        (model(x) - target(x)).square().mean().backward()
        optimiser.step()
    with torch.no_grad():
        return ((model(new) - target(new)).square().mean() / target(new).var()).item()


def main() -> None:
    """Print one row per network: its size, and what it leaves unexplained of each target."""
    print(
        f"{'network':10} {'hidden':>6} {'parameters':>10} {'products':>9} {'bumps':>9}   (share of variance left)"
    )
    for name in ("ReLU", *FAMILY):
        errors = []
        for target in (products, bumps):
            torch.manual_seed(0)
            model = gated(FAMILY[name]) if name in FAMILY else plain()
            errors.append(error_after_training(model, target))
        size = sum(p.numel() for p in model.parameters())
        print(f"{name:10} {model[-1].in_features:6} {size:10} {errors[0]:9.3f} {errors[1]:9.3f}")


if __name__ == "__main__":
    main()
