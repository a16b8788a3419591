"""Definition 3.1 against every path and weight, and two kernels of soft-GaLU networks.

For convolutions, paths are enumerated, gates are written out, and weights are moved one by one.
"""

import dataclasses
import itertools
import math

import pytest
import torch
from analysis.path_networks import CONVOLUTIONS, convolutional
from gatewise_papers import deep_gated
from gatewise_papers.deep_gated import delta
from loops import for_each
from torch import Tensor
from torch.nn import functional as F

from gatewise.errors import ArgumentError


def activities(
    weights: tuple[Tensor, ...], x: Tensor, beta: float = 4.0, eps: float = 0.1
) -> Tensor:
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


@for_each("gate", ["soft_galu", "soft_relu"])
@for_each("widths", [(3,), (3, 2), (4, 2, 3), (2, 2, 2, 2)])
def test_delta_is_the_sum_over_paths_and_weights(gate: str, widths: tuple[int, ...]):
    model = deep_gated.DeepGatedNetwork(3, widths, len(widths) + 1, gate=gate, dtype=torch.float64)
    x = torch.randn(4, 3, dtype=torch.float64)
    want = by_brute_force(model, x)
    torch.testing.assert_close(
        delta(model, x), want, rtol=1e-11, atol=1e-12 * want.abs().max().item()
    )


def written_out_gates(model, weights: tuple[Tensor, ...], x: Tensor) -> list[Tensor]:
    z, gates = x, []
    for i, weight in enumerate(weights):
        if i == len(model.channels):
            z = z.flatten(2).mean(2) if model.head == "average" else z.flatten(1)
        if weight.dim() == 2:
            q = z @ weight.T
        elif model.padding == "circular":  # kernels of two: the second tap sees the next position
            q = F.conv2d(
                torch.cat(
                    (torch.cat((z, z[:, :, :1]), 2), torch.cat((z, z[:, :, :1]), 2)[..., :1]), 3
                ),
                weight,
            )
        else:
            q = F.conv2d(
                z, weight, padding=(weight.shape[-1] // 2 if model.padding == "zeros" else 0)
            )
        gates.append(1.1 / (1 + torch.exp(-4.0 * q)))
        z = q * gates[-1]
    return gates


def walked_delta(model, x: Tensor) -> Tensor:
    """Every path, every weight: (n, n, *input shape)."""
    nodes = deep_gated.paths(model, x).nodes
    pooled = model.head == "average"
    columns = [1 + i + (pooled and i >= len(model.channels)) for i in range(len(model.units))]

    def walked(*weights: Tensor) -> Tensor:
        gates = written_out_gates(model, weights, x)
        return math.prod(
            gate.flatten(1)[:, nodes[:, at]] for gate, at in zip(gates, columns, strict=True)
        )

    weights = tuple(weight.detach() for weight in model.gate_parameters())
    torch.testing.assert_close(
        walked(*weights), deep_gated.paths(model, x).activity, rtol=1e-12, atol=1e-14
    )
    moved = torch.func.jacfwd(walked, argnums=tuple(range(len(weights))))(*weights)
    moved = torch.cat([each.flatten(2) for each in moved], 2)  # (n, P, weights)
    each_node = [moved[:, nodes[:, 0] == node].flatten(1) for node in range(x[0].numel())]
    return torch.stack([rows @ rows.T for rows in each_node], 2).reshape(
        len(x), len(x), *x.shape[1:]
    )


@pytest.mark.slow
@for_each("gate", ["soft_galu", "soft_relu"])
@for_each("which", CONVOLUTIONS)
def test_delta_of_convolutions_is_the_sum_over_paths_and_weights(gate: str, which: str):
    model, x = convolutional(gate, which)
    want = walked_delta(model, x)
    found = delta(model, x)
    assert (
        found.shape == (4, 4, 2, 3, 3)
        and want.flatten(2).std(2).max() > (which != "circular, averaged") * 1e-3
    )
    torch.testing.assert_close(found, want, rtol=1e-11, atol=1e-12 * want.abs().max().item())


def test_delta_of_a_convolution_along_one_axis_by_loops():
    """One channel of three, two of two taps around a ring, flattened.

    3 x 4 paths, written out one by one.
    """
    model = deep_gated.DeepGatedConvNetwork(
        (1, 3), (2,), 2, padding="circular", gate="soft_galu", dtype=torch.float64
    )
    x = torch.randn(2, 1, 3, dtype=torch.float64)
    (kernels,) = (weight.detach() for weight in model.gate_parameters())  # (2, 1, 2)
    want = torch.zeros(2, 2, 3, dtype=torch.float64)
    for s, t, node, c, tap in itertools.product(range(2), range(2), range(3), range(2), range(2)):
        at = (node - tap) % 3  # the path leads from the node to this position of channel c
        moved = []
        for each in (s, t):
            seen = torch.stack((x[each, 0, at], x[each, 0, (at + 1) % 3]))
            gate = 1.1 / (1 + torch.exp(-4.0 * (kernels[c, 0] @ seen)))
            moved.append(4.0 * gate * (1 - gate / 1.1) * seen)
        want[s, t, node] += moved[0] @ moved[1]
    torch.testing.assert_close(delta(model, x)[:, :, 0], want, rtol=1e-12, atol=1e-13)


def test_sharpness_and_reach_of_the_gate_count():
    model = deep_gated.DeepGatedNetwork(
        3, 3, 3, gate="soft_galu", beta=1.5, eps=0.4, dtype=torch.float64
    )
    x = torch.randn(4, 3, dtype=torch.float64)
    torch.testing.assert_close(
        delta(model, x), by_brute_force(model, x, beta=1.5, eps=0.4), rtol=1e-11, atol=1e-12
    )


def test_activities_are_those_of_the_paths_walked():
    model = deep_gated.DeepGatedNetwork(1, (4, 2, 3), 4, gate="soft_galu", dtype=torch.float64)
    x = torch.randn(4, 1, dtype=torch.float64)
    written_out = activities(tuple(model.gate_parameters()), x)
    torch.testing.assert_close(
        deep_gated.paths(model, x).activity, written_out.detach(), rtol=1e-12, atol=1e-14
    )


def test_chunks_and_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch):
    model = deep_gated.DeepGatedNetwork(3, 4, 4, gate="soft_galu", dtype=torch.float64)
    x = torch.randn(5, 3, dtype=torch.float64)
    whole = delta(model, x)
    torch.testing.assert_close(delta(model, x[:2], x[2:]), whole[:2, 2:])
    monkeypatch.setitem(delta.__globals__, "CHUNK", 1)
    torch.testing.assert_close(delta(model, x), whole)


