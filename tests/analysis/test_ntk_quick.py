"""Quicker ways to the same kernel: without a probe, compiled.

Each against the slow way it replaces.
"""

import pytest
import torch
from tangent_kernels import error, explicit_ntk
from torch import Tensor, nn

import gatewise as gw
from gatewise.analysis.tangent_kernel import compiled_products, is_plain

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


@pytest.mark.parametrize("outputs", [1, 3])
def test_a_plain_model_is_not_probed(outputs: int, monkeypatch: pytest.MonkeyPatch):
    model, x = plain_network(outputs), torch.randn(7, 3, 6, 6).double()
    want = explicit_ntk(model, x)
    monkeypatch.setattr(
        "gatewise.analysis.tangent_kernel.execution_plan._probe",
        lambda *given: pytest.fail("it was probed"),
    )
    assert error(gw.analysis.ntk(model, x), want) < EXACT
    assert error(gw.analysis.ntk(model, x[:3], x[3:]), want[:3, 3:]) < EXACT


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
        gw.analysis.ntk(model, torch.randn(9, 3))


compiled = pytest.mark.skipif(
    compiled_products.native_library() is None, reason="no compiler, or no AVX-512"
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
    assert compiled_products.add_products(total, (z1, z2), (d1, d2), bias=bias, symmetric=symmetric)
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
        return compiled_products.add_products(
            total, (rows, rows), (rows, rows), bias=True, symmetric=True
        )

    assert taken(torch.randn(6, 4))
    assert (
        not taken(torch.randn(4, 4))
        and not taken(torch.randn(6, 4).double())
        and not taken(torch.randn(4, 6).mT)
    )
    torch.set_num_threads(2)
    assert not taken(torch.randn(6, 4))
