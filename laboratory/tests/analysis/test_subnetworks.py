"""Active and sensitive gates.

Against a derivative by every weight, and by counting paths one by one.
"""

import json

import pytest
import torch
from analysis.path_networks import dense
from gatewise_papers import deep_gated
from loops import for_each
from torch import Tensor, nn

import gatewise as gw
from gatewise.errors import ArgumentError


def sensitivities(model, x: Tensor) -> list[Tensor]:
    """The largest derivative of each gate by any weight, one gate at a time."""
    found = [torch.zeros_like(gate) for gate in model.gates(x)]
    weights = list(model.gate_parameters())
    for layer, gates in enumerate(model.gates(x)):
        for place in range(gates.numel()):
            by_weight = torch.autograd.grad(
                gates.flatten()[place], weights, retain_graph=True, allow_unused=True
            )
            found[layer].view(-1)[place] = max(
                each.abs().max().item() for each in by_weight if each is not None
            )
    return found


def networks(gate: str) -> list[tuple[nn.Module, Tensor]]:
    conv = deep_gated.DeepGatedConvNetwork(
        (2, 3, 3), (2, 2), dense=(3,), gate=gate, d_out=1, dtype=torch.float64
    )
    return [dense(gate), (conv, torch.randn(3, 2, 3, 3, dtype=torch.float64))]


@for_each("gate", ["soft_relu", "soft_galu"])
def test_active_and_sensitive_gates_are_those_of_the_definition(gate: str):
    for model, x in networks(gate):
        want = [each.double() for each in sensitivities(model, x)]
        middle = float(torch.cat([each.flatten() for each in want]).median()) * (
            1 + 1e-9
        )  # not a value itself
        found = deep_gated.subnetworks(model, x, active=0.6, sensitive=middle)
        for layer, gates in enumerate(model.gates(x)):
            assert torch.equal(found.active[layer], gates > 0.6)
            assert torch.equal(found.sensitive[layer], want[layer] > middle)
        assert 0 < found.sensitive_count.sum() < sum(each.numel() for each in want)


def test_a_frozen_gating_network_is_as_sensitive_as_one_that_trains():
    model, x = dense("soft_galu")
    free = deep_gated.subnetworks(model, x)
    model.gating.requires_grad_(False)
    frozen = deep_gated.subnetworks(model, x)
    assert (
        torch.equal(free.sensitive_count, frozen.sensitive_count) and free.sensitive_count.sum() > 0
    )


@for_each("gate", ["relu", "galu"])
def test_hard_gates_are_active_where_they_are_open_and_never_sensitive(gate: str):
    for model, x in networks(gate):
        found = deep_gated.subnetworks(model, x)
        want = torch.stack([(each != 0).flatten(1).sum(1) for each in model.gates(x)], 1)
        assert torch.equal(found.active_count, want)
        assert found.sensitive_count.sum() == 0 and found.sensitive_paths().sum() == 0


def test_any_relu_network_can_be_asked():
    model = nn.Sequential(nn.Linear(3, 5, bias=False), nn.ReLU(), nn.Linear(5, 1, bias=False))
    x = torch.randn(6, 3)
    found = deep_gated.subnetworks(model, x)
    open_gates = (model[0](x) > 0).double()
    assert torch.equal(found.overlap().double(), open_gates @ open_gates.T)
    assert torch.equal(found.active_paths(), 3 * open_gates @ open_gates.T)


def test_a_plain_network_of_soft_gates_is_as_sensitive_as_ours():
    model, x = dense("soft_relu")
    parts = [part for layer in model.weights for part in (layer, gw.nn.SoftReLU())]
    plain = nn.Sequential(*parts[:-1])
    for threshold in (0.05, 0.2):
        ours, theirs = (
            deep_gated.subnetworks(each, x, sensitive=threshold) for each in (model, plain)
        )
        assert torch.equal(ours.sensitive_count, theirs.sensitive_count)


