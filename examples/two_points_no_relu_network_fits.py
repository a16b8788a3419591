"""Can a network learn that f(x) = 1 and f(2x) = -1? No ReLU network without bias can.

One whose gates differ can.

Hard gates that a bias-free network sets are the same for x and for 2x, so the output doubles with
the input: the best values v and 2v lose (v - 1)^2 + (2v + 1)^2, at least 9/5, at v = -1/5. The path
view says it in one number: the hidden features of the two points, one entry for each path, are the
same up to the factor 2, so that their Gram matrix has rank 1. Gates drawn for each example, and
gates that open softly, tell the points apart.
"""

import torch

import gatewise as gw
from gatewise_papers import deep_gated

X = torch.tensor([[0.6, -0.8, 0.3], [1.2, -1.6, 0.6]], dtype=torch.float64)
Y = torch.tensor([1.0, -1.0], dtype=torch.float64)
STEPS = 600


def make(gate: str) -> deep_gated.DeepGatedNetwork:
    """A network of depth 3 and width 32."""
    examples = {"examples": len(X)} if gate == "random" else {}
    generator = torch.Generator().manual_seed(0)
    return deep_gated.DeepGatedNetwork(
        3, 32, 3, gate=gate, dtype=torch.float64, generator=generator, **examples
    )


def loss_after_training(model: deep_gated.DeepGatedNetwork, index: torch.Tensor | None) -> float:
    """Squared error over the two points, by Adam from where the model stands."""
    optimiser = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.01)
    loss = torch.zeros(())
    for _ in range(STEPS):
        optimiser.zero_grad()
        loss = (model(X, index)[:, 0] - Y).square().sum()
        loss.backward()
        optimiser.step()
    return loss.item()


def main() -> None:
    """Train a network of each kind and print what it loses, with the rank of its hidden features."""
    print(f"{'gate':10} {'loss':>8}   rank of the two points' hidden features")
    for gate in ("linear", "relu", "galu", "random", "soft_relu", "soft_galu"):
        model = make(gate)
        index = torch.arange(len(X)) if gate == "random" else None
        loss = loss_after_training(model, index)
        kernel = deep_gated.path_kernel(model, X, kind="features", index=index)
        print(f"{gate:10} {loss:8.4f}   {torch.linalg.matrix_rank(kernel, hermitian=True).item()}")
    print(f"no output that doubles with its input loses less than 9/5 = {9 / 5:.4f}")


if __name__ == "__main__":
    main()
