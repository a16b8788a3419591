"""Properties against answers known by hand, constants against another optimiser, propositions."""

import json
import math
from pathlib import Path

import pytest
import torch
from gatewise_papers import iieu
from loops import for_each
from scipy import optimize, special
from torch import Tensor, nn

import gatewise as gw
from gatewise.errors import ArgumentError
from gatewise.units.contract import registered_units

DOCS = Path(__file__).parents[3] / "docs" / "properties.md"


def identity(x: Tensor) -> Tensor:
    return 1.0 * x


KNOWN = {  # selective, monotone, constrained negative, preserved positive, discriminate: by hand
    "relu": "yyyyy",
    "silu": "yyyyy",
    "gelu": "yyyyy",
    "mish": "yyyyy",
    "elu": "yyyyy",
    "leaky_relu": "yynyy",
    "abs": "yynyy",
    "softplus": "ynyyy",  # its weight has a pole at 0, beyond which it falls to 1
    "acon_c": "ynnyy",  # slopes -0.3 and 1.2: the weight crosses 0
    "iieu_b": "yyyny",  # at fixed lengths its positive side is a parabola
    identity: "nynyn",
    torch.tanh: "ynyyn",
    torch.square: "ynnny",
    torch.sigmoid: "ynyyn",
}


@pytest.mark.parametrize(
    "given", KNOWN, ids=lambda given: given if isinstance(given, str) else given.__name__
)
def test_what_is_known_by_hand(given) -> None:
    options = {"p1": 1.2, "p2": -0.3} if given == "acon_c" else {}
    assert (
        "".join("y" if each.holds else "n" for each in iieu.properties(given, **options).all)
        == KNOWN[given]
    )


def least_of(function, low: float, high: float) -> float:
    return optimize.minimize_scalar(
        function, bounds=(low, high), method="bounded", options={"xatol": 1e-10}
    ).fun


def test_constants_are_those_of_another_optimiser() -> None:
    silu, gelu = iieu.properties("silu"), iieu.properties("gelu")
    assert silu.constrained_negative.constants["M"] == pytest.approx(
        -least_of(lambda x: x * special.expit(x), -5, 0)
    )
    assert silu.constrained_negative.constants["M"] == pytest.approx(
        float(special.lambertw(1 / math.e).real)
    )

    def silu_slope(x: float) -> float:
        gate = special.expit(x)
        return gate * (1 + x * (1 - gate))

    def gelu_slope(x: float) -> float:
        return special.ndtr(x) + x * math.exp(-x * x / 2) / math.sqrt(2 * math.pi)

    assert silu.preserved_positive.constants["M"] == pytest.approx(
        -least_of(lambda x: -silu_slope(x), 0, 5)
    )
    assert gelu.constrained_negative.constants["M"] == pytest.approx(
        -least_of(lambda x: x * special.ndtr(x), -5, 0)
    )
    assert gelu.preserved_positive.constants["M"] == pytest.approx(
        -least_of(lambda x: -gelu_slope(x), 0, 5)
    )
    assert gelu.preserved_positive.constants["M"] == pytest.approx(
        gelu_slope(math.sqrt(2))
    )  # where its slope is flat
    assert iieu.properties("elu").constrained_negative.constants["M"] == pytest.approx(1)
    assert iieu.properties("softplus").constrained_negative.constants["M"] == pytest.approx(
        math.log(2)
    )
    assert iieu.properties("iieu_b").constrained_negative.constants["M"] == pytest.approx(
        1 / 16
    )  # at -1/4 (FORMULAS 1.6)


@for_each("name", ["silu", "gelu", "mish", "elu", "pserf", "erfact", "leaky_relu", "abs"])
def test_discriminating_constants_hold_for_random_pairs(name: str) -> None:
    found = iieu.properties(name)
    eta, apart, delta = (found.discriminate.constants[key] for key in ("eta", "epsilon", "delta"))
    f = gw.get_unit(name).module().double()
    generator = torch.Generator().manual_seed(0)
    span = torch.rand(2, 20000, generator=generator, dtype=torch.float64) * 8 - 4
    x, y = eta + span[0].exp() / 10, eta - span[1].exp() / 10
    far = (x - y > apart) & (x != 0) & (y != 0)
    with torch.no_grad():
        gap = (f(x[:, None])[:, 0] / x - f(y[:, None])[:, 0] / y)[far]
    assert len(gap) > 1000 and float(gap.min()) >= delta - 1e-6
    assert float(gap.min()) <= 3 * delta + 0.05  # and the constant is not idle


