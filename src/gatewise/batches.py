"""A user's data as batches: the forms they may have, and how a batch goes into a model.

Note [Batches of a user]. Data are a tensor or a mapping, which are one batch, or a list of batches,
a data loader, a data set, or any other iterable such as a generator. A batch is a tensor, a
sequence ``(inputs, ..., target)``, or a mapping from the names of the model's arguments to tensors,
such as a dict or a ``BatchEncoding``. The signature of the model's ``forward`` says how many items
of a sequence are inputs; the next is the target, and further ones are not read. In a mapping the
target has one of the names ``TARGETS``. A model that takes the target by this name gets it, so that
it can compute its own loss.

``read_batches(what, model, data)`` yields a :class:`ModelCall` for each batch, after checking its
numbers. ``find_reader(model)`` returns the :class:`BatchReader` of a model, ``each_batch(what,
data)`` the batches as they are. ``leaves``, ``length``, ``map_tensors``, ``take``,
``first_examples`` and ``batch_structure`` look into batches of any form.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

from gatewise.errors import ArgumentError
from gatewise.graph import Example, check_dense, example_tensors, split_example

# Keys under which a mapping holds what a model is to predict.
TARGETS = ("labels", "label", "targets", "target", "y")
MASK = "attention_mask"
DEPTH = 20  # of nested containers that are entered
EXAMPLES = 100  # of a data set in a batch

Progress = Callable[[int, int | None], None]  # batches done, and how many there are, if known


@dataclass(frozen=True, eq=False)
class ModelCall:
    """The arguments of one call, and the target of the batch.

    Attributes:
        args: Positional arguments.
        kwargs: Keyword arguments, without the target.
        target: What the model should return; None if the batch does not say it.
        target_name: The keyword by which the model takes the target; empty if it does not.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    target: Any = None
    target_name: str = ""

    @property
    def example(self) -> Example:
        """The arguments as :func:`gatewise.find_sites` and others take an example."""
        if self.kwargs:
            return self.kwargs
        is_tensor = len(self.args) == 1 and isinstance(self.args[0], Tensor)
        return self.args[0] if is_tensor else self.args

    @property
    def keywords(self) -> dict[str, Any]:
        """The keyword arguments, with the target if the model takes it."""
        return {**self.kwargs, self.target_name: self.target} if self.target_name else self.kwargs

    @property
    def labels(self) -> Tensor | None:
        """The target if it is a tensor."""
        return self.target if isinstance(self.target, Tensor) else None

    @property
    def mask(self) -> Tensor | None:
        """The attention mask of a text, 0 at padded positions; None if there is none."""
        return self.kwargs.get(MASK)

    @property
    def size(self) -> int:
        """The number of examples; 1 if the arguments differ in it."""
        sizes = {len(tensor) if tensor.dim() else 0 for tensor in self.tensors()}
        return sizes.pop() if len(sizes) == 1 else 1

    def tensors(self) -> list[Tensor]:
        """Return all tensors among the arguments, without the target."""
        return list(example_tensors((self.args, self.kwargs)))

    def run(self, model: Callable[..., Any]) -> Any:
        """Return what the model returns. It gets the target if it takes it."""
        return model(*self.args, **self.keywords)

    def map(self, function: Callable[[Tensor], Tensor]) -> "ModelCall":
        """Return the call with ``function`` applied to every tensor, also of the target."""
        args, kwargs, target = map_tensors((self.args, self.kwargs, self.target), function)
        return replace(self, args=args, kwargs=kwargs, target=target)

    def rows(self, first: int, last: int) -> "ModelCall":
        """Return the call for some examples."""
        return self.map(lambda tensor: tensor[first:last])


