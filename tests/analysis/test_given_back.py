"""Reconstruction behind other units than CReLU.

Responses are read from the features, then a dense pseudo-inverse.
"""

import pytest
import torch
from torch import Tensor, nn

import gatewise as gw
from gatewise.analysis.filters import InvertibleFeatures
from gatewise.errors import ArgumentError, UnknownNameError

torch_prelu = nn.PReLU(3)
torch_prelu.weight.data = torch.tensor([0.1, 0.5, 1.5])
EVERYWHERE = {
    "leaky_relu": gw.nn.LeakyReLU(slope=0.2),
    "prelu": gw.nn.PReLU(slope=0.3, channels=3),
    "elu": gw.nn.ELU(),
    "softplus": gw.nn.Softplus(),
    "smu": gw.nn.SMU(mu=2.5),
    "acon": gw.nn.ACONC(channels=3, p1=1.2, p2=0.4),
    "torch's": nn.LeakyReLU(0.2),
    "a slope a channel": torch_prelu,
    "identity": nn.Identity(),
}
POSITIVE = {
    "relu": gw.nn.ReLU(),
    "silu": gw.nn.SiLU(),
    "gelu": gw.nn.GELU(),
    "mish": gw.nn.Mish(),
    "torch's": nn.ReLU(),
}
AROUND = torch.linspace(-40, 40, 8000, dtype=torch.float64)


