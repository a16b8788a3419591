"""The parts of the tangent kernel of gated networks, against derivatives and paths written out."""

import itertools

import pytest
import torch
from gatewise_papers import deep_gated
from gatewise_papers.deep_gated import (
    DeepGatedConvNetwork,
    DeepGatedNetwork,
    kernel_parts,
    wire_kernel,
)
from loops import for_each
from tangent_kernels import error, explicit_ntk
from torch import Tensor

from gatewise.errors import ArgumentError

# Sums of at most a few hundred products in float64.
ROUNDING = 1e-11


def network(gate: str, **options) -> DeepGatedNetwork:
    torch.manual_seed(0)
    return DeepGatedNetwork(4, width=5, depth=3, gate=gate, **options).double()


def inputs(n: int = 3) -> Tensor:
    return torch.randn(n, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@for_each("gate", ["relu", "galu", "soft_relu", "soft_galu"])
def test_the_parts_add_up_to_the_tangent_kernel(gate: str) -> None:
    model, x, x2 = network(gate), inputs(), inputs(5)[3:]
    parts = kernel_parts(model, x)
    assert error(parts.total, explicit_ntk(model, x)) < ROUNDING
    assert error(kernel_parts(model, x, x2).total, explicit_ntk(model, x, x2)) < ROUNDING
    assert torch.equal(parts.cross, parts.cross.T)
    soft = gate.startswith("soft")
    assert bool(parts.activities.any()) == soft
    assert bool(parts.cross.any()) == (gate == "soft_relu")


def test_soft_galu_has_one_part_for_each_set_of_weights() -> None:
    model, x = network("soft_galu"), inputs()
    parts = kernel_parts(model, x)
    of_strengths = explicit_ntk(model, x, parameters=list(model.strength_parameters()))
    of_gates = explicit_ntk(model, x, parameters=list(model.gate_parameters()))
    assert error(parts.strengths, of_strengths) < ROUNDING
    assert error(parts.activities, of_gates) < ROUNDING


def test_one_hidden_layer_with_soft_relu_is_the_formula() -> None:
    """Y = v'(q chi(q)), q = W x: by W, v chi x' through strengths, v q chi' x' through gates."""
    torch.manual_seed(0)
    model, x = DeepGatedNetwork(4, width=5, depth=2, gate="soft_relu").double(), inputs()
    first, last = (weight.detach() for weight in model.strength_parameters())
    q = x @ first.T
    chi = (1 + model.eps) / (1 + torch.exp(-model.beta * q))
    slope = model.beta * chi * (1 - chi / (1 + model.eps))
    gram = x @ x.T
    w, a = last * chi, last * q * slope
    parts = kernel_parts(model, x)
    assert error(parts.strengths, gram * (w @ w.T) + (q * chi) @ (q * chi).T) < ROUNDING
    assert error(parts.activities, gram * (a @ a.T)) < ROUNDING
    assert error(parts.cross, gram * (w @ a.T + a @ w.T)) < ROUNDING


def test_several_outputs_and_convolutions() -> None:
    torch.manual_seed(0)
    model = DeepGatedConvNetwork((1, 4, 4), channels=(2, 2), d_out=2, gate="soft_relu").double()
    x = torch.randn(2, 1, 4, 4, dtype=torch.float64)
    assert error(kernel_parts(model, x).total, explicit_ntk(model, x)) < ROUNDING


@for_each("gate", ["relu", "soft_galu"])
def test_kappa_is_the_sum_over_pairs_of_paths_from_one_input(gate: str) -> None:
    torch.manual_seed(0)
    model, x = DeepGatedNetwork(3, width=2, depth=3, gate=gate).double(), inputs()[:, :3]
    weights = list(model.strength_parameters())
    with torch.no_grad():
        gates = model.gates(x)
    paths = list(itertools.product(range(3), range(2), range(2)))
    derivatives, activities = [], []
    for i, j, k in paths:
        strength = weights[0][j, i] * weights[1][k, j] * weights[2][0, k]
        slopes = torch.autograd.grad(strength, weights)
        derivatives.append(torch.cat([slope.flatten() for slope in slopes]))
        activities.append(gates[0][:, j] * gates[1][:, k])
    phi = torch.stack(derivatives)
    active = torch.stack(activities, 1)
    products = torch.einsum("sp,tq,pq->stpq", active, active, phi @ phi.T)
    want = torch.zeros(3, 3, 3, dtype=torch.float64)
    for (a, p), (b, q) in itertools.product(enumerate(paths), repeat=2):
        if p[0] == q[0]:
            want[:, :, p[0]] += products[:, :, a, b]
    assert error(wire_kernel(frozen_gates(model), x), want) < ROUNDING


def frozen_gates(model: DeepGatedNetwork) -> DeepGatedNetwork:
    """The network with path strengths as the only trained weights."""
    for parameter in model.gating.parameters():
        parameter.requires_grad_(False)
    return model


def test_kappa_leaves_out_paths_from_two_inputs_and_is_right_with_one() -> None:
    model, x = network("relu"), inputs()
    by_kappa = torch.einsum("si,ti,sti->st", x, x, wire_kernel(model, x))
    whole = kernel_parts(model, x).strengths
    assert error(by_kappa, whole) > 1e-3
    one = x * torch.tensor([0.0, 0.0, 1.0, 0.0], dtype=torch.float64)
    by_kappa = torch.einsum("si,ti,sti->st", one, one, wire_kernel(model, one))
    assert error(by_kappa, kernel_parts(model, one).strengths) < ROUNDING


def test_models_without_responses_that_set_gates_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"got: gate='random'.*allowed: DeepGatedNetwork"):
        kernel_parts(DeepGatedNetwork(4, width=3, depth=2, gate="random", examples=2), inputs())
    with pytest.raises(ArgumentError, match="got: Linear"):
        wire_kernel(torch.nn.Linear(4, 1), inputs())
    model = network("relu")
    with pytest.raises(ArgumentError, match="no weight that is trained"):
        kernel_parts(model.requires_grad_(False), inputs())


def test_the_repr_has_the_shares() -> None:
    text = repr(deep_gated.kernel_parts(network("soft_relu"), inputs()))
    assert text.startswith("KernelParts of 3 inputs; shares of the trace: strengths ")
