"""Quicker ways to the same kernel: without a probe, by tiles, compiled.

Each against the slow way it replaces.
"""

import pytest
import torch
from tangent_kernels import error, explicit_ntk
from torch import Tensor, nn

import gatewise as gw
from gatewise.analysis.tangent_kernel import is_plain, layer_rules
from gatewise.analysis.tangent_kernel.compiled import (
    multiplications,
    products,
    skinny_matmul,
    weight_gradients,
)

EXACT = 1e-12


def plain_network(outputs: int = 1) -> nn.Sequential:
    layers = (
        nn.Conv2d(3, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(),
        nn.Flatten(),
    )
    return (
        nn.Sequential(*layers, nn.Sequential(nn.Linear(36, 7), nn.GELU()), nn.Linear(7, outputs))
        .double()
        .eval()
    )


def by_windows(x: Tensor, d: Tensor) -> Tensor:
    """The definition of the gradient: slopes times windows, summed over positions."""
    windows = x.unfold(3, 3, 1).unfold(4, 3, 1)
    return torch.einsum("ngchw,ngqhwij->ngijcq", d, windows).flatten(2, 3)


@pytest.mark.parametrize(
    "shape", [(1, 1, 2, 3, 4, 4), (2, 3, 5, 4, 7, 10), (3, 1, 2, 2, 3, 2), (1, 2, 1, 1, 1, 9)]
)
def test_tiles_give_the_weight_gradients(shape: tuple[int, ...]):
    samples, groups, channels, filters, height, width = shape
    x = torch.randn(samples, groups, channels, height + 2, width + 2).double()
    d = torch.randn(samples, groups, filters, height, width).double()
    assert error(weight_gradients(x, d), by_windows(x, d)) < EXACT
    out = torch.empty(samples, groups, 9, filters, channels).double()
    assert weight_gradients(x, d, out=out) is out and error(out, by_windows(x, d)) < EXACT


def test_inner_products_of_gradients_by_tiles_are_right_in_float32():
    """Single gradients are off by 1e-6 of their size, independently.

    Their sums of 4096 products are not.
    """
    x, d = torch.randn(3, 1, 16, 34, 34).relu(), torch.randn(3, 1, 32, 32, 32)
    got, want = (
        g.double().flatten(1) for g in (weight_gradients(x, d), by_windows(x.double(), d.double()))
    )
    assert error(got, want) < 5e-6
    assert error(got @ got.mT, want @ want.mT) < 1e-7


def test_tiles_are_taken_where_they_save_multiplications():
    direct = 9 * 32 * 32 * 64 * 64
    assert multiplications(64, 64, (32, 32)) < direct
    assert multiplications(4, 4, (32, 32)) > direct * 4 * 4 / 64**2
    assert multiplications(64, 64, (2, 2)) > 9 * 2 * 2 * 64 * 64


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("mode", ["zeros", "circular"])
def test_kernels_by_tiles_equal_the_jacobian(
    groups: int, outputs: int, mode: str, monkeypatch: pytest.MonkeyPatch
):
    for name in ("multiplications", "compiled_multiplications"):
        monkeypatch.setattr(layer_rules, name, lambda *given: 0)
    conv = nn.Conv2d(4, 6, 3, padding=1, padding_mode=mode, groups=groups)
    model = nn.Sequential(
        conv, nn.Tanh(), nn.Conv2d(6, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(4 * 5 * 8, outputs)
    )
    x = torch.randn(5, 4, 7, 10).double()
    assert error(gw.ntk(model.double(), x), explicit_ntk(model, x)) < EXACT
    assert error(gw.ntk(model, x, memory=2**18), explicit_ntk(model, x)) < EXACT


@pytest.mark.parametrize("outputs", [1, 3])
def test_a_plain_model_is_not_probed(outputs: int, monkeypatch: pytest.MonkeyPatch):
    model, x = plain_network(outputs), torch.randn(7, 3, 6, 6).double()
    want = explicit_ntk(model, x)
    monkeypatch.setattr(
        "gatewise.analysis.tangent_kernel.execution_plan._probe",
        lambda *given: pytest.fail("it was probed"),
    )
    assert error(gw.ntk(model, x), want) < EXACT
    assert error(gw.ntk(model, x[:3], x[3:]), want[:3, 3:]) < EXACT


class Mixing(nn.ReLU):
    """Looks like an activation; its gates are those of the batch."""

    def forward(self, x: Tensor) -> Tensor:
        return x * (x.detach() > x.detach().mean(0))


def unlike_plain() -> dict[str, nn.Module]:
    hooked, patched = nn.ReLU(), nn.ReLU()
    hooked.register_forward_hook(lambda module, given, output: output)
    patched.forward = lambda x: x - x.detach().mean(0)
    modules = {
        "subclass": Mixing(),
        "hook": hooked,
        "patched": patched,
        "in place": nn.ReLU(inplace=True),
    }
    return modules | {
        "dropout": nn.Dropout().train(),
        "flatten": nn.Flatten(0),
        "softmax": nn.Softmax(0),
    }


@pytest.mark.parametrize("name", sorted(unlike_plain()))
def test_what_may_mix_samples_is_not_plain(name: str):
    model, x = plain_network(), torch.randn(7, 3, 6, 6).double()
    assert is_plain(model.modules(), x)
    model.append(unlike_plain()[name])
    assert not is_plain(model.modules(), x)


def test_a_model_that_mixes_samples_out_of_sight_of_the_graph_is_still_refused():
    model = nn.Sequential(nn.Linear(3, 8), Mixing(), nn.Linear(8, 1))
    with pytest.raises(gw.errors.ArgumentError, match="another output in a batch than alone"):
        gw.ntk(model, torch.randn(9, 3))


compiled = pytest.mark.skipif(
    products.native_library("gram") is None, reason="no compiler, or no AVX-512"
)


@compiled
@pytest.mark.parametrize("rows, columns", [(5, 5), (6, 13), (17, 5), (23, 23)])
@pytest.mark.parametrize("inputs, slopes", [(1, 1), (16, 33), (40, 7)])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("symmetric", [False, True])
def test_compiled_products_are_those_of_torch(
    rows, columns, inputs, slopes, bias, symmetric, one_thread
):
    z1, d1, z2, d2 = (
        torch.randn(n, k + 3)[:, :k] for n in (rows, columns) for k in (inputs, slopes)
    )
    if symmetric:
        z2, d2, columns = z1, d1, rows
    before = torch.randn(rows, columns).double()
    total = before.clone()
    assert products.add_products(total, (z1, z2), (d1, d2), bias=bias, symmetric=symmetric)
    want = before + (z1.double() @ z2.double().mT + bias) * (d1.double() @ d2.double().mT)
    got, want = (total.tril(), want.tril()) if symmetric else (total, want)
    assert error(got, want) < 40 * torch.finfo(torch.float32).eps


@pytest.fixture
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@compiled
def test_what_the_compiled_form_cannot_read_is_left_to_torch(one_thread):
    def taken(rows: Tensor) -> bool:
        total = torch.zeros(len(rows), len(rows)).double()
        return products.add_products(total, (rows, rows), (rows, rows), bias=True, symmetric=True)

    assert taken(torch.randn(6, 4))
    assert (
        not taken(torch.randn(4, 4))
        and not taken(torch.randn(6, 4).double())
        and not taken(torch.randn(4, 6).mT)
    )
    torch.set_num_threads(2)
    assert not taken(torch.randn(6, 4))


@compiled
@pytest.mark.parametrize(
    "rows, outputs, inputs", [(1, 1, 1), (3, 5, 7), (12, 8, 512), (13, 9, 513), (24, 17, 1100)]
)
def test_products_of_a_few_rows_are_those_of_a_linear_layer(rows, outputs, inputs):
    x = torch.randn(rows, inputs + 3)[:, :inputs].requires_grad_()
    weight, bias, slope = (
        torch.randn(outputs, inputs + 5)[:, :inputs],
        torch.randn(outputs),
        torch.randn(rows, outputs),
    )
    y = skinny_matmul.SkinnyMatmul.apply(x, weight, bias)
    (gradient,) = torch.autograd.grad(y, x, slope)
    want, back = x.double() @ weight.double().mT + bias.double(), slope.double() @ weight.double()
    sums = (
        x.double().abs() @ weight.double().abs().mT + bias.abs(),
        slope.double().abs() @ weight.double().abs(),
    )
    eps = torch.finfo(torch.float32).eps  # of a product and of every sum that a term goes through
    assert bool(((y - want).abs() <= (inputs / 16 + 6) * eps * sums[0]).all())
    assert bool(((gradient - back).abs() <= (outputs + 1) * eps * sums[1]).all())


@compiled
@pytest.mark.parametrize("bias", [False, True])
def test_a_large_layer_with_few_samples_goes_that_way_and_is_left_as_it_was(
    bias, one_thread, monkeypatch
):
    monkeypatch.setattr(skinny_matmul, "LEAST_WEIGHTS", 1000)
    taken = []
    apply = skinny_matmul.SkinnyMatmul.apply
    monkeypatch.setattr(
        skinny_matmul.SkinnyMatmul, "apply", lambda *given: taken.append(given) or apply(*given)
    )
    model = nn.Sequential(nn.Linear(30, 40, bias=bias), nn.ReLU(), nn.Linear(40, 3))
    x = torch.randn(14, 30)
    got = gw.ntk(model, x)
    assert error(got, explicit_ntk(model.double(), x.double())) < 1e-6
    assert len(taken) == 1 and not any("forward" in vars(module) for module in model)
    taken.clear()
    many = torch.randn(25, 30)
    got = gw.ntk(model.float(), many)
    assert error(got, explicit_ntk(model.double(), many.double())) < 1e-6
    assert not taken
