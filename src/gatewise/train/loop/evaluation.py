"""What a network says of examples it does not learn from.

Outputs, mean loss, share that is right.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gatewise.data import Augment, Split, ten_crop
from gatewise.train.config import Loss
from gatewise.train.loop.losses import count_right, example_losses

SIZE = 512  # examples at once; fixed, because last bits may depend on it


@dataclass(frozen=True)
class Score:
    """Mean loss and share right over some examples.

    ``accuracy`` is None where labels are not classes.
    """

    loss: float
    accuracy: float | None
    examples: int


def evaluate(
    model: nn.Module,
    split: Split,
    *,
    loss: Loss,
    augment: Augment,
    precision: str = "float32",
    crops: int = 0,
    halt: Callable[[], None] = lambda: None,
) -> Score:
    """The score of ``model`` in evaluation mode.

    With ``crops``, of the mean over ten crops of that size.

    Sums are in float64, over batches in the order of the split. ``halt`` is called before each
    batch, and may raise.
    """
    total, right = 0.0, 0
    for start, out in _walk(model, split, augment, precision, crops):
        halt()
        labels = split.labels[start : start + SIZE]
        total += float(example_losses(loss, out, labels).sum(dtype=torch.float64))
        right += count_right(out, labels)
    count = max(1, len(split))
    return Score(
        total / count, None if split.labels.is_floating_point() else right / count, len(split)
    )


def outputs(
    model: nn.Module, split: Split, *, augment: Augment, precision: str = "float32", crops: int = 0
) -> Tensor:
    """What ``model`` says of every example, in evaluation mode. Shape: ``(N, K)``, float32."""
    return torch.cat([out for _, out in _walk(model, split, augment, precision, crops)])


def _walk(
    model: nn.Module, split: Split, augment: Augment, precision: str, crops: int
) -> Iterator[tuple[int, Tensor]]:
    with evaluating(model), in_precision(precision):
        for start in range(0, len(split), SIZE):
            images = split.images[start : start + SIZE]
            yield (
                start,
                (
                    _over_crops(model, images, augment, crops)
                    if crops
                    else model(augment.plain(images))
                ).float(),
            )


def _over_crops(model: nn.Module, images: Tensor, augment: Augment, size: int) -> Tensor:
    """The mean of the outputs over the four corners and the centre of each image, and their mirror images."""
    plain = Augment(normalise=augment.normalise)
    ten = ten_crop(images, size)
    flat = plain.plain(ten.flatten(0, 1))
    return model(flat).float().unflatten(0, (len(images), 10)).mean(1)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode and no gradients for the block.

    Every module's own mode is restored after it.
    """
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode


def in_precision(precision: str) -> AbstractContextManager[object]:
    """The context in which layers compute in that precision."""
    return torch.autocast("cpu", dtype=torch.bfloat16) if precision == "bfloat16" else nullcontext()
