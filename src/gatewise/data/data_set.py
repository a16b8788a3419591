"""What a data set is: two splits of tensors, and the facts that a network and a report need."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

import torch
from torch import Tensor

from gatewise.data.images import Augment
from gatewise.errors import ArgumentError


@dataclass(frozen=True, eq=False)
class Split:
    """Images and their labels, or rows of tokens and the tokens that follow them.

    Attributes:
        images: (n, channels, height, width), uint8 from 0 to 255, or float32; for text (n, length),
            uint8 token numbers.
        labels: (n,), int64 classes, or float32 targets of a regression; for text (n, length), int64
            numbers of the next tokens; (n, height, width), uint8 classes of pixels; (n, rows, 8),
            float32 boxes, see Note [Labels of boxes].
    """

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, index: Tensor) -> "Split":
        """Return the examples at these places, in this order."""
        return Split(self.images[index], self.labels[index])

    def first(self, count: int) -> "Split":
        """Return the first ``count`` examples."""
        return Split(self.images[:count], self.labels[:count])

    def augmented(self, augment: Augment, *, seed: int, epoch: int, index: Tensor) -> Tensor:
        """Return some images as they are in an epoch, float32.

        Args:
            augment: how they are changed.
            seed: of the run.
            epoch: number of the epoch.
            index: (n) the places of the images.
        """
        return augment.apply(self.images[index], seed=seed, epoch=epoch, index=index)

    def of_classes(self, *classes: int) -> "Split":
        """Return the examples of these classes, in the same order and with the same labels."""
        known = set(self.labels.tolist())
        for label in classes:
            if label not in known:
                raise ArgumentError("no image is of that class", got=label, allowed=sorted(known))
        return self.take(torch.isin(self.labels, torch.tensor(classes)).nonzero().flatten())


@dataclass(frozen=True, eq=False)
class DataSet:
    """A data set in memory, or mapped into it.

    Attributes:
        name: the name of the set.
        train: the examples to train on.
        test: the examples to test on.
        classes: the number of classes; 0 for a regression.
        shape: of one image: channels, height, width; for text (length,).
        mean: of the training images, by channel; 255 counts as 1 if they are uint8. Empty for
            text.
        std: the standard deviation, as ``mean``.
        digest: sha256 over the numbers of both splits.
        test_shift: by how many pixels the test images were moved at most.
    """

    name: str
    train: Split
    test: Split
    classes: int
    shape: tuple[int, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    digest: str
    test_shift: int = 0


def assemble(name: str, train: Split, test: Split, *, classes: int, test_shift: int = 0) -> DataSet:
    """Return the data set of two splits, with its facts computed from them."""
    mean, std = moments(train.images)
    channels, height, width = train.images.shape[1:]
    return DataSet(
        name=name,
        train=train,
        test=test,
        classes=classes,
        shape=(channels, height, width),
        mean=mean,
        std=std,
        digest=content_digest((train.images, train.labels, test.images, test.labels)),
        test_shift=test_shift,
    )


def moments(images: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and standard deviation of each channel, in float64.

    The standard deviation of a constant channel is set to 1.
    """
    pairs = [_moments(images[:, channel].flatten()) for channel in range(images.shape[1])]
    return tuple(mean for mean, _ in pairs), tuple(std for _, std in pairs)


def _moments(values: Tensor) -> tuple[float, float]:
    """Return mean and standard deviation of the values of one channel.

    Bytes are counted first, which takes a tenth of the time; 255 counts as 1.
    """
    # Compared before anything is computed, because rounding may hide it.
    constant = not values.numel() or bool(values.min() == values.max())
    if values.dtype == torch.uint8:
        weights = values.bincount(minlength=256).double()
        values = torch.arange(256).double() / 255
    else:
        weights = torch.ones(len(values), dtype=torch.float64)
        values = values.double()
    count = weights.sum().clamp(min=1)
    mean = (values * weights).sum() / count
    std = ((values - mean).square() * weights).sum().div(count).sqrt()
    return mean.item(), 1.0 if constant else std.item()


def content_digest(tensors: Iterable[Tensor]) -> str:
    """Return the sha256 over type, shape and numbers of the tensors, one after another."""
    total = sha256()
    for tensor in tensors:
        total.update(f"{tensor.dtype} {tuple(tensor.shape)}\n".encode())
        if tensor.numel():
            total.update(tensor.contiguous().view(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()


def only_classes(split: Split, classes: Sequence[int]) -> Split:
    """Return the examples of these classes, labelled by their place in ``classes``."""
    chosen = split.of_classes(*classes)
    relabel = torch.zeros(max(classes) + 1, dtype=torch.int64)
    relabel[torch.tensor(list(classes))] = torch.arange(len(classes))
    return replace(chosen, labels=relabel[chosen.labels])
