"""Training and evaluation by code of the user, or by a recognised task."""

import random
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.batches import BatchReader, length
from gatewise.checks import is_number
from gatewise.devices import device_of
from gatewise.errors import ArgumentError, GatewiseError, first_line
from gatewise.studies.comparison.model_outputs import read_outputs
from gatewise.studies.comparison.sources import Source
from gatewise.studies.comparison.task_metrics import TaskMetrics
from gatewise.studies.comparison.tasks import IGNORED, MODEL_LOSS, LearningTask
from gatewise.train import (
    Measured,
    Objective,
    Recipe,
    StepLoss,
    evaluating,
    in_precision,
    move,
    seed_all,
    stream_seed,
)

MOST_METRICS = 100

StepFunction = Callable[[Any, Any], Any]
EvaluateFunction = Callable[[Any, Any], Any]


class EvaluationLoader:
    """The batches of a validation or test set, on the device of the model.

    Args:
        source: of the batches.
        device: of the model.
        channels_last: whether images get that layout.
        most: batches; 0 for all.
        halt: called before each batch; it may raise to end the evaluation.
    """

    def __init__(
        self,
        source: Source,
        device: torch.device,
        *,
        channels_last: bool = False,
        most: int = 0,
        halt: Callable[[], None] = lambda: None,
    ) -> None:
        self.source = source
        self.device = device
        self.channels_last = channels_last
        self.most = most
        self.halt = halt

    def __len__(self) -> int:
        if self.most:
            return min(self.most, self.source.count)
        return self.source.count

    def __iter__(self) -> Iterator[Any]:
        for place, batch in enumerate(self.source.read(0, 0)):
            if self.most and place >= self.most:
                return
            self.halt()
            yield move(batch.content, self.device, channels_last=self.channels_last)


@dataclass(frozen=True)
class Training:
    """How the model of a user is trained and judged.

    Args:
        step: takes the model and a batch and returns the loss.
        evaluate: takes the model and a loader and returns metrics.
        metric: the judged metric, without the name of the data.
        mode: ``"max"`` or ``"min"``.
        task: in words; "own" if the functions are the user's.
        identity: a digest of all of this.
    """

    step: StepFunction
    evaluate: EvaluateFunction
    metric: str
    mode: str
    task: str
    identity: str


class UserObjective(Objective):
    """The loss of the user's step, and the metrics of the user's evaluation.

    Args:
        training: the functions.
        parts: the data that are evaluated, by name.
        device: of the model.
        recipe: whose precision and layout are used.
    """

    counts = False

    def __init__(
        self,
        training: Training,
        parts: Mapping[str, Source],
        device: torch.device,
        recipe: Recipe,
    ) -> None:
        self.training = training
        self.sources = parts
        self.parts = tuple(parts)
        self.decisive = ("loss", training.metric)
        self.device = device
        self.precision = recipe.precision
        self.channels_last = recipe.channels_last

    def step(self, call: Callable[..., Any], batch: Any) -> StepLoss:
        """Return the sum of the losses of a batch."""
        seed = torch.default_generator.initial_seed()  # the loop has seeded torch for this step
        random.seed(seed)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed([seed & 0xFFFFFFFF, seed >> 32])
        content = move(batch.content, self.device, channels_last=self.channels_last)
        with in_precision(self.precision, self.device):
            loss = check_loss_value(self.training.step(call, content))
        return StepLoss(loss.float() * batch.whole)

    def measure(self, model: nn.Module, part: str, halt: Callable[[], None]) -> Measured:
        """Return the metrics of the user's evaluation on one part of the data, checked."""
        loader = EvaluationLoader(
            self.sources[part], self.device, channels_last=self.channels_last, halt=halt
        )
        seed_all(stream_seed(0, "evaluate"))
        with evaluating(model), in_precision(self.precision, self.device):
            metrics = read_metrics(self.training.evaluate(model, loader))
        if self.training.metric not in metrics:
            raise ArgumentError(
                "metric: evaluate did not return it",
                got=", ".join(metrics),
                allowed=self.training.metric,
            )
        return Measured(metrics)


