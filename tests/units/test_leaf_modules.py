"""Units and layers in graphs of torch.fx, in scripted models and as activation classes."""

import copy

import pytest
import torch
from torch import nn
from torch.fx import symbolic_trace
from zoo import declare_missing_torchvision_operators

import gatewise as gw

X = torch.randn(2, 4, 6, 6)
BOUND = ("iieu_b",)  # its forward takes what its layer received, besides the response


def unit(name):
    options = {"dim": 1} if name == "dyt" else {}  # its channels are the last dimension by default
    return gw.create_unit(name, channels=4, **options)


@pytest.mark.parametrize("name", [name for name in gw.list_units() if name not in BOUND])
def test_every_unit_is_one_call_of_a_graph(name):
    model = nn.Sequential(nn.Conv2d(4, 4, 1), unit(name))
    traced = symbolic_trace(model)
    assert [node.target for node in traced.graph.nodes if node.op == "call_module"] == ["0", "1"]
    assert torch.equal(traced(X), model(X))
    assert torch.equal(symbolic_trace(model[1])(X), model[1](X))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ["silu", "prelu", "crelu", "frelu", "pau"])
def test_a_scripted_model_calls_its_units(name):
    model = nn.Sequential(nn.Conv2d(4, 4, 1), unit(name))
    copied = copy.deepcopy(model)
    scripted = torch.jit.script(copied)
    assert type(copied[1]) is type(model[1])
    torch.testing.assert_close(scripted(X), model(X))
    scripted(X).sum().backward()
    model(X).sum().backward()
    for ours, theirs in zip(model.parameters(), copied.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)
    torch.testing.assert_close(scripted.eval()(X), model.eval()(X))


def test_every_unit_takes_inplace_and_returns_a_new_tensor():
    for name in set(gw.list_units()) - set(BOUND):
        unit = gw.get_unit(name)
        options = {option: 4 for option in ("channels",) if option in unit.needs}
        module = unit.module(inplace=True, **options)
        assert module.inplace is False
        before = X.clone()
        if "groups" not in unit.needs:
            module(X)
        assert torch.equal(X, before), name
        assert repr(module) == repr(unit.module(**options))


def test_inplace_must_be_true_or_false():
    with pytest.raises(gw.errors.ArgumentError, match="inplace"):
        gw.nn.ReLU(inplace=3)


@pytest.mark.slow
@pytest.mark.networks
def test_torchvision_extracts_features_of_a_network_with_units():
    declare_missing_torchvision_operators()
    from torchvision.models import mobilenet_v2
    from torchvision.models.feature_extraction import create_feature_extractor

    model = gw.swap(mobilenet_v2(weights=None).eval(), "swish", torch.randn(1, 3, 32, 32))
    extractor = create_feature_extractor(model, {"features.1": "first", "features.18": "last"})
    x = torch.randn(1, 3, 32, 32)
    assert torch.equal(extractor(x)["first"], model.features[:2](x))


@pytest.mark.networks
def test_timm_builds_networks_with_a_unit_as_their_activation():
    declare_missing_torchvision_operators()
    import timm

    model = timm.create_model("test_resnet", act_layer=gw.nn.SiLU).eval()
    assert any(isinstance(module, gw.nn.SiLU) for module in model.modules())
    x = torch.randn(1, 3, 64, 64)
    assert torch.equal(symbolic_trace(model)(x), model(x))


@pytest.mark.filterwarnings("ignore")
def test_quantisation_by_graphs_takes_units_as_they_are():
    quantize = pytest.importorskip("torch.ao.quantization.quantize_fx")
    from torch.ao.quantization import get_default_qconfig_mapping

    model = nn.Sequential(nn.Conv2d(4, 4, 1), gw.nn.SiLU(), nn.Conv2d(4, 4, 1)).eval()
    prepared = quantize.prepare_fx(model, get_default_qconfig_mapping("x86"), (X,))
    torch.testing.assert_close(prepared(X), model(X))
