"""Definition 3.1 against every path and every weight, and the two kernels of soft-GaLU networks over all signs."""

import itertools
import math

import pytest
import torch
from torch import Tensor

import gatewise as gw
from gatewise.analysis import delta
from gatewise.errors import ArgumentError


def activities(weights: tuple[Tensor, ...], x: Tensor, beta: float = 4.0, eps: float = 0.1) -> Tensor:
    """The activity of every path from one input node, written out: (n, P)."""
    z, product = x, torch.ones(len(x), 1, dtype=torch.float64)
    for weight in weights:
        q = z @ weight.T
        gate = (1 + eps) / (1 + torch.exp(-beta * q))
        product = (product[:, :, None] * gate[:, None, :]).flatten(1)
        z = q * gate
    return product


def by_brute_force(model, x: Tensor, **options) -> Tensor:
    weights = tuple(weight.detach() for weight in model.gate_parameters())
    jacobian = torch.autograd.functional.jacobian(lambda *w: activities(w, x, **options), weights)
    return sum(torch.einsum("spm,tpm->st", each.flatten(2), each.flatten(2)) for each in jacobian)


@pytest.mark.parametrize("gate", ["soft_galu", "soft_relu"])
@pytest.mark.parametrize("widths", [(3,), (3, 2), (4, 2, 3), (2, 2, 2, 2)])
def test_delta_is_the_sum_over_paths_and_weights(gate: str, widths: tuple[int, ...]):
    model = gw.nn.DeepGatedNetwork(3, widths, len(widths) + 1, gate=gate, dtype=torch.float64)
    x = torch.randn(4, 3, dtype=torch.float64)
    want = by_brute_force(model, x)
    torch.testing.assert_close(delta(model, x), want, rtol=1e-11, atol=1e-12 * want.abs().max().item())


def test_sharpness_and_reach_of_the_gate_count():
    model = gw.nn.DeepGatedNetwork(3, 3, 3, gate="soft_galu", beta=1.5, eps=0.4, dtype=torch.float64)
    x = torch.randn(4, 3, dtype=torch.float64)
    torch.testing.assert_close(delta(model, x), by_brute_force(model, x, beta=1.5, eps=0.4), rtol=1e-11, atol=1e-12)


def test_activities_are_those_of_the_paths_walked():
    model = gw.nn.DeepGatedNetwork(1, (4, 2, 3), 4, gate="soft_galu", dtype=torch.float64)
    x = torch.randn(4, 1, dtype=torch.float64)
    written_out = activities(tuple(model.gate_parameters()), x)
    torch.testing.assert_close(gw.paths(model, x).activity, written_out.detach(), rtol=1e-12, atol=1e-14)


def test_chunks_and_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch):
    model = gw.nn.DeepGatedNetwork(3, 4, 4, gate="soft_galu", dtype=torch.float64)
    x = torch.randn(5, 3, dtype=torch.float64)
    whole = delta(model, x)
    torch.testing.assert_close(delta(model, x[:2], x[2:]), whole[:2, 2:])
    monkeypatch.setitem(delta.__globals__, "CHUNK", 1)
    torch.testing.assert_close(delta(model, x), whole)


def test_the_kernels_of_lemma_3_1_hold_exactly_over_all_signs_of_the_weights():
    """Part (iii) as printed; part (ii) with the factor d that the paper leaves out."""
    d, sigma, x = 3, 0.8, torch.randn(3, 2, dtype=torch.float64)
    model = gw.nn.DeepGatedNetwork(2, 2, d, gate="soft_galu", sigma=sigma, dtype=torch.float64)
    names = [f"weights.{i}.weight" for i in range(d)]
    shapes = [(2, 2), (2, 2), (1, 2)]
    signs = torch.tensor(list(itertools.product((-sigma, sigma), repeat=10)), dtype=torch.float64)
    weights = [part.reshape(-1, *shape) for part, shape in zip(signs.split([4, 4, 2], 1), shapes, strict=True)]
    gating = {f"gating.{i}.weight": p.detach() for i, p in enumerate(model.gate_parameters())}

    def outputs(strength: dict[str, Tensor], gates: dict[str, Tensor]) -> Tensor:
        return torch.func.functional_call(model, {**strength, **gates}, (x,))[:, 0]

    def kernels(drawn: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        both = torch.func.jacrev(outputs, argnums=(0, 1))(dict(zip(names, drawn, strict=True)), gating)
        flat = [torch.cat([each.flatten(1) for each in part.values()], 1) for part in both]
        return flat[0] @ flat[0].T, flat[1] @ flat[1].T

    of_weights, of_gates = (each.mean(0) for each in torch.func.vmap(kernels)(tuple(weights)))
    gram = x @ x.T
    torch.testing.assert_close(of_weights, d * sigma ** (2 * (d - 1)) * gram * gw.path_kernel(model, x))
    torch.testing.assert_close(of_gates, sigma ** (2 * d) * gram * delta(model, x))


def test_hard_gates_do_not_move():
    model = gw.nn.DeepGatedNetwork(3, 4, 3, gate="galu")
    assert delta(model, torch.randn(2, 3)).abs().max() == 0


def test_it_computes_in_float64_and_leaves_the_model_as_it_was():
    model = gw.nn.DeepGatedNetwork(3, 4, 3, gate="soft_galu")
    found = delta(model, torch.randn(2, 3))
    assert found.dtype == torch.float64 and next(model.parameters()).dtype == torch.float32
    assert math.isfinite(found.sum())


@pytest.mark.parametrize(
    "model",
    [
        torch.nn.Linear(3, 1),
        gw.nn.DeepGatedNetwork(3, 4, 3, gate="linear"),
        gw.nn.DeepGatedConvNetwork((1, 3), (2,), gate="soft_galu"),
    ],
    ids=["plain", "linear", "convolutional"],
)
def test_models_without_dense_gates_that_responses_set_are_refused(model: torch.nn.Module):
    with pytest.raises(ArgumentError, match="gates"):
        delta(model, torch.randn(2, 3))
