"""Train small networks of several seeds at once, with their weights stacked.

This is for the experiments on theory: many seeds of one tiny network, where one batched product
per layer replaces one product per seed. Everything else is trained by :func:`gatewise.train.train`.

Note [Independent seeds]

The loss of all seeds together is the sum of their losses, and no weight belongs to two seeds. So
the gradient of the sum holds each seed's own gradient. SGD, RMSprop and Adam update every entry
separately. Each seed's weights therefore move as if the seed were trained alone, up to the order of
additions in a batched product. A seed that diverges becomes NaN and does not affect the others.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from gatewise.errors import ArgumentError

SeedLoss = Callable[[Tensor, Tensor], Tensor]  # outputs (n, o) and targets of one seed to a scalar
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,
    "rmsprop": torch.optim.RMSprop,
    "adam": partial(torch.optim.Adam, fused=True),  # one pass over the weights instead of ten
}


def half_squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return half the sum of squares. One step of size a then takes the error e to e - a K e."""
    return (outputs.squeeze(-1) - targets).square().sum() / 2


def mean_squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the mean of squares."""
    return (outputs.squeeze(-1) - targets).square().mean()


class StackedNetworks:
    """Networks of one architecture, one per seed; every parameter has a leading seed dimension.

    Args:
        networks: one per seed, in evaluation or training mode. They are copied.
    """

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        if not networks:
            raise ArgumentError("there must be a network for each seed", got=networks)
        named = networks[0].named_parameters()
        self.trained = [name for name, parameter in named if parameter.requires_grad]
        stacked, self.buffers = stack_module_state(list(networks))
        self.parameters: dict[str, Tensor] = {}
        for name, value in stacked.items():
            self.parameters[name] = value.detach().clone().requires_grad_(name in self.trained)
        self._structure = copy.deepcopy(networks[0]).to("meta")
        self._single = copy.deepcopy(networks[0])

    def __len__(self) -> int:
        return len(next(iter(self.parameters.values())))

    def outputs(self, x: Tensor, index: Tensor | None = None, *, shared: bool = True) -> Tensor:
        """Return the outputs of every seed, (seeds, n, o).

        Args:
            x: inputs (n, ...), or (seeds, n, ...) if not ``shared``.
            index: which training examples the inputs are, for networks with random gates.
            shared: whether all seeds read the same inputs.
        """

        def call(parameters: dict[str, Tensor], buffers: dict[str, Tensor], x: Tensor) -> Tensor:
            """Call one seed's network."""
            arguments = (x,) if index is None else (x, index)
            return functional_call(self._structure, (parameters, buffers), arguments)

        if len(self) == 1:  # vmap costs a quarter of a step, and compiled units do not run under it
            parameters, buffers = (
                {name: value[0] for name, value in stacked.items()}
                for stacked in (self.parameters, self.buffers)
            )
            return call(parameters, buffers, x if shared else x[0])[None]
        in_dims = (0, 0, None if shared else 0)
        return vmap(call, in_dims=in_dims)(self.parameters, self.buffers, x)

    def network(self, place: int) -> nn.Module:
        """Return the network of the seed at that place. The next call overwrites it."""
        with torch.no_grad():
            for name, parameter in self._single.named_parameters():
                parameter.copy_(self.parameters[name][place])
            for name, buffer in self._single.named_buffers():
                buffer.copy_(self.buffers[name][place])
        return self._single

    def trained_parameters(self) -> list[Tensor]:
        """Return the stacked parameters that are trained."""
        return [self.parameters[name] for name in self.trained]


