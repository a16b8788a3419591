"""The training loop: steps, epochs, metrics and checkpoints, from any state to the end."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor, nn

from gatewise.files import Journal
from gatewise.layers import PhaseLayer, orthogonality_penalty
from gatewise.train.config import CheckedOptions, Recipe, RunConfig, rates
from gatewise.train.loop.average import start_average
from gatewise.train.loop.callbacks import Step, Watcher
from gatewise.train.loop.checkpoint import Checkpoints, Progress, Saved, named_state, restore_state
from gatewise.train.loop.interrupt import Halted, StopSignal
from gatewise.train.loop.objective import BatchSource, Examples, Measured, Objective
from gatewise.train.loop.optimizer import make_optimiser, set_rates
from gatewise.train.loop.process_group import ProcessGroup
from gatewise.train.loop.random_streams import seed_step

WRITE_SECONDS = 0.25  # the longest time that metrics of short epochs wait to be written


class Diverged(Exception):  # noqa: N818 - not an error: a way to end
    """The loss left the finite numbers, or the bound of the recipe."""


class Pace(CheckedOptions):
    """How a run is executed. Nothing here changes a bit of the result.

    Args:
        workers: threads that prepare batches ahead of time.
        checkpoint_seconds: the longest time between two checkpoints.
        checkpoint_epochs: also write one after so many epochs; 0 for none.
    """

    workers: Annotated[int, Field(ge=0, le=64)] = 0
    checkpoint_seconds: Annotated[float, Field(ge=0, le=1e9)] = 5.0
    checkpoint_epochs: Annotated[int, Field(ge=0, le=10**9)] = 0


@dataclass(frozen=True)
class TrainingSetup:
    """What a loop trains and evaluates."""

    config: RunConfig
    model: nn.Module
    batches: BatchSource
    objective: Objective
    identity: dict[str, str]
    environment: dict[str, Any]
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    optimiser: Callable[[nn.Module, Recipe], torch.optim.Optimizer] = make_optimiser

    @property
    def steps_per_epoch(self) -> int:
        """Steps in an epoch: batches, or groups of them whose gradients are added up."""
        return math.ceil(self.batches.count / self.config.recipe.accumulate)


class Loop:
    """One run in one process.

    Args:
        setup: what is trained and evaluated.
        checkpoints: of the run.
        journal: of its metrics.
        pace: how often to save, and threads for batches.
        group: the processes of the run.
        stop: ends the run early, with everything saved.
        watchers: callbacks.
    """

    def __init__(
        self,
        setup: TrainingSetup,
        *,
        checkpoints: Checkpoints,
        journal: Journal,
        pace: Pace,
        group: ProcessGroup,
        stop: StopSignal,
        watchers: Sequence[Watcher] = (),
    ) -> None:
        self.setup = setup
        self.config = setup.config
        self.recipe = setup.config.recipe
        self.checkpoints = checkpoints
        self.journal = journal
        self.pace = pace
        self.group = group
        self.stop = stop
        self.watchers = watchers
        self.model = setup.model
        self.optimiser = setup.optimiser(self.model, self.recipe)
        self.average = start_average(self.model, self.recipe.ema) if self.recipe.ema else None
        self.best: dict[str, Tensor] | None = None  # weights of the best epoch, with patience
        scaled = self.recipe.precision == "float16"
        self.scaler = torch.amp.GradScaler(setup.device.type, enabled=scaled)
        self._parameters = list(self.model.parameters())
        self._following: list[PhaseLayer] = []
        for module in self.model.modules():
            if isinstance(module, PhaseLayer) and module.follows_training:
                self._following.append(module)
        self.progress = Progress()
        self._unwritten: list[dict[str, Any]] = []  # metrics of epochs
        self._written_at = time.monotonic()
        self._right: Tensor | None = None  # of the last evaluation of the test set
        self._parallel: Callable[..., Any] = self.model
        self._since = self._saved_at = time.monotonic()

    @property
    def evaluated(self) -> nn.Module:
        """The network that is judged and saved: the average of the weights, if there is one."""
        return self.model if self.average is None else self.average.module

    def resume(self, saved: Saved) -> None:
        """Restore the state of a checkpoint, and delete the metrics written since."""
        self.best = restore_state(saved, self.model, self.optimiser, self.average, self.scaler)
        self.progress = saved.progress
        if self.group.leads:
            self.journal.cut(self.progress.metrics_size)

    def run(self) -> bool:
        """Train to the end.

        Returns:
            False if stopped before the end, with everything saved.

        Raises:
            Diverged: if the loss is not finite or above the bound of the recipe.
        """
        self._parallel = self.group.wrap(self.model)
        self.model.train()
        self._since = self._saved_at = time.monotonic()
        try:
            while self.progress.epoch < self.recipe.total_epochs and not self.progress.reached:
                if not self._train_epoch() or not self._end_epoch():
                    self.save()
                    return False
        finally:
            self._count_time()
            self._write_metrics()
        return True

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return everything that training changes: tensors by name, and numbers by name."""
        return named_state(self.model, self.optimiser, self.average, self.best, self.scaler)

    def save(self) -> None:
        """Write a checkpoint, if this process leads."""
        if not self.group.leads:
            return
        self._count_time()
        self._write_metrics()
        tensors, scalars = self.state()
        self.checkpoints.save(
            Saved(self.progress, self.setup.identity, self.setup.environment, scalars, tensors)
        )
        self._saved_at = time.monotonic()

    def _write_metrics(self) -> None:
        """Write the metrics of the epochs since the last call, durably."""
        if self._unwritten:
            self.journal.extend(self._unwritten)
            self._unwritten = []
            self.progress.metrics_size = self.journal.size
        self._written_at = time.monotonic()

    def _train_epoch(self) -> bool:
        """Train the remaining steps of the epoch; return False if asked to stop."""
        progress = self.progress
        batches = self.setup.batches.walk(progress.epoch, progress.cursor, self.pace.workers)
        for group in _grouped(batches, self.recipe.accumulate):
            if self._step(group):
                return False
            if time.monotonic() - self._saved_at >= self.pace.checkpoint_seconds:
                self.save()
        return True

    def _step(self, batches: Sequence[Examples]) -> bool:
        """Train one step on one or more batches; return whether a process was asked to stop."""
        progress = self.progress
        now = rates(self.recipe, progress.step, self.setup.steps_per_epoch)
        set_rates(self.optimiser, now)
        steps = self.recipe.total_epochs * self.setup.steps_per_epoch
        for layer in self._following:
            layer.set_progress(min(progress.step / steps, 1.0))
        for parameter in self._parameters:  # what zero_grad does, without its bookkeeping
            parameter.grad = None
        whole = sum(batch.whole for batch in batches)
        step_loss = 0.0
        asked = 0.0
        for place, batch in enumerate(batches):
            seed_step(self.config.seed, progress.step, self.group.rank, place, self.setup.device)
            loss = self.setup.objective.step(self._parallel, batch)
            loss_sum = loss.losses.detach().sum(dtype=torch.float64).item()
            loss_sum, right, asked = self.group.totals([loss_sum, loss.right, self.stop.asked])
            self._check("the loss", loss_sum / batch.whole)
            last = place == len(batches) - 1
            self._backward(loss.losses.sum() * (self.group.processes / whole), last)
            step_loss += loss_sum
            progress.right += int(right)
        self._update()
        progress.step += 1
        progress.cursor += len(batches)
        progress.seen += whole
        progress.loss_sum += step_loss
        index = torch.cat([batch.index for batch in batches])
        for watcher in self.watchers:
            watcher.step(Step(progress.step, progress.epoch + 1, index, step_loss / whole, now.lr))
        # Several processes must agree, which they do in the next step.
        return bool(asked) or (self.group.processes == 1 and self.stop.asked)

    def _backward(self, loss: Tensor, last: bool) -> None:
        """Add the gradient of this process's share of a batch; ``last``: of the step."""
        penalty = self.recipe.orthogonality
        if penalty.weight and last:
            loss = loss + orthogonality_penalty(
                self.model,
                weight=penalty.weight,
                pieces=penalty.pieces,
            )
        if self.scaler.is_enabled():
            loss = self.scaler.scale(loss)
        loss.backward()

    def _update(self) -> None:
        """Take a step with the gradient."""
        recipe = self.recipe
        scaled = self.scaler.is_enabled()
        if recipe.clip:
            if scaled:
                self.scaler.unscale_(self.optimiser)
            nn.utils.clip_grad_norm_(self.model.parameters(), recipe.clip)
        if scaled:
            self.scaler.step(self.optimiser)
            self.scaler.update()
        else:
            self.optimiser.step()
        if self.average is not None:
            self.average.update_parameters(self.model)

    def _check(self, what: str, value: float, *, bounded: bool = True) -> None:
        """Raise :class:`Diverged` if a value is not finite, or a loss above the bound."""
        if not math.isfinite(value):
            raise Diverged(f"{what} is {value} at step {self.progress.step + 1}")
        if bounded and value > self.recipe.diverged_above:
            bound = self.recipe.diverged_above
            step = self.progress.step + 1
            raise Diverged(f"{what} is {value:g}, above {bound:g}, at step {step}")

    def _end_epoch(self) -> bool:
        """Evaluate, write the metrics, and go to the next epoch; return False if asked to stop."""
        outcome = 0  # 1: stopped, 2: diverged; all processes learn of it by the sum
        record = None
        problem = None
        if self.group.leads:
            try:
                record = self._measure()
            except Halted:
                outcome = 1
            except Diverged as diverged:
                outcome = 2
                problem = diverged
        [outcome] = self.group.totals([outcome])
        if outcome == 2:
            raise problem or Diverged("the run has diverged in another process")
        if outcome:
            return False
        self._note(record)
        return True

    def _note(self, record: dict[str, Any] | None) -> None:
        """Write the metrics of an epoch, reset its sums, and save if it is time."""
        progress = self.progress
        progress.epoch += 1
        progress.cursor = progress.seen = progress.right = 0
        progress.loss_sum = 0.0
        reached = record is not None and (self._reaches(record) or self._is_stale(record))
        progress.reached = any(self.group.totals([reached]))
        if record is not None:
            self._unwritten.append(record)
            # Short epochs are written together, because a durable write takes milliseconds.
            if time.monotonic() - self._written_at >= WRITE_SECONDS:
                self._write_metrics()
            for watcher in self.watchers:
                watcher.epoch(record)
        every = self.pace.checkpoint_epochs
        late = time.monotonic() - self._saved_at >= self.pace.checkpoint_seconds
        if late or (every and progress.epoch % every == 0):
            self.save()

    def _measure(self) -> dict[str, Any]:
        """Return the metrics of the epoch that was just trained."""
        progress = self.progress
        recipe = self.recipe
        setup = self.setup
        record: dict[str, Any] = {
            "epoch": progress.epoch + 1,
            "step": progress.step,
            "lr": rates(recipe, progress.step - 1, setup.steps_per_epoch).lr,
            "train_loss": progress.loss_sum / progress.seen,
        }
        counts = setup.objective.counts
        record["train_accuracy"] = progress.right / progress.seen if counts else None
        last = record["epoch"] == recipe.total_epochs or self._reaches(record)
        if last or record["epoch"] % self.config.evaluate_every == 0:
            for part in setup.objective.parts:
                record |= self._score(part)
        return record

    def _score(self, part: str) -> dict[str, Any]:
        """Return the metrics on one part of the data."""
        measured = self._measured(part)
        if part == "test":
            self._right = measured.right
        metrics: dict[str, Any] = {}
        for name, value in measured.metrics.items():
            if value is not None and name in self.setup.objective.decisive:
                self._check(f"the {name} on the {part} examples", value, bounded=name == "loss")
            finite = value is not None and math.isfinite(value)
            metrics[f"{part}_{name}"] = value if finite else None
        return metrics

    def test_right(self) -> Tensor | None:
        """Return which test examples the trained network classifies correctly.

        They are evaluated again if another process did it before the run was resumed. The result is
        None if that is not known, or if the test set is not evaluated.
        """
        if self._right is None and "test" in self.setup.objective.parts:
            self._right = self._measured("test").right
        return self._right

    def _measured(self, part: str) -> Measured:
        """Return the metrics on one part of the data."""
        return self.setup.objective.measure(self.evaluated, part, self.stop.halt)

    def _is_stale(self, record: dict[str, Any]) -> bool:
        """Keep the weights if this is the best epoch; return whether patience is at its end."""
        rule = self.config.patience
        if rule is None or rule.metric not in record:
            return False
        progress = self.progress
        value = record[rule.metric]
        sign = 1 if rule.mode == "max" else -1
        if value is not None and (progress.best is None or sign * value > sign * progress.best):
            progress.best = value
            progress.best_epoch = record["epoch"]
            weights = self.evaluated.state_dict()
            self.best = {name: tensor.detach().clone() for name, tensor in weights.items()}
        return record["epoch"] - progress.best_epoch >= rule.epochs

    def take_best(self) -> None:
        """Give the network the weights of the best epoch, if they were kept."""
        if self.best is not None and self.progress.best_epoch < self.progress.epoch:
            self.model.load_state_dict(self.best)
            self.average = None
            self._right = None

    def _reaches(self, record: dict[str, Any]) -> bool:
        """Return whether the rule that ends a run early is met."""
        rule = self.config.stop
        if rule is None:
            return False
        accuracy = record["train_accuracy"]
        if rule.metric == "train_error":
            return accuracy is not None and 1 - accuracy <= rule.below
        return record.get(rule.metric, math.inf) <= rule.below

    def _count_time(self) -> None:
        """Add the time since the last call to the seconds of the run."""
        now = time.monotonic()
        self.progress.seconds += now - self._since
        self._since = now


def _grouped(batches: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Yield the batches in groups of ``size``; the last may be smaller."""
    batches = iter(batches)
    while group := list(islice(batches, size)):
        yield group
