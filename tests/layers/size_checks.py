"""What layers keep at any size of their input: checks that tests of both packages run."""

from collections.abc import Callable, Iterable

import pytest
import torch
from layers.every_layer import Example
from torch import Tensor, nn

from gatewise.layers import any_size
from gatewise.testing import check_layer

LARGEST = torch.finfo(torch.float32).max
FAR = any_size.far_from(torch.float32)
FAR_OUT = (1e33, 1e37, LARGEST)
NO_NAN = (
    "finite_input_never_gives_nan",
    "finite_input_never_gives_nan_in_training",
    "the_largest_numbers_never_give_nan",
    "the_largest_numbers_everywhere_never_give_nan",
    "the_largest_float16_everywhere_never_gives_nan",
)
ROWS, MAPS = (5, 300), (5, 8, 6, 5)
Make = Callable[[], nn.Module]


def build(make: Make) -> nn.Module:
    torch.manual_seed(0)
    return make().eval()


def sized(shape: tuple[int, ...], size: float) -> Tensor:
    return size * torch.empty(shape).uniform_(-1, 1, generator=torch.Generator().manual_seed(0))


def check_far_out(make: Make, shape: tuple[int, ...]) -> None:
    """Far out, the response is that of float64 or the largest number, without a gradient."""
    for size in FAR_OUT:
        layer, x = build(make), sized(shape, size)
        got = layer(x)
        want = layer.double()(x.double())
        # Of 300 inputs at most, or two times 24: as many roundings, of terms that are smaller than
        # the input.
        torch.testing.assert_close(
            got.double(), want.clamp(-LARGEST, LARGEST), rtol=1e-6, atol=300 * 2**-24 * size
        )
        assert got.isfinite().all()
    layer, x = build(make), sized(shape, 1e32).requires_grad_()
    layer(x).sum().backward()
    gradients = [x.grad, *(p.grad for p in layer.parameters() if p.grad is not None)]
    assert not any(gradient.any() for gradient in gradients)


def check_one_sample_far_out(make: Make, shape: tuple[int, ...]) -> None:
    """A sample far out changes neither the others nor their gradients."""
    x = sized(shape, 1.0)
    mixed = torch.cat((x[:2], sized(shape, LARGEST)[:1], x[2:]))
    alone, together = build(make), build(make)
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


def check_up_to_the_margin(
    make: Make, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to the margin, the plain path has the same bits."""
    layer, x = build(make), sized(shape, 1.0)
    x = (x * FAR / x.abs().max()).requires_grad_()
    out = layer(x)
    (gradient,) = torch.autograd.grad(out.sum(), x)
    monkeypatch.setattr(any_size, "_is_near", lambda x: True)  # the plain path
    assert torch.equal(out, layer(x))
    assert gradient.abs().sum() > 0


def check_form_without_a_look(example: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    """The form that does not look at its input has the same bits for usual inputs."""
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
    gradients = [p.grad.clone() for p in layer.parameters() if p.grad is not None]
    return [out.detach(), leaf.grad, *gradients]


def check_infinities_and_nan(make: Make, shape: tuple[int, ...]) -> None:
    """Infinities and NaN stay what they are."""
    layer, x = build(make), sized(shape, 1.0)
    x[0], x[1].view(-1)[0], x[2] = LARGEST, torch.inf, torch.nan
    out = layer(x)
    assert out[0].isfinite().all()
    assert out[1].isinf().any()
    assert out[2].isnan().all()
    assert torch.equal(out[3:], layer(x[3:]))


def at_the_end(example: Example) -> tuple[nn.Module, Tensor]:
    """Return a layer, and an input of the largest numbers of both signs."""
    layer = build(example.make)
    return layer, torch.where(torch.rand(example.shape) < 0.5, -LARGEST, LARGEST)


def check_batched(example: Example) -> None:
    layer, x = at_the_end(example)
    want = layer(x)
    _assert_same(torch.func.vmap(layer)(x[:, None])[:, 0], want, layer)
    assert not want.isnan().any()


def check_exported(example: Example) -> None:
    layer, x = at_the_end(example)
    exported = torch.export.export(layer, (x,)).module()
    _assert_same(exported(x), layer(x), layer)


def check_compiled(example: Example) -> None:
    layer, x = at_the_end(example)
    compiled, leaf = torch.compile(layer, fullgraph=True), x.clone().requires_grad_()
    out = compiled(leaf)
    out.backward(torch.ones_like(out))
    gradients = [p.grad for p in layer.parameters() if p.grad is not None]
    assert not any(each.isnan().any() for each in (out, leaf.grad, *gradients))


def _assert_same(ours: Tensor, other: Tensor, layer: nn.Module) -> None:
    """Equal up to the order of a sum of all products of one output."""
    products = 2 * max(weight[0].numel() for weight in layer.parameters())
    rounding = products * torch.finfo(ours.dtype).eps
    torch.testing.assert_close(ours, other, rtol=rounding, atol=0)


def check_no_nan(example: Example, excepted: Iterable[str] = ()) -> None:
    """Finite input gives no NaN."""
    check_layer(
        example.make,
        example.shape,
        only=NO_NAN,
        leave_out=dict.fromkeys(excepted, "docs/layers.md excepts it"),
    )