def test_witnesses_witness() -> None:
    found = iieu.properties(torch.tanh)
    at = found.monotone.witness
    assert at["x"] > at["y"] and abs(at["rho(x)"]) < abs(at["rho(y)"])
    assert at["rho(x)"] == pytest.approx(math.tanh(at["x"]) / at["x"])
    square = iieu.properties(torch.square)
    assert square.preserved_positive.witness["f'(x)"] == pytest.approx(
        2 * square.preserved_positive.witness["x"]
    )
    pair = iieu.properties("silu").selective.constants
    assert pair["rho(x)"] != pair["rho(y)"] and pair["x"] * pair["y"] != 0


def test_proposition_1_selective_is_nonlinear() -> None:
    u, v = (
        torch.linspace(-3, 3, 40, dtype=torch.float64),
        torch.linspace(-2.9, 3.1, 40, dtype=torch.float64).flip(0),
    )
    for given in (
        identity,
        torch.tanh,
        torch.square,
        torch.relu,
        torch.sigmoid,
        lambda x: -0.3 * x,
    ):
        additive = torch.allclose(given(u + v), given(u) + given(v))
        assert iieu.properties(given).selective.holds != additive


def test_propositions_2_and_3_hold_and_the_absolute_value_shows_what_2_needs() -> None:
    for name, unit in registered_units().items():
        if unit.fact("channel_ratio") != 1:
            continue
        found = iieu.properties(name, **({"p1": 1.2, "p2": -0.3} if name == "acon_c" else {}))
        if found.monotone.holds and name != "abs":
            assert found.premises["2: the weight has one sign"], name
        if found.premises["3: f(-inf) = 0"]:
            assert found.constrained_negative.holds, name
    corner = iieu.properties("abs")
    assert corner.monotone.holds and not corner.premises["2: the weight has one sign"]


def test_a_bounded_growing_weight_with_steep_steps_breaks_the_proof_of_proposition_4() -> None:
    def stairs(x: Tensor) -> Tensor:
        weight = sum(
            2.0**-k * torch.sigmoid(10.0 ** (k / 2) * (x - 10.0**k).clamp(-1e3, 1e3))
            for k in range(9)
        )
        return x * weight

    found = iieu.properties(stairs)
    assert found.monotone.holds and found.premises["4: the weight is bounded"]
    assert not found.preserved_positive.holds


def test_trained_numbers_of_a_module_count() -> None:
    unit = gw.nn.Swish()
    assert iieu.properties(unit).monotone.holds
    with torch.no_grad():
        unit.beta.fill_(-1.0)
    turned = iieu.properties(unit)
    assert not turned.monotone.holds and not turned.constrained_negative.holds
    assert unit.beta.dtype == torch.float32
    assert iieu.properties(nn.Hardswish()).preserved_positive.constants["M"] == pytest.approx(1.5)


def test_records_print_save_and_draw() -> None:
    found = iieu.properties("gelu")
    json.dumps(found.to_dict(), allow_nan=False)
    assert (
        "preserved positive influence" in repr(found)
        and "<pre>" in found._repr_html_()
        and found.plot() is not None
    )


def test_what_is_not_a_scalar_function_is_said() -> None:
    with pytest.raises(ArgumentError, match="several numbers"):
        iieu.properties("crelu")
    with pytest.raises(ArgumentError, match="did you mean 'relu'"):
        iieu.properties("rellu")
    with pytest.raises(ArgumentError, match="depends on other inputs than its own"):
        iieu.properties(lambda x: x - x.mean())
    with pytest.raises(ArgumentError, match="cannot be called"):
        iieu.properties(nn.Linear(3, 3))
    with pytest.raises(ArgumentError, match="not a function"):
        iieu.properties(3.0)


