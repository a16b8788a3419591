"""Reconstruction in a diagnosis behind the unit that the model itself has."""

import pytest
import torch
from torch import Tensor, nn

import gatewise as gw


class Functional(nn.Module):
    """A unit that is called and no module; in place, to see that nothing is written into."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, 6, 3, padding=1), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        y = nn.functional.leaky_relu(self.conv(x), 0.2, inplace=True)
        return self.head(nn.functional.max_pool2d(y, 2).mean((2, 3)))


def modular(unit: nn.Module) -> nn.Module:
    tail = (nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 2))
    return nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), unit, *tail)


def sloped() -> nn.PReLU:
    unit = nn.PReLU(6)
    unit.weight.data = torch.linspace(0.05, 0.8, 6)
    return unit


torch.manual_seed(0)
CASES = {
    "functional": (Functional(), "conv", nn.LeakyReLU(0.2)),
    "module": (modular(nn.LeakyReLU(0.1)), "0", nn.LeakyReLU(0.1)),
    "slopes": (modular(unit := sloped()), "0", unit),
    "catalogue": (modular(gw.nn.Swish(channels=6)), "0", gw.nn.Swish(channels=6)),
    "gelu": (modular(nn.GELU()), "0", nn.GELU()),
}


@pytest.mark.parametrize("case", CASES)
def test_the_units_own_loss_is_that_of_the_unit_alone(case: str) -> None:
    model, path, unit = CASES[case]
    x = torch.randn(4, 3, 8, 8)
    found = gw.diagnose(model, x, questions=["reconstruction"])["reconstruction"]
    conv = model.get_submodule(path)
    want = gw.analysis.reconstruct(conv, x, unit=unit, pool=nn.MaxPool2d(2), tolerance=1e-7)
    assert found.facts["per_image"]["own_pooled"] == pytest.approx(want.ratio.tolist(), abs=1e-6)
    assert f"from the model's {found.facts['unit']} by" in found.line


@pytest.mark.parametrize(
    "unit", [nn.ReLU(), gw.nn.Abs()], ids=["asked anyway", "gives nothing back"]
)
def test_there_is_no_row_of_its_own_where_it_would_say_nothing_more(unit: nn.Module) -> None:
    found = gw.diagnose(modular(unit), torch.randn(4, 3, 8, 8), questions=["reconstruction"])[
        "reconstruction"
    ]
    assert (
        not [name for name in found.facts["ratios"] if name.startswith("own")]
        and "The model's" not in found.line
    )


class SameSize(nn.Conv2d):
    """Pads its input itself, and has arguments of its own, as the convolutions of EfficientNet."""

    def __init__(self, before: int, after: int, *, size: int) -> None:
        super().__init__(before, after, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(nn.functional.pad(x, (1, 1, 1, 1)))


class Centred(nn.Conv2d):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.conv2d(x, self.weight - self.weight.mean(), self.bias)


def test_a_convolution_of_the_users_class_is_reconstructed() -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 3, 8, 8)
    model = modular(nn.LeakyReLU(0.1))
    model[0] = SameSize(3, 6, size=3)
    found = gw.diagnose(model, x, questions=["reconstruction"])["reconstruction"]
    assert found.state == "answered", found.line
    want = gw.analysis.reconstruct(model[0], x, unit="relu", pool=nn.MaxPool2d(2), tolerance=1e-7)
    assert found.facts["per_image"]["relu_pooled"] == pytest.approx(want.ratio.tolist(), abs=1e-6)
    model[0] = Centred(3, 6, 3)
    found = gw.diagnose(model, x, questions=["reconstruction"])["reconstruction"]
    assert found.state == "does not apply"
