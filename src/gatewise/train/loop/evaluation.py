"""Evaluate a network on examples: outputs, mean loss and accuracy."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from gatewise.data import Augment, Split, ten_crop
from gatewise.devices import check_bfloat16, device_of, has_fast_bfloat16
from gatewise.train.config import Loss
from gatewise.train.loop.losses import example_losses, right

SIZE = 512  # examples at once; fixed, because last bits may depend on it


@dataclass(frozen=True)
class Score:
    """Mean loss and accuracy over some examples, and which of them are right.

    The last two are None if labels are not classes.
    """

    loss: float
    accuracy: float | None
    examples: int
    right: Tensor | None = field(default=None, compare=False)  # (examples,), bool


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
    """Return the score of ``model`` in evaluation mode.

    Sums are in float64, over batches in the order of the split.

    Args:
        model: the network.
        split: the examples.
        loss: of the recipe.
        augment: only its deterministic part is used.
        precision: ``"float32"``, ``"bfloat16"`` or ``"float16"``.
        crops: if not 0, outputs are means over ten crops of this size.
        halt: called before each batch; it may raise to end the evaluation.
    """
    total = 0.0
    parts = []
    for start, out in _walk(model, split, augment, precision, crops):
        halt()
        labels = split.labels[start : start + SIZE]
        total += float(example_losses(loss, out, labels).sum(dtype=torch.float64))
        parts.append(right(out, labels))
    count = max(1, len(split))
    if split.labels.is_floating_point():
        return Score(total / count, None, len(split))
    correct = torch.cat(parts) if parts else torch.zeros(0, dtype=torch.bool)
    return Score(total / count, int(correct.sum()) / count, len(split), correct)


def outputs(
    model: nn.Module,
    split: Split,
    *,
    augment: Augment,
    precision: str = "float32",
    crops: int = 0,
) -> Tensor:
    """Return the outputs for every example in evaluation mode, (N, K), float32.

    Args:
        model: the network.
        split: the examples.
        augment: only its deterministic part is used.
        precision: ``"float32"`` or ``"bfloat16"``.
        crops: if not 0, outputs are means over ten crops of this size.
    """
    return torch.cat([out for _, out in _walk(model, split, augment, precision, crops)])


def _walk(
    model: nn.Module,
    split: Split,
    augment: Augment,
    precision: str,
    crops: int,
) -> Iterator[tuple[int, Tensor]]:
    """Yield the start and the outputs of every batch."""
    device = device_of(model)
    with evaluating(model), in_precision(precision, device):
        for start in range(0, len(split), SIZE):
            images = split.images[start : start + SIZE]
            if crops:
                out = _mean_over_crops(model, images, augment, crops)
            else:
                out = model(augment.plain(images).to(device))
            yield start, out.float().cpu()


def _mean_over_crops(model: nn.Module, images: Tensor, augment: Augment, size: int) -> Tensor:
    """Return mean outputs over the corners and centre of each image, and their mirror images."""
    plain = Augment(normalise=augment.normalise)
    ten = ten_crop(images, size)
    flat = plain.plain(ten.flatten(0, 1))
    return model(flat.to(device_of(model))).float().unflatten(0, (len(images), 10)).mean(1)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Set evaluation mode without gradients for the block, then restore every module's mode."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode


def resolve_precision(precision: str, device: torch.device) -> str:
    """Return the precision in which a run computes on this machine.

    Args:
        precision: of the recipe. ``"auto"`` is bfloat16 where the device has instructions for it,
            else float32.
        device: where it computes.
    """
    if precision != "auto":
        return precision
    return "bfloat16" if has_fast_bfloat16(device) else "float32"


def in_precision(
    precision: str,
    device: torch.device | None = None,
) -> AbstractContextManager[object]:
    """Return the context in which layers compute in that precision.

    Args:
        precision: ``"float32"``, ``"bfloat16"``, ``"float16"`` or ``"auto"``.
        device: where they compute; the processor if not given.

    Raises:
        ArgumentError: if computing in bfloat16 would end the process.
    """
    kind = "cpu" if device is None or device.type == "meta" else device.type
    precision = resolve_precision(precision, torch.device(kind))
    if precision == "float32":
        return nullcontext()
    if precision == "bfloat16":
        check_bfloat16(torch.device(kind))
    return torch.autocast(kind, dtype=getattr(torch, precision))