@dataclass
class LossHistory:
    """The loss of every seed at every step, and the step at which a seed stopped being finite."""

    losses: list[list[float]] = field(default_factory=list)  # [step][seed]
    diverged_at: list[int | None] = field(default_factory=list)  # [seed]

    def append(self, losses: Tensor) -> None:
        """Add the losses (seeds,) of one step."""
        losses = losses.detach()
        if not self.diverged_at:
            self.diverged_at = [None] * len(losses)
        for place, is_finite in enumerate(losses.isfinite().tolist()):
            if not is_finite and self.diverged_at[place] is None:
                self.diverged_at[place] = len(self.losses)
        self.losses.append(losses.tolist())

    def by_seed(self) -> list[list[float]]:
        """Return the losses as [seed][step]."""
        return [list(losses) for losses in zip(*self.losses, strict=True)]


def accuracy_by_seed(correct: Tensor, outputs: Tensor) -> list[float]:
    """Return each seed's share of ``correct`` answers.

    Args:
        correct: whether each answer is right, (seeds, n).
        outputs: (seeds, n, ...). A seed whose outputs are not finite has the accuracy NaN.
    """
    diverged = ~outputs.flatten(1).isfinite().all(1)
    return correct.double().mean(1).masked_fill(diverged, torch.nan).tolist()


def descend_stacked(
    networks: StackedNetworks,
    x: Tensor,
    y: Tensor,
    *,
    step_sizes: Sequence[float],
    steps: int,
    loss: SeedLoss = half_squared_error,
    index: Tensor | None = None,
    watch: Callable[[int], object] | None = None,
) -> LossHistory:
    """Run full-batch gradient descent with one step size per seed.

    Args:
        networks: the networks to train, in place.
        x: inputs of every seed, (seeds, n, ...).
        y: targets, (seeds, n).
        step_sizes: one per seed.
        steps: how many.
        loss: of one seed.
        index: which training examples the inputs are, for random gates.
        watch: called with the number of steps done, from 0 to ``steps``.

    Returns:
        The losses before each step, and one after the last.
    """
    sizes = torch.as_tensor(step_sizes, dtype=x.dtype)
    # The step sizes multiply the losses, because one optimizer has one learning rate.
    optimizer = torch.optim.SGD(networks.trained_parameters(), lr=1.0)
    history = LossHistory()
    for step in range(steps + 1):
        if watch:
            watch(step)
        losses = vmap(loss)(networks.outputs(x, index, shared=False), y)
        history.append(losses)
        if step < steps:
            optimizer.zero_grad()
            (losses * sizes).sum().backward()
            optimizer.step()
    return history


def train_stacked(
    networks: StackedNetworks,
    x: Tensor,
    y: Tensor,
    *,
    orders: Callable[[int], Tensor],
    optimizer: Literal["sgd", "rmsprop", "adam"],
    lr: float,
    epochs: int,
    batch: int,
    loss: SeedLoss,
    watch: Callable[[int], object] | None = None,
) -> LossHistory:
    """Train on minibatches, every seed in its own order of the examples.

    Args:
        networks: the networks to train, in place.
        x: inputs, (n, ...), shared by all seeds.
        y: targets, (n,), or (seeds, n) if every seed has its own.
        orders: takes the epoch and returns each seed's order of the examples, (seeds, n).
        optimizer: its name; torch's defaults except for the learning rate.
        lr: the learning rate.
        epochs: how many.
        batch: examples per step; the last step of an epoch may have fewer.
        loss: of one seed.
        watch: called with the number of epochs done, from 0 to ``epochs``.

    Returns:
        For every epoch the mean of the losses before each step.
    """
    targets = y if y.ndim > 1 else y.expand(len(networks), -1)
    stepper = OPTIMIZERS[optimizer](networks.trained_parameters(), lr=lr)
    history = LossHistory()
    for epoch in range(epochs):
        if watch:
            watch(epoch)
        total = torch.zeros(len(networks))
        for rows in orders(epoch).split(batch, dim=1):
            losses = vmap(loss)(networks.outputs(x[rows], shared=False), targets.gather(1, rows))
            stepper.zero_grad()
            losses.sum().backward()
            stepper.step()
            total += losses.detach() * (rows.shape[1] / len(x))
        history.append(total)
    if watch:
        watch(epochs)
    return history
