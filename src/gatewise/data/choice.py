"""What may be asked of a published set.

Some of its classes, fewer examples, random labels or pixels.

Note [Which examples]

A smaller number of examples is the beginning of one fixed random order of the split (after the
choice of classes), so that a smaller choice is part of every larger one and everybody has the same.
Random labels replace those of the training split, as in Zhang et al., 2017, "Understanding deep
learning requires rethinking generalization"; random pixels put the pixels of every image, of both
splits, into a random order of its own (channels stay together). Shifted test images are each moved
in one fixed way, by up to so many pixels in each direction, as training images are anew in every
epoch by the augmentation ``shift``.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gatewise.data.data_set import DataSet, Split, assemble, only_classes
from gatewise.data.hashing import below, bits
from gatewise.data.images import warp
from gatewise.data.ordering import shuffled
from gatewise.errors import ArgumentError

CHUNK = 1000  # images whose pixels are sorted at once


def choose(
    made: DataSet,
    *,
    train: int | None = None,
    test: int | None = None,
    classes: Sequence[int] | None = None,
    random_labels: bool = False,
    random_pixels: bool = False,
    shift_test: int = 0,
) -> DataSet:
    """What is asked of the set; its facts are those of what is left. See Note [Which examples]."""
    check_flag("random_labels", random_labels)
    check_flag("random_pixels", random_pixels)
    asked = (
        (train, test, classes) != (None, None, None)
        or random_labels
        or random_pixels
        or shift_test != 0
    )
    if not asked:
        return made
    splits, count = (made.train, made.test), made.classes
    if classes is not None:
        classes = check_classes(classes, made.classes)
        splits, count = (
            (only_classes(splits[0], classes), only_classes(splits[1], classes)),
            len(classes),
        )
    first, second = _fewer("train", splits[0], train), _fewer("test", splits[1], test)
    if random_labels:
        first = Split(first.images, _random_classes(len(first), count))
    if random_pixels:
        first = Split(_shuffled_pixels(first.images, seed=1), first.labels)
        second = Split(_shuffled_pixels(second.images, seed=2), second.labels)
    return assemble(made.name, first, shifted(second, shift_test), classes=count)


def shifted(split: Split, most: int) -> Split:
    """Every image moved by up to ``most`` pixels in each direction, always in the same way.

    Black comes in.
    """
    height, width = split.images.shape[-2:]
    if type(most) is not int or not 0 <= most <= min(height, width):
        raise ArgumentError(
            "shift_test is a number of pixels", got=most, allowed=f"0 .. {min(height, width)}"
        )
    if not most:
        return split
    random = bits(torch.arange(len(split)), seed=0, stream="test shift", draws=2)
    top, left = (below(row, 2 * most + 1) for row in random)
    return Split(warp.window(warp.pad(split.images, most), top, left, height, width), split.labels)


def check_count(name: str, value: object, *, most: int) -> int:
    """``value`` if it is a number of examples that can be had."""
    if type(value) is not int or not 1 <= value <= most:
        raise ArgumentError(
            f"{name} is how many examples are wanted", got=value, allowed=f"1 .. {most}"
        )
    return value


def check_flag(name: str, value: object) -> None:
    """Refuse what is neither yes nor no: a word in its place would count as yes."""
    if type(value) is not bool:
        raise ArgumentError(f"{name} is yes or no", got=value, allowed="True or False")


def check_classes(value: Any, count: int) -> list[int]:
    """``value`` if it is two or more different classes of ``count``."""
    good = (
        isinstance(value, Sequence) and len(value) >= 2 and all(type(each) is int for each in value)
    )
    if not good or len(set(value)) != len(value) or not all(0 <= each < count for each in value):
        allowed = f"two or more different ones of 0 .. {count - 1}"
        raise ArgumentError(
            "classes are those to keep, in the order of their new labels",
            got=value,
            allowed=allowed,
        )
    return list(value)


def _fewer(name: str, split: Split, count: int | None) -> Split:
    if count is None:
        return split
    check_count(name, count, most=len(split))
    return split.take(shuffled(len(split), stream="split")[:count])


def _random_classes(count: int, classes: int) -> Tensor:
    return below(bits(torch.arange(count), seed=0, stream="synthetic")[0], classes)


def _shuffled_pixels(images: Tensor, *, seed: int) -> Tensor:
    chunks = torch.arange(len(images)).split(CHUNK)
    return torch.cat([_shuffled_chunk(images[chunk], chunk, seed) for chunk in chunks]).view(
        images.shape
    )


def _shuffled_chunk(images: Tensor, index: Tensor, seed: int) -> Tensor:
    flat = images.flatten(2)
    places = bits(index, seed=seed, stream="synthetic", draws=flat.shape[2]).argsort(0).t()
    return flat.gather(2, places.unsqueeze(1).expand(flat.shape))