@pytest.mark.slow
@pytest.mark.parametrize("which", CONVOLUTIONS)
def test_chunks_and_blocks_change_nothing_of_convolutions(
    which: str, monkeypatch: pytest.MonkeyPatch
):
    model, x = convolutional("soft_galu", which)
    whole = delta(model, x)
    torch.testing.assert_close(delta(model, x[:1], x[1:]), whole[:1, 1:])
    for size in (1, 2000):
        monkeypatch.setitem(delta.__globals__, "CHUNK", size)
        torch.testing.assert_close(delta(model, x), whole)


def test_the_kernels_of_lemma_3_1_hold_exactly_over_all_signs_of_the_weights():
    """Part (iii) as printed; part (ii) with the factor d that the paper leaves out."""
    d, sigma, x = 3, 0.8, torch.randn(3, 2, dtype=torch.float64)
    model = deep_gated.DeepGatedNetwork(2, 2, d, gate="soft_galu", sigma=sigma, dtype=torch.float64)
    of_weights, of_gates = mean_kernels(model, x, sigma)
    gram = x @ x.T
    torch.testing.assert_close(
        of_weights, d * sigma ** (2 * (d - 1)) * gram * deep_gated.path_kernel(model, x)
    )
    torch.testing.assert_close(of_gates, sigma ** (2 * d) * gram * delta(model, x))


