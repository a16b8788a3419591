"""The inputs of a diagnosis: some batches of the caller's data, checked before anything runs."""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from gatewise.analysis.finite import first_not_finite
from gatewise.batches import ModelCall, find_reader, map_tensors, read_batches, take
from gatewise.devices import device_of
from gatewise.errors import ArgumentError
from gatewise.graph import (
    Example,
    check_dense,
    check_runs,
    example_tensors,
    parameter_count,
    split_example,
)

BATCH = 100  # inputs in a batch at most
POINTS = 7  # inputs in a run at single points, as many as `partition` uses
NUMBERS = 2**20  # in the inputs of one run of the model: 340 images of CIFAR, 6 of ImageNet
PER_TOKEN = 2**16  # weights of a language model for which a token counts as one number more
FEW = 2  # inputs of a first run, since models may squeeze away a batch of one
GIB = 2**30


@dataclass(frozen=True, eq=False)
class Inputs:
    """Inputs in memory, in batches of one size if their number can be divided so.

    A graph has the sizes of its example as constants. So every batch size costs one more reading of
    the model, and all questions use the same two: that of the batches, and :data:`POINTS`.

    Attributes:
        batches: What the model is called with.
        labels: The classes of all inputs, if they are known.
        count: The number of inputs.
        real: Whether the inputs are data, not random numbers.
    """

    batches: tuple[Example, ...]
    labels: Tensor | None
    count: int
    real: bool

    @property
    def example(self) -> Example:
        """The first batch, with which the graph of the model is read."""
        return self.batches[0]

    @property
    def pairs(self) -> list[Any]:
        """The batches in the form that analyses take, with labels if they are known."""
        if self.labels is None:
            return list(self.batches)
        sizes = [len(next(example_tensors(batch))) for batch in self.batches]
        return list(zip(self.batches, self.labels.split(sizes), strict=True))

    def first_pairs(self, count: int) -> list[Any]:
        """Return the first batches with at least ``count`` inputs, as :attr:`pairs`."""
        return self.pairs[: len(self.first_batches(count))]

    def first_batches(self, count: int) -> tuple[Example, ...]:
        """Return the first batches with at least ``count`` inputs, without labels."""
        size = len(next(example_tensors(self.batches[0])))
        return self.batches[: -(-count // size)]

    def first_rows(self, count: int) -> Example:
        """Return the first ``count`` inputs of the first batch."""
        return take(self.batches[0], slice(count))

    @property
    def tensor(self) -> Tensor | None:
        """The first batch, if the model takes one tensor of floating-point numbers."""
        args, kwargs = split_example(self.batches[0])
        if len(args) != 1 or kwargs:
            return None
        x = args[0]
        return x if isinstance(x, Tensor) and x.is_floating_point() else None

    def some(self, count: int) -> Tensor:
        """Return the first ``count`` inputs of a model that takes one tensor."""
        batches: list[Tensor] = []
        held = 0
        for batch in self.batches:
            batches.append(split_example(batch)[0][0])
            held += len(batches[-1])
            if held >= count:
                break
        return torch.cat(batches)[:count]

    def of_each_class(self, count: int) -> Tensor:
        """Return ``count`` inputs of as many different classes as possible.

        Without labels these are the first ones.
        """
        if self.labels is None:
            return self.some(count)
        places: list[int] = []
        for label in self.labels.unique()[:count]:
            places.append(int((self.labels == label).nonzero()[0]))
        for place in range(self.count):  # more inputs than classes are needed
            if len(places) < count and place not in places:
                places.append(place)
        return self.some(max(places) + 1)[places]


def read_calls(model: nn.Module, batches: object, examples: int) -> Iterator[ModelCall]:
    """Yield the calls of the model on a user's batches; a model with lazy layers is built.

    Args:
        model: The model. If it has lazy layers, it is run once, so that they get their shapes.
        batches: Of any form that :mod:`gatewise.batches` knows.
        examples: The largest number of inputs that are used.
    """
    if isinstance(batches, Tensor) and batches.dim():
        check_dense("diagnose: inputs", batches)
        batches = batches[:examples]
    calls = read_batches("diagnose", model, batches)
    if not any(map(nn.parameter.is_lazy, (*model.parameters(), *model.buffers()))):
        return calls
    first = next(calls)
    training = model.training
    with torch.no_grad():
        first.rows(0, FEW).run(model.eval())
    model.train(training)
    return itertools.chain([first], calls)


def collect(
    model: nn.Module,
    calls: Iterable[ModelCall],
    examples: int,
    memory: int,
    *,
    real: bool = True,
) -> Inputs:
    """Return up to ``examples`` inputs on the device of the model.

    Args:
        model: The model. It is run once on the first inputs.
        calls: What :func:`read_calls` returns.
        examples: The largest number of inputs.
        memory: Bytes; the inputs may use half of them.
        real: Whether the inputs are data, not random numbers.

    Raises:
        ArgumentError: There is no input, or a batch cannot be used. The message names the batch.
    """
    device = device_of(model)
    arguments = len(find_reader(model).parameters)
    parts: list[Example] = []
    labels: list[Tensor | None] = []
    count = 0
    for number, call in enumerate(calls):
        example, label = _inputs_and_labels(call, arguments)
        size = _check_rows(example, number, parts[0] if parts else None)
        if not parts:  # before the rest is read, which may take long
            _check_memory(example, size, examples, memory)
            _check_model(model, example, device)
        used = min(size, examples - count)
        parts.append(map_tensors(example, lambda tensor, used=used: tensor[:used].to(device)))
        labels.append(None if label is None else label[:used].cpu())
        count += used
        if count >= examples:
            break
    known = [label for label in labels if label is not None]
    all_labels = torch.cat(known) if len(known) == len(parts) else None
    size = 1 + parameter_count(model) // PER_TOKEN
    return Inputs(tuple(_even_batches(parts, count, size)), all_labels, count, real)


def _even_batches(parts: list[Example], count: int, per_token: int) -> Iterator[Example]:
    """Divide all inputs into batches on which a network runs in little memory.

    A token counts as ``per_token`` numbers, since it becomes a row of each layer and of scores.

    All batches have one size, if the number of inputs has a divisor that is not much smaller than
    the largest size. Else the last is smaller.
    """
    numbers = 0
    for tensor in example_tensors(parts[0]):
        numbers += tensor[0].numel() * (1 if tensor.is_floating_point() else per_token)
    most = min(count, BATCH, max(1, NUMBERS // max(1, numbers)))
    divisors = (size for size in range(most, (most - 1) // 2, -1) if count % size == 0)
    size = next(divisors, most)
    whole = tree_map(_joined, *parts)
    for low in range(0, count, size):
        yield take(whole, slice(low, low + size))


def _joined(first: Any, *others: Any) -> Any:
    """Return tensors one after another; of other values the first."""
    if isinstance(first, Tensor) and others:
        return torch.cat((first, *others))
    return first


def _inputs_and_labels(call: ModelCall, arguments: int) -> tuple[Example, Tensor | None]:
    """Return the inputs of a call, and the target if it is a row of classes.

    Any other target is one more input, if the model takes one more argument.
    """
    target = call.labels
    if call.kwargs or target is None:
        return call.keywords or call.example, None
    if target.dim() <= 1 and not target.is_floating_point() and not target.is_complex():
        return call.example, target.reshape(-1)
    if len(call.args) < arguments:
        return (*call.args, target), None
    return call.example, None


def _check_rows(example: Example, number: int, first: Example | None) -> int:
    """Return the number of inputs in a batch, which must have the shapes of the first batch."""
    tensors = list(example_tensors(example))
    sizes = {len(tensor) if tensor.dim() else 0 for tensor in tensors}
    if len(sizes) != 1 or not min(sizes):
        got = ", ".join(str(tuple(tensor.shape)) for tensor in tensors)
        raise ArgumentError(
            f"diagnose: batch {number} must hold rows of inputs, at least one", got=got
        )
    if first is not None:
        shapes, expected = (
            [tuple(tensor.shape[1:]) for tensor in each]
            for each in (tensors, example_tensors(first))
        )
        if shapes != expected:
            raise ArgumentError(
                f"diagnose: batch {number} has another shape than the first",
                got=shapes,
                allowed=expected,
                fix="resize or pad the inputs to one shape",
            )
    return sizes.pop()


def _check_memory(example: Example, size: int, examples: int, memory: int) -> None:
    """Check that all inputs together fit into half of the memory, by the size of the first."""
    one = sum(tensor.nbytes for tensor in example_tensors(example)) / size
    if one * examples > memory / 2:
        raise ArgumentError(
            f"diagnose: {examples:,} inputs would need {one * examples / GIB:.2f} GiB of memory",
            allowed=f"half of memory={memory} ({memory / GIB:.2f} GiB)",
            fix=f"examples={max(1, int(memory / 2 / one))}, smaller inputs, or more memory",
        )


def _check_model(model: nn.Module, example: Example, device: torch.device) -> None:
    """Check that the model runs and that its weights are finite.

    The run also builds layers that wait for their first input.
    """
    few = map_tensors(example, lambda tensor: tensor[:FEW].to(device))
    check_runs(model, *split_example(few))
    problem = first_not_finite((*model.named_parameters(), *model.named_buffers()))
    if problem is not None:
        path, got = problem
        layer = repr(path.rpartition(".")[0]) if "." in path else "the model itself"
        raise ArgumentError(
            f"diagnose: the weights of {layer} contain NaN or infinity",
            got=got,
            fix="check the training run",
        )
