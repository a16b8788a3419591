"""Max-affine networks of every kind, in float64 and eval mode, each with inputs it takes."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import gatewise as gw


class Residual(nn.Module):
    """Functional ReLU in place, one module called twice, a sum and a concatenation."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.norm, self.head = nn.BatchNorm2d(4), nn.Linear(8, 3)
        self.unit = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.unit(self.first(x))
        y = self.norm(self.second(x))
        F.relu_(y)
        y = F.relu(x - y, inplace=True)
        return self.head(torch.cat((self.unit(y - 0.1).mean((2, 3)), x.amax((2, 3))), 1))


def _trained_norms(model: nn.Module) -> nn.Module:
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d | nn.BatchNorm1d):
            nn.init.normal_(module.running_mean, std=0.3)
            nn.init.uniform_(module.running_var, 0.5, 2.0)
            nn.init.normal_(module.weight)
            nn.init.normal_(module.bias)
    return model


def _build() -> dict[str, tuple[nn.Module, tuple[int, ...]]]:
    def conv(channels: int, filters: int) -> nn.Conv2d:
        return nn.Conv2d(channels, filters, 3, padding=1)

    def dense(first: nn.Module, second: nn.Module) -> nn.Sequential:
        return nn.Sequential(nn.Linear(5, 8), first, nn.Linear(8, 8), second, nn.Linear(8, 3))

    pooled = (
        conv(1, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        conv(3, 3),
        nn.LeakyReLU(0.2),
        nn.AvgPool2d(2),
    )
    odd = nn.MaxPool2d(3, stride=2, padding=1, ceil_mode=True)
    return {
        "relu": (dense(nn.ReLU(), nn.ReLU(inplace=True)), (5,)),
        "leaky": (dense(nn.LeakyReLU(0.1), gw.nn.LeakyReLU(slope=-0.5)), (5,)),
        "abs": (dense(gw.nn.Abs(), gw.nn.Abs()), (5,)),
        "prelu": (dense(nn.PReLU(8, init=0.3), nn.PReLU(init=1.5)), (5,)),
        "our prelu": (dense(gw.nn.PReLU(channels=8), gw.nn.PReLU(slope=-0.3)), (5,)),
        "relu6": (dense(nn.ReLU6(), nn.Hardtanh(-0.2, 0.4)), (5,)),
        "shrinks": (dense(nn.Softshrink(0.2), nn.Hardshrink(0.1)), (5,)),
        "maxout": (nn.Sequential(nn.Linear(5, 12), gw.nn.Maxout(pieces=3), nn.Linear(4, 3)), (5,)),
        "crelu": (
            nn.Sequential(
                nn.Linear(5, 6), gw.nn.CReLU(), nn.Linear(12, 4), gw.nn.CReLU(), nn.Linear(8, 3)
            ),
            (5,),
        ),
        "batch norm": (
            nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)),
            (5,),
        ),
        "pools": (nn.Sequential(*pooled, nn.Flatten(), nn.Linear(12, 3)), (1, 8, 8)),
        "odd pool": (
            nn.Sequential(conv(2, 3), odd, nn.ReLU(), nn.Flatten(), nn.Linear(27, 2)),
            (2, 5, 5),
        ),
        "residual": (Residual(), (2, 4, 4)),
    }


def networks(seed: int = 0) -> dict[str, tuple[nn.Module, tuple[int, ...]]]:
    """Name: the network, and the shape of one input."""
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        return {
            name: (_trained_norms(model).double().eval(), shape)
            for name, (model, shape) in _build().items()
        }


NAMES = tuple(_build())
