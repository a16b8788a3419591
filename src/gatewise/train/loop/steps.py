"""The training loop: steps, epochs, metrics and checkpoints, from any state to the end."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor, nn

from gatewise.data import Augment, Split
from gatewise.files import Journal
from gatewise.layers import orthogonality_penalty
from gatewise.train.config import CheckedOptions, RunConfig, rates
from gatewise.train.loop.average import averaged, start_average, update_average
from gatewise.train.loop.batches import Batch, Batches
from gatewise.train.loop.callbacks import Step, Watcher
from gatewise.train.loop.checkpoint import Checkpoints, Progress, Saved, named_state, restore_state
from gatewise.train.loop.evaluation import Score, evaluate, in_precision
from gatewise.train.loop.interrupt import Halted, StopSignal
from gatewise.train.loop.losses import count_right, example_losses
from gatewise.train.loop.optimizer import make_optimiser, set_rates
from gatewise.train.loop.process_group import ProcessGroup
from gatewise.train.loop.random_streams import seed_step


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
    batches: Batches
    evaluated: dict[str, Split]  # what is evaluated after an epoch, by the name that metrics have
    augment: Augment
    identity: dict[str, str]
    environment: dict[str, Any]


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
        self.optimiser = make_optimiser(self.model, self.recipe)
        self.average = start_average(self.model) if self.recipe.ema else None
        self._parameters = list(self.model.parameters())
        self.progress = Progress()
        self._right: Tensor | None = None  # of the last evaluation of the test set
        self._parallel: Callable[[Tensor], Tensor] = self.model
        self._since = self._saved_at = time.monotonic()

    def resume(self, saved: Saved) -> None:
        """Restore the state of a checkpoint, and delete the metrics written since."""
        restore_state(saved, self.model, self.optimiser, self.average)
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
        return True

    def save(self) -> None:
        """Write a checkpoint, if this process leads."""
        if not self.group.leads:
            return
        self._count_time()
        tensors, scalars = named_state(self.model, self.optimiser, self.average)
        self.checkpoints.save(
            Saved(self.progress, self.setup.identity, self.setup.environment, scalars, tensors)
        )
        self._saved_at = time.monotonic()

    def _train_epoch(self) -> bool:
        """Train the remaining steps of the epoch; return False if asked to stop."""
        progress = self.progress
        for batch in self.setup.batches.walk(progress.epoch, progress.cursor, self.pace.workers):
            if self._step(batch):
                return False
            if time.monotonic() - self._saved_at >= self.pace.checkpoint_seconds:
                self.save()
        return True

    def _step(self, batch: Batch) -> bool:
        """Train one step; return whether a process was asked to stop."""
        progress = self.progress
        recipe = self.recipe
        seed_step(self.config.seed, progress.step, self.group.rank)
        now = rates(recipe, progress.step, self.setup.batches.count)
        set_rates(self.optimiser, now)
        for parameter in self._parameters:  # what zero_grad does, without its bookkeeping
            parameter.grad = None
        with in_precision(recipe.precision):
            outputs = self._parallel(batch.images)
        losses = example_losses(recipe.loss, outputs, batch.labels)
        loss_sum = losses.detach().sum(dtype=torch.float64).item()
        right = count_right(outputs.detach(), batch.labels)
        loss_sum, right, asked = self.group.totals([loss_sum, right, self.stop.asked])
        self._check("the loss", loss_sum / batch.whole)
        self._update(losses.sum() * (self.group.processes / batch.whole))
        progress.step += 1
        progress.cursor += 1
        progress.seen += batch.whole
        progress.loss_sum += loss_sum
        progress.right += int(right)
        loss = loss_sum / batch.whole
        for watcher in self.watchers:
            watcher.step(Step(progress.step, progress.epoch + 1, batch.index, loss, now.lr))
        # Several processes must agree, which they do in the next step.
        return bool(asked) or (self.group.processes == 1 and self.stop.asked)

    def _update(self, loss: Tensor) -> None:
        """Take a step on the loss of this process's share of the batch."""
        recipe = self.recipe
        if recipe.orthogonality.weight:
            loss = loss + orthogonality_penalty(
                self.model, weight=recipe.orthogonality.weight, pieces=recipe.orthogonality.pieces
            )
        loss.backward()
        if recipe.clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), recipe.clip)
        self.optimiser.step()
        if self.average is not None:
            update_average(self.average, self.model, recipe.ema)

    def _check(self, what: str, value: float) -> None:
        """Raise :class:`Diverged` if a loss is not finite or above the bound."""
        if not math.isfinite(value):
            raise Diverged(f"{what} is {value} at step {self.progress.step + 1}")
        if value > self.recipe.diverged_above:
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
        progress.reached = any(self.group.totals([record is not None and self._reaches(record)]))
        if record is not None:
            self.journal.append(record)
            progress.metrics_size = self.journal.size
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
            "lr": rates(recipe, progress.step - 1, setup.batches.count).lr,
            "train_loss": progress.loss_sum / progress.seen,
        }
        counts = not setup.batches.split.labels.is_floating_point()
        record["train_accuracy"] = progress.right / progress.seen if counts else None
        last = record["epoch"] == recipe.total_epochs
        if last or record["epoch"] % self.config.evaluate_every == 0:
            with averaged(self.model, self.average):
                for name, split in setup.evaluated.items():
                    record |= self._score(name, split)
        return record

    def _score(self, name: str, split: Split) -> dict[str, Any]:
        """Return loss and accuracy on one split."""
        score = self._evaluate(split)
        if name == "test":
            self._right = score.right
        self._check(f"the loss on the {name} examples", score.loss)
        return {f"{name}_loss": score.loss, f"{name}_accuracy": score.accuracy}

    def test_right(self) -> Tensor | None:
        """Return which test examples the trained network classifies correctly.

        They are evaluated again if another process did it before the run was resumed. The result is
        None if labels are not classes, or if the test set is not evaluated.
        """
        if self._right is None and "test" in self.setup.evaluated:
            with averaged(self.model, self.average):
                self._right = self._evaluate(self.setup.evaluated["test"]).right
        return self._right

    def _evaluate(self, split: Split) -> Score:
        """Return the score of the network on one split."""
        recipe = self.recipe
        return evaluate(
            self.model,
            split,
            loss=recipe.loss,
            augment=self.setup.augment,
            precision=recipe.precision,
            halt=self.stop.halt,
        )

    def _reaches(self, record: dict[str, Any]) -> bool:
        """Return whether the rule that ends a run early is met."""
        rule = self.config.stop
        return rule is not None and record.get(rule.metric, math.inf) <= rule.below

    def _count_time(self) -> None:
        """Add the time since the last call to the seconds of the run."""
        now = time.monotonic()
        self.progress.seconds += now - self._since
        self._since = now
