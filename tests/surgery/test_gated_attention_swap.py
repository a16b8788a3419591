"""A gate in an existing attention layer starts at 1, with a proof, and then learns."""

import pytest
import torch
from torch import nn

import gatewise as gw
from gatewise.errors import ArgumentError, UnknownNameError


def encoder():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 24, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), torch.randn(3, 5, 16)


def decoder(name):
    torch.manual_seed(0)
    model = gw.create_model(name, width=16, depth=2, heads=2)
    return model, torch.randint(256, (2, 10))


@pytest.mark.parametrize("gate", ["head", "element"])
def test_the_function_is_kept_and_proved(gate):
    model, x = encoder()
    swapped = gw.swap(model, "gated_attention", x, gate=gate)
    receipt = gw.receipt(swapped)
    assert receipt.proved
    assert str(receipt).startswith("PROVED")
    assert receipt.sites == ("layers.0.self_attn", "layers.1.self_attn")
    assert all("not an attention layer" in why for why in receipt.refused.values())
    outputs = 4 if gate == "head" else 16
    assert receipt.parameters[1] - receipt.parameters[0] == 2 * 16 * outputs
    torch.testing.assert_close(swapped.eval()(x), model.eval()(x))
    assert set(model.state_dict()) < set(swapped.state_dict())


def test_gates_learn_and_then_change_the_output():
    model, x = encoder()
    swapped = gw.swap(model, "gated_attention", x).eval()
    optimizer = torch.optim.SGD(swapped.parameters(), 0.1)
    (swapped(x) * torch.randn(16)).sum().backward()
    weight = swapped.layers[0].self_attn.gate.score.weight
    assert bool(weight.grad.any())
    optimizer.step()
    assert bool(weight.any())
    before = swapped(x)
    with torch.no_grad():
        weight.zero_()
    assert not torch.allclose(before, swapped(x))


def test_a_wrong_gate_fails_the_proof(monkeypatch):
    model, x = encoder()
    monkeypatch.setattr("gatewise.surgery.swaps.gated_attention.SCALE", 1.0)
    with pytest.raises(gw.surgery.SwapFailed, match="computes something else"):
        gw.swap(model, "gated_attention", x)


def test_undo_gives_the_model_back():
    model, x = encoder()
    swapped = gw.swap(model, "gated_attention", x)
    back = gw.undo(swapped)
    assert all(type(layer.self_attn) is nn.MultiheadAttention for layer in back.layers)
    assert torch.equal(back.eval()(x), model.eval()(x))
    assert back.layers[0].activation_relu_or_gelu == model.layers[0].activation_relu_or_gelu


@pytest.mark.parametrize("name", ["small_gpt", "small_llama"])
def test_decoders_with_a_place_for_a_gate_take_one(name):
    model, tokens = decoder(name)
    swapped = gw.swap(model, "gated_attention", tokens, gate="element")
    assert gw.receipt(swapped).proved
    assert torch.equal(swapped.eval()(tokens), model.eval()(tokens))
    with torch.no_grad():
        swapped.blocks[1].attention.gate.score.weight.normal_()
    assert not torch.allclose(swapped(tokens), model(tokens))


def test_an_attention_layer_that_cannot_be_gated_is_named_with_its_reason():
    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.plain = nn.MultiheadAttention(8, 2)
            self.other = nn.MultiheadAttention(8, 2, kdim=8, vdim=4, add_zero_attn=True)

        def forward(self, x):
            x = self.plain(x, x, x)[0]
            return self.other(x, x, x[..., :4])[0]

    plan = gw.plan(Network(), "gated_attention", torch.randn(3, 2, 8))
    (refused,) = plan.refused
    assert refused.site == "other"
    assert "keys or values of another width" in refused.why


def test_options_are_checked():
    model, x = encoder()
    with pytest.raises(UnknownNameError, match="gate of attention"):
        gw.plan(model, "gated_attention", x, gate="row")
    with pytest.raises(ArgumentError, match="no such option"):
        gw.plan(model, "gated_attention", x, bias=True)
    with pytest.raises(ArgumentError, match=r"nothing would change|no site"):
        gw.plan(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), "gated_attention", torch.randn(2, 4))
