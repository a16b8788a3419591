"""What a model is trained for: recognised from its outputs and targets where that is unambiguous.

Note [Recognised tasks]. Integer targets (n,) and outputs (n, classes) are classification. A single
output with integer targets of 0 and 1 is a binary task. Targets of 0 and 1 in the shape of several
outputs are several labels, unless every row has exactly one 1. Other numbers in the shape of the
outputs are regression. One class for each pixel is segmentation, one for each token a language
model, whose targets are the next tokens if the batch has no others. A model that returns a loss
is trained by it. Everything else asks for ``step=``.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor
from torch.nn import functional as F

from gatewise.batches import ModelCall
from gatewise.errors import ArgumentError
from gatewise.studies.comparison.model_outputs import Outputs
from gatewise.train import Recipe, example_losses

CLASSES = "classification"
BINARY = "binary"
LABELS = "multi-label"
NUMBERS = "regression"
NEXT_TOKEN = "language-modelling"  # noqa: S105 - a task, not a password
TOKENS = "token-classification"
PIXELS = "segmentation"
MODEL_LOSS = "model-loss"
TASKS = (CLASSES, BINARY, LABELS, NUMBERS, NEXT_TOKEN, TOKENS, PIXELS, MODEL_LOSS)
IGNORED = -100  # torch's own mark of targets that do not count
LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    BINARY: F.binary_cross_entropy_with_logits,
    LABELS: F.binary_cross_entropy_with_logits,
    NUMBERS: F.mse_loss,
}


@dataclass(frozen=True)
class Aligned:
    """Outputs and targets in the form that losses and metrics take.

    Classes: (m, k) and (m,). Labels and numbers: both (m, k). One output with two classes: (m,).
    """

    outputs: Tensor
    targets: Tensor


@dataclass(frozen=True)
class LearningTask:
    """A task with its usual loss.

    Args:
        name: one of :data:`TASKS`.
        recipe: whose label smoothing or squared loss is used for classes.
    """

    name: str
    recipe: Recipe = field(default_factory=Recipe)

    def loss_of(self, call: ModelCall, outputs: Outputs) -> Tensor:
        """Return the mean loss of a batch."""
        if self.name == MODEL_LOSS:
            if outputs.loss is None:
                raise ArgumentError("model: it returned no loss", fix="give step= and evaluate=")
            return outputs.loss
        aligned = self.align(call, outputs)
        values = aligned.outputs.float()
        recipe = self.recipe.loss
        single = self.name == CLASSES or (self.name == NUMBERS and values.shape[1] == 1)
        if single and recipe.name != "cross_entropy":
            return example_losses(recipe, values, _as_labels(aligned.targets)).mean()
        if self.name in LOSSES:
            return LOSSES[self.name](values, aligned.targets.to(values.dtype))
        return F.cross_entropy(
            values,
            aligned.targets,
            ignore_index=IGNORED,
            label_smoothing=recipe.label_smoothing,
        )

    def align(self, call: ModelCall, outputs: Outputs) -> Aligned:
        """Return outputs and targets in the form of the task.

        Raises:
            ArgumentError: if their shapes do not fit the task.
        """
        values = outputs.values
        targets = target_of(self, call)
        if values is None or not isinstance(targets, Tensor):
            raise ArgumentError(
                f"task: {self.name} needs outputs and targets",
                got=f"{_shape(values)} and {_shape(targets)}",
                fix="give step= and evaluate=",
            )
        aligned = _ALIGN[self.name](values, targets, call)
        if aligned is None:
            raise ArgumentError(
                f"task: outputs and targets do not fit {self.name}",
                got=f"outputs {_shape(values)} and targets {_shape(targets)}",
            )
        return aligned


def target_of(task: LearningTask, call: ModelCall) -> Any:
    """Return the targets of a batch; those of a language model may be its inputs."""
    if call.target is not None or task.name != NEXT_TOKEN:
        return call.target
    return _tokens(call)


def recognise(call: ModelCall, outputs: Outputs, *, passed_target: bool) -> str:
    """Return the task; see Note [Recognised tasks].

    Args:
        call: of the model on a batch.
        outputs: of that call.
        passed_target: whether the model got the target and may have computed its loss.

    Raises:
        ArgumentError: if it is ambiguous.
    """
    values = outputs.values
    targets = call.target
    if outputs.loss is not None and (passed_target or targets is None):
        return MODEL_LOSS
    if values is None:
        raise _ask("the model returned no tensor of outputs", values, targets)
    if targets is None:
        tokens = _tokens(call)
        if tokens is not None and values.dim() == 3 and values.shape[:2] == tokens.shape:
            return NEXT_TOKEN
        raise _ask("the batches have no targets", values, targets)
    if not isinstance(targets, Tensor):
        raise _ask("the targets are not a tensor", values, targets)
    fitting = _fitting(values, targets, call)
    if len(fitting) != 1:
        words = " or ".join(fitting) if fitting else "nothing that is known"
        raise _ask(f"outputs and targets fit {words}", values, targets)
    return fitting[0]


def _fitting(values: Tensor, targets: Tensor, call: ModelCall) -> list[str]:
    """Return the tasks that outputs and targets fit."""
    whole = not targets.is_floating_point() and not targets.is_complex()
    zero_one = _is_zero_one(targets)
    fitting = []
    if whole:
        for name in (CLASSES, PIXELS, TOKENS):
            if _ALIGN[name](values, targets, call) is not None:
                fitting.append(name)
        if TOKENS in fitting and _is_next_token(targets, call):
            fitting[fitting.index(TOKENS)] = NEXT_TOKEN
        if zero_one and _ALIGN[BINARY](values, targets, call) is not None:
            fitting.append(BINARY)
        if zero_one and not fitting and _ALIGN[LABELS](values, targets, call) is not None:
            fitting.append(LABELS)
        return fitting
    if _ALIGN[NUMBERS](values, targets, call) is None:
        return []
    if not zero_one:
        return [NUMBERS]
    if values.dim() == 2 and values.shape[1] > 1:
        one_hot = bool((targets.sum(1) == 1).all())
        return ["classification with one-hot targets", LABELS] if one_hot else [LABELS]
    return [BINARY, NUMBERS]


def _align_classes(values: Tensor, targets: Tensor, call: ModelCall) -> Aligned | None:
    """Align (n, k) and (n,)."""
    if values.dim() != 2 or values.shape[1] < 2:
        return None
    if targets.shape == (len(values), 1):
        targets = targets[:, 0]
    if targets.shape == values.shape and targets.is_floating_point():
        return Aligned(values, targets.argmax(1))  # one-hot, if asked for by name
    if targets.shape != values.shape[:1] or targets.is_floating_point():
        return None
    return Aligned(values, targets.long())


def _align_binary(values: Tensor, targets: Tensor, call: ModelCall) -> Aligned | None:
    """Align one output with targets of 0 and 1, for each example or each pixel."""
    if values.dim() == 2 and values.shape[1] > 1:
        return None
    values, targets = _without_single(values), _without_single(targets)
    if values.shape != targets.shape:
        return None
    return Aligned(values.flatten(), targets.flatten())


def _align_labels(values: Tensor, targets: Tensor, call: ModelCall) -> Aligned | None:
    """Align several labels of each example."""
    if values.dim() != 2 or values.shape != targets.shape:
        return None
    return Aligned(values, targets)


def _align_numbers(values: Tensor, targets: Tensor, call: ModelCall) -> Aligned | None:
    """Align numbers of one shape; one output for each example may have a dimension of size 1."""
    values, targets = _without_single(values), _without_single(targets)
    if values.shape != targets.shape or not values.dim():
        return None
    return Aligned(values.reshape(len(values), -1), targets.reshape(len(targets), -1))


def _align_pixels(values: Tensor, targets: Tensor, call: ModelCall) -> Aligned | None:
    """Align (n, k, ...) and (n, ...)."""
    if targets.dim() == values.dim() and targets.shape[1:2] == (1,) and values.dim() > 2:
        targets = targets[:, 0]
    if values.dim() < 3 or targets.shape != (len(values), *values.shape[2:]):
        return None
    if targets.is_floating_point() or values.shape[1] < 2:
        return None
    flat = values.movedim(1, -1).flatten(0, -2)
    return Aligned(flat, targets.flatten().long())


def _align_tokens(values: Tensor, targets: Tensor, call: ModelCall) -> Aligned | None:
    """Align (n, t, k) and (n, t)."""
    if values.dim() != 3 or targets.shape != values.shape[:2] or targets.is_floating_point():
        return None
    return Aligned(values.flatten(0, 1), targets.flatten().long())


def _align_next(values: Tensor, targets: Tensor, call: ModelCall) -> Aligned | None:
    """Align the outputs at each token with the next token."""
    tokens = _tokens(call)
    shifted = tokens is None or not _equal(tokens, targets)
    if shifted:  # the targets are already one token ahead
        return _align_tokens(values, targets, call)
    return _align_tokens(values[:, :-1], targets[:, 1:], call)


_ALIGN: dict[str, Callable[[Tensor, Tensor, ModelCall], Aligned | None]] = {
    CLASSES: _align_classes,
    BINARY: _align_binary,
    LABELS: _align_labels,
    NUMBERS: _align_numbers,
    PIXELS: _align_pixels,
    TOKENS: _align_tokens,
    NEXT_TOKEN: _align_next,
}


def model_loss_task(call: ModelCall, outputs: Outputs) -> str:
    """Return the task by which a model that returns its loss is judged."""
    values, targets = outputs.values, call.target
    if values is None or not isinstance(targets, Tensor) or targets.is_floating_point():
        return MODEL_LOSS
    if _ALIGN[CLASSES](values, targets, call) is not None:
        return CLASSES
    if _ALIGN[TOKENS](values, targets, call) is not None:
        return NEXT_TOKEN if _is_next_token(targets, call) else TOKENS
    return MODEL_LOSS


def _tokens(call: ModelCall) -> Tensor | None:
    """Return the token ids among the inputs: the first integer tensor (n, t)."""
    for value in (*call.args, *call.kwargs.values()):
        if isinstance(value, Tensor) and value.dim() == 2 and not value.is_floating_point():
            return value
    return None


def _is_next_token(targets: Tensor, call: ModelCall) -> bool:
    """Return whether targets are the input tokens, as they are or one ahead; padding is ignored."""
    tokens = _tokens(call)
    if tokens is None or tokens.shape != targets.shape or tokens.shape[1] < 2:
        return False
    ahead = _equal(tokens[:, 1:], targets[:, :-1])
    return ahead or _equal(tokens, targets)


def _equal(tokens: Tensor, targets: Tensor) -> bool:
    """Return whether tokens and targets are equal where targets count."""
    if tokens.shape != targets.shape:
        return False
    counted = targets != IGNORED
    return bool(counted.any()) and bool((tokens == targets)[counted].all())


def _is_zero_one(targets: Tensor) -> bool:
    """Return whether all targets are 0 or 1."""
    return bool(((targets == 0) | (targets == 1)).all())


def _without_single(values: Tensor) -> Tensor:
    """Return (n, ...) for (n, 1, ...)."""
    if values.dim() > 1 and values.shape[1] == 1:
        return values[:, 0]
    return values


def _as_labels(targets: Tensor) -> Tensor:
    """Return (n,) for the losses of a recipe."""
    if targets.dim() == 2:
        return targets[:, 0]
    return targets


def _shape(value: Any) -> str:
    """Return type and shape of a tensor in words."""
    if not isinstance(value, Tensor):
        return type(value).__name__
    return f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"


def _ask(why: str, values: Any, targets: Any) -> ArgumentError:
    """Return the error that asks for the user's own step and evaluation."""
    return ArgumentError(
        f"task: {why}",
        got=f"outputs {_shape(values)} and targets {_shape(targets)}",
        allowed=f"outputs and targets of one of: {', '.join(TASKS)}",
        fix="give step=my_step and evaluate=my_evaluate",
    )
