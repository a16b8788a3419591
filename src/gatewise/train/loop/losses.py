"""The losses of a recipe, one number per example, and the count of correct examples."""

from torch import Tensor
from torch.nn import functional as F

from gatewise.errors import ArgumentError
from gatewise.train.config import Loss


def example_losses(loss: Loss, outputs: Tensor, labels: Tensor) -> Tensor:
    """Return the loss of each example, in float32. Shape: ``(N, K), (N,) -> (N,)``."""
    outputs = outputs.float()
    if loss.name == "cross_entropy":
        return F.cross_entropy(
            outputs,
            labels,
            reduction="none",
            label_smoothing=loss.label_smoothing,
        )
    squared = (outputs - signed_targets(labels, outputs.shape[1])).square().sum(1)
    return squared / 2 if loss.name == "half_mse" else squared


def row_losses(loss: Loss, outputs: Tensor, labels: Tensor) -> Tensor:
    """Return the mean loss of each row of tokens. Shape: ``(N, L, K), (N, L) -> (N,)``."""
    losses = example_losses(loss, outputs.flatten(0, 1), labels.flatten())
    return losses.view(labels.shape).mean(1)


def signed_targets(labels: Tensor, outputs: int) -> Tensor:
    """Return the targets of squared losses. Shape: ``(N,) -> (N, outputs)``.

    A target is 1 at the class and -1 elsewhere; for a single output, -1 for class 0 and 1 for class
    1. Labels that are numbers are the targets themselves.
    """
    if labels.is_floating_point():
        return labels[:, None].expand(-1, outputs).float()
    if outputs == 1:
        return 2.0 * labels[:, None] - 1.0
    return 2.0 * F.one_hot(labels, outputs) - 1.0


def right(outputs: Tensor, labels: Tensor) -> Tensor | None:
    """Return which examples are classified correctly; None if labels are not classes."""
    if labels.is_floating_point():
        return None
    guess = (outputs[:, 0] > 0).long() if outputs.shape[1] == 1 else outputs.argmax(1)
    return guess == labels


def count_right(outputs: Tensor, labels: Tensor) -> int:
    """Return how many examples are classified correctly; 0 if labels are not classes."""
    correct = right(outputs, labels)
    return 0 if correct is None else int(correct.sum())


def check_outputs(loss: Loss, outputs: Tensor, labels: Tensor, classes: int) -> None:
    """Check that the outputs fit the loss and the data.

    Args:
        loss: of the recipe.
        outputs: of the network for some examples.
        labels: of these examples.
        classes: of the data; 0 if labels are numbers.

    Raises:
        ArgumentError: if the number of outputs is wrong.
    """
    if labels.dim() == 2:
        return _check_rows(loss, outputs, labels, classes)
    if outputs.dim() != 2:
        raise ArgumentError(
            "model: a vector for each example is needed",
            got=f"shape {tuple(outputs.shape)}",
            allowed="(N, K)",
        )
    if labels.is_floating_point():
        allowed = [1] if loss.name != "cross_entropy" else []
    else:
        allowed = [classes, 1] if loss.name != "cross_entropy" and classes == 2 else [classes]
    if outputs.shape[1] not in allowed:
        raise ArgumentError(
            f"model: these outputs do not go with {loss.name} and the data",
            got=f"{outputs.shape[1]} outputs",
            allowed=" or ".join(map(str, allowed)) or "a squared loss, for labels that are numbers",
        )


def _check_rows(loss: Loss, outputs: Tensor, labels: Tensor, classes: int) -> None:
    """Check that the outputs are one score for each token at every place of a row."""
    wanted = (*labels.shape, classes)
    if tuple(outputs.shape) != wanted:
        raise ArgumentError(
            "model: text needs a score for every token at every place",
            got=f"shape {tuple(outputs.shape)}",
            allowed=f"{wanted}",
            fix="choose a language model, such as small_llama",
        )
    if loss.name != "cross_entropy":
        raise ArgumentError(
            "recipe: this loss does not go with text", got=loss.name, allowed="cross_entropy"
        )
