"""CReLU is put in front of einsum, bilinear layers and shuffles, and the function is kept."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import gatewise as gw


class Einsum(nn.Module):
    """A linear layer, ReLU, and an einsum with a stored tensor."""

    def __init__(self, equation: str, *shape: int) -> None:
        super().__init__()
        self.first = nn.Linear(5, 8)
        self.weight = nn.Parameter(torch.randn(*shape))
        self.equation = equation

    def forward(self, x: Tensor) -> Tensor:
        return torch.einsum(self.equation, functional.relu(self.first(x)), self.weight)


class EinsumBefore(nn.Module):
    """An einsum makes the tensor that the residual stream adds to the widened one."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(5, 8))
        self.first = nn.Linear(5, 8)
        self.last = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        stream = torch.einsum("nc,cd->nd", x, self.weight)
        return self.last(functional.relu(self.first(x)) + stream)


class Passed(nn.Module):
    """An einsum over the positions passes the widened channels on to a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(5, 8)
        self.mix = nn.Parameter(torch.randn(4, 6))
        self.scale = nn.Parameter(torch.randn(8))
        self.last = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        hidden = functional.relu(self.first(x))
        mixed = torch.einsum("ntc,ts,c->nsc", hidden, self.mix, self.scale)
        return self.last(mixed)


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Linear(5, 6)
        self.right = nn.Linear(5, 8)
        self.last = nn.Bilinear(6, 8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(functional.relu(self.left(x)), functional.relu(self.right(x)))


def shuffled(shuffle: nn.Module, channels: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), shuffle, nn.Conv2d(channels, 5, 1)
    )


NETWORKS = {
    "einsum last": (lambda: Einsum("nc,cd->nd", 8, 3), (4, 5), 1),
    "einsum transposed": (lambda: Einsum("...c,dc->...d", 3, 8), (2, 4, 5), 1),
    "einsum passed on": (Passed, (2, 4, 5), 1),
    "einsum before": (EinsumBefore, (4, 5), 1),
    "bilinear": (TwoInputs, (4, 5), 2),
    "pixel shuffle": (lambda: shuffled(nn.PixelShuffle(2), 4), (2, 3, 6, 6), 1),
    "pixel unshuffle": (lambda: shuffled(nn.PixelUnshuffle(2), 64), (2, 3, 6, 6), 1),
    "channel shuffle": (lambda: shuffled(nn.ChannelShuffle(4), 16), (2, 3, 6, 6), 1),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_crelu_keeps_the_function(name: str) -> None:
    build, shape, sites = NETWORKS[name]
    torch.manual_seed(0)
    model = build().double().eval()
    example = torch.randn(*shape, dtype=torch.float64)
    swapped = gw.swap(model, "crelu", example, preserve=True, policy="streams")
    assert len(gw.receipt(swapped).sites) == sites
    other = torch.randn(*shape, dtype=torch.float64)
    torch.testing.assert_close(swapped(other), model(other), rtol=1e-12, atol=1e-12)
    sizes = sum(parameter.numel() for parameter in swapped.parameters())
    assert sizes > sum(parameter.numel() for parameter in model.parameters())


def test_a_product_of_two_computed_tensors_is_refused() -> None:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(5, 8)
            self.second = nn.Linear(5, 8)

        def forward(self, x: Tensor) -> Tensor:
            hidden = functional.relu(self.first(x))
            return torch.einsum("nc,mc->nm", hidden, self.second(x))

    with pytest.raises(gw.errors.ArgumentError, match="product of two activations"):
        gw.plan(Attention(), "crelu", torch.randn(4, 5), preserve=True)


def test_a_product_of_one_widened_tensor_with_itself_is_refused() -> None:
    class Gram(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(5, 8)

        def forward(self, x: Tensor) -> Tensor:
            hidden = functional.relu(self.first(x))
            return torch.einsum("nc,mc->nm", hidden, hidden)

    with pytest.raises(gw.errors.ArgumentError, match="product of two activations"):
        gw.plan(Gram(), "crelu", torch.randn(4, 5), preserve=True)
