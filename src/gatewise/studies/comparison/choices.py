"""What a user chooses for a comparison: step, evaluation and metrics; checked and made one."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from gatewise.batches import BatchReader, find_reader
from gatewise.checks import check_choice
from gatewise.errors import ArgumentError
from gatewise.files import digest
from gatewise.studies.comparison.fingerprints import function_fingerprint
from gatewise.studies.comparison.model_outputs import read_outputs, run_model
from gatewise.studies.comparison.sources import ArraySource
from gatewise.studies.comparison.task_metrics import DEFAULTS, TaskMetrics
from gatewise.studies.comparison.tasks import (
    BINARY,
    CLASSES,
    IGNORED,
    MODEL_LOSS,
    NEXT_TOKEN,
    PIXELS,
    TOKENS,
    Aligned,
    LearningTask,
    model_loss_task,
    recognise,
)
from gatewise.studies.comparison.user_data import UserData
from gatewise.studies.comparison.user_objective import (
    Training,
    loss_evaluate,
    task_evaluate,
    task_step,
)
from gatewise.train import (
    Recipe,
    bare_metric,
    changed_table,
    check,
    evaluating,
    find_recipe,
    metric_mode,
    parse,
)

LOOKED_AT = 64  # examples that a task is recognised from
OWN = "own"
BY_CLASS = (CLASSES, NEXT_TOKEN, TOKENS, PIXELS)


@dataclass(frozen=True)
class Choices:
    """The arguments of :func:`gatewise.compare` that say how to train and judge."""

    step: Any = None
    evaluate: Any = None
    metric: str | None = None
    metrics: Sequence[str] = ()
    mode: str | None = None

    def __post_init__(self) -> None:
        for name in ("step", "evaluate"):
            function = getattr(self, name)
            if function is not None and not callable(function):
                raise ArgumentError(f"{name}: a function is needed", got=function)
        judged = [] if self.metric is None else [self.metric]
        for name in (*judged, *_name_list(self.metrics)):
            if not isinstance(name, str) or not name:
                raise ArgumentError("metric: a name is needed", got=name, allowed="such as 'f1'")
        if self.mode is not None:
            check_choice("compare", "mode", self.mode, ("max", "min"))


def make_training(choices: Choices, model: nn.Module, data: UserData, recipe: Recipe) -> Training:
    """Return how the model is trained and judged.

    Args:
        choices: of the user.
        model: before surgery, on the processor.
        data: of the user.
        recipe: of the training.

    Raises:
        ArgumentError: if the task is ambiguous, or outputs and targets do not fit it.
    """
    batch = data.train.first(LOOKED_AT)
    reader = find_reader(model)
    if choices.step is not None:
        return _own_training(choices)
    call = reader.read(batch)
    with evaluating(model):
        outputs = read_outputs(run_model(model, call))
    name = recognise(call, outputs, passed_target=bool(call.target_name))
    task = LearningTask(name, recipe)
    judged = task
    if name == MODEL_LOSS:  # its outputs may be classes or tokens as well
        judged = LearningTask(model_loss_task(call, outputs), recipe)
    aligned = None if judged.name == MODEL_LOSS else judged.align(call, outputs)
    count = 1 if aligned is None or judged.name == BINARY else int(aligned.outputs.shape[1])
    _check_targets(judged, aligned, count, data, reader)
    metric, wanted = _wanted(choices, judged.name)
    if choices.evaluate is None:
        TaskMetrics(judged.name, wanted, count, IGNORED)  # refuses unknown metrics
    step = task_step(task, reader)
    evaluate = choices.evaluate or task_evaluate(task, reader, judged, wanted, count)
    words = name if judged.name == name else f"{name}, judged as {judged.name}"
    return Training(
        step=step,
        evaluate=evaluate,
        metric=metric,
        mode="" if choices.evaluate else metric_mode(metric, choices.mode),
        task=words,
        identity=_identity(choices, name, wanted),
    )


def with_metric(training: Training, choices: Choices, returned: dict[str, float]) -> Training:
    """Return the training with the judged metric that the user's evaluation returned.

    Args:
        training: its metric is empty if the user named none.
        choices: of the user.
        returned: what evaluating one batch gave.
    """
    metric = training.metric or next(iter(returned))
    if metric not in returned:
        raise ArgumentError(
            "metric: evaluate does not return it",
            got=metric,
            allowed=", ".join(returned),
        )
    return replace(training, metric=metric, mode=metric_mode(metric, choices.mode))


def make_recipe(recipe: Any, epochs: int | None = None, *, changes: Sequence[str] = ()) -> Recipe:
    """Return a recipe from its name, a table that changes one, or itself.

    Its ``optimiser.lr`` is the middle of the rates that are compared.

    Args:
        recipe: as :func:`gatewise.compare` takes it; None for the default.
        epochs: in place of the recipe's.
        changes: lines of TOML that change it last.
    """
    values: dict[str, Any] = {}
    if isinstance(recipe, Mapping):
        values = dict(recipe)
        recipe = values.pop("base", None)
    if not isinstance(recipe, Recipe):
        recipe = find_recipe() if recipe is None else find_recipe(recipe)
    if epochs is not None:
        values["epochs"] = epochs
    table = recipe.model_dump(exclude_unset=True)
    if recipe.comparison_lr is not None:
        table["optimiser"] = {**table.get("optimiser", {}), "lr": recipe.comparison_lr}
    table = changed_table(table, values)
    table = changed_table(table, parse("\n".join(changes), f"change {', '.join(changes)}"))
    return check(Recipe, table, "recipe")


def _own_training(choices: Choices) -> Training:
    """Return training by the user's step, judged by the user's evaluation or by the loss."""
    return Training(
        step=choices.step,
        evaluate=choices.evaluate or loss_evaluate(choices.step),
        metric=bare_metric(choices.metric) if choices.metric else "",
        mode="",
        task=OWN,
        identity=_identity(choices, OWN, tuple(choices.metrics)),
    )


def _check_targets(
    task: LearningTask,
    aligned: Aligned | None,
    count: int,
    data: UserData,
    reader: BatchReader,
) -> None:
    """Raise an error for a class that the model has no output for."""
    if aligned is None or task.name not in BY_CLASS:
        return
    targets = [aligned.targets]
    for source in (data.train, data.test):
        if isinstance(source, ArraySource):
            target = reader.read(source.content).target
            if isinstance(target, Tensor) and not target.is_floating_point():
                targets.append(target.flatten())
    for values in targets:
        counted = values[values != IGNORED]
        if not counted.numel():
            continue
        low, high = int(counted.min()), int(counted.max())
        if high >= count or low < 0:
            raise ArgumentError(
                "data: there are more classes than the model has outputs",
                got=f"class {high if high >= count else low}",
                allowed=f"0 to {count - 1}",
                fix=f"a target that does not count is {IGNORED}",
            )


def _wanted(choices: Choices, task: str) -> tuple[str, tuple[str, ...]]:
    """Return the judged metric, and all metrics, the judged one first."""
    judged = bare_metric(choices.metric) if choices.metric else ""
    if choices.evaluate is not None:
        return judged, (judged,)
    judged = judged or DEFAULTS[task][0]
    more = [bare_metric(name) for name in _name_list(choices.metrics)]
    return judged, tuple(dict.fromkeys([judged, *more, *DEFAULTS[task]]))


def _name_list(metrics: Any) -> list[Any]:
    """Return the names, or raise an error."""
    if isinstance(metrics, str):
        return [metrics]
    if not isinstance(metrics, Sequence):
        raise ArgumentError("metrics: a list of names is needed", got=metrics)
    return list(metrics)


def _identity(choices: Choices, task: str, wanted: tuple[str, ...]) -> str:
    """Return a digest of everything that decides how a run is trained and judged."""
    words: dict[str, Any] = {"task": task, "metrics": list(wanted)}
    for name in ("step", "evaluate"):
        value = getattr(choices, name)
        words[name] = function_fingerprint(value) if callable(value) else str(value)
    return digest(json.dumps(words, sort_keys=True).encode())
