"""Networks of several seeds trained at once.

Their weights stacked, every layer one batched product.

Note [Why the seeds do not touch]

The loss of all seeds together is the sum of theirs, and no weight is in two of them, so its
gradient holds each seed's own. SGD, RMSprop and Adam work entry by entry. So each seed's weights
move as if it were alone, up to the order in which a batched product adds; a seed that diverges
becomes NaN by itself and leaves the others as they are.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from gatewise.errors import ArgumentError
from gatewise.papers.deep_gated.shared.randomness import orders

Loss = Callable[[Tensor, Tensor], Tensor]  # outputs (n, o) and targets of one seed, to a number
OptimiserName = Literal["sgd", "rmsprop", "adam"]
OPTIMISERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,
    "rmsprop": torch.optim.RMSprop,
    "adam": torch.optim.Adam,
}


def half_squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """Half the sum of squares. With the half, one step of size a takes the error e to e - a K e."""
    return (outputs.squeeze(-1) - targets).square().sum() / 2


def mean_squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """The mean of squares."""
    return (outputs.squeeze(-1) - targets).square().mean()


class ManySeeds:
    """Networks of one shape, one for each seed, as one model whose parameters have a first dimension more."""

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        if not networks:
            raise ArgumentError("there must be a network for each seed", got=networks)
        self.trained = [
            name for name, parameter in networks[0].named_parameters() if parameter.requires_grad
        ]
        stacked, self.buffers = stack_module_state(list(networks))
        self.parameters = {
            name: value.detach().clone().requires_grad_(name in self.trained)
            for name, value in stacked.items()
        }
        self._shape = copy.deepcopy(networks[0]).to("meta")
        self._single = copy.deepcopy(networks[0])

    def __len__(self) -> int:
        return len(next(iter(self.parameters.values())))

    def outputs(self, x: Tensor, index: Tensor | None = None, *, shared: bool = True) -> Tensor:
        """Every seed's outputs (seeds, n, o) for inputs ``x`` (n, ...), or (seeds, n, ...) if not ``shared``.

        ``index`` says which training examples they are, for random gates.
        """

        def one(parameters: dict[str, Tensor], buffers: dict[str, Tensor], x: Tensor) -> Tensor:
            arguments = (x,) if index is None else (x, index)
            return functional_call(self._shape, (parameters, buffers), arguments)

        return vmap(one, in_dims=(0, 0, None if shared else 0))(self.parameters, self.buffers, x)

    def network(self, seed: int) -> nn.Module:
        """The network of the seed at that place. It is lent: the next call changes it."""
        with torch.no_grad():
            for name, parameter in self._single.named_parameters():
                parameter.copy_(self.parameters[name][seed])
            for name, buffer in self._single.named_buffers():
                buffer.copy_(self.buffers[name][seed])
        return self._single

    def trained_parameters(self) -> list[Tensor]:
        """The stacked parameters that train."""
        return [self.parameters[name] for name in self.trained]


def shares(right: Tensor, outputs: Tensor) -> list[float]:
    """Each seed's share of ``right`` answers (seeds, n).

    NaN if its ``outputs`` (seeds, n, ...) are not finite.
    """
    diverged = ~outputs.flatten(1).isfinite().all(1)
    return right.double().mean(1).masked_fill(diverged, torch.nan).tolist()


@dataclass
class Training:
    """What happened: the loss of every seed at every step, and where a seed stopped being finite."""

    losses: list[list[float]] = field(default_factory=list)  # [step][seed]
    diverged_at: list[int | None] = field(default_factory=list)  # [seed]

    def note(self, losses: Tensor) -> None:
        """Take in one step's losses (seeds,)."""
        values = losses.detach().tolist()
        if not self.diverged_at:
            self.diverged_at = [None] * len(values)
        bad = (~losses.detach().isfinite()).tolist()
        step = len(self.losses)
        self.diverged_at = [
            step if is_bad and before is None else before
            for is_bad, before in zip(bad, self.diverged_at, strict=True)
        ]
        self.losses.append(values)

    def by_seed(self) -> list[list[float]]:
        """The losses as [seed][step]."""
        return [list(each) for each in zip(*self.losses, strict=True)]


def descend(
    many: ManySeeds,
    x: Tensor,
    y: Tensor,
    *,
    step_sizes: Sequence[float],
    steps: int,
    loss: Loss = half_squared_error,
    index: Tensor | None = None,
    watch: Callable[[int], object] | None = None,
) -> Training:
    """Gradient descent on all examples at once, with a step size for each seed.

    ``x`` is (seeds, n, ...), ``y`` (seeds, n). ``watch`` is called with the number of steps done,
    from 0 on. The losses are those before each step, and one after the last.
    """
    sizes = torch.as_tensor(step_sizes, dtype=x.dtype)
    optimiser = torch.optim.SGD(many.trained_parameters(), lr=1.0)  # the step sizes are in the loss
    done = Training()
    for step in range(steps + 1):
        if watch:
            watch(step)
        losses = vmap(loss)(many.outputs(x, index, shared=False), y)
        done.note(losses)
        if step < steps:
            optimiser.zero_grad()
            (losses * sizes).sum().backward()
            optimiser.step()
    return done


def train(
    many: ManySeeds,
    x: Tensor,
    y: Tensor,
    *,
    seeds: tuple[int, ...],
    optimiser: OptimiserName,
    lr: float,
    epochs: int,
    batch: int,
    loss: Loss,
    watch: Callable[[int], object] | None = None,
) -> Training:
    """Minibatch training on ``x`` (n, ...) and ``y`` (n,) or, with targets of their own, (seeds, n).

    Every seed has its own order of the examples in each epoch. The losses are means over an epoch of those before each
    step. ``watch`` is called with the number of epochs done, from 0 on.
    """
    targets = y if y.ndim > 1 else y.expand(len(seeds), -1)
    chosen = OPTIMISERS[optimiser](many.trained_parameters(), lr=lr)
    done = Training()
    for epoch in range(epochs):
        if watch:
            watch(epoch)
        total = torch.zeros(len(seeds))
        for rows in _batches(len(x), seeds, epoch, batch):
            losses = vmap(loss)(many.outputs(x[rows], shared=False), targets.gather(1, rows))
            chosen.zero_grad()
            losses.sum().backward()
            chosen.step()
            total += losses.detach() * (rows.shape[1] / len(x))
        done.note(total)
    if watch:
        watch(epochs)
    return done


def _batches(count: int, seeds: tuple[int, ...], epoch: int, batch: int) -> Iterator[Tensor]:
    """Which examples each seed looks at, step by step: (seeds, batch), the last perhaps smaller."""
    return iter(orders(count, seeds, epoch).split(batch, dim=1))
