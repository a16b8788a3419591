"""What a user chooses for a comparison: task, loss, metrics, optimiser; checked and made one."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.errors import ArgumentError, GatewiseError
from gatewise.files import digest
from gatewise.studies.comparison.batch_forms import function_fingerprint
from gatewise.studies.comparison.model_calls import (
    BatchReader,
    ModelCall,
    Outputs,
    find_reader,
    read_outputs,
    run_model,
)
from gatewise.studies.comparison.sources import ArraySource
from gatewise.studies.comparison.task_metrics import DEFAULTS, TaskMetrics
from gatewise.studies.comparison.tasks import (
    BINARY,
    CLASSES,
    MODEL_LOSS,
    NEXT_TOKEN,
    PIXELS,
    TOKENS,
    Aligned,
    LearningTask,
    check_loss,
    check_task,
    class_weights,
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
)

LOOKED_AT = 64  # examples that a task is recognised from
OWN = "own"
DEFAULT = "adam"  # recipe
BY_CLASS = (CLASSES, NEXT_TOKEN, TOKENS, PIXELS)


@dataclass(frozen=True)
class Choices:
    """The arguments of :func:`gatewise.compare` that say how to train and judge."""

    step: Any = None
    evaluate: Any = None
    task: str | None = None
    loss: Any = None
    weights: Any = None
    ignored: int = -100
    metric: str | None = None
    metrics: Sequence[str] = ()
    mode: str | None = None
    optimiser: Any = None

    def __post_init__(self) -> None:
        for name in ("step", "evaluate"):
            function = getattr(self, name)
            if function is not None and not callable(function):
                raise ArgumentError(f"{name}: a function is needed", got=function)
        check_task(self.task)
        check_loss(self.loss)
        if isinstance(self.ignored, bool) or not isinstance(self.ignored, int):
            raise ArgumentError("ignore_index: a whole number is needed", got=self.ignored)
        names = [self.metric, *_name_list(self.metrics)]
        for name in names:
            if name is not None and (not isinstance(name, str) or not name):
                raise ArgumentError("metric: a name is needed", got=name, allowed="such as 'f1'")
        if self.mode not in (None, "max", "min"):
            raise ArgumentError("mode: not a direction", got=self.mode, allowed="'max' or 'min'")
        if self.step is not None and self.loss is not None:
            raise ArgumentError("loss: step already says what the loss is", got=self.loss)


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
    reader = find_reader(model, batch)
    if choices.step is not None and (choices.evaluate is not None or choices.task is None):
        return _own_training(choices)
    call = reader.read(batch, without_target=False)
    with evaluating(model):
        outputs = read_outputs(run_model(model, call))
    name = choices.task or recognise(call, outputs, passed_target=reader.passes_target)
    weights = class_weights(choices.weights)
    task = LearningTask(name, choices.loss, weights, choices.ignored, recipe)
    judged = _judged(task, call, outputs)
    aligned = None if judged.name == MODEL_LOSS else judged.align(call, outputs)
    count = _output_count(judged.name, aligned)
    _check_targets(judged, aligned, count, data, reader)
    metric, wanted = _wanted(choices, judged.name)
    if choices.evaluate is None:
        TaskMetrics(judged.name, wanted, count, choices.ignored)  # refuses unknown metrics
    step = choices.step or task_step(task, reader)
    evaluate = choices.evaluate or task_evaluate(task, reader, judged, wanted, count)
    words = name if judged.name == name else f"{name}, judged as {judged.name}"
    return Training(
        step=step,
        evaluate=evaluate,
        metric=metric,
        mode="" if choices.evaluate else metric_mode(metric, choices.mode),
        task=words,
        identity=_identity(choices, name, wanted),
        counts=choices.step is None and name == CLASSES,
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


def make_recipe(recipe: Any, epochs: int | None = None) -> Recipe:
    """Return a recipe from its name, a table that changes one, or itself.

    Args:
        recipe: as :func:`gatewise.compare` takes it; None for the default.
        epochs: in place of the recipe's.
    """
    changes: dict[str, Any] = {}
    if isinstance(recipe, Mapping):
        changes = dict(recipe)
        recipe = changes.pop("base", DEFAULT)
    if not isinstance(recipe, Recipe):
        recipe = find_recipe(DEFAULT if recipe is None else recipe)
    if epochs is not None:
        changes["epochs"] = epochs
    table = changed_table(recipe.model_dump(exclude_unset=True), changes)
    return check(Recipe, table, "recipe")


def optimiser_changes(optimiser: Any, lr: float | None) -> dict[str, Any] | None:
    """Return the recipe's table for an optimiser by name, and a learning rate.

    Args:
        optimiser: a name, a table of a recipe, or a function, which is no matter of the recipe.
        lr: the learning rate.
    """
    table: dict[str, Any] = {}
    if isinstance(optimiser, str):
        table["name"] = optimiser.lower()
    elif isinstance(optimiser, dict):
        table |= optimiser
    elif optimiser is not None and not callable(optimiser):
        raise ArgumentError(
            "optimiser: not understood",
            got=optimiser,
            allowed="a name, a table such as {'name': 'sgd', 'momentum': 0.9}, or a function",
        )
    if lr is not None:
        table["lr"] = float(lr) if isinstance(lr, int) and not isinstance(lr, bool) else lr
    return table or None


def optimiser_factory(factory: Callable[..., Any]) -> Callable[..., torch.optim.Optimizer]:
    """Return a function of model and recipe that makes the user's optimiser.

    The factory is called as ``factory(parameters, lr)``, or ``factory(parameters)`` if it takes one
    argument. The schedule of the recipe multiplies the rate of every group alike.
    """

    def make(model: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
        """Make the optimiser of one run."""
        parameters = [p for p in model.parameters() if p.requires_grad]
        rate = recipe.optimiser.lr
        try:
            made = _call_factory(factory, parameters, rate)
        except GatewiseError:
            raise
        except Exception as problem:
            raise ArgumentError(
                "optimiser: the function failed", got=f"{type(problem).__name__}: {problem}"
            ) from problem
        if not isinstance(made, torch.optim.Optimizer):
            raise ArgumentError(
                "optimiser: the function did not return an optimiser", got=type(made).__name__
            )
        first = float(made.param_groups[0]["lr"])
        for group in made.param_groups:
            group["lr_scale"] = float(group["lr"]) / first if first else 1.0
        return made

    return make


def _call_factory(factory: Callable[..., Any], parameters: list[Any], rate: float) -> Any:
    """Call the factory with the learning rate, if it takes one."""
    import inspect

    try:
        taken = inspect.signature(factory).parameters
    except (TypeError, ValueError):
        return factory(parameters, lr=rate)
    positional = [
        p for p in taken.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    if "lr" in taken:
        return factory(parameters, lr=rate)
    if len(positional) > 1 and positional[1].default is inspect.Parameter.empty:
        return factory(parameters, rate)
    return factory(parameters)


def _own_training(choices: Choices) -> Training:
    """Return training by the user's step, judged by the user's evaluation or by the loss."""
    evaluate = choices.evaluate or loss_evaluate(choices.step)
    metric = bare_metric(choices.metric) if choices.metric else ""
    return Training(
        choices.step,
        evaluate,
        metric,
        "",
        OWN,
        _identity(choices, OWN, tuple(choices.metrics)),
    )


def _judged(task: LearningTask, call: ModelCall, outputs: Outputs) -> LearningTask:
    """Return the task by which a model is judged."""
    if task.name != MODEL_LOSS or task.loss is not None:
        return task
    name = model_loss_task(call, outputs)
    if name is None:
        return task
    return LearningTask(name, None, None, task.ignored, task.recipe)


def _output_count(task: str, aligned: Aligned | None) -> int:
    """Return the classes, labels or numbers of each row."""
    if aligned is None or task == BINARY:
        return 1
    return int(aligned.outputs.shape[1])


def _check_targets(
    task: LearningTask,
    aligned: Aligned | None,
    count: int,
    data: UserData,
    reader: BatchReader,
) -> None:
    """Raise an error for a class that the model has no output for."""
    if aligned is None or task.name not in BY_CLASS or callable(task.loss):
        return
    targets = [aligned.targets]
    for source in (data.train, data.test):
        if isinstance(source, ArraySource):
            target = reader.read(source.content).target
            if isinstance(target, Tensor) and not target.is_floating_point():
                targets.append(target.flatten())
    for values in targets:
        counted = values[values != task.ignored]
        if not counted.numel():
            continue
        if int(counted.max()) >= count or int(counted.min()) < 0:
            extreme = int(counted.max()) if int(counted.max()) >= count else int(counted.min())
            raise ArgumentError(
                "data: there are more classes than the model has outputs",
                got=f"class {extreme}",
                allowed=f"0 to {count - 1}",
                fix="if that target does not count, say ignore_index=",
            )
    if task.weights is not None and len(task.weights) != count:
        raise ArgumentError(
            "class_weights: one number for each class is needed",
            got=len(task.weights),
            allowed=count,
        )


def _wanted(choices: Choices, task: str) -> tuple[str, tuple[str, ...]]:
    """Return the judged metric, and all metrics, the judged one first."""
    defaults = DEFAULTS[task]
    judged = bare_metric(choices.metric) if choices.metric else ""
    more = [bare_metric(name) for name in _name_list(choices.metrics)]
    if choices.evaluate is not None:
        return judged, (judged,)
    first = judged or (more or defaults)[0]
    return first, tuple(dict.fromkeys([first, *more, *defaults]))


def _name_list(metrics: Any) -> list[Any]:
    """Return the names, or raise an error."""
    if isinstance(metrics, str):
        return [metrics]
    if not isinstance(metrics, Sequence):
        raise ArgumentError("metrics: a list of names is needed", got=metrics)
    return list(metrics)


def _identity(choices: Choices, task: str, wanted: tuple[str, ...]) -> str:
    """Return a digest of everything that decides how a run is trained and judged."""
    weights = class_weights(choices.weights)
    words = {
        "task": task,
        "metrics": list(wanted),
        "weights": None if weights is None else weights.tolist(),
        "ignored": choices.ignored,
    }
    for name in ("step", "evaluate", "loss", "optimiser"):
        value = getattr(choices, name)
        words[name] = function_fingerprint(value) if callable(value) else str(value)
    return digest(json.dumps(words, sort_keys=True).encode())
