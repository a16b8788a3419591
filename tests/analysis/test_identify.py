"""The function at a site is recognised by its values, not by its name."""

import pytest
import torch
from torch import nn
from torch.nn import functional

import gatewise as gw
from gatewise.analysis.identification import recognise
from gatewise.analysis.identification.functions import PLAIN, points
from gatewise.errors import ArgumentError
from tests.graph import gated_blocks as blocks


class Config:
    def __init__(self, hidden_act: str, **fields: float) -> None:
        self.hidden_act = hidden_act
        vars(self).update(fields)


def sites(model: nn.Module, **options):
    return gw.identify(model, torch.randn(4, 8), **options).sites


@pytest.mark.parametrize("name", PLAIN)
def test_every_plain_function_is_recognised_from_float32_values(name):
    found = recognise(PLAIN[name](points(torch.float32)))
    assert found.name == name and not found.constants
    assert found.runner_up_difference > 100 * max(found.difference, 1e-7)


CONSTANTS = [
    ("leaky_relu", {"slope": 0.2}, lambda x: functional.leaky_relu(x, 0.2)),
    ("swish", {"beta": 1.3}, lambda x: x * torch.sigmoid(1.3 * x)),
    ("elu", {"alpha": 0.7}, lambda x: functional.elu(x, 0.7)),
    ("silu, clamped before", {"limit": 7.0}, lambda x: functional.silu(x.clamp(max=7))),
    ("silu, clamped after", {"limit": 10.0}, lambda x: functional.silu(x).clamp(max=10)),
    ("star_relu", {"scale": 0.9, "bias": -0.4}, lambda x: 0.9 * torch.relu(x) ** 2 - 0.4),
    ("dyt", {"alpha": 0.4, "weight": 1.1}, lambda x: 1.1 * torch.tanh(0.4 * x)),
]


@pytest.mark.parametrize("name, constants, function", CONSTANTS)
def test_constants_are_found(name, constants, function):
    found = recognise(function(points()))
    assert found.name == name
    assert found.constants == pytest.approx(constants, rel=1e-5)


def test_prelu_of_several_channels_is_named_with_its_slopes():
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.PReLU(3), nn.Conv2d(3, 2, 3), nn.PReLU())
    with torch.no_grad():
        model[1].weight.copy_(torch.tensor([-0.5, 0.25, 1.5]))
    found = gw.identify(model, torch.randn(2, 1, 8, 8))
    assert found.sites[0].function == "prelu, 3 slopes from -0.5 to 1.5"
    assert found.sites[1].name != "" and "slopes" not in found.sites[1].function


def test_an_unknown_function_is_not_given_a_name():
    found = recognise(torch.sin(points()))
    assert found.name == "" and "not recognised" in str(found)


def test_both_forms_of_gelu_and_trained_units_in_one_model():
    layers = [nn.GELU(), nn.GELU(approximate="tanh"), gw.nn.XIELU(), gw.nn.Swish(beta=1.702)]
    model = nn.Sequential()
    for layer in layers:
        model.extend([nn.Linear(8, 8), layer])
    names = [site.name for site in sites(model.bfloat16().float())]
    assert names[:3] == ["gelu", "gelu_tanh", "xielu"]
    assert names[3] in ("quick_gelu", "swish")


@pytest.mark.parametrize("own", [False, True])
def test_a_prelu_with_a_slope_per_channel_is_named_with_its_slopes(own: bool):
    prelu = gw.nn.PReLU(channels=6) if own else nn.PReLU(6)
    with torch.no_grad():
        next(prelu.parameters()).copy_(torch.tensor([0.5, 0.1, -0.25, 0.3, 0.7, 0.2]))
    model = nn.Sequential(nn.Linear(4, 6), prelu, nn.Linear(6, 2))
    (site,) = gw.analysis.identify(model, torch.randn(3, 4)).sites
    assert site.function == "prelu, 6 slopes from -0.25 to 0.7"
    assert site.name == "prelu" and site.constants["least"] == -0.25


def test_the_name_of_the_tanh_form_of_gelu_is_one_that_swap_takes():
    model = nn.Sequential(nn.Linear(4, 6), nn.GELU(approximate="tanh"), nn.Linear(6, 2))
    x = torch.randn(3, 4)
    (site,) = gw.analysis.identify(model, x).sites
    again = gw.swap(gw.swap(model, "relu", x, preserve=False), site.name, x, preserve=False)
    assert torch.equal(again(x), model(x))


