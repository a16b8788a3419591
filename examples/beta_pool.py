"""Max or average? Let a pool learn its beta, from targets whose pooling is known."""

import torch
from torch.nn import functional as F

from gatewise.layers import BetaPool2d


def learn(target: torch.Tensor, maps: torch.Tensor, steps: int = 200) -> tuple[torch.Tensor, float]:
    """The betas, one per channel, that a pool finds from 0.5, and its final mean squared error."""
    pool = BetaPool2d(2, learn_beta=True, channels=maps.shape[1])
    optimiser = torch.optim.Adam(pool.parameters(), lr=0.1)
    for _ in range(steps):
        loss = (pool(maps) - target).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return pool.beta.detach(), loss.item()


def main() -> None:
    """Print the answer."""
    torch.manual_seed(0)
    maps = torch.randn(32, 4, 16, 16)

    ends = {1.0: F.max_pool2d(maps, 2), 0.0: F.avg_pool2d(maps, 2)}
    for beta, torchs in ends.items():
        difference = (BetaPool2d(2, beta=beta)(maps) - torchs).abs().max()
        print(f"{difference:.0e} largest difference from torch's own pool at beta={beta:.0f}")

    kinds = ("max", "average", "softmax", "beta = 0.8")
    pools = (F.max_pool2d, F.avg_pool2d, BetaPool2d(2, beta=0.5), BetaPool2d(2, beta=0.8))
    parts = [pool(maps[:, [i]], 2) if i < 2 else pool(maps[:, [i]]) for i, pool in enumerate(pools)]
    betas, error = learn(torch.cat(parts, 1), maps)
    print(f"{error:.1e} mean squared error after training one beta per channel, all from 0.5")
    for kind, beta in zip(kinds, betas.tolist(), strict=True):
        print(f"{beta:.3f} is the beta found where the target was pooled by {kind}")


if __name__ == "__main__":
    main()
