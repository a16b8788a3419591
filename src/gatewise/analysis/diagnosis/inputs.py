"""The inputs of a diagnosis.

Some batches of whatever the caller has, checked before anything is computed.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis.finite import first_not_finite
from gatewise.errors import ArgumentError
from gatewise.graph import Example, check_runs, example_tensors, split_example

BATCH = 100  # examples of a batch, where one tensor of all is given
NUMBERS = 2**20  # in the inputs of one run of the model: 340 of CIFAR, 6 of ImageNet
GIB = 2**30


@dataclass(frozen=True, eq=False)
class Inputs:
    """Batches of examples, held in memory."""

    batches: tuple[Example, ...]  # what the model is called with
    labels: Tensor | None
    count: int
    real: bool  # data, and not random numbers in their place

    @property
    def example(self) -> Example:
        """The first two inputs: what a graph is read with."""
        return first_of(self.batches[0], 2)

    @property
    def pairs(self) -> list[Any]:
        """The batches as analyses take them: with labels where they are known."""
        if self.labels is None:
            return list(self.batches)
        sizes = [len(next(example_tensors(split_example(each)))) for each in self.batches]
        return list(zip(self.batches, self.labels.split(sizes), strict=True))

    @property
    def tensor(self) -> Tensor | None:
        """The first batch, if the model takes one tensor of numbers."""
        args, kwargs = split_example(self.batches[0])
        alone = (
            len(args) == 1
            and not kwargs
            and isinstance(args[0], Tensor)
            and args[0].is_floating_point()
        )
        return args[0] if alone else None

    def some(self, count: int) -> Tensor:
        """The first ``count`` inputs of a model that takes one tensor."""
        found: list[Tensor] = []
        for batch in self.batches:
            found.append(split_example(batch)[0][0])
            if sum(map(len, found)) >= count:
                break
        return torch.cat(found)[:count]

    def of_each_class(self, count: int) -> Tensor:
        """``count`` inputs of as many different classes as there are.

        The first ones where labels are not known.
        """
        if self.labels is None:
            return self.some(count)
        _, order = torch.unique(self.labels, return_inverse=True)
        places = [
            int((order == each).nonzero()[0]) for each in range(min(count, int(order.max()) + 1))
        ]
        places += [place for place in range(self.count) if place not in places][
            : count - len(places)
        ]
        return self.some(max(places) + 1)[places]


def collect(
    model: nn.Module, batches: object, examples: int, memory: int, *, real: bool = True
) -> Inputs:
    """Up to ``examples`` inputs on the model's device.

    What cannot be used is an error that names the batch.
    """
    device = next((each.device for each in model.parameters()), torch.device("cpu"))
    kept: list[Example] = []
    labels: list[Tensor | None] = []
    count = 0
    for number, item in enumerate(_iterate(batches)):
        example, label = _parts(item)
        size = _check(example, number, kept[0] if kept else None)
        if not kept:
            _check_memory(example, size, examples, memory)
            _check_model(model, example, device)
        left = min(size, examples - count)
        for rows in _parts_of(example, size, left):
            kept.append(_moved(_rows(example, rows), device))
            labels.append(None if label is None else label[rows].cpu())
        count += left
        if count >= examples:
            break
    if not count:
        raise ArgumentError(
            "diagnose: there is no input",
            got="no batch",
            fix="give at least one batch with one input",
        )
    known = [each for each in labels if each is not None]
    return Inputs(tuple(kept), torch.cat(known) if len(known) == len(kept) else None, count, real)


def first_of(example: Example, count: int) -> Example:
    """The first ``count`` rows of every tensor of ``example``."""
    return _rows(example, slice(0, count))


def _rows(example: Example, rows: slice) -> Example:
    return _mapped(example, lambda each: each[rows])


def _parts_of(example: Example, size: int, left: int) -> Iterator[slice]:
    """The first ``left`` rows in parts that a network can be run on in little memory."""
    numbers = sum(each.numel() for each in example_tensors(split_example(example))) // size
    step = min(size, max(1, NUMBERS // max(1, numbers)))
    return (slice(low, min(low + step, left)) for low in range(0, left, step))


def _iterate(batches: object) -> Iterator[Any]:
    if isinstance(batches, Tensor):
        return iter(batches.split(BATCH)) if batches.dim() and len(batches) else iter(())
    if isinstance(batches, Mapping):
        return iter((batches,))
    if not isinstance(batches, Iterable):
        allowed = "a tensor of inputs, or a loader of tensors, (inputs, labels) or dicts of keyword arguments"
        raise ArgumentError(
            "diagnose: batches are not something to go through",
            got=type(batches).__name__,
            allowed=allowed,
        )
    return iter(batches)


def _parts(item: Any) -> tuple[Example, Tensor | None]:
    """Inputs and labels: a pair whose second is a row of whole numbers, as loaders give, is taken apart."""
    if isinstance(item, tuple | list) and len(item) == 2 and isinstance(item[1], Tensor):
        second = item[1]
        if second.dim() <= 1 and not second.is_floating_point() and not second.is_complex():
            return item[0], second.reshape(-1)
    if isinstance(item, tuple | list):
        return item[0] if len(item) == 1 else tuple(item), None
    return item, None


def _check(example: Example, number: int, first: Example | None) -> int:
    """The number of inputs in the batch."""
    tensors = list(example_tensors(split_example(example)))
    sizes = {len(each) if each.dim() else 0 for each in tensors}
    if len(sizes) != 1 or not min(sizes):
        got = ", ".join(str(tuple(each.shape)) for each in tensors)
        raise ArgumentError(
            f"diagnose: batch {number} must hold rows of inputs, one at least", got=got
        )
    for each in tensors:
        if each.is_floating_point() and not bool(each.isfinite().all()):
            wrong = ~each.isfinite()
            row = int(wrong.nonzero()[0, 0])
            got = f"{int(wrong.sum()):,} of {each.numel():,} numbers, the first in its input {row}"
            raise ArgumentError(f"diagnose: batch {number} holds NaN or infinity", got=got)
    if first is not None:
        _check_alike(tensors, list(example_tensors(split_example(first))), number)
    return sizes.pop()


def _check_alike(tensors: list[Tensor], first: list[Tensor], number: int) -> None:
    shapes, wanted = ([tuple(each.shape[1:]) for each in some] for some in (tensors, first))
    if shapes != wanted:
        fix = "resize or pad the inputs to one shape"
        raise ArgumentError(
            f"diagnose: batch {number} has another shape", got=shapes, allowed=wanted, fix=fix
        )


def _check_memory(example: Example, size: int, examples: int, memory: int) -> None:
    one = sum(each.nbytes for each in example_tensors(split_example(example))) / size
    if one * examples > memory / 2:
        raise ArgumentError(
            f"diagnose: {examples:,} inputs would take {one * examples / GIB:.2f} GiB of memory",
            allowed=f"half of memory={memory} ({memory / GIB:.2f} GiB)",
            fix=f"examples={max(1, int(memory / 2 / one))}, smaller inputs, or more memory",
        )


def _check_model(model: nn.Module, example: Example, device: torch.device) -> None:
    """The model must run, which also builds layers that wait for their first input, and its weights be numbers."""
    check_runs(model, *split_example(_moved(first_of(example, 2), device)))
    found = first_not_finite((*model.named_parameters(), *model.named_buffers()))
    if found is not None:
        path, got = found
        layer = repr(path.rpartition(".")[0]) if "." in path else "the model itself"
        raise ArgumentError(
            f"diagnose: the weights of {layer} hold NaN or infinity",
            got=got,
            fix="look at the training run",
        )


def _moved(example: Example, device: torch.device) -> Example:
    return _mapped(example, lambda each: each.to(device))


def _mapped(value: Any, change: Any) -> Any:
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, Mapping):
        return {name: _mapped(each, change) for name, each in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(_mapped(each, change) for each in value)
    return value