class Falling(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return -2 * x + x.tanh()


EVERYWHERE["falling"] = Falling()


def layer(**options) -> tuple[nn.Conv2d, Tensor, Tensor]:
    """A convolution, an input and its responses."""
    torch.manual_seed(0)
    conv, x = nn.Conv2d(2, 3, 3, padding=1, **options), torch.randn(1, 2, 6, 6, dtype=torch.float64)
    y = conv.double()(x).detach()
    conv.float()
    return conv, x, y


def roots(unit: nn.Module, channel: int, feature: float) -> list[float]:
    """All responses of a channel with this feature, by sign changes on a grid and bisection."""

    def miss(t: Tensor) -> Tensor:
        with torch.no_grad():
            return unit(t[:, None].expand(-1, 3))[:, channel] - feature

    values = miss(AROUND)
    if int((values == 0).sum()) > 1:  # flat there
        return [-torch.inf, torch.inf]
    low = AROUND[:-1][(values[:-1] > 0) != (values[1:] > 0)]
    high, sign = low + (AROUND[1] - AROUND[0]), miss(low) > 0
    for _ in range(60):
        middle = (low + high) / 2
        same = (miss(middle) > 0) == sign
        low, high = torch.where(same, middle, low), torch.where(same, high, middle)
    return low.tolist()


def rows_of(conv: nn.Conv2d, shape: torch.Size) -> Tensor:
    units = torch.eye(shape.numel(), dtype=torch.float64).reshape(-1, *shape)
    return nn.functional.conv2d(units, conv.weight.detach().double(), padding=1).flatten(1).T


def by_hand(
    conv: nn.Conv2d, x: Tensor, y: Tensor, unit: nn.Module, region: int
) -> tuple[Tensor, int]:
    """The pseudo-inverse of the rows whose features are the largest of their regions."""
    unit = unit.double()
    with torch.no_grad():
        z = unit(y)
    matrix, places, values = rows_of(conv, x.shape[1:]), [], []
    bias = conv.get_parameter("bias").tolist()
    for k in range(3):
        for i in range(0, 6, region):
            for j in range(0, 6, region):
                place = int(z[0, k, i : i + region, j : j + region].argmax())
                row, column = i + place // region, j + place % region
                found = roots(unit, k, float(z[0, k, row, column]))
                if len(found) == 1:
                    places.append(k * 36 + row * 6 + column)
                    values.append(found[0] - float(bias[k]))
    unit.float()
    known = torch.tensor(values, dtype=torch.float64)
    return (torch.linalg.pinv(matrix[places]) @ known).reshape(x.shape), len(places)


@pytest.mark.slow
@pytest.mark.parametrize("region", [1, 2])
@pytest.mark.parametrize("name", [*EVERYWHERE, *(f"{name}, positive" for name in POSITIVE)])
def test_it_is_the_pseudo_inverse_of_the_responses_that_were_read_from_the_features(
    name: str, region: int
) -> None:
    unit = POSITIVE[name.removesuffix(", positive")] if "positive" in name else EVERYWHERE[name]
    conv, x, y = layer()
    want, count = by_hand(conv, x, y, unit, region)
    found = gw.analysis.reconstruct(
        conv, x, unit=unit, pool=nn.MaxPool2d(region) if region > 1 else None
    )
    torch.testing.assert_close(found.image, want, atol=1e-6, rtol=0)
    assert found.equations.item() == count


def test_features_that_give_all_back_are_solved_in_closed_form() -> None:
    conv, x, _ = layer(padding_mode="circular")
    found = gw.analysis.reconstruct(conv, x, unit="leaky_relu")
    assert found.method == "fft" and torch.equal(
        found.image, gw.analysis.reconstruct(conv, x).image
    )
    assert gw.analysis.reconstruct(conv, x, unit="silu").method == "cg"


@pytest.mark.parametrize("name", ["crelu", "relu"])
def test_the_phases_are_what_any_unit_of_their_curve_gives_back(name: str) -> None:
    y = layer()[2]
    y[0, 0, 0, :2] = torch.tensor([0.0, 1e-12], dtype=torch.float64)
    quick = InvertibleFeatures(name, 3).parts(y)
    slow = InvertibleFeatures(gw.create_unit(name), 3).parts(y)
    for one, other in zip(quick, slow, strict=True):
        assert len(one) == len(other) and all(map(torch.equal, one, other))


def test_what_rounding_alone_tells_apart_is_not_given_back() -> None:
    _, known = InvertibleFeatures("elu", 1).parts(
        torch.tensor([[-30.0], [-2.0], [3.0]], dtype=torch.float64)
    )
    assert known[0].flatten().tolist() == [False, True, True]


def test_every_unit_of_the_catalogue_is_known_to_give_back_all_some_or_nothing() -> None:
    conv, x, _ = layer()
    given = dict.fromkeys(gw.list_units()) | {
        "acon_c": gw.nn.ACONC(channels=3, p1=1.2, p2=0.0)
    }  # which starts at random
    counts = {}
    for name, unit in given.items():
        try:
            counts[name] = gw.analysis.reconstruct(conv, x, unit=unit or name).equations.item()
        except ArgumentError:
            counts[name] = 0
    whole = {name for name, count in counts.items() if count == 108}
    rising = {"crelu", "leaky_crelu", "elu", "leaky_relu", "prelu", "smu", "smu1", "softplus"}
    rising |= {"celu", "logsigmoid", "selu", "sigmoid", "softsign", "tanh", "tanhshrink"}
    assert whole == rising | {"hardsigmoid"}  # no response is beyond 3, where it is constant
    even = {"abs", "leaky_relu2", "xielu"}  # another response has the same value
    of_several = {"frelu", "iieu_b", "maxout", "meta_acon"}
    two_branches = {"bilinear", "clamped_swiglu", "geglu", "glu", "reglu", "situ_glu", "swiglu"}
    nothing = {name for name, count in counts.items() if not count}
    assert nothing == even | of_several | two_branches | {"dyt"}


@pytest.mark.parametrize(
    ("unit", "why"),
    [
        ("abs", "each has another"),
        (gw.nn.LeakyReLU(slope=-0.5), "each has another"),
        (gw.nn.Maxout(pieces=3), "same number of features"),
        ("frelu", "more than one response"),
        (nn.Softmax(1), "more than one response"),
        (nn.Sequential(nn.BatchNorm1d(3), nn.ReLU()), "cannot be applied to responses of shape"),
        (nn.InstanceNorm2d(3), "cannot be applied"),
        (nn.LayerNorm(6), "cannot be applied"),
    ],
    ids=str,
)
def test_a_unit_that_gives_nothing_back_is_refused_with_the_reason(unit, why: str) -> None:
    conv, x, _ = layer()
    with pytest.raises(ArgumentError, match=why):
        gw.analysis.reconstruct(conv, x, unit=unit)


@pytest.mark.parametrize("kind", [nn.ReLU, nn.LeakyReLU, nn.ELU])
def test_a_module_that_works_in_place_gives_back_what_it_does_otherwise(
    kind: type[nn.Module],
) -> None:
    conv, x, _ = layer()
    found, want = (
        gw.analysis.reconstruct(conv, x, unit=kind(inplace=inplace)) for inplace in (True, False)
    )
    assert torch.equal(found.image, want.image) and torch.equal(found.equations, want.equations)


def test_a_unit_by_a_wrong_name_gets_the_nearest() -> None:
    conv, x, _ = layer()
    with pytest.raises(UnknownNameError, match="did you mean 'crelu'"):
        gw.analysis.reconstruct(conv, x, unit="crelo")


def test_the_callers_module_and_random_numbers_are_left_alone() -> None:
    conv, x, _ = layer()
    unit, state = gw.nn.PReLU(channels=3), torch.get_rng_state()
    gw.analysis.reconstruct(conv, x, unit=unit)
    gw.analysis.reconstruct(conv, x, unit="acon_c")
    assert (
        unit.slope.dtype == torch.float32
        and unit.training
        and torch.equal(state, torch.get_rng_state())
    )