@dataclass(frozen=True)
class BatchReader:
    """Splits batches into arguments and target. See Note [Batches of a user].

    Attributes:
        parameters: Names of the arguments of ``forward``.
        needed: Those without a default.
        any_keyword: Whether ``forward`` takes any keyword.
        any_number: Whether it takes any number of arguments.
    """

    parameters: tuple[str, ...]
    needed: tuple[str, ...]
    any_keyword: bool = False
    any_number: bool = False

    def read(self, batch: Any, *, without_target: bool = False) -> ModelCall:
        """Return arguments and target of a batch.

        Args:
            batch: Of any form.
            without_target: Whether the model is not to get the target, even if it takes it.
        """
        if isinstance(batch, Tensor):
            return ModelCall((batch,), {})
        if isinstance(batch, Mapping):
            call = self._read_mapping(batch)
            return replace(call, target_name="") if without_target else call
        if isinstance(batch, list | tuple) and batch:
            return self._read_sequence(list(batch))
        raise ArgumentError(
            "data: a batch of this form is not understood",
            got=type(batch).__name__,
            allowed="a tensor, a tuple (inputs, ..., target), or a mapping",
        )

    def _read_mapping(self, batch: Mapping[str, Any]) -> ModelCall:
        """Read a mapping: its keys are names of arguments, except for the target."""
        key = next((name for name in TARGETS if name in batch), "")
        inputs = {str(name): value for name, value in batch.items() if name != key}
        target = batch[key] if key else None
        passed = key if key in self.parameters else ""
        if passed in self.needed:  # the model cannot be called without it
            inputs[passed] = target
            passed = ""
        known = inputs
        if not self.any_keyword:
            known = {name: value for name, value in inputs.items() if name in self.parameters}
        if known:
            return ModelCall((), known, target, passed)
        args = tuple(inputs.values()) if len(inputs) == 1 else (inputs,)
        return ModelCall(args, {}, target, passed)

    def _read_sequence(self, inputs: list[Any]) -> ModelCall:
        """Read a sequence: its first items are inputs, and the one after them is the target."""
        target = None
        if len(inputs) > max(1, len(self.needed)) or self._is_nested(inputs):
            place = len(inputs) - 1
            if not self.any_number:
                place = min(place, max(1, len(self.parameters)))
            target = inputs[place]
            inputs = inputs[:place]
        if len(inputs) == 1 and isinstance(inputs[0], Mapping):
            call = self._read_mapping(inputs[0])
            return ModelCall(call.args, call.kwargs, target)
        if len(inputs) == 1 and isinstance(inputs[0], list | tuple):
            if len(self.parameters) >= len(inputs[0]) > 1:
                inputs = list(inputs[0])
        return ModelCall(tuple(inputs), {}, target)

    def _is_nested(self, batch: list[Any]) -> bool:
        """Return whether a batch is (inputs, target) with all arguments of the model in inputs."""
        if len(batch) != 2 or set(self.parameters[1:2]) & set(TARGETS):
            return False
        inputs = batch[0]
        if isinstance(inputs, Mapping):
            return len(inputs) >= len(self.needed) and set(inputs) <= set(self.parameters)
        return isinstance(inputs, list | tuple) and len(inputs) == len(self.needed)


def find_reader(model: nn.Module) -> BatchReader:
    """Return how batches go into ``model``."""
    try:
        parameters = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):
        return BatchReader((), (), any_number=True)
    kinds = {parameter.kind for parameter in parameters}
    variable = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    named = [parameter for parameter in parameters if parameter.kind not in variable]
    return BatchReader(
        parameters=tuple(each.name for each in named),
        needed=tuple(each.name for each in named if each.default is each.empty),
        any_keyword=inspect.Parameter.VAR_KEYWORD in kinds,
        any_number=inspect.Parameter.VAR_POSITIONAL in kinds,
    )


def read_batches(
    what: str, model: nn.Module, data: Any, progress: Progress | None = None
) -> Iterator[ModelCall]:
    """Yield the arguments and the target of every batch.

    Args:
        what: The name of the function, for messages.
        model: It says which part of a batch is the target.
        data: Of any form, see Note [Batches of a user].
        progress: Called after each batch.

    Raises:
        ArgumentError: There is no batch, or one is empty, contains NaN, or is no input of a model.
    """
    batches = each_batch(what, data)
    total: int | None = None
    if isinstance(batches, Sized):
        with suppress(TypeError):  # a loader of a stream has the method but no length
            total = len(batches)
    reader = find_reader(model)
    number = -1
    for number, batch in enumerate(batches):
        call = reader.read(batch)
        check_inputs(f"{what}: batch {number}", call)
        yield call
        if progress is not None:
            progress(number + 1, total)
    if number < 0:
        raise ArgumentError(
            f"{what}: there is no batch", fix="pass a data loader or a list that is not empty"
        )


