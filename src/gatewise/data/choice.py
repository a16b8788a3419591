"""Choose a part of a data set: some classes, fewer examples, random labels or pixels.

Note [Which examples]. A smaller number of examples is the beginning of one fixed random order of
the split, after the choice of classes. So a smaller choice is part of every larger one, and all
users have the same examples. Random labels replace those of the training split, as in Zhang et al.,
2017, "Understanding deep learning requires rethinking generalization". Random pixels put the pixels
of each image, of both splits, into a random order of its own; channels stay together. Shifted test
images are each moved in one fixed way, by up to the given number of pixels in each direction, as
the augmentation ``shift`` moves training images in every epoch.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from gatewise.checks import check_count, check_flag
from gatewise.data.data_set import DataSet, Split, assemble, only_classes
from gatewise.data.images import warp
from gatewise.data.seeds import below, draws, generator, shuffled
from gatewise.data.streams import StreamedSplit
from gatewise.errors import ArgumentError
from gatewise.files import digest

CHUNK = 1000  # images whose pixels are sorted at once


def choose(
    whole: DataSet,
    *,
    train: int | None = None,
    test: int | None = None,
    classes: Sequence[int] | None = None,
    random_labels: bool = False,
    random_pixels: bool = False,
    shift_test: int = 0,
) -> DataSet:
    """Return a part of a data set. See Note [Which examples].

    Args:
        whole: the data set.
        train: number of training examples; all unless given.
        test: number of test examples; all unless given.
        classes: the classes to keep, in the order of their new labels; all unless given.
        random_labels: whether training labels are random.
        random_pixels: whether the pixels of each image are in random order.
        shift_test: moves each test image by up to so many pixels in each direction.
    """
    check_flag("data", "random_labels", random_labels)
    check_flag("data", "random_pixels", random_pixels)
    chooses = (train, test, classes) != (None, None, None)
    if not chooses and not random_labels and not random_pixels and shift_test == 0:
        return whole
    first = whole.train
    second = whole.test
    count = whole.classes
    if classes is not None:
        classes = check_classes(classes, count)
        first = only_classes(first, classes)
        second = only_classes(second, classes)
        count = len(classes)
    first = _fewer("train", first, train)
    second = _fewer("test", second, test)
    if random_labels:
        first = replace(first, labels=_random_classes(len(first), count))
    if isinstance(first, StreamedSplit):
        if random_pixels or shift_test:
            raise ArgumentError(
                "random_pixels and shift_test need images in memory",
                got=f"{whole.name}, which is read from its files in every epoch",
                fix="a smaller size or stream=False",
            )
        choice = f"{whole.digest} {train} {test} {classes} {random_labels}"
        return replace(
            whole, train=first, test=second, classes=count, digest=digest(choice.encode())
        )
    if random_pixels:
        first = Split(shuffled_pixels(first.images, seed=1), first.labels)
        second = Split(shuffled_pixels(second.images, seed=2), second.labels)
    second = shifted(second, shift_test)
    return assemble(whole.name, first, second, classes=count, test_shift=shift_test)


def shifted(split: Split, most: int) -> Split:
    """Return a split whose images are moved by up to ``most`` pixels, always in the same way.

    Black pixels come in from outside.
    """
    height, width = split.images.shape[-2:]
    if type(most) is not int or not 0 <= most <= min(height, width):
        raise ArgumentError(
            "shift_test must be a number of pixels",
            got=most,
            allowed=f"0 .. {min(height, width)}",
        )
    if not most:
        return split
    top, left = below(draws(torch.arange(len(split)), 2, 0, "test shift"), 2 * most + 1)
    return Split(warp.window(warp.pad(split.images, most), top, left, height, width), split.labels)


def check_classes(value: Any, count: int) -> list[int]:
    """Return ``value`` as a list; raise an error unless it has two or more of ``count`` classes."""
    good = isinstance(value, Sequence) and len(value) >= 2 and len(set(value)) == len(value)
    if not good or not all(type(label) is int and 0 <= label < count for label in value):
        raise ArgumentError(
            "classes must be those to keep, in the order of their new labels",
            got=value,
            allowed=f"two or more different ones of 0 .. {count - 1}",
        )
    return list(value)


def _fewer(name: str, split: Split, count: int | None) -> Split:
    if count is None:
        return split
    check_count("data", name, count, most=len(split))
    return split.take(shuffled(len(split), 0, "split")[:count])


def _random_classes(count: int, classes: int) -> Tensor:
    return torch.randint(classes, (count,), generator=generator(0, "labels"))


def shuffled_pixels(images: Tensor, *, seed: int) -> Tensor:
    """Return the images with the pixels of each in a random order of its own."""
    parts = [_shuffled_chunk(part, seed, n) for n, part in enumerate(images.split(CHUNK))]
    return torch.cat(parts).view(images.shape)


def _shuffled_chunk(images: Tensor, seed: int, number: int) -> Tensor:
    flat = images.flatten(2)
    random = torch.rand(len(flat), flat.shape[2], generator=generator(seed, "pixels", number))
    places = random.argsort(stable=True, dim=1)
    return flat.gather(2, places.unsqueeze(1).expand(flat.shape))