def read_metrics(returned: Any) -> dict[str, float]:
    """Return the metrics that ``evaluate`` returned.

    Raises:
        ArgumentError: if it is not a mapping from names to numbers.
    """
    if not isinstance(returned, Mapping) or not 1 <= len(returned) <= MOST_METRICS:
        raise ArgumentError(
            "evaluate: a mapping from names to numbers is needed",
            got=returned,
            allowed='such as {"accuracy": 0.9, "loss": 0.3}',
        )
    metrics: dict[str, float] = {}
    for name, value in returned.items():
        if not isinstance(name, str) or not name.isidentifier():
            raise ArgumentError("evaluate: a metric has no name", got=name, allowed="an identifier")
        if isinstance(value, Tensor) and value.numel() == 1:
            value = value.item()
        if not is_number(value):
            raise ArgumentError(f"evaluate: {name} is not a number", got=type(value).__name__)
        metrics[name] = float(value)
    return metrics


def check_loss_value(loss: Any) -> Tensor:
    """Return the loss, or raise an error if it is not one number that can be differentiated."""
    if not isinstance(loss, Tensor) or loss.numel() != 1 or not loss.is_floating_point():
        shape = f"shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
        raise ArgumentError("step: the loss must be a tensor with one number", got=shape)
    if not loss.requires_grad:
        raise ArgumentError(
            "step: the loss does not depend on weights that are trained",
            got="requires_grad=False",
            fix="compute it from model(...) without torch.no_grad() or detach()",
        )
    return loss.reshape(())


def task_step(task: LearningTask, reader: BatchReader) -> StepFunction:
    """Return the usual training step of a task."""

    def step(model: Any, batch: Any) -> Any:
        """Return the mean loss of a batch."""
        call = reader.read(batch, without_target=task.name != MODEL_LOSS)
        return task.loss_of(call, read_outputs(call.run(model)))

    return step


def task_evaluate(
    task: LearningTask,
    reader: BatchReader,
    judged: LearningTask,
    wanted: tuple[str, ...],
    outputs: int,
) -> EvaluateFunction:
    """Return the usual evaluation of a task.

    Args:
        task: whose loss is computed.
        reader: of batches.
        judged: the task by whose metrics the model is judged; for a model that returns its loss
            another than ``task``.
        wanted: names of the metrics.
        outputs: classes, labels or numbers for each row.
    """

    def evaluate(model: Any, loader: Any) -> dict[str, float]:
        """Return the metrics."""
        metrics = TaskMetrics(judged.name, wanted, outputs, IGNORED)
        for batch in loader:
            call = reader.read(batch, without_target=task.name != MODEL_LOSS)
            values = read_outputs(call.run(model))
            loss = float(task.loss_of(call, values).detach())
            aligned = None if judged.name == MODEL_LOSS else judged.align(call, values)
            metrics.add(aligned, loss, length(batch))
        return metrics.values()

    return evaluate


def loss_evaluate(step: StepFunction) -> EvaluateFunction:
    """Return an evaluation by the mean loss of the user's step."""

    def evaluate(model: Any, loader: Any) -> dict[str, Any]:
        """Return the mean loss over examples."""
        total = 0.0
        count = 0
        for batch in loader:
            rows = length(batch)
            total += float(step(model, batch).detach()) * rows
            count += rows
        return {"loss": total / max(1, count)}

    return evaluate


def try_training(
    training: Training,
    model: nn.Module,
    train: Source,
    test: Source,
) -> dict[str, float]:
    """Take a step and evaluate a batch, and return its metrics; errors name the function.

    Args:
        training: the functions.
        model: a copy that may be changed.
        train: whose first examples are trained on.
        test: whose first batch is evaluated.
    """
    device = device_of(model)
    model.train()
    with _named_errors("step"):
        check_loss_value(training.step(model, move(train.first(8), device))).backward()
    with _named_errors("evaluate"), evaluating(model):
        seed_all(stream_seed(0, "evaluate"))
        return read_metrics(training.evaluate(model, EvaluationLoader(test, device, most=1)))


@contextmanager
def _named_errors(name: str) -> Iterator[None]:
    """Turn errors of a user's function into ones that name it."""
    try:
        yield
    except GatewiseError:
        raise
    except Exception as problem:
        raise ArgumentError(
            f"{name}: it failed on the first batch",
            got=f"{type(problem).__name__}: {first_line(problem)}",
        ) from problem
