"""Small networks whose paths can all be walked, shared by the tests of path analysis."""

import torch
from gatewise_papers import deep_gated
from torch import Tensor, nn

N = 4
GATES = ("linear", "random", "relu", "galu", "soft_relu", "soft_galu")
HARD = ("linear", "random", "relu", "galu")
CONVOLUTIONS = {
    "circular, averaged": {"kernel_size": 2, "padding": "circular", "head": "average"},
    "padded, flattened": {"kernel_size": 3, "padding": "zeros", "head": "flatten"},
    "shrinking, averaged": {"kernel_size": 2, "padding": "none", "head": "average", "dense": (2,)},
}


def index_for(gate: str) -> Tensor | None:
    return torch.arange(N) if gate == "random" else None


def dense(gate: str) -> tuple[nn.Module, Tensor]:
    extra = {"examples": N} if gate == "random" else {}
    model = deep_gated.DeepGatedNetwork(
        3, (4, 5, 2), 4, gate=gate, d_out=2, dtype=torch.float64, **extra
    )
    return model, torch.randn(N, 3, dtype=torch.float64)


def convolutional(gate: str, which: str) -> tuple[nn.Module, Tensor]:
    options = dict(CONVOLUTIONS[which], **({"examples": N} if gate == "random" else {}))
    model = deep_gated.DeepGatedConvNetwork(
        (2, 3, 3), (2, 3), gate=gate, d_out=2, dtype=torch.float64, **options
    )
    return model, torch.randn(N, 2, 3, 3, dtype=torch.float64)


def plain(unit: nn.Module) -> list[tuple[nn.Module, Tensor]]:
    """Plain networks with all that the path view reads.

    Groups, strides, holes, pools before and behind gates.
    """
    grouped = nn.Sequential(
        nn.Conv2d(4, 4, 2, groups=2, bias=False),
        unit,
        nn.Conv2d(4, 2, 2, groups=2, bias=False),
        unit,
        nn.Flatten(),
        nn.Linear(8, 2, bias=False),
        unit,
        nn.Linear(2, 1, bias=False),
    )
    pooled = nn.Sequential(
        nn.Conv2d(2, 3, 2, padding=1, bias=False),
        unit,
        nn.AvgPool2d(2, stride=1),
        unit,
        nn.Conv2d(3, 2, 2, stride=2, dilation=1, bias=False),
        nn.Flatten(),
        unit,
        nn.Linear(2, 2, bias=False),
    )
    ungated = nn.Sequential(
        nn.Conv1d(2, 2, 2, bias=False),
        nn.Conv1d(2, 4, 2, groups=2, bias=False),
        unit,
        nn.AvgPool1d(2),
        nn.Conv1d(4, 2, 1, groups=2, bias=False),
        unit,
        nn.Flatten(),
        nn.Linear(2, 1, bias=False),
    )
    lemma = nn.Sequential(
        nn.Conv1d(1, 1, 2, padding="same", padding_mode="circular", bias=False),
        unit,
        nn.Conv1d(1, 1, 2, padding="same", padding_mode="circular", bias=False),
        unit,
        nn.AdaptiveAvgPool1d(1),
        nn.Flatten(),
    )
    image = nn.Sequential(
        nn.Flatten(), nn.Linear(4, 3, bias=False), unit, nn.Linear(3, 1, bias=False)
    )
    shapes = ((4, 4, 4), (2, 2, 3), (2, 4), (1, 4), (1, 2, 2))
    models = (grouped, pooled, ungated, lemma, image)
    return [
        (m.double(), torch.randn(N, *s, dtype=torch.float64))
        for m, s in zip(models, shapes, strict=True)
    ]