def each_batch(what: str, data: Any) -> Iterable[Any]:
    """Return the batches of a user's data as they are.

    Args:
        what: The name of the function, for messages.
        data: Of any form, see Note [Batches of a user].
    """
    if isinstance(data, Tensor | Mapping):
        return [data]
    if is_dataset(data):
        return DataLoader(data, EXAMPLES)
    if not isinstance(data, Iterable):
        raise ArgumentError(
            f"{what}: the data must be a tensor, a list of batches or a data loader",
            got=type(data).__name__,
            allowed="a tensor, or an iterable of tensors, (inputs, labels), or dicts of keyword "
            "arguments",
        )
    return data


def is_dataset(data: Any) -> bool:
    """Return whether something is a data set whose examples are read by index."""
    if isinstance(data, Dataset):
        return not isinstance(data, IterableDataset)
    indexable = hasattr(data, "__getitem__") and hasattr(data, "__len__")
    return indexable and not isinstance(data, Sequence | DataLoader)


def check_inputs(what: str, call: ModelCall) -> None:
    """Raise unless the inputs of a call are dense, not empty, and finite.

    Args:
        what: Which batch it is, for messages.
        call: Of the model.
    """
    split_example(call.example)  # raises if it holds no tensor
    check_dense(what, call.example)
    for tensor in call.tensors():
        if not tensor.numel():
            raise ArgumentError(f"{what} is empty", got=f"shape {tuple(tensor.shape)}")
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            wrong = ~tensor.isfinite()
            raise ArgumentError(
                f"{what} contains NaN or infinity",
                got=f"{int(wrong.sum()):,} of {tensor.numel():,} numbers, the first in input "
                f"{int(wrong.nonzero()[0, 0])}",
                fix="remove these inputs from the data",
            )


def leaves(value: Any, depth: int = 0) -> Iterator[Any]:
    """Yield what is in a batch: tensors, arrays, numbers and strings."""
    if depth > DEPTH:
        return
    if isinstance(value, Mapping):
        for item in value.values():
            yield from leaves(item, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from leaves(item, depth + 1)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from leaves(getattr(value, field.name), depth + 1)
    else:
        yield value


def length(batch: Any) -> int:
    """Return the number of examples: the length of the first tensor or array; else 1."""
    for leaf in leaves(batch):
        shape = getattr(leaf, "shape", None)
        if shape is not None and len(shape):
            return int(shape[0])
    return 1


def map_tensors(batch: Any, function: Callable[[Tensor], Tensor]) -> Any:
    """Return a batch with ``function`` applied to every tensor in it."""
    if isinstance(batch, Tensor):
        return function(batch)
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(map_tensors(item, function) for item in batch))
    if isinstance(batch, list | tuple):
        return type(batch)(map_tensors(item, function) for item in batch)
    if isinstance(batch, Mapping):
        return {key: map_tensors(item, function) for key, item in batch.items()}
    return batch


def take(batch: Any, index: Tensor | slice) -> Any:
    """Return the examples at ``index``: every tensor in the batch is indexed."""
    return map_tensors(batch, lambda tensor: tensor[index])


def first_examples(batch: Any, count: int) -> Any:
    """Return the first examples of a batch, if every tensor in it has one row per example."""
    whole = length(batch)
    for leaf in leaves(batch):
        if not isinstance(leaf, Tensor) or not leaf.dim() or len(leaf) != whole:
            return batch
    return take(batch, slice(0, count))


def batch_structure(value: Any) -> str:
    """Return types and shapes of everything in a batch, without the number of examples."""
    words = []
    for leaf in leaves(value):
        shape = tuple(getattr(leaf, "shape", ()))[1:]
        words.append(f"{type(leaf).__name__} {getattr(leaf, 'dtype', '')} {shape}")
    return ", ".join(words)
