"""The user's own examples as a data set.

Tensors, a data loader, or anything with a length and items.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, RandomSampler

from gatewise.data import DataSet, Split, content_digest, load
from gatewise.errors import ArgumentError

NAME = "own"
MOST_BYTES = 4 << 30  # all examples are held in memory
AT_ONCE = 256
ALLOWED = "a data set of gatewise, its name, or a pair (train, test) of loaders, data sets or (inputs, labels)"


def own_data(data: Any) -> tuple[DataSet, tuple[int, ...]]:
    """The data set, and the shape of one input as the model reads it.

    What a loader does at random is done once: every epoch then sees the same inputs, in another
    order; a recipe's own augmentation is drawn anew. Inputs are taken as they are, without
    normalising.
    """
    if isinstance(data, str):
        data = load(data)
    if isinstance(data, DataSet):
        return data, data.shape
    if not isinstance(data, Sequence) or len(data) != 2:
        raise ArgumentError("data: not understood", got=type(data).__name__, allowed=ALLOWED)
    (train, labels), (test, test_labels) = (
        _gathered(each, name) for each, name in zip(data, PARTS, strict=True)
    )
    if train.shape[1:] != test.shape[1:] or train.dtype != test.dtype:
        raise ArgumentError(
            "data: inputs to train and to test on differ",
            got=f"{_form(train)} and {_form(test)}",
            allowed="one form",
        )
    shape = tuple(train.shape[1:])
    kept = Split(_as_images(train), labels), Split(_as_images(test), test_labels)
    channels, height, width = kept[0].images.shape[1:]
    made = DataSet(
        name=NAME,
        train=kept[0],
        test=kept[1],
        classes=_classes(labels, test_labels),
        shape=(channels, height, width),
        mean=(0.0,) * channels,
        std=(1.0,) * channels,
        digest=content_digest((kept[0].images, labels, kept[1].images, test_labels)),
    )
    return made, shape


PARTS = ("train", "test")


def _gathered(given: Any, name: str) -> tuple[Tensor, Tensor]:
    """Inputs (n, ...) and labels (n,), in memory."""
    if (
        isinstance(given, Sequence)
        and len(given) == 2
        and all(hasattr(each, "__array__") for each in given)
    ):
        inputs, labels = (torch.as_tensor(each) for each in given)
    else:
        inputs, labels = _walked(_batches(given, name), name)
    if not len(labels) or len(inputs) != len(labels) or labels.dim() != 1 or inputs.dim() < 2:
        raise ArgumentError(
            f"data: {name} needs inputs (n, ...) and as many labels (n,)",
            got=f"{tuple(inputs.shape)} and {tuple(labels.shape)}",
        )
    return _checked_inputs(inputs.detach().cpu(), name), _checked_labels(
        labels.detach().cpu(), name
    )


def _batches(given: Any, name: str) -> Iterable[Any]:
    if isinstance(given, DataLoader):
        return _in_order(given)
    if (
        hasattr(given, "__getitem__")
        and hasattr(given, "__len__")
        and not isinstance(given, Tensor | Sequence)
    ):
        return DataLoader(given, batch_size=AT_ONCE)
    raise ArgumentError(
        f"data: {name} is not understood", got=type(given).__name__, allowed=ALLOWED
    )


def _in_order(loader: DataLoader) -> DataLoader:
    """A loader that shuffles, as one that does not.

    Batches are ordered anew here, and digests need one order.
    """
    sampler = loader.sampler
    if (
        type(sampler) is not RandomSampler
        or sampler.replacement
        or len(sampler) != len(sampler.data_source)
    ):
        return loader
    return DataLoader(
        loader.dataset,
        batch_size=AT_ONCE,
        collate_fn=loader.collate_fn,
        num_workers=loader.num_workers,
    )


def _walked(batches: Iterable[Any], name: str) -> tuple[Tensor, Tensor]:
    """All batches, one after another."""
    inputs, labels, size = [], [], 0
    for batch in batches:
        if (
            not isinstance(batch, Sequence)
            or len(batch) != 2
            or not all(isinstance(each, Tensor) for each in batch)
        ):
            got = type(batch).__name__
            raise ArgumentError(
                f"data: {name} gives something else than inputs and labels",
                got=got,
                allowed="a pair",
            )
        inputs.append(batch[0])
        labels.append(batch[1])
        size += batch[0].nbytes
        if size > MOST_BYTES:
            raise ArgumentError(
                f"data: {name} does not fit into memory",
                got=f"more than {MOST_BYTES >> 30} GiB",
                fix="give fewer examples, or train in your own loop and record it: gw.LightningRecorder",
            )
    if not inputs:
        raise ArgumentError(f"data: {name} is empty", got="no batch", allowed="one or more")
    return torch.cat(inputs), torch.cat(labels)


def _checked_inputs(inputs: Tensor, name: str) -> Tensor:
    if inputs.dtype == torch.uint8:
        return inputs
    if not inputs.is_floating_point():
        allowed = "numbers with a point, or uint8 from 0 to 255"
        raise ArgumentError(
            f"data: {name} has inputs of another kind", got=inputs.dtype, allowed=allowed
        )
    wrong = (~inputs.isfinite()).flatten(1).any(1).nonzero().flatten()
    if len(wrong):
        got = f"NaN or an infinity in {len(wrong)} of {len(inputs)} examples, first at {int(wrong[0])}"
        raise ArgumentError(f"data: {name} has inputs that are not finite", got=got)
    return inputs.float()


def _checked_labels(labels: Tensor, name: str) -> Tensor:
    if labels.is_floating_point():
        if not labels.isfinite().all():
            raise ArgumentError(
                f"data: {name} has labels that are not finite", got="NaN or an infinity"
            )
        return labels.float()
    if labels.min() < 0:
        raise ArgumentError(
            f"data: {name} has a label below 0", got=int(labels.min()), allowed="0, 1, 2, ..."
        )
    return labels.long()


def fit_classes(data: DataSet, outputs: int) -> DataSet:
    """``data`` with as many classes as a model has outputs.

    Not all of them need to have been seen.
    """
    if not data.classes or outputs == 1:
        return data
    if data.classes > outputs:
        raise ArgumentError(
            "data: there are more classes than the model has outputs",
            got=data.classes,
            allowed=outputs,
        )
    return replace(data, classes=outputs)


def _classes(train: Tensor, test: Tensor) -> int:
    if train.is_floating_point() != test.is_floating_point():
        raise ArgumentError(
            "data: labels are classes in one part and numbers in the other", got=train.dtype
        )
    return 0 if train.is_floating_point() else max(2, int(max(train.max(), test.max())) + 1)


def _as_images(inputs: Tensor) -> Tensor:
    """(n, c, h, w), as the batches hold them; the model is given the shape it knows."""
    return inputs if inputs.dim() == 4 else inputs.reshape(len(inputs), -1, 1, 1)


def _form(inputs: Tensor) -> str:
    return f"{tuple(inputs.shape[1:])} {str(inputs.dtype).removeprefix('torch.')}"
