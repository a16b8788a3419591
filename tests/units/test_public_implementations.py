"""Units equal the public implementations that models are trained with."""

import pytest
import torch
from torch import nn
from torch.nn import functional
from zoo import declare_missing_torchvision_operators

import gatewise as gw

declare_missing_torchvision_operators()

X = torch.linspace(-9, 9, 4001, dtype=torch.float64)
TORCH = {
    "hardswish": functional.hardswish,
    "hardsigmoid": functional.hardsigmoid,
    "hardtanh": functional.hardtanh,
    "relu6": functional.relu6,
    "selu": functional.selu,
    "celu": functional.celu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "softsign": functional.softsign,
    "logsigmoid": functional.logsigmoid,
    "tanhshrink": functional.tanhshrink,
    "threshold": lambda x: functional.threshold(x, 0.01, 0.0),
    "relu2": lambda x: functional.relu(x).square(),
    "leaky_relu2": lambda x: functional.leaky_relu(x, 0.5).square(),
}


@pytest.mark.parametrize("name", TORCH)
def test_values_and_derivatives_are_torchs(name):
    kinks = list(gw.get_unit(name).fact("kinks"))
    points = torch.cat((X, torch.tensor(kinks, dtype=torch.float64)))
    results = []
    for function in (getattr(gw.functional, name), TORCH[name]):
        x = points.clone().requires_grad_()
        y = function(x)
        results.append((y.detach(), torch.autograd.grad(y.sum(), x)[0]))
    for ours, theirs in zip(*results, strict=True):
        # The derivative of hardsigmoid in torch has 1/6 in single precision.
        torch.testing.assert_close(
            ours, theirs, rtol=1e-12, atol=1e-8 if name == "hardsigmoid" else 1e-13
        )


@pytest.mark.parametrize("dim", [-1, 1])
def test_glu_is_torchs(dim):
    x = torch.randn(3, 6, 8, dtype=torch.float64)
    torch.testing.assert_close(gw.nn.GLU(dim=dim)(x), functional.glu(x, dim))


def test_two_tensors_and_every_layout_of_one_tensor_give_the_same():
    gate, up = torch.randn(2, 5, 7)
    for name in ("glu", "swiglu", "geglu", "reglu", "bilinear"):
        function = getattr(gw.functional, name)
        want = function(gate, up)
        torch.testing.assert_close(function(torch.cat((up, gate), -1)), want)
        first = function(torch.cat((gate, up), -1), layout="gate_first")
        torch.testing.assert_close(first, want)
        pairs = torch.stack((gate, up), -1).flatten(-2)
        torch.testing.assert_close(function(pairs, layout="interleaved"), want)


def test_jump_relu_moves_its_threshold_as_the_mean_over_inputs_demands():
    """The straight-through estimate against the exact derivative of a mean: -t^2 w(t) p(t)."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2_000_000, generator=generator)
    unit = gw.nn.JumpReLU(threshold=0.5, bandwidth=0.05)
    (unit(x) * x.cos()).mean().backward()
    threshold = torch.tensor(0.5)
    density = torch.exp(-(threshold**2) / 2) / (2 * torch.pi) ** 0.5
    # One factor is the threshold's own size, since the parameter is its logarithm.
    exact = -(threshold**2) * threshold.cos() * density
    assert unit.log_threshold.grad.item() == pytest.approx(exact.item(), rel=0.02)


def test_xielu_has_the_slope_beta_at_exact_zeros():
    x = torch.zeros(3, requires_grad=True)
    y = gw.nn.XIELU()(x)
    assert torch.equal(y, torch.zeros(3))
    assert torch.autograd.grad(y.sum(), x)[0].tolist() == [0.5] * 3


@pytest.mark.networks
def test_units_equal_those_of_transformers():
    activations = pytest.importorskip("transformers.activations")
    torch.testing.assert_close(
        gw.functional.relu2(X), activations.ACT2FN["relu2"](X), rtol=0, atol=1e-15
    )
    theirs = activations.XIELUActivation(dtype=torch.float64)
    away = X[(X > 0) | (X < -1e-6)]
    with torch.no_grad():
        ours = gw.nn.XIELU(dtype=torch.float64)(away)
        torch.testing.assert_close(ours, theirs._xielu_python(away), rtol=1e-12, atol=1e-12)


@pytest.mark.networks
def test_gated_units_equal_the_blocks_of_transformers():
    pytest.importorskip("transformers")
    from transformers import GemmaConfig, GptOssConfig, LlamaConfig
    from transformers.models.gemma.modeling_gemma import GemmaMLP
    from transformers.models.gpt_oss.modeling_gpt_oss import GptOssExperts
    from transformers.models.llama.modeling_llama import LlamaMLP

    torch.manual_seed(0)
    small = {"hidden_size": 8, "intermediate_size": 12, "num_attention_heads": 2}
    x = 3 * torch.randn(5, 8, dtype=torch.float64)
    llama = LlamaMLP(LlamaConfig(**small)).double()
    h = gw.functional.swiglu(llama.gate_proj(x), llama.up_proj(x))
    torch.testing.assert_close(llama.down_proj(h), llama(x), rtol=1e-12, atol=1e-14)
    gemma = GemmaMLP(GemmaConfig(**small, hidden_activation="gelu_pytorch_tanh")).double()
    h = gw.functional.geglu(gemma.gate_proj(x), gemma.up_proj(x), approximate="tanh")
    torch.testing.assert_close(gemma.down_proj(h), gemma(x), rtol=1e-12, atol=1e-14)
    experts = GptOssExperts(GptOssConfig(**small, num_local_experts=2))
    packed = 9 * torch.randn(64, 24, dtype=torch.float64)
    unit = gw.nn.SwiGLU(layout="interleaved", limit=7.0, alpha=1.702, offset=1.0)
    torch.testing.assert_close(unit(packed), experts._apply_gate(packed), rtol=1e-12, atol=1e-12)


@pytest.mark.networks
def test_units_equal_those_of_timm():
    timm = pytest.importorskip("timm.layers")
    from timm.models.metaformer import StarReLU

    torch.testing.assert_close(gw.nn.StarReLU()(X.float()), StarReLU()(X.float()))
    mlp = timm.GluMlp(8, 24, act_layer=nn.SiLU, drop=0.0).double()
    x = torch.randn(5, 8, dtype=torch.float64)
    want = mlp.fc2(gw.nn.SwiGLU()(mlp.fc1(x)))
    torch.testing.assert_close(mlp(x), want, rtol=1e-12, atol=1e-14)
