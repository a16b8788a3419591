"""nu along a training is nu of the model as it stands, and looking changes nothing but the time."""

import copy
import math

import pytest
import torch
from gatewise_papers import deep_gated
from loops import for_each
from torch import nn

from gatewise.errors import ArgumentError, UnknownNameError

N = 6


def soft_galu(**options) -> nn.Module:
    return deep_gated.DeepGatedNetwork(
        4, 8, 3, gate="soft_galu", generator=torch.Generator().manual_seed(0), **options
    )


X = torch.randn(N, 4, generator=torch.Generator().manual_seed(1))
Y = torch.tensor([1.0, -1.0, 1.0, 1.0, -1.0, -1.0])


def gram(model: nn.Module, parameters) -> torch.Tensor:
    """The product of Jacobians, row by row, in float64."""
    model, x = copy.deepcopy(model).double(), X.double()
    chosen = list(parameters(model))
    rows = [
        torch.cat([g.flatten() for g in torch.autograd.grad(model(each[None]).sum(), chosen)])
        for each in x
    ]
    return torch.stack(rows) @ torch.stack(rows).T


def nu(kernel: torch.Tensor) -> float:
    return float(Y.double() @ torch.linalg.solve(kernel, Y.double()))


PARTS = {
    "K": lambda model: model.parameters(),
    "K_w": lambda model: model.strength_parameters(),
    "K_a": lambda model: model.gate_parameters(),
}


@for_each("name", PARTS)
def test_nu_of_a_tangent_kernel_is_that_of_the_product_of_jacobians(name: str):
    model = soft_galu()
    kernel = gram(model, PARTS[name])
    seen = deep_gated.AlignmentTracker(model, X, Y, kernels=(name, f"{name}_hat"))(0)
    assert seen.nu[name] == pytest.approx(nu(kernel), rel=1e-8)
    assert seen.nu[f"{name}_hat"] == pytest.approx(nu(kernel / kernel.trace()), rel=1e-8)


def test_nu_of_the_path_features_is_that_of_the_input_gram_times_lambda():
    model = soft_galu()
    gates = [gate.detach() for gate in copy.deepcopy(model).double().gates(X.double())]
    features = (X.double() @ X.double().T) * math.prod([gate @ gate.T for gate in gates])
    seen = deep_gated.AlignmentTracker(model, X, Y, kernels=("M_hat",))(0)
    assert seen.nu["M_hat"] == pytest.approx(nu(features / features.trace()), rel=1e-8)


def test_it_follows_the_training_and_leaves_the_model_as_it_is():
    watched, alone = soft_galu(), soft_galu()
    tracker = deep_gated.AlignmentTracker(watched, X, Y, kernels=("K",), every=2)
    for model in (watched, alone):
        optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
        for step in range(5):
            if model is watched:
                tracker(step)
            optimiser.zero_grad()
            (model(X).squeeze(1) - Y).square().mean().backward()
            optimiser.step()
    assert [record.step for record in tracker.records] == [0, 2, 4]
    assert len({record.nu["K"] for record in tracker.records}) == 3
    for a, b in zip(watched.parameters(), alone.parameters(), strict=True):
        assert torch.equal(a, b) and a.dtype == torch.float32
    assert tracker.records[0].nu["K"] == pytest.approx(nu(gram(soft_galu(), PARTS["K"])), rel=1e-8)


def test_the_share_of_the_time_is_measured():
    tracker = deep_gated.AlignmentTracker(soft_galu(), X, Y)
    assert tracker.share == 0
    tracker(0)
    assert 0.5 < tracker.share <= 1  # nothing but looking has happened
    busy = torch.randn(400, 400)
    for _ in range(200):
        busy @ busy
    assert tracker.share < 0.9


def test_a_singular_kernel_is_none_and_with_a_ridge_a_number():
    twice, y = torch.cat([X, X]), torch.cat([Y, Y])
    model = soft_galu()
    assert deep_gated.AlignmentTracker(model, twice, y)(0).nu == {"K": None, "K_hat": None}
    assert deep_gated.AlignmentTracker(model, twice, y, ridge=1e-6)(0).nu["K"] > 0


def test_what_was_seen_becomes_plain_and_is_drawn():
    tracker = deep_gated.AlignmentTracker(soft_galu(), X, Y, every=3)
    tracker(0), tracker(1), tracker(3)
    record = tracker.to_dict()
    assert (
        record["steps"] == [0, 3]
        and set(record["nu"]) == {"K", "K_hat"}
        and len(record["nu"]["K"]) == 2
    )
    assert len(tracker.plot().get_lines()) == 2


@for_each(
    ("options", "said"),
    [
        ({"kernels": ("K_hatt",)}, "no kernel of that name"),
        ({"every": 0}, "every"),
        ({"every": 1.5}, "every"),
    ],
)
def test_wrong_options_are_refused(options: dict, said: str):
    with pytest.raises(ArgumentError, match=said):
        deep_gated.AlignmentTracker(soft_galu(), X, Y, **options)


@for_each("model", [nn.Linear(4, 1), deep_gated.DeepGatedNetwork(4, 8, 3, gate="soft_relu")])
def test_a_network_whose_gates_have_no_parameters_of_their_own_has_no_k_a(model: nn.Module):
    with pytest.raises(ArgumentError, match="gates have parameters of their own"):
        deep_gated.AlignmentTracker(model, X, Y, kernels=("K_a",))(0)


def test_several_outputs_have_no_one_nu():
    with pytest.raises(ArgumentError, match="one output"):
        deep_gated.AlignmentTracker(nn.Linear(4, 2), X, Y)(0)


def test_a_wrong_kernel_name_is_a_wrong_name():
    with pytest.raises(UnknownNameError):
        deep_gated.AlignmentTracker(soft_galu(), X, Y, kernels=("H",))