def test_the_documented_table_is_what_the_units_say() -> None:
    assert iieu.property_table() in DOCS.read_text(), (
        "write iieu.property_table() to docs/properties.md"
    )


@for_each("seed", range(4))
def test_neutralisation_is_the_paper_s_equation_10_after_a_householder_rotation(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    size = 5
    w, mean = torch.randn(2, size, generator=generator, dtype=torch.float64)
    half = torch.randn(size, size, generator=generator, dtype=torch.float64)
    covariance = half @ half.T
    covariance = (covariance + covariance.T) / 2
    length, last = w.norm(), torch.eye(size, dtype=torch.float64)[-1]
    h = (w - length * last) / (w - length * last).norm()
    turn = torch.eye(size, dtype=torch.float64) - 2 * torch.outer(h, h)
    mu, sigma = turn @ mean, turn @ covariance @ turn.T
    kx, ky = 0.7 / length, -1.1 / length
    slope = sigma[:-1, -1] / sigma[-1, -1]
    printed = (
        ky**2 - kx**2 + (slope * (ky - kx) * (2 * mu[:-1] + slope * (ky + kx - 2 * mu[-1]))).sum()
    )
    found = iieu.neutralisation(w, mean, covariance, 0.7, 1.1, samples=200_000, seed=seed)
    assert found.margin == pytest.approx(float(printed), rel=1e-9, abs=1e-9)
    for closed, sampled in zip(found.influence, found.sampled, strict=True):
        assert sampled == pytest.approx(closed, rel=0.01)
    assert found.influence[1] ** 2 - found.influence[0] ** 2 == pytest.approx(
        found.margin, rel=1e-6, abs=1e-9
    )
    assert 0 <= found.outweighed <= 1 and found.plot() is not None and "influence" in repr(found)


def test_independent_features_are_always_neutralised_and_bad_arguments_are_said() -> None:
    one = iieu.neutralisation(
        torch.tensor([2.0]), torch.tensor([5.0]), torch.tensor([[3.0]]), 1.0, 1.0
    )
    assert one.neutralises and one.influence == pytest.approx((0.5, 0.5))
    assert iieu.neutralisation(
        torch.tensor([0.0, 1.0]), torch.zeros(2), torch.eye(2), 1.0, 2.0
    ).neutralises
    with pytest.raises(ArgumentError, match="kappa_x <= kappa_y"):
        iieu.neutralisation(torch.ones(2), torch.zeros(2), torch.eye(2), 2.0, 1.0)
    with pytest.raises(ArgumentError, match="shapes"):
        iieu.neutralisation(torch.ones(2), torch.zeros(3), torch.eye(2), 1.0, 1.0)
    with pytest.raises(ArgumentError, match="symmetric"):
        iieu.neutralisation(
            torch.ones(2), torch.zeros(2), torch.tensor([[1.0, 0.5], [0.0, 1.0]]), 1.0, 1.0
        )


@for_each("dtype", [torch.float64, torch.float32])
def test_a_covariance_that_is_symmetric_up_to_rounding_is_taken(dtype) -> None:
    torch.manual_seed(0)
    rows = torch.randn(200, 5, dtype=dtype)
    covariance = (rows.T @ torch.diag(torch.ones(200, dtype=dtype)) @ rows) / 200
    covariance[0, 1] += 4 * torch.finfo(dtype).eps
    assert not torch.equal(covariance, covariance.T)
    w, mean = torch.ones(5, dtype=dtype), torch.zeros(5, dtype=dtype)
    one = iieu.neutralisation(w, mean, covariance, 0.7, 1.1, samples=1000, seed=0)
    even = (covariance + covariance.T) / 2
    other = iieu.neutralisation(w, mean, even, 0.7, 1.1, samples=1000, seed=0)
    assert one.influence == pytest.approx(other.influence, rel=1e-5)
    with pytest.raises(ArgumentError, match="symmetric"):
        iieu.neutralisation(w, mean, covariance + torch.triu(torch.ones(5, 5)) * 1e-3, 0.7, 1.1)
