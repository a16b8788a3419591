"""What a data set is: two splits of tensors, and the facts a network and a report need."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

import torch
from torch import Tensor

from gatewise.errors import ArgumentError


@dataclass(frozen=True, eq=False)
class Split:
    """Images and what is to be said of each.

    ``images`` is (n, channels, height, width): uint8 from 0 to 255, or float32. ``labels`` is (n,):
    int64 classes, or float32 targets where the set is one of regression.
    """

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, index: Tensor) -> "Split":
        """The examples at these places, in this order."""
        return Split(self.images[index], self.labels[index])

    def first(self, count: int) -> "Split":
        """The first ``count`` examples."""
        return Split(self.images[:count], self.labels[:count])

    def of_classes(self, *classes: int) -> "Split":
        """Only the examples of these classes, in the same order, with their labels as they were."""
        known = set(self.labels.tolist())
        for each in classes:
            if each not in known:
                raise ArgumentError("no image is of that class", got=each, allowed=sorted(known))
        return self.take(torch.isin(self.labels, torch.tensor(classes)).nonzero().flatten())


@dataclass(frozen=True, eq=False)
class DataSet:
    """A data set in memory, or mapped into it."""

    name: str
    train: Split
    test: Split
    classes: int  # 0 where labels are numbers to be met, not classes
    shape: tuple[int, int, int]  # of one image: channels, height, width
    mean: tuple[
        float, ...
    ]  # of the training images, by channel, with 255 counted as 1 if they are uint8
    std: tuple[float, ...]
    digest: str  # sha256 over the numbers of both splits


def assemble(name: str, train: Split, test: Split, *, classes: int) -> DataSet:
    """The data set of these splits, with its facts computed from them."""
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
    )


def moments(images: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel, in float64.

    A constant channel has the deviation 1.
    """
    pairs = [_moments(images[:, channel].flatten()) for channel in range(images.shape[1])]
    return tuple(mean for mean, _ in pairs), tuple(std for _, std in pairs)


def _moments(values: Tensor) -> tuple[float, float]:
    """Of bytes by counting them, with 255 as 1, which takes a tenth of the time."""
    constant = (
        not values.numel() or values.min() == values.max()
    )  # asked for, as rounding may hide it below
    if values.dtype == torch.uint8:
        weights, values = values.bincount(minlength=256).double(), torch.arange(256).double() / 255
    else:
        weights, values = torch.ones(len(values), dtype=torch.float64), values.double()
    count = weights.sum().clamp(min=1)
    mean = (values * weights).sum() / count
    std = ((values - mean).square() * weights).sum().div(count).sqrt()
    return mean.item(), 1.0 if constant else std.item()


def content_digest(tensors: Iterable[Tensor]) -> str:
    """The sha256 over type, shape and numbers of the tensors, one after another."""
    total = sha256()
    for tensor in tensors:
        total.update(f"{tensor.dtype} {tuple(tensor.shape)}\n".encode())
        if tensor.numel():
            total.update(tensor.contiguous().view(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()


def only_classes(split: Split, classes: Sequence[int]) -> Split:
    """The examples of these classes, relabelled 0, 1, ... in the order given."""
    chosen = split.of_classes(*classes)
    relabel = torch.zeros(max(classes) + 1, dtype=torch.int64)
    relabel[torch.tensor(list(classes))] = torch.arange(len(classes))
    return Split(chosen.images, relabel[chosen.labels])
