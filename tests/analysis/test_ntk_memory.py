"""A budget changes how a kernel is computed, never what comes out, and is kept."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tangent_kernels import error, explicit_ntk
from torch import nn

import gatewise as gw
from gatewise.analysis.tangent_kernel import LONGEST_SUM, KernelBlock, LinearForm, inner_products
from gatewise.errors import ArgumentError

EXACT = 1e-12


def network(outputs: int = 2) -> nn.Module:
    """Layers of both routes, on positions and off them."""
    return nn.Sequential(
        *(
            nn.Conv2d(3, 6, 3, padding=1),
            nn.PReLU(6),
            nn.Conv2d(6, 4, 3, groups=2),
            nn.GroupNorm(2, 4),
            nn.Tanh(),
        ),
        *(nn.Flatten(), nn.Linear(4 * 6 * 6, outputs)),
    ).double()


def smallest_budget(model: nn.Module, *inputs: torch.Tensor, **options) -> int:
    """The one that the error names."""
    with pytest.raises(ArgumentError, match="memory is too small") as caught:
        gw.analysis.ntk(model, *inputs, memory=1, **options)
    assert caught.value.fix is not None
    return int(caught.value.fix.removeprefix("memory="))


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("method", ["auto", "jacobian"])
@pytest.mark.parametrize("times", [1, 2, 4])
def test_any_budget_that_is_allowed_gives_the_same_kernel(outputs: int, method: str, times: int):
    model, x = network(outputs), torch.randn(7, 3, 8, 8).double()
    want = explicit_ntk(model, x)
    smallest = smallest_budget(model, x, method=method)
    assert error(gw.analysis.ntk(model, x, memory=times * smallest, method=method), want) < EXACT
    smallest = smallest_budget(model, x[:3], x[3:], method=method)
    assert (
        error(
            gw.analysis.ntk(model, x[:3], x[3:], memory=times * smallest, method=method),
            want[:3, 3:],
        )
        < EXACT
    )


@pytest.mark.parametrize("samples", [1, 2, 3, 4])
def test_as_many_samples_as_outputs_are_no_special_case(samples: int):
    """``vmap`` of ``jacrev`` through ``nn.PReLU`` is wrong then, in torch 2.13."""
    model, x = network(outputs=3), torch.randn(samples, 3, 8, 8).double()
    assert error(gw.analysis.ntk(model, x, method="jacobian"), explicit_ntk(model, x)) < EXACT


def test_one_byte_less_than_the_smallest_budget_is_refused():
    model, x = network(), torch.randn(7, 3, 8, 8).double()
    smallest = smallest_budget(model, x)
    with pytest.raises(ArgumentError, match=f"at least {smallest} bytes"):
        gw.analysis.ntk(model, x, memory=smallest - 1)
    gw.analysis.ntk(model, x, memory=smallest)


@pytest.mark.parametrize("limit", [1, 200, 5_000, 10**9])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize(("positions", "channels", "reach"), [(1, 3, 4), (2, 30, 40), (9, 3, 4)])
def test_linear_layers_are_summed_alike_in_parts_of_any_size(
    limit, symmetric, positions, channels, reach
):
    groups, outputs, samples = 2, 3, 5
    z = torch.randn(samples, groups, positions, reach).double()
    d = torch.randn(samples, groups, outputs, channels, positions).double()
    gradients = torch.einsum("ngocp,ngpq->nogcq", d, z).flatten(2)
    gradients = torch.cat((gradients, d.sum(-1).transpose(1, 2).flatten(2)), -1)
    want = torch.einsum("nik,mjk->nimj", gradients, gradients)
    total = torch.zeros_like(want)
    block = KernelBlock(
        total, slice(0, samples), slice(0, samples), limit=limit, symmetric=symmetric
    )
    block.add_linear(
        LinearForm(
            lambda some: iter((z[some, ..., :1], z[some, ..., 1:])),
            d,
            reach,
            weight=True,
            bias=True,
        )
    )
    lower = (
        torch.ones(samples, samples).tril().bool()
        if symmetric
        else torch.ones(samples, samples).bool()
    )
    got, want = (each.transpose(1, 2)[lower] for each in (total, want))
    assert error(got, want) < EXACT


@pytest.mark.parametrize("positions", [1, 2, 9])
def test_both_ways_to_sum_a_linear_layer_are_taken(positions: int, monkeypatch: pytest.MonkeyPatch):
    """Few positions and many numbers: pair by pair; otherwise by gradients.

    So the test above sees both.
    """
    taken = []
    for name in ("_add_pairs_of_positions", "_add_weight_gradients"):
        monkeypatch.setattr(KernelBlock, name, lambda self, layer, name=name: taken.append(name))
    block = KernelBlock(torch.zeros(5, 3, 5, 3), slice(0, 5), slice(0, 5), limit=1, symmetric=True)
    size, reach = (30, 40) if positions == 2 else (3, 4)
    d = torch.randn(5, 2, 3, size, positions)
    block.add_linear(LinearForm(lambda some: iter(()), d, reach, weight=True, bias=False))
    assert taken == ["_add_weight_gradients" if positions == 9 else "_add_pairs_of_positions"]


def test_long_sums_in_float32_are_carried_in_float64():
    long = 64 * LONGEST_SUM
    a = torch.rand(2, long)  # all of one sign, so that rounding does not cancel
    want = a.double() @ a.double().mT
    assert error(inner_products(a, a), want) < 1e-6
    assert (
        error(inner_products(a[:, :100], a[:, :100]), a[:, :100].double() @ a[:, :100].double().mT)
        < 1e-6
    )


CHILD = """
import sys
from pathlib import Path
import torch
from torch import nn
import gatewise as gw

torch.set_num_threads(1)
budget = int(sys.argv[1])
model = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(),
                      nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(),
                      nn.Flatten(), nn.Linear(32 * 32 * 32, 1))
x = torch.randn(48, 3, 32, 32)
gw.analysis.ntk(model, x[:2])
Path("/proc/self/clear_refs").write_text("5")
def resident(what):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(what))
before = resident("VmRSS")
gw.analysis.ntk(model, x, memory=budget)
print(resident("VmHWM") - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="only Linux tells a process its peak memory"
)
def test_the_budget_is_kept():
    budget = 24 << 20
    command = [sys.executable, "-c", CHILD, str(budget)]
    peak = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert peak < 1.1 * budget  # all samples at once take twice as much
