"""The examples of a user as a data set: tensors, a data loader, or any indexable data set."""

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
BATCH = 256
ALLOWED = (
    "a data set of gatewise, its name, "
    "or a pair (train, test) of loaders, data sets or (inputs, labels)"
)


def read_data(data: Any) -> tuple[DataSet, tuple[int, ...]]:
    """Return the data set, and the shape of one input as the model reads it.

    What a loader does at random is done once: every epoch sees the same inputs in another order.
    The augmentation of a recipe is drawn anew. Inputs are not normalised.

    Args:
        data: as :func:`gatewise.compare` takes it.
    """
    if isinstance(data, str):
        data = load(data)
    if isinstance(data, DataSet):
        return data, data.shape
    if not isinstance(data, Sequence) or len(data) != 2:
        raise ArgumentError("data: not understood", got=type(data).__name__, allowed=ALLOWED)
    train_inputs, train_labels = _gather(data[0], "train")
    test_inputs, test_labels = _gather(data[1], "test")
    same_shape = train_inputs.shape[1:] == test_inputs.shape[1:]
    if not same_shape or train_inputs.dtype != test_inputs.dtype:
        raise ArgumentError(
            "data: train and test inputs differ in shape or type",
            got=f"{_form(train_inputs)} and {_form(test_inputs)}",
            allowed="one form",
        )
    train = Split(_as_images(train_inputs), train_labels)
    test = Split(_as_images(test_inputs), test_labels)
    channels, height, width = train.images.shape[1:]
    dataset = DataSet(
        name=NAME,
        train=train,
        test=test,
        classes=_classes(train_labels, test_labels),
        shape=(channels, height, width),
        mean=(0.0,) * channels,
        std=(1.0,) * channels,
        digest=content_digest((train.images, train_labels, test.images, test_labels)),
    )
    return dataset, tuple(train_inputs.shape[1:])


def _gather(part: Any, name: str) -> tuple[Tensor, Tensor]:
    """Return inputs (n, ...) and labels (n,), in memory."""
    is_pair = isinstance(part, Sequence) and len(part) == 2
    if is_pair and all(hasattr(values, "__array__") for values in part):
        inputs = torch.as_tensor(part[0])
        labels = torch.as_tensor(part[1])
    else:
        inputs, labels = _concatenate(_batches(part, name), name)
    if not len(labels) or len(inputs) != len(labels) or labels.dim() != 1 or inputs.dim() < 2:
        raise ArgumentError(
            f"data: {name} needs inputs (n, ...) and as many labels (n,)",
            got=f"{tuple(inputs.shape)} and {tuple(labels.shape)}",
        )
    inputs = _check_inputs(inputs.detach().cpu(), name)
    return inputs, _check_labels(labels.detach().cpu(), name)


def _batches(part: Any, name: str) -> Iterable[Any]:
    """Return batches of a loader or of an indexable data set."""
    if isinstance(part, DataLoader):
        return _in_order(part)
    indexable = hasattr(part, "__getitem__") and hasattr(part, "__len__")
    if indexable and not isinstance(part, Tensor | Sequence):
        return DataLoader(part, batch_size=BATCH)
    raise ArgumentError(f"data: {name} is not understood", got=type(part).__name__, allowed=ALLOWED)


def _in_order(loader: DataLoader) -> DataLoader:
    """Return a loader without shuffling.

    Training shuffles the examples itself, and the digest needs one order.
    """
    sampler = loader.sampler
    if type(sampler) is not RandomSampler or sampler.replacement:
        return loader
    if len(sampler) != len(sampler.data_source):
        return loader  # it draws a part of the examples
    return DataLoader(
        loader.dataset,
        batch_size=BATCH,
        collate_fn=loader.collate_fn,
        num_workers=loader.num_workers,
    )


def _concatenate(batches: Iterable[Any], name: str) -> tuple[Tensor, Tensor]:
    """Return the inputs and labels of all batches."""
    inputs: list[Tensor] = []
    labels: list[Tensor] = []
    size = 0
    for batch in batches:
        is_pair = isinstance(batch, Sequence) and len(batch) == 2
        if not is_pair or not all(isinstance(values, Tensor) for values in batch):
            raise ArgumentError(
                f"data: a batch of {name} is not a pair of inputs and labels",
                got=type(batch).__name__,
                allowed="a pair",
            )
        inputs.append(batch[0])
        labels.append(batch[1])
        size += batch[0].nbytes
        if size > MOST_BYTES:
            raise ArgumentError(
                f"data: {name} does not fit into memory",
                got=f"more than {MOST_BYTES >> 30} GiB",
                fix="give fewer examples, or train in your own loop and record it: "
                "gw.LightningRecorder",
            )
    if not inputs:
        raise ArgumentError(f"data: {name} is empty", got="no batch", allowed="one or more")
    return torch.cat(inputs), torch.cat(labels)


def _check_inputs(inputs: Tensor, name: str) -> Tensor:
    """Return finite inputs as float32, or bytes as they are."""
    if inputs.dtype == torch.uint8:
        return inputs
    if not inputs.is_floating_point():
        raise ArgumentError(
            f"data: {name} has inputs of a wrong type",
            got=inputs.dtype,
            allowed="floating-point numbers, or uint8 from 0 to 255",
        )
    wrong = (~inputs.isfinite()).flatten(1).any(1).nonzero().flatten()
    if len(wrong):
        count = f"{len(wrong)} of {len(inputs)} examples"
        raise ArgumentError(
            f"data: {name} has inputs that are not finite",
            got=f"NaN or an infinity in {count}, first at {int(wrong[0])}",
        )
    return inputs.float()


def _check_labels(labels: Tensor, name: str) -> Tensor:
    """Return labels as classes (int64) or numbers (float32)."""
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
    """Return ``data`` with as many classes as the model has outputs.

    Some classes may have no example.

    Args:
        data: with as many classes as its labels show.
        outputs: of the model; 1 is left alone.
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
    """Return the number of classes; 0 if the labels are numbers."""
    if train.is_floating_point() != test.is_floating_point():
        raise ArgumentError(
            "data: labels are classes in one part and numbers in the other", got=train.dtype
        )
    return 0 if train.is_floating_point() else max(2, int(max(train.max(), test.max())) + 1)


def _as_images(inputs: Tensor) -> Tensor:
    """Return (n, c, h, w), as batches hold them; the model gets its own shape back."""
    return inputs if inputs.dim() == 4 else inputs.reshape(len(inputs), -1, 1, 1)


def _form(inputs: Tensor) -> str:
    """Return shape and type of one input in words."""
    return f"{tuple(inputs.shape[1:])} {str(inputs.dtype).removeprefix('torch.')}"
