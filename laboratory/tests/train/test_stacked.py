"""Seeds that are trained at once move as each does alone."""

import copy
from functools import partial

import pytest
import torch
from gatewise_papers.deep_gated import (
    DeepGatedNetwork,
    StackedNetworks,
    accuracy_by_seed,
    descend_stacked,
    half_squared_error,
    mean_squared_error,
    train_stacked,
)
from gatewise_papers.deep_gated.experiments import generator, orders, uniform
from loops import for_each
from torch.nn import functional as F

from gatewise.errors import ArgumentError

SEEDS = (0, 1, 2)
N, D_IN = 12, 3


def networks(gate: str, **options) -> list[DeepGatedNetwork]:
    return [
        DeepGatedNetwork(
            D_IN,
            6,
            3,
            gate=gate,
            generator=generator(seed, "network"),
            dtype=torch.float64,
            **options,
        )
        for seed in SEEDS
    ]


X, Y = uniform((N, D_IN), 0, "x"), uniform((N,), 0, "y")
ORDERS = partial(orders, N, SEEDS)


@for_each("gate", ["linear", "relu", "galu", "soft_relu", "soft_galu"])
def test_outputs_are_those_of_each_network(gate: str):
    # Weights of plus or minus one size cancel exactly, and rounding then decides about a gate.
    alone = networks(gate, init="normal")
    many = StackedNetworks(alone)
    torch.testing.assert_close(many.outputs(X), torch.stack([network(X) for network in alone]))
    for place, network in enumerate(alone):
        torch.testing.assert_close(many.network(place)(X), network(X))


@for_each("gate", ["linear", "relu", "galu", "soft_relu", "soft_galu"])
def test_one_network_is_that_network(gate: str):
    network = networks(gate, init="normal")[0]
    one = StackedNetworks([network])
    outputs = one.outputs(X[None], shared=False)
    torch.testing.assert_close(outputs, network(X)[None])
    torch.testing.assert_close(one.outputs(X), outputs)
    outputs.square().sum().backward()
    network(X).square().sum().backward()
    for name, parameter in network.named_parameters():
        if parameter.requires_grad:
            torch.testing.assert_close(one.parameters[name].grad, parameter.grad[None])


def train_alone(network: DeepGatedNetwork, seed: int, optimiser, epochs: int, batch: int) -> None:
    for epoch in range(epochs):
        for rows in orders(N, (seed,), epoch)[0].split(batch):
            optimiser.zero_grad()
            mean_squared_error(network(X[rows]), Y[rows]).backward()
            optimiser.step()


@for_each("gate", ["relu", "galu", "soft_galu"])
@for_each(
    ("name", "kind"),
    [("sgd", torch.optim.SGD), ("rmsprop", torch.optim.RMSprop), ("adam", torch.optim.Adam)],
)
def test_training_at_once_is_training_one_after_another(gate: str, name: str, kind):
    alone = networks(gate)
    many = StackedNetworks(alone)
    train_stacked(
        many,
        X,
        Y,
        orders=ORDERS,
        optimizer=name,
        lr=0.01,
        epochs=3,
        batch=5,
        loss=mean_squared_error,
    )
    for place, (seed, network) in enumerate(zip(SEEDS, alone, strict=True)):
        single = copy.deepcopy(network)
        train_alone(
            single, seed, kind([p for p in single.parameters() if p.requires_grad], lr=0.01), 3, 5
        )
        for (label, got), want in zip(
            many.network(place).named_parameters(), single.parameters(), strict=True
        ):
            torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-11, msg=label)


def test_gates_that_are_frozen_do_not_move():
    many = StackedNetworks(networks("galu"))
    before = {name: value.detach().clone() for name, value in many.parameters.items()}
    train_stacked(
        many,
        X,
        Y,
        orders=ORDERS,
        optimizer="sgd",
        lr=0.1,
        epochs=1,
        batch=4,
        loss=mean_squared_error,
    )
    moved = {
        name for name, value in many.parameters.items() if not torch.equal(value, before[name])
    }
    assert moved == {name for name in before if name.startswith("weights")}


def test_every_seed_has_its_own_step_size_in_full_descent():
    alone = networks("random", examples=N)
    sizes = [0.1, 0.02, 0.0]
    many = StackedNetworks(alone)
    index = torch.arange(N)
    x, y = X.expand(3, -1, -1), Y.expand(3, -1)
    done = descend_stacked(many, x, y, step_sizes=sizes, steps=4, index=index)
    for place, (network, size) in enumerate(zip(alone, sizes, strict=True)):
        losses = []
        optimiser = torch.optim.SGD(network.parameters(), lr=size)
        for _ in range(5):
            loss = half_squared_error(network(X, index), Y)
            losses.append(loss.item())
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        assert done.by_seed()[place] == pytest.approx(losses, rel=1e-10)


def test_a_seed_that_diverges_is_recorded_and_leaves_the_others_alone():
    sizes, x, y = [0.01, 1e6, 0.01], X.expand(3, -1, -1), Y.expand(3, -1)
    done = descend_stacked(StackedNetworks(networks("linear")), x, y, step_sizes=sizes, steps=20)
    calm = descend_stacked(
        StackedNetworks(networks("linear")), x, y, step_sizes=[0.01] * 3, steps=20
    )
    first, wild, last = done.diverged_at
    assert first is None and last is None and wild is not None and 0 < wild <= 20
    assert done.by_seed()[0] == calm.by_seed()[0] and done.by_seed()[2] == calm.by_seed()[2]


def test_a_diverged_seed_has_no_accuracy():
    outputs = torch.tensor([[[1.0], [2.0]], [[1.0], [float("nan")]]])
    first, second = accuracy_by_seed(torch.tensor([[True, False], [True, True]]), outputs)
    assert first == 0.5 and second != second


def test_watching_begins_before_the_first_step_and_ends_after_the_last():
    seen: list[int] = []
    train_stacked(
        StackedNetworks(networks("relu")),
        X,
        Y,
        orders=ORDERS,
        optimizer="adam",
        lr=0.1,
        epochs=2,
        batch=5,
        loss=mean_squared_error,
        watch=seen.append,
    )
    assert seen == [0, 1, 2]


def test_orders_are_permutations_that_differ_by_seed_and_epoch_and_never_by_company():
    both = orders(50, (3, 4), 1)
    assert both.sort(1).values.tolist() == [list(range(50))] * 2
    assert not torch.equal(both[0], both[1]) and not torch.equal(orders(50, (3,), 2)[0], both[0])
    assert torch.equal(orders(50, (4, 3, 9), 1)[1], both[0])


def test_classes_may_be_targets_of_their_own_for_each_seed():
    several = [
        DeepGatedNetwork(D_IN, 6, 3, gate="relu", d_out=4, generator=generator(s, "n"))
        for s in SEEDS
    ]
    labels = torch.stack(
        [torch.randint(4, (N,), generator=generator(seed, "labels")) for seed in SEEDS]
    )
    many = StackedNetworks(several)
    done = train_stacked(
        many,
        X.float(),
        labels,
        orders=ORDERS,
        optimizer="adam",
        lr=0.03,
        epochs=200,
        batch=N,
        loss=F.cross_entropy,
    )
    assert all(losses[-1] < 0.5 * losses[0] for losses in done.by_seed())
    assert (many.outputs(X.float()).argmax(-1) == labels).float().mean() > 0.8


def test_no_network_is_refused():
    with pytest.raises(ArgumentError, match="network for each seed"):
        StackedNetworks([])