@for_each("gate", ["soft_galu", "soft_relu"])
def test_paths_through_active_and_sensitive_gates_are_counted_as_if_walked(gate: str):
    for model, x in networks(gate):
        found = deep_gated.subnetworks(model, x, active=0.5, sensitive=0.3)
        nodes = deep_gated.paths(model, x).nodes
        # the nodes of a path in the gated layers: behind each layer of weights but the last
        columns = range(1, 1 + len(found.active))
        active, sensitive = (
            [
                mask.flatten(1)[:, nodes[:, c]].double()
                for mask, c in zip(masks, columns, strict=True)
            ]
            for masks in (found.active, found.sensitive)
        )
        through = torch.stack(active).prod(0)
        assert torch.equal(found.active_paths(), through @ through.T)
        learning = sum(
            torch.stack([sensitive[i] if i == layer else active[i] for i in range(len(active))])
            .prod(0)
            .sum(1)
            for layer in range(len(active))
        )
        assert torch.equal(found.sensitive_paths(), learning)


def test_thresholds_that_tell_them_apart_leave_no_gate_both():
    model, x = dense("soft_galu")
    beta, eps, tau = 4.0, 0.1, 1.05
    steepest = max(
        each.abs().max().item() for each in sensitivities(model, x)
    )  # at least |dG/dtheta| of any gate
    largest = 0.0  # |dq/dtheta|, from |dG/dtheta| = slope |dq/dtheta|
    for moved, slope in zip(sensitivities(model, x), model.gate_slopes(x), strict=True):
        largest = max(largest, (moved / slope).max().item())
    bound = beta * tau * (1 - tau / (1 + eps)) * largest
    apart = deep_gated.subnetworks(model, x, active=tau, sensitive=bound)
    assert apart.both_count.sum() == 0 and apart.active_count.sum() > 0
    assert bound < steepest  # some gate is sensitive all the same
    assert deep_gated.subnetworks(model, x, active=tau, sensitive=bound / 1e6).both_count.sum() > 0


def test_the_record_is_plain_shows_itself_and_can_be_drawn():
    model, x = dense("soft_galu")
    found = deep_gated.subnetworks(model, x)
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["gates"] == [4, 5, 2] and plain["thresholds"] == {"active": 0.9, "sensitive": 0.1}
    assert plain["overlap"]["active"][0][0] == sum(plain["active"][0])
    assert "<td>3</td>" in found._repr_html_()
    assert len(found.plot().axes) == 3


def test_random_gates_are_found_by_index():
    model, x = dense("random")
    found = deep_gated.subnetworks(model, x, index=torch.arange(4))
    assert torch.equal(found.active[0], model.random[0].open)
    with pytest.raises(ArgumentError, match="do not extend to test inputs"):
        deep_gated.subnetworks(model, x)


@for_each("options", [{"active": 0.0}, {"sensitive": -1.0}, {"active": float("nan")}])
def test_thresholds_that_make_no_sense_are_refused(options: dict):
    with pytest.raises(ArgumentError, match=next(iter(options))):
        deep_gated.subnetworks(*dense("soft_galu"), **options)


def test_a_network_without_gates_is_refused():
    with pytest.raises(ArgumentError, match="no gate"):
        deep_gated.subnetworks(nn.Sequential(nn.Linear(3, 1, bias=False)), torch.randn(2, 3))


def soft_networks() -> list[tuple[nn.Module, Tensor]]:
    plain = nn.Sequential(
        nn.Linear(3, 5, bias=False), gw.nn.SoftReLU(), nn.Linear(5, 1, bias=False)
    )
    return [(plain, torch.randn(4, 3)), *networks("soft_relu"), *networks("soft_galu")]


@for_each("which", range(5))
def test_sensitivity_does_not_ask_whether_gradients_are_on(which: int):
    model, x = soft_networks()[which]
    want = deep_gated.subnetworks(model, x).sensitive_count
    assert want.sum() > 0
    with torch.no_grad():
        assert torch.equal(deep_gated.subnetworks(model, x).sensitive_count, want)
    with torch.inference_mode():
        assert torch.equal(deep_gated.subnetworks(model, x.clone()).sensitive_count, want)
    assert torch.equal(deep_gated.subnetworks(model.requires_grad_(False), x).sensitive_count, want)


def test_an_overlap_that_is_not_there_is_refused():
    with pytest.raises(ArgumentError, match=r"which.*'active', 'sensitive'"):
        deep_gated.subnetworks(*dense("galu")).overlap("x")
