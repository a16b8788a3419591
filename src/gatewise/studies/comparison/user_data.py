"""The data of a user: training, validation and test sets in any form that torch can batch."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gatewise.batches import leaves, map_tensors
from gatewise.data import DataSet, StreamedSplit, load
from gatewise.errors import ArgumentError, first_line
from gatewise.files import digest
from gatewise.studies.comparison.sources import ArraySource, Source, loader_source
from gatewise.train import Recipe

NAME = "own"
NO_LOADER = (str, bytes, Mapping, list, tuple, set, Tensor, type)
LARGER_BATCH = 500  # for evaluation of tensors in memory
ALLOWED = (
    "a data set of gatewise, its name, or a pair (train, test) of loaders, data sets, "
    "(inputs, targets) or mappings of tensors"
)


@dataclass(frozen=True)
class NamedData:
    """A set of the catalogue: its name, its options and its folder."""

    name: str
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    folder: str | None = None


@dataclass(frozen=True)
class UserData:
    """What a model of the user is trained on and tested on."""

    name: str
    train: Source
    test: Source
    validation: Source | None
    loads: tuple[Any, ...] | None = None  # arguments of read_data, for a set given by its name
    classes: int = 0  # of a set of the catalogue
    shape: tuple[int, ...] = ()  # of its examples

    @property
    def digest(self) -> str:
        """A digest of the content, where that is the same every time; else of its form."""
        parts = [self.train.digest, self.test.digest]
        if self.validation is not None:
            parts.append(self.validation.digest)
        return digest(" ".join(parts).encode())

    @property
    def unpaired(self) -> str:
        """Why units do not see the same batches; empty if they do."""
        return self.train.unpaired

    @property
    def evaluated(self) -> dict[str, Source]:
        """What is evaluated, by the name that metrics have."""
        if self.validation is None:
            return {"test": self.test}
        return {"val": self.validation, "test": self.test}

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Let another process load a set of the catalogue itself."""
        if self.loads is not None:
            return read_data, self.loads
        return super().__reduce_ex__(protocol)


def read_data(data: Any, recipe: Recipe, validation: Any = None) -> UserData:
    """Return the data of the user.

    Args:
        data: as :func:`gatewise.compare` takes it.
        recipe: whose batch size and augmentation tensors in memory get.
        validation: further examples, which rates are chosen by.
    """
    loads = None
    facts: dict[str, Any] = {}
    if isinstance(data, str):
        data = NamedData(data)
    if isinstance(data, NamedData):
        loads = (data, recipe, validation)
        data = load(data.name, folder=data.folder, **data.options)
    if isinstance(data, DataSet):
        if isinstance(data.train, StreamedSplit):
            raise ArgumentError(
                "data: images that are read from their files in every epoch cannot be compared on",
                got=f"{data.name}, streamed",
                fix="stream=False or a smaller size",
            )
        is_text = len(data.shape) == 1
        augment = None
        if not is_text:
            augment = recipe.augmentation().with_normalise(data.mean, data.std)
        train, test = (
            ArraySource(
                (split.images.long() if is_text else split.images, split.labels),
                recipe.batch if split is data.train else LARGER_BATCH,
                shuffle=split is data.train,
                augment=augment,
            )
            for split in (data.train, data.test)
        )
        name = data.name
        facts = {"classes": data.classes, "shape": data.shape}
    else:
        if not isinstance(data, Sequence) or isinstance(data, bytes) or len(data) != 2:
            raise ArgumentError("data: not understood", got=type(data).__name__, allowed=ALLOWED)
        train = _source(data[0], "train", recipe)
        test = _source(data[1], "test", recipe)
        name = NAME
    held = None if validation is None else _source(validation, "validation", recipe)
    return UserData(name, train, test, held, loads, **facts)


