"""A gate in an existing attention layer starts at 1, with a proof, and then learns."""

import pytest
import torch
from torch import nn

import gatewise as gw
from gatewise.errors import ArgumentError, UnknownNameError
from tests import zoo


def encoder():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 24, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), torch.randn(3, 5, 16)


def decoder(name):
    torch.manual_seed(0)
    model = gw.models.create_model(name, width=16, depth=2, heads=2)
    return model, torch.randint(256, (2, 10))


@pytest.mark.parametrize("gate", ["head", "element"])
def test_the_function_is_kept_and_proved(gate):
    model, x = encoder()
    swapped = gw.swap(model, "gated_attention", x, gate=gate)
    receipt = gw.receipt(swapped)
    assert receipt.proved
    assert str(receipt).startswith("CHECKED")
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


class OwnAttention(nn.Module):
    """Attention as other libraries write it: one layer for queries, keys and values."""

    def __init__(self, packed: bool = False, written_out: bool = False):
        super().__init__()
        self.written_out = written_out
        self.packed = packed
        if packed:
            self.qkv = nn.Linear(16, 48)
        else:
            self.q, self.k, self.v = (nn.Linear(16, 16) for _ in range(3))
        self.out = nn.Linear(16, 16)

    def forward(self, x):
        parts = self.qkv(x).chunk(3, -1) if self.packed else (self.q(x), self.k(x), self.v(x))
        q, k, v = (part.unflatten(-1, (4, 4)).transpose(1, 2) for part in parts)
        if self.written_out:
            heads = torch.softmax(q @ k.transpose(-1, -2) / 2, -1) @ v
        else:
            heads = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.out(heads.transpose(1, 2).flatten(2))


class OwnBlock(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.attention = OwnAttention(**options)
        self.mlp = nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 16))

    def forward(self, x):
        return self.mlp(x + self.attention(x))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("gate", ["head", "element"])
def test_attention_of_other_code_is_gated_before_its_output_projection(packed, gate):
    torch.manual_seed(0)
    model = OwnBlock(packed=packed).eval()
    x = torch.randn(2, 5, 16)
    swapped = gw.swap(model, "gated_attention", x, gate=gate)
    receipt = gw.receipt(swapped)
    assert receipt.proved and receipt.sites == ("attention",)
    assert receipt.parameters[1] - receipt.parameters[0] == 16 * (4 if gate == "head" else 16)
    assert set(model.state_dict()) < set(swapped.state_dict())
    attention = swapped.attention
    with torch.no_grad():
        torch.testing.assert_close(swapped(x), model(x))
        attention.out.gate.score.weight.normal_()
        # By hand: the heads of the original times the gate of the input.
        seen = []
        handle = model.attention.out.register_forward_pre_hook(lambda _, a: seen.append(a[0]))
        model(x)
        handle.remove()
        gates = 2 * torch.sigmoid(x @ attention.out.gate.score.weight.T)
        gates = gates.repeat_interleave(4, -1) if gate == "head" else gates
        want = model.attention.out(seen[0] * gates)
        torch.testing.assert_close(attention(x), want)
    back = gw.undo(gw.swap(model, "gated_attention", x))
    assert type(back.attention.out) is nn.Linear and torch.equal(back(x), model(x))


def test_attention_of_other_code_without_a_place_is_named():
    x = torch.randn(2, 5, 16)
    with pytest.raises(ArgumentError, match="does not call scaled_dot_product_attention"):
        gw.plan(OwnBlock(written_out=True), "gated_attention", x, where="attention")


def test_the_output_projection_alone_is_an_error():
    swapped = gw.swap(OwnBlock(), "gated_attention", torch.randn(2, 5, 16))
    with pytest.raises(ArgumentError, match="without its query layer"):
        swapped.attention.out(torch.randn(2, 5, 16))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Llama", "Bert"])
def test_hugging_face_attention_is_gated(name, tmp_path):
    torch.manual_seed(0)
    options = {"vocab_size": 64, **zoo.SMALL}
    kind = "ForCausalLM" if name == "Llama" else "ForSequenceClassification"
    if name == "Llama":
        options |= {"num_key_value_heads": 2, "pad_token_id": 0}
    model = zoo.hugging_face(f"{name}{kind}", f"{name}Config", **options).eval()
    tokens = {"input_ids": torch.arange(12).reshape(2, 6)}
    swapped = gw.swap(model, "gated_attention", tokens)
    receipt = gw.receipt(swapped)
    assert receipt.proved and len(receipt.sites) == 2
    assert receipt.parameters[1] - receipt.parameters[0] == 2 * 32 * 4
    with torch.no_grad():
        torch.testing.assert_close(swapped(**tokens).logits, model(**tokens).logits)
        for path, weight in swapped.named_parameters():
            if path.endswith("gate.score.weight"):
                weight.normal_()
        assert not torch.allclose(swapped(**tokens).logits, model(**tokens).logits)
        if name == "Llama":  # with a cache, one token at a time, as without
            long = swapped.generate(**tokens, max_new_tokens=4, do_sample=False)
            plain = swapped.generate(**tokens, max_new_tokens=4, do_sample=False, use_cache=False)
            assert torch.equal(long, plain)
    gw.save_swaps(swapped, tmp_path / "swaps.json")
    again = zoo.hugging_face(f"{name}{kind}", f"{name}Config", **options).eval()
    gw.load_swaps(again, tmp_path / "swaps.json")
    again.load_state_dict(swapped.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(again(**tokens).logits, swapped(**tokens).logits)
