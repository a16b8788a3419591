"""Inputs up to the largest number.

Right values, the same bits for usual ones, and in every mode torch has.
"""

from functools import partial

import pytest
import torch
from gatewise_papers.deep_gated import OutsideGatedLinear
from gatewise_papers.maso import MASO, ApodizedConv2d
from gatewise_papers.psc import LowRankPSConv2d, StaticPSConv2d, StaticPSLinear
from layers.every_layer import EXAMPLES
from torch import Tensor, nn

from gatewise import layers
from gatewise.layers import any_size

LARGEST = torch.finfo(torch.float32).max
FAR = any_size.far_from(torch.float32)
# Responses and what is added up from them. Not those whose gates are settled early, which is
# another function there.
LINEAR = {
    "phases, linear": partial(layers.PSLinear, 300, 8),
    "phases 2d": partial(layers.PSConv2d, 8, 6, 3, padding=1),
    "phases 2d, reflected": partial(layers.PSConv2d, 8, 6, 3, padding=1, padding_mode="reflect"),
    "split": partial(StaticPSLinear, 300, 8, split=0.5),
    "split, in groups": partial(StaticPSConv2d, 8, 6, 3, split=0.5, groups=2),
    "low rank": partial(LowRankPSConv2d, 8, 6, 3, rank=2),
    "apodized": partial(ApodizedConv2d, 8, 6, 3),
    "outside": partial(OutsideGatedLinear, 300, 8, gate="constant", bias=True),
    "maso": partial(MASO, 300, 8, 3),
    "iieu's response": lambda: ResponseOf(layers.ConvIIEU(nn.Conv2d(8, 6, 3))),
}
# Another function in evaluation while it is traced, or one that cannot be compared: a random gate.
BRANCHING = {"split, linear", "split 1d", "split 2d"}


class ResponseOf(nn.Module):
    """The response inside an IIEU layer."""

    def __init__(self, layer: layers.ConvIIEU) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer.response(x)


def sized(name: str, size: float, samples: int = 5) -> Tensor:
    shape = (
        (samples, 300)
        if name in ("phases, linear", "split", "outside", "maso")
        else (samples, 8, 6, 5)
    )
    return size * torch.empty(shape).uniform_(-1, 1, generator=torch.Generator().manual_seed(0))


def build(name: str) -> nn.Module:
    torch.manual_seed(0)
    return LINEAR[name]().eval()


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("size", [1e33, 1e37, LARGEST])
def test_a_response_to_numbers_far_out_is_that_of_float64_or_the_largest_number(
    name: str, size: float
):
    layer, x = build(name), sized(name, size)
    got = layer(x)
    want = layer.double()(x.double())
    # Of 300 inputs at most, or two times 24: as many roundings, of terms that are smaller than the
    # input.
    torch.testing.assert_close(
        got.double(), want.clamp(-LARGEST, LARGEST), rtol=1e-6, atol=300 * 2**-24 * size
    )
    assert got.isfinite().all()


@pytest.mark.parametrize("name", LINEAR)
def test_a_sample_far_out_changes_neither_the_others_nor_their_gradients(name: str):
    x = sized(name, 1.0)
    mixed = torch.cat((x[:2], sized(name, LARGEST)[:1], x[2:]))
    alone, together = build(name), build(name)
    near, mixed = x.clone().requires_grad_(), mixed.requires_grad_()
    out, both = alone(near), together(mixed)
    assert torch.equal(both[[0, 1, 3, 4, 5]], out)
    out.square().sum().backward()
    both[[0, 1, 3, 4, 5]].square().sum().backward()
    assert torch.equal(mixed.grad[[0, 1, 3, 4, 5]], near.grad)
    for (label, p), q in zip(alone.named_parameters(), together.parameters(), strict=True):
        if p.grad is not None:  # the sums of five samples and of six may be taken in another order
            torch.testing.assert_close(
                q.grad, p.grad, rtol=1e-5, atol=1e-5 * float(p.grad.abs().max()), msg=label
            )


@pytest.mark.parametrize("name", LINEAR)
def test_a_sample_far_out_passes_no_gradient(name: str):
    layer, x = build(name), sized(name, 1e32).requires_grad_()
    layer(x).sum().backward()
    assert torch.equal(x.grad, torch.zeros_like(x))
    assert all(
        torch.equal(p.grad, torch.zeros_like(p)) for p in layer.parameters() if p.grad is not None
    )


