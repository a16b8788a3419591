"""The compiled form of the kernel of dense layers, against the form of torch."""

import pytest
import torch
from tangent_kernels import error
from torch import Tensor, nn

import gatewise as gw
from gatewise.analysis.tangent_kernel import compiled_products


class Mixing(nn.ReLU):
    """Looks like an activation; its gates are those of the batch."""

    def forward(self, x: Tensor) -> Tensor:
        return x * (x.detach() > x.detach().mean(0))


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