def mean_kernels(model, x: Tensor, sigma: float) -> tuple[Tensor, Tensor]:
    """The mean tangent kernels of strengths and gates over all signs of weights of ``sigma``."""
    names = [name for name, _ in model.named_parameters() if name.startswith("weights")]
    shapes = [weight.shape for weight in model.strength_parameters()]
    counts = [shape.numel() for shape in shapes]
    signs = torch.tensor(
        list(itertools.product((-sigma, sigma), repeat=sum(counts))), dtype=torch.float64
    )
    weights = [
        part.reshape(-1, *shape) for part, shape in zip(signs.split(counts, 1), shapes, strict=True)
    ]
    gating = {f"gating.{i}.weight": p.detach() for i, p in enumerate(model.gate_parameters())}

    def outputs(strength: dict[str, Tensor], gates: dict[str, Tensor]) -> Tensor:
        return torch.func.functional_call(model, {**strength, **gates}, (x,))[:, 0]

    def kernels(drawn: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        both = torch.func.jacrev(outputs, argnums=(0, 1))(
            dict(zip(names, drawn, strict=True)), gating
        )
        flat = [torch.cat([each.flatten(1) for each in part.values()], 1) for part in both]
        return flat[0] @ flat[0].T, flat[1] @ flat[1].T

    of_weights, of_gates = (each.mean(0) for each in torch.func.vmap(kernels)(tuple(weights)))
    return of_weights, of_gates


def test_part_iii_holds_for_flattened_convolutions_too():
    """No two paths share all their weights, so each counts separately with its input."""
    sigma, x = 0.8, torch.randn(3, 1, 3, dtype=torch.float64)
    options = {"padding": "circular", "gate": "soft_galu", "sigma": sigma, "dtype": torch.float64}
    model = deep_gated.DeepGatedConvNetwork((1, 3), (2, 1), 2, **options)  # 4 + 4 + 3 weights
    _, of_gates = mean_kernels(model, x, sigma)
    products = x.unsqueeze(1) * x.unsqueeze(0)
    torch.testing.assert_close(of_gates, sigma**6 * (products * delta(model, x)).flatten(2).sum(2))


def test_hard_gates_do_not_move():
    model = deep_gated.DeepGatedNetwork(3, 4, 3, gate="galu")
    assert delta(model, torch.randn(2, 3)).abs().max() == 0


def test_it_computes_in_float64_and_leaves_the_model_as_it_was():
    model = deep_gated.DeepGatedNetwork(3, 4, 3, gate="soft_galu")
    found = delta(model, torch.randn(2, 3))
    assert found.dtype == torch.float64 and next(model.parameters()).dtype == torch.float32
    assert math.isfinite(found.sum())


@pytest.mark.parametrize(
    "model",
    [
        torch.nn.Linear(3, 1),
        deep_gated.DeepGatedNetwork(3, 4, 3, gate="linear"),
    ],
    ids=["plain", "linear"],
)
def test_models_without_gates_that_responses_set_are_refused(model: torch.nn.Module):
    with pytest.raises(ArgumentError, match="gates"):
        delta(model, torch.randn(2, 3))


def test_inputs_that_are_no_batch_are_refused():
    with pytest.raises(ArgumentError, match="batch"):
        delta(deep_gated.DeepGatedConvNetwork((1, 3), (2,), gate="soft_galu"), torch.randn(1, 3))


def test_convolutions_of_groups_are_refused():
    class Grouped(deep_gated.DeepGatedConvNetwork):
        def path_steps(self, x: Tensor, index: Tensor | None = None):
            steps = super().path_steps(x, index)
            whole = steps[
                0
            ].weight  # the same map as one group of two: the second group's inputs are its own
            return (dataclasses.replace(steps[0], weight=whole[:, :1], groups=2), *steps[1:])

    model = Grouped((2, 3), (2,), gate="soft_galu")
    with torch.no_grad():
        for weight in (model.weights[0].weight, model.gating[0].weight):
            weight.copy_(torch.tensor([[[0.0, 1, 0], [0, 0, 0]], [[0, 0, 0], [0, 0, 0]]]))
    with pytest.raises(ArgumentError, match="does not join all channels"):
        delta(model, torch.randn(2, 2, 3))