def _source(part: Any, name: str, recipe: Recipe) -> Source:
    """Return the source of one part of the data."""
    train = name == "train"
    content = _tensors(part)
    if content is not None:
        content = _check_content(content, name)
        augment = None
        images = content[0] if isinstance(content, tuple) else None
        if isinstance(images, Tensor) and images.dim() == 4:
            is_bytes = images.dtype == torch.uint8
            if is_bytes or (recipe.augment and images.is_floating_point()):
                augment = recipe.augmentation()
        size = recipe.batch if train else LARGER_BATCH
        return ArraySource(content, size, shuffle=train, augment=augment)
    is_batches = isinstance(part, list | tuple) and part and _is_batch(part[0])
    is_readable = hasattr(part, "__iter__") or hasattr(part, "__getitem__")
    if is_batches or (is_readable and not isinstance(part, NO_LOADER)):
        return loader_source(part, name, recipe.batch, shuffle=train)
    raise ArgumentError(f"data: {name} is not understood", got=type(part).__name__, allowed=ALLOWED)


def _tensors(part: Any) -> Any:
    """Return a tuple or mapping of tensors or arrays as tensors; None if it is something else."""
    if isinstance(part, Mapping) and type(part).__name__ != "DatasetDict":
        if part and all(_is_array(value) for value in part.values()):
            return {str(key): _as_tensor(value) for key, value in part.items()}
        return None
    if isinstance(part, tuple | list) and len(part) >= 2 and all(_is_array(v) for v in part):
        return tuple(_as_tensor(value) for value in part)
    if isinstance(part, tuple) and len(part) == 2 and isinstance(part[0], Mapping | tuple | list):
        inputs = _tensors(part[0])
        if inputs is not None and _is_array(part[1]):
            return (inputs, _as_tensor(part[1]))
    if isinstance(part, Tensor):
        return _as_tensor(part)
    return None


def _as_tensor(value: Any) -> Tensor:
    """Return a tensor or an array as a tensor on the processor, or raise an error."""
    try:
        return torch.as_tensor(value).detach().cpu()
    except Exception as problem:  # a meta tensor, or an array of objects
        raise ArgumentError(
            "data: a tensor cannot be read", got=f"{type(problem).__name__}: {first_line(problem)}"
        ) from problem


def _check_content(content: Any, name: str) -> Any:
    """Return the tensors, after checking lengths and numbers."""
    tensors = [leaf for leaf in leaves(content) if isinstance(leaf, Tensor)]
    sizes = [len(tensor) if tensor.dim() else 0 for tensor in tensors]
    if len(set(sizes)) > 1:
        shapes = " and ".join(str(tuple(tensor.shape)) for tensor in tensors)
        raise ArgumentError(
            f"data: {name} needs inputs (n, ...) and as many targets (n, ...)", got=shapes
        )
    if not sizes or not sizes[0]:
        raise ArgumentError(f"data: {name} is empty", got="no example", allowed="one or more")
    for tensor in tensors:
        if tensor.is_floating_point():
            _check_finite(tensor, name)
    # Arrays of NumPy have float64.
    return map_tensors(content, lambda t: t.float() if t.dtype == torch.float64 else t)


def _check_finite(tensor: Tensor, name: str) -> None:
    """Raise an error for NaN or an infinity."""
    wrong = (~tensor.isfinite()).reshape(len(tensor), -1).any(1).nonzero().flatten()
    if len(wrong):
        count = f"{len(wrong)} of {len(tensor)} examples"
        raise ArgumentError(
            f"data: {name} has numbers that are not finite",
            got=f"NaN or an infinity in {count}, first at {int(wrong[0])}",
        )


def _is_array(value: Any) -> bool:
    """Return whether a value is a tensor or an array."""
    return isinstance(value, Tensor) or (hasattr(value, "__array__") and hasattr(value, "shape"))


def _is_batch(value: Any) -> bool:
    """Return whether a value can be a batch: it has tensors in it."""
    return any(_is_array(leaf) for leaf in leaves(value))
