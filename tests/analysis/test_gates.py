"""Gates against loops over a float64 network written out by hand, and against closed forms."""

import itertools
import math
from html import escape

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import gatewise as gw
from gatewise.errors import ArgumentError


class Odd(nn.Module):
    """One ReLU module called twice and in place, a functional unit, a unit in place on a sum."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 5)
        self.unit = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.unit(self.first(x))
        x = self.unit(self.second(x))
        x = F.silu(self.third(x), inplace=True)
        return F.relu_(x - 0.1)


def responses(model: Odd, x: Tensor) -> list[Tensor]:
    a = x @ model.first.weight.T + model.first.bias
    b = a.clamp(min=0) @ model.second.weight.T + model.second.bias
    c = b.clamp(min=0) @ model.third.weight.T + model.third.bias
    return [a, b, c, c * torch.special.expit(c) - 0.1]


def test_rates_entropies_and_duplicates_of_all_kinds_of_units_are_those_of_loops() -> None:
    torch.manual_seed(0)
    model = Odd().double()
    with torch.no_grad():
        model.first.weight[1] = 3 * model.first.weight[0]
        model.first.bias[1] = 3 * model.first.bias[0]
        model.second.bias[2] = -100.0
        model.third.bias[4] = 100.0
    batches = [torch.randn(n, 4, dtype=torch.float64) for n in (7, 7, 3)]
    found = gw.gates(model, batches)
    assert [site.name for site in found.sites] == [
        "unit",
        "unit@1",
        "(model):silu#0",
        "(model):relu#1",
    ]
    with torch.no_grad():
        every = [
            torch.cat(parts) for parts in zip(*(responses(model, x) for x in batches), strict=True)
        ]
    for site, z in zip(found.sites, every, strict=True):
        for channel in range(z.shape[1]):
            on = sum(float(v) > 0 for v in z[:, channel]) / 17
            assert site.on_rate[channel] == pytest.approx(on, abs=1e-12) and site.seen == 17
            bits = -sum(p * math.log2(p) for p in (on, 1 - on) if p)
            assert site.entropy[channel] == pytest.approx(bits, abs=1e-12)
        patterns = [tuple((z[:, c] > 0).tolist()) for c in range(z.shape[1])]
        alike = {
            frozenset(p for p, q in enumerate(patterns) if q == one)
            for one in patterns
            if 0 < sum(one) < 17
        }
        assert {frozenset(group) for group in site.duplicates} == {
            group for group in alike if len(group) > 1
        }
    assert (
        (0, 1) in found.sites[0].duplicates
        and 2 in found.sites[1].dead
        and 4 in found.sites[2].always_on
    )


def test_region_entropy_and_saturation_of_soft_gates() -> None:
    layer = nn.Linear(1, 3)
    layer.weight.data, layer.bias.data = (
        torch.tensor([[1.0], [100.0], [0.0]]),
        torch.tensor([0.0, 0.0, 0.0]),
    )
    x = torch.cat((torch.linspace(-3, -0.2, 50), torch.linspace(0.2, 3, 50)))[:, None]
    site = gw.gates(nn.Sequential(layer, nn.SiLU()), [x]).sites[0]
    p = torch.special.expit(x.double()[:, 0])
    bits = -(p * p.log2() + (1 - p) * (1 - p).log2()).mean()
    assert site.soft and site.region_entropy is not None and site.saturated is not None
    torch.testing.assert_close(site.region_entropy[0], bits, atol=1e-6, rtol=0)
    assert site.region_entropy[1] < 1e-6 and site.region_entropy[2] == pytest.approx(1)
    assert site.saturated.tolist() == [False, True, False]


CLOSED = {  # unit: its gate on the scale from least to most, in closed form
    "silu": lambda z: torch.special.expit(z),
    "gelu": lambda z: torch.special.ndtr(z),
    "mish": lambda z: torch.tanh(F.softplus(z)),
    "softplus": lambda z: torch.special.expit(z),
    "elu": lambda z: torch.where(z > 0, 1.0, torch.expm1(z.clamp(max=0)) / z),
    "soft_relu": lambda z: torch.special.expit(4 * z),
    "swish": lambda z: torch.special.expit(z),
    "erfact": lambda z: torch.erf(0.75 * torch.exp(0.75 * z)),
}


@pytest.mark.parametrize("name", sorted(CLOSED))
def test_gate_of_a_soft_unit_is_its_closed_form(name: str) -> None:
    from gatewise.analysis.gating import soft_rule

    z = torch.linspace(-6, 6, 240, dtype=torch.float64)[:, None]
    with torch.no_grad():
        found = soft_rule(name, gw.get_unit(name).module().double(), 1).gate(z)
    torch.testing.assert_close(found, CLOSED[name](z), atol=2e-6, rtol=0)


@pytest.mark.parametrize("name", ["tanh", "sigmoid"])
def test_a_bounded_unit_is_a_gate_itself(name: str) -> None:
    layer = nn.Linear(2, 3)
    x = torch.randn(40, 2)
    unit = nn.Tanh() if name == "tanh" else nn.Sigmoid()
    site = gw.gates(nn.Sequential(layer, unit), [x]).sites[0]
    with torch.no_grad():
        torch.testing.assert_close(site.on_rate, (layer(x) > 0).double().mean(0))


def test_torchs_and_our_units_of_one_name_have_the_same_gates() -> None:
    torch.manual_seed(0)
    layer, x = nn.Conv2d(3, 5, 3), torch.randn(6, 3, 8, 8)
    names = ("GELU", "SiLU", "Mish", "ELU", "LeakyReLU", "PReLU", "Softplus")
    pairs = [(getattr(nn, name)(), getattr(gw.nn, name)()) for name in names]
    for theirs, ours in pairs:
        one, other = (gw.gates(nn.Sequential(layer, unit), [x]).sites[0] for unit in (theirs, ours))
        torch.testing.assert_close(one.on_rate, other.on_rate, atol=0, rtol=0)
        if one.region_entropy is not None and other.region_entropy is not None:
            torch.testing.assert_close(
                one.region_entropy, other.region_entropy, atol=1e-5, rtol=1e-4
            )


def test_both_signs_of_crelu_are_channels_and_iieus_gate_is_by_its_threshold() -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 3, 6, 6)
    layer = nn.Conv2d(3, 5, 3)
    with torch.no_grad():
        positive = (layer(x) > 0).double().transpose(0, 1).flatten(1).mean(1)
    site = gw.gates(nn.Sequential(layer, gw.nn.CReLU()), [x]).sites[0]
    torch.testing.assert_close(site.on_rate, torch.cat((positive, 1 - positive)))
    block = gw.nn.ConvIIEU(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5)).eval()
    with torch.no_grad():
        block.unit.eta.copy_(torch.tensor([0.05, 0.3, 0.5, 0.6, 2.0]))
        terms = block.terms(x)
        want = (
            terms.similarity + terms.shift[:, :, None, None] >= terms.eta[:, None, None]
        ).double()
    site = gw.gates(nn.Sequential(block), [x]).sites[0]
    torch.testing.assert_close(site.on_rate, want.transpose(0, 1).flatten(1).mean(1))
    assert set(site.parameters) == {"eta", "shift.weight", "shift.bias"}


@pytest.mark.parametrize(
    "name",
    ["acon_c", "meta_acon", "swish", "pau", "pwlu", "smu", "smu1", "erfact", "pserf", "prelu"],
)
def test_parameters_of_learned_units_are_read_by_layer(name: str) -> None:
    unit = gw.create_unit(name, channels=5)
    site = gw.gates(
        nn.Sequential(nn.Conv2d(3, 5, 3), unit).eval(), [torch.randn(2, 3, 5, 5)]
    ).sites[0]
    assert site.parameters and site.unit == name
    for key, value in site.parameters.items():
        assert torch.equal(value, unit.get_parameter(key).detach())


def test_flips_between_models_are_those_of_a_double_loop_and_0_of_one_with_itself() -> None:
    torch.manual_seed(0)
    one, other = Odd().double(), Odd().double()
    batches = [torch.randn(n, 4, dtype=torch.float64) for n in (9, 4)]
    found = gw.analysis.gate_flips(one, other, batches)
    with torch.no_grad():
        pairs = [(responses(one, x), responses(other, x)) for x in batches]
    for number, site in enumerate(found.sites):
        first, second = (torch.cat([pair[which][number] for pair in pairs]) for which in (0, 1))
        for channel in range(first.shape[1]):
            count = sum(
                (float(a) > 0) != (float(b) > 0)
                for a, b in zip(first[:, channel], second[:, channel], strict=True)
            )
            assert site.flip_rate[channel] == pytest.approx(count / 13)
    assert all(not site.flip_rate.any() for site in gw.analysis.gate_flips(one, one, batches).sites)
    mirrored = gw.analysis.gate_flips(one, one, batches, transform=lambda x: -x)
    assert any(site.flip_rate.any() for site in mirrored.sites)


def test_overlap_of_classes_is_the_mean_over_pairs_of_inputs() -> None:
    torch.manual_seed(0)
    model, x, labels = Odd().double(), torch.randn(14, 4, dtype=torch.float64), torch.arange(14) % 3
    found = gw.analysis.gate_overlap(model, [(x[:8], labels[:8]), (x[8:], labels[8:])], inputs=5)
    with torch.no_grad():
        on = torch.cat([z > 0 for z in responses(model, x)], 1)
    for a, b in itertools.product(range(3), range(3)):
        shares = [
            float((on[i] & on[j]).double().mean())
            for i in range(14)
            for j in range(14)
            if i != j and labels[i] == a and labels[j] == b
        ]
        assert found.between[a, b] == pytest.approx(sum(shares) / len(shares))
    assert found.classes == (0, 1, 2) and found.counts == (5, 5, 4)
    for i, j in itertools.product(range(5), range(5)):
        assert found.inputs[i, j] == pytest.approx(float((on[i] & on[j]).double().mean()))
    assert not gw.analysis.gate_overlap(model, [x]).classes
    with pytest.raises(ArgumentError, match="do not fit into memory"):
        gw.analysis.gate_overlap(model, [x], memory=10)


def test_records_print_save_and_draw_and_progress_is_told() -> None:
    model, told = Odd(), []
    batches = [torch.randn(5, 4)] * 3
    found = gw.gates(model, batches, progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 3), (2, 3), (3, 3)]
    for record in (
        found,
        gw.analysis.gate_flips(model, model, batches),
        gw.analysis.gate_overlap(model, batches),
    ):
        assert isinstance(record.to_dict(), dict) and record.plot() is not None
        assert escape(repr(record)) in record._repr_html_()
    assert "unit@1" in repr(found)
    gw.gates(model, iter(batches), progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (3, None)


def test_what_cannot_be_answered_is_said() -> None:
    model = Odd()
    with pytest.raises(ArgumentError, match="there is no batch"):
        gw.gates(model, [])
    with pytest.raises(ArgumentError, match="batch 1 contains NaN"):
        gw.gates(model, [torch.zeros(2, 4), torch.full((2, 4), torch.nan)])
    with pytest.raises(ArgumentError, match="no unit whose gates are known"):
        gw.gates(nn.Linear(4, 2), [torch.zeros(2, 4)])
    with pytest.raises(ArgumentError, match="cannot be run"):
        gw.gates(model, [torch.zeros(2, 5)])
    with pytest.raises(ArgumentError, match="do not have the same gates"):
        gw.analysis.gate_flips(
            model, nn.Sequential(nn.Linear(4, 6), nn.ReLU()), [torch.zeros(2, 4)]
        )
    with torch.no_grad():
        model.second.weight[0, 0] = torch.nan
    with pytest.raises(ArgumentError, match=r"second.weight"):
        gw.gates(model, [torch.zeros(2, 4)])


def test_maxout_is_left_out_by_name() -> None:
    model = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 4), gw.create_unit("maxout"))
    found = gw.gates(model, [torch.randn(3, 3)])
    assert [site.name for site in found.sites] == ["1"] and "maxout" in found.left_out[0]


def test_only_arithmetic_outside_the_units_is_left_out() -> None:
    """SiLU of the catalogue is an operator of torch, and its gates are known."""

    class Written(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.where(x > 0, x, 0.0)

    model = nn.Sequential(nn.Linear(3, 6), gw.create_unit("silu"), nn.Linear(6, 4), Written())
    inputs = torch.randn(3, 3)
    assert len(gw.find_sites(model, inputs).notes) == 1
    record = gw.gates(model, [inputs])
    assert [site.name for site in record.sites] == ["1"]
    assert [note.partition(",")[0] for note in record.left_out] == ["not a site: ReLU"]


POSITIVE = ("SELU", "ELU", "CELU", "GELU", "SiLU", "Mish", "Hardswish", "Tanh", "Softplus")
POSITIVE += ("LogSigmoid", "Sigmoid", "Hardsigmoid", "Tanhshrink", "ReLU", "LeakyReLU")


@pytest.mark.parametrize("name", POSITIVE)
def test_on_is_where_the_response_is_positive(name: str) -> None:
    torch.manual_seed(0)
    layer = nn.Linear(6, 16)
    x = torch.randn(200, 6)
    site = gw.gates(nn.Sequential(layer, getattr(nn, name)()), [x]).sites[0]
    with torch.no_grad():
        expected = (layer(x) > 0).double().mean(0)
    assert site.on == "x > 0"
    torch.testing.assert_close(site.on_rate, expected, atol=0, rtol=0)
    assert not site.always_on and not site.dead


@pytest.mark.parametrize(
    ("unit", "name", "on", "is_on"),
    [
        (nn.Hardtanh(-0.5, 2.0), "hardtanh", "x > -0.5", lambda z: z > -0.5),
        (nn.Softshrink(0.3), "softshrink", "|x| > 0.3", lambda z: z.abs() > 0.3),
        (nn.Threshold(0.2, -1.0), "threshold", "x > 0.2", lambda z: z > 0.2),
        (nn.ReLU6(), "relu6", "x > 0", lambda z: z > 0),
    ],
)
def test_on_of_a_piecewise_unit_has_the_threshold_of_the_call(unit, name, on, is_on) -> None:
    torch.manual_seed(0)
    layer = nn.Linear(6, 8)
    x = torch.randn(100, 6)
    site = gw.gates(nn.Sequential(layer, unit), [x]).sites[0]
    with torch.no_grad():
        torch.testing.assert_close(site.on_rate, is_on(layer(x)).double().mean(0), atol=0, rtol=0)
    assert site.on == on
    assert site.unit == name


def test_every_unit_of_the_catalogue_declares_what_on_means() -> None:
    from pathlib import Path

    folder = Path(gw.__file__).parent / "units" / "catalogue"
    for name in gw.list_units():
        assert f'on="{gw.get_unit(name).on}"' in (folder / f"{name}.py").read_text()
