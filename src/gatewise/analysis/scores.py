"""The scores that a model returns for a batch, and their loss against labels."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor
from torch.nn import functional as F
from torch.utils._pytree import tree_leaves

from gatewise.errors import ArgumentError

IGNORED = -100  # the label of a place that does not count, in torch


def summed_loss(what: str, labels: Tensor, scores: Tensor, output: Any) -> tuple[Tensor, int]:
    """Return the sum of the losses of all labels, and how many labels count.

    The loss is that which the model returned, cross-entropy in nats, or squared error.

    Args:
        what: the name of the function, for messages.
        labels: classes, or numbers of the shape of the scores.
        scores: of the model.
        output: all that it returned.
    """
    own = getattr(output, "loss", None)
    if isinstance(own, Tensor) and own.dim() == 0:
        # The model computed it. Its mean is over the labels that count.
        count = int((labels != IGNORED).sum())
        return own * count, count
    if not labels.is_floating_point() and labels.shape == scores.shape[:-1]:
        flat = labels.reshape(-1).long()
        rows = scores.reshape(-1, scores.shape[-1]).float()
        total = F.cross_entropy(rows, flat, reduction="sum", ignore_index=IGNORED)
        return total, int((flat != IGNORED).sum())
    if labels.is_floating_point() and labels.shape == scores.shape:
        return (scores.double() - labels.double()).square().sum(), labels.numel()
    raise ArgumentError(
        f"{what}: the labels do not fit the outputs of the model",
        got=f"labels {tuple(labels.shape)}, outputs {tuple(scores.shape)}",
        allowed="a class for each row of scores, or numbers of the outputs' shape",
        fix="pass labels of one of these shapes, or none",
    )


def scores_of(output: Any) -> Tensor:
    """Return the scores among what a model returned: its logits, or its first tensor."""
    logits = output.get("logits") if isinstance(output, Mapping) else None
    logits = getattr(output, "logits", logits)
    for each in (logits, *tree_leaves(output)):
        if isinstance(each, Tensor) and each.is_floating_point() and each.dim():
            return each
    raise ArgumentError("the model returns no tensor of numbers", got=type(output).__name__)