@pytest.mark.parametrize("name", LINEAR)
def test_up_to_the_margin_everything_is_as_it_was(name: str, monkeypatch: pytest.MonkeyPatch):
    layer, x = build(name), sized(name, 1.0)
    x = (x * FAR / x.abs().max()).requires_grad_()
    out = layer(x)
    (gradient,) = torch.autograd.grad(out.sum(), x)
    monkeypatch.setattr(any_size, "_is_near", lambda x: True)  # the plain path
    assert torch.equal(out, layer(x))
    assert gradient.abs().sum() > 0


@pytest.mark.parametrize("name", sorted(EXAMPLES.keys() - BRANCHING))
def test_the_form_without_a_look_gives_the_same_bits_for_usual_inputs(
    name: str, monkeypatch: pytest.MonkeyPatch
):
    example = EXAMPLES[name]
    torch.manual_seed(0)
    layer = example.make().eval()
    looked = _results(layer, torch.randn(example.shape))
    monkeypatch.setattr(any_size, "_is_near", lambda x: False)
    torch.manual_seed(0)
    example.make()
    for one, other in zip(looked, _results(layer, torch.randn(example.shape)), strict=True):
        assert torch.equal(one, other)


def _results(layer: nn.Module, x: Tensor) -> list[Tensor]:
    """Output and gradients."""
    layer.zero_grad()
    leaf = x.clone().requires_grad_()
    out = layer(leaf)
    out.sum().backward()
    return [
        out.detach(),
        leaf.grad,
        *(p.grad.clone() for p in layer.parameters() if p.grad is not None),
    ]


@pytest.mark.parametrize(
    "name", ["phases, linear", "phases 2d", "low rank", "iieu's response", "outside"]
)
def test_infinities_and_nan_stay_what_they_are(name: str):
    layer, x = build(name), sized(name, 1.0)
    x[0], x[1].view(-1)[0], x[2] = LARGEST, torch.inf, torch.nan
    out = layer(x)
    assert out[0].isfinite().all()
    assert out[1].isinf().any()
    assert out[2].isnan().all()
    assert torch.equal(out[3:], layer(x[3:]))


MODES = [
    "phases 2d",
    "low rank 2d",
    "iieu 2d",
    "iieu, linear",
    "glu",
    "outside 2d",
    "maso, soft",
    "soft conv 2d",
]


def assert_same(ours: Tensor, other: Tensor, layer: nn.Module) -> None:
    """Equal up to the order of a sum of all products of one output."""
    products = 2 * max(weight[0].numel() for weight in layer.parameters())
    rounding = products * torch.finfo(ours.dtype).eps
    torch.testing.assert_close(ours, other, rtol=rounding, atol=0)


def dense(name: str) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    layer, shape = EXAMPLES[name].make().eval(), EXAMPLES[name].shape
    return layer, torch.where(torch.rand(shape) < 0.5, -LARGEST, LARGEST)


@pytest.mark.parametrize("name", MODES)
def test_batched_layers_give_no_nan_either(name: str):
    layer, x = dense(name)
    want = layer(x)
    assert_same(torch.func.vmap(layer)(x[:, None])[:, 0], want, layer)
    assert not want.isnan().any()


@pytest.mark.parametrize(
    "name", [MODES[0], *(pytest.param(name, marks=pytest.mark.slow) for name in MODES[1:])]
)
def test_exported_layers_give_no_nan_either(name: str):
    layer, x = dense(name)
    exported = torch.export.export(layer, (x,)).module()
    assert_same(exported(x), layer(x), layer)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODES)
def test_compiled_layers_give_no_nan_either(name: str):
    layer, x = dense(name)
    compiled, leaf = torch.compile(layer, fullgraph=True), x.clone().requires_grad_()
    out = compiled(leaf)
    out.backward(torch.ones_like(out))
    gradients = [p.grad for p in layer.parameters() if p.grad is not None]
    assert not any(each.isnan().any() for each in (out, leaf.grad, *gradients))


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name.startswith("iieu")])
def test_iieu_in_float16_gives_no_nan(name: str):
    layer, x = dense(name)
    assert not layer.half()(x.sign().half() * 65504).isnan().any()
