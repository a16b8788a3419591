"""Gated attention is torch's attention with a gate before the output projection."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import gatewise as gw
from gatewise.errors import ArgumentError

GATES = ("head", "element")


def pair(gate="head", *, bias=True, batch_first=True, start="open", scale=2.0):
    """A gated attention and torch's with the same weights, in float64."""
    torch.manual_seed(0)
    plain = nn.MultiheadAttention(12, 3, bias=bias, batch_first=batch_first).double()
    gated = gw.nn.GatedMultiheadAttention(
        12, 3, gate=gate, bias=bias, batch_first=batch_first, start=start, scale=scale
    ).double()
    if bias:
        nn.init.normal_(plain.in_proj_bias)
        nn.init.normal_(plain.out_proj.bias)
    wrong = gated.load_state_dict(plain.state_dict(), strict=False)
    assert wrong.missing_keys == ["gate.score.weight"]
    assert not wrong.unexpected_keys
    return gated, plain


def inputs(batch_first=True):
    torch.manual_seed(1)
    query, key, value = torch.randn(2, 5, 12), torch.randn(2, 7, 12), torch.randn(2, 7, 12)
    tensors = [tensor.double() for tensor in (query, key, value)]
    return tensors if batch_first else [tensor.transpose(0, 1) for tensor in tensors]


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
def test_an_open_gate_of_scale_2_is_torchs_attention(gate, bias, batch_first):
    gated, plain = pair(gate, bias=bias, batch_first=batch_first)
    masks = [
        {},
        {"attn_mask": torch.ones(5, 7).triu(1).bool()},
        {"attn_mask": torch.randn(6, 5, 7).double()},
        {"key_padding_mask": torch.tensor([[False] * 7, [False] * 5 + [True] * 2])},
        {"need_weights": False},
        {"average_attn_weights": False},
    ]
    for options in masks:
        output, weights = gated(*inputs(batch_first), **options)
        expected, expected_weights = plain(*inputs(batch_first), **options)
        torch.testing.assert_close(output, expected, rtol=1e-12, atol=1e-12)
        assert (weights is None) == (expected_weights is None)
        if weights is not None:
            torch.testing.assert_close(weights, expected_weights, rtol=1e-12, atol=1e-12)


def test_rows_without_a_batch_are_taken():
    gated, plain = pair()
    rows = [tensor[0] for tensor in inputs()]
    mask = torch.tensor([False] * 6 + [True])
    for output, expected in zip(
        gated(*rows, key_padding_mask=mask), plain(*rows, key_padding_mask=mask), strict=True
    ):
        torch.testing.assert_close(output, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("gate", GATES)
def test_the_gate_multiplies_the_heads_before_the_projection(gate):
    gated, plain = pair(gate, start="random", scale=1.0)
    query, key, value = inputs()
    score = query @ gated.gate.score.weight.T
    parts = []
    for tensor, weight, bias in zip(
        (query, key, value), plain.in_proj_weight.chunk(3), plain.in_proj_bias.chunk(3), strict=True
    ):
        parts.append((tensor @ weight.T + bias).reshape(2, -1, 3, 4).transpose(1, 2))
    heads = F.scaled_dot_product_attention(*parts).transpose(1, 2)  # (2, 5, 3, 4)
    shape = (2, 5, 3, 1) if gate == "head" else (2, 5, 3, 4)
    mixed = (heads / (1 + torch.exp(-score)).reshape(shape)).reshape(2, 5, 12)
    expected = mixed @ plain.out_proj.weight.T + plain.out_proj.bias
    torch.testing.assert_close(gated(query, key, value)[0], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_gate_far_open_still_has_a_gradient_in_half_precision(dtype):
    gate = gw.nn.AttentionGate(4, 2, dtype=dtype)
    with torch.no_grad():
        gate.score.weight.fill_(2.0)  # a score of 8: sigmoid is 1 in bfloat16
    gate(torch.ones(1, 4, dtype=dtype), torch.ones(1, 4, dtype=dtype)).sum().backward()
    expected = 2 * torch.sigmoid(torch.tensor(8.0)) * torch.sigmoid(torch.tensor(-8.0))
    torch.testing.assert_close(
        gate.score.weight.grad, torch.full((2, 4), expected.item(), dtype=dtype), rtol=0.01, atol=0
    )


def test_torchs_transformer_layer_uses_the_gate_in_eval_mode():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(12, 3, 16, dropout=0.0, batch_first=True)
    layer.self_attn = gw.nn.GatedMultiheadAttention(12, 3, batch_first=True)
    x = torch.randn(2, 5, 12)
    with torch.no_grad():
        expected = layer.train()(x)
        torch.testing.assert_close(layer.eval()(x), expected)


def test_wrong_arguments_are_named():
    with pytest.raises(ArgumentError, match="gate"):
        gw.nn.AttentionGate(8, 2, gate="heads")
    with pytest.raises(ArgumentError, match="start"):
        gw.nn.AttentionGate(8, 2, start="closed")
    with pytest.raises(ArgumentError, match="divide"):
        gw.nn.AttentionGate(8, 3)
    with pytest.raises(ArgumentError, match="heads"):
        gw.nn.AttentionGate(8, 0)
    with pytest.raises(ArgumentError, match="dropout"):
        gw.nn.GatedMultiheadAttention(8, 2, dropout=1.5)
    layer = gw.nn.GatedMultiheadAttention(8, 2)
    with pytest.raises(ArgumentError, match="query has a wrong width"):
        layer(*[torch.randn(3, 2, 9)] * 3)
    with pytest.raises(ArgumentError, match="number of dimensions"):
        layer(torch.randn(3, 2, 8), torch.randn(3, 8), torch.randn(3, 8))
    with pytest.raises(ArgumentError, match="is_causal needs the mask"):
        layer(*[torch.randn(3, 2, 8)] * 3, is_causal=True)