def test_the_clamp_and_the_offset_of_a_gated_unit_are_found():
    (site,) = sites(blocks.Clamped())
    assert site.name == "quick_gelu, clamped before"
    assert site.constants == pytest.approx({"limit": 7.0}, rel=1e-6)
    assert (site.value, site.value_limit) == ("clamped at 7, then plus 1", 7.0)


def test_a_configuration_that_names_another_function_is_reported():
    model = blocks.TwoLinears()
    model.config = Config("silu")
    assert [site.agrees for site in sites(model)] == [True]
    model.config = Config("gelu")
    result = gw.identify(model, torch.randn(4, 8))
    assert len(result.disagreements) == 1 and "NOT as configured" in str(result)
    model.config = Config("silu", swiglu_limit=7.0)  # a clamp that the code does not have
    assert [site.agrees for site in sites(model)] == [False]
    clamped = blocks.Clamped()
    clamped.config = Config("silu", swiglu_limit=7.0)
    assert [site.agrees for site in sites(clamped)] == [True]


def test_a_safetensors_copy_is_compared(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    model = blocks.TwoLinears()
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    safetensors.save_file(state, tmp_path / "same.safetensors")
    state["up_proj.bias"] += 1
    safetensors.save_file(state, tmp_path / "other.safetensors")
    x = torch.randn(4, 8)
    same = gw.identify(model, x, copy=tmp_path / "same.safetensors")
    assert "6 of 6 stored tensors" in same.copies[0]
    other = gw.identify(model, x, copy=tmp_path / "other.safetensors")
    assert "other values in up_proj.bias" in other.copies[0]
    with pytest.raises(ArgumentError, match="no such file"):
        gw.identify(model, x, copy=tmp_path / "none.onnx")


@pytest.mark.onnx
@pytest.mark.slow
def test_an_onnx_copy_with_another_gelu_differs(tmp_path):
    torch.manual_seed(0)
    x = 3 * torch.randn(16, 8)
    models = {}
    for form in ("none", "tanh"):
        torch.manual_seed(0)
        layers = (nn.Linear(8, 64), nn.GELU(approximate=form), nn.Linear(64, 4))
        models[form] = nn.Sequential(*layers).eval()
        path = str(tmp_path / f"{form}.onnx")
        torch.onnx.export(models[form], (x,), path, dynamo=True, verbose=False)
    same = gw.identify(models["none"], x, copy=tmp_path / "none.onnx")
    assert "same outputs" in same.copies[0]
    other = gw.identify(models["none"], x, copy=tmp_path / "tanh.onnx")
    assert "DIFFER" in other.copies[0]


class ClampedGate(nn.Module):
    """A gated linear unit, with the clamps that a model was trained with or without them."""

    def __init__(self, gate: bool, value: bool, act: str, limit) -> None:
        super().__init__()
        self.gate = nn.Linear(8, 16)
        self.up = nn.Linear(8, 16)
        self.down = nn.Linear(16, 8)
        self.clamps = (gate, value)
        self.config = Config(act, swiglu_limit=limit)

    def forward(self, x):
        gate, up = self.gate(x), self.up(x)
        if self.clamps[0]:
            gate = gate.clamp(max=7.0)
        if self.clamps[1]:
            up = up.clamp(-7.0, 7.0)
        return self.down(functional.silu(gate) * up)


@pytest.mark.parametrize(
    ("gate", "value", "act", "limit", "words"),
    [
        (True, True, "silu", 7.0, ""),
        (False, True, "silu", 7.0, "the gate is not clamped, the configuration says 7"),
        (True, False, "silu", 7.0, "the value is not clamped, the configuration says 7"),
        (True, True, "silu", 10.0, "the gate is clamped at 7, the configuration says 10"),
        (False, False, "gelu", None, "the code computes silu, the configuration says gelu"),
        (False, False, "silu", None, ""),
    ],
)
def test_a_difference_from_the_configuration_is_named(gate, value, act, limit, words):
    torch.manual_seed(0)
    found = gw.identify(ClampedGate(gate, value, act, limit).eval(), torch.randn(4, 8))
    (site,) = found.sites
    assert site.agrees is (words == "")
    assert words in site.differs and bool(site.differs) == bool(words)
    assert words in str(found)
