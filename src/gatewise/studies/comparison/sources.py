"""The examples of a user, in batches that are the same for every unit.

Note [Live augmentation]. A data set of the user is read anew in every epoch, and its random
transforms stay at work. Before an example is read, Python's, NumPy's and torch's global generators
are seeded by (seed, epoch, index of the example). So all units see the same augmented batches, in
any number of worker processes, and an interrupted run resumes with the batch it would have had. The
order comes from the loader's own sampler, seeded by (seed, epoch). Whether this worked is tested: a
few examples are read twice. If they differ, or if the loader has no examples that can be read by
their index, batches are used as they come, and the record says that they were not paired.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import (
    DataLoader,
    IterableDataset,
    TensorDataset,
    default_collate,
)

from gatewise.batches import (
    batch_structure,
    first_examples,
    is_dataset,
    leaves,
    length,
    take,
)
from gatewise.data import Augment, content_digest, order
from gatewise.errors import ArgumentError, GatewiseError, first_line
from gatewise.studies.comparison.fingerprints import batch_digest
from gatewise.train import all_randomness, seed_all, stream_seed

PROBES = 8  # examples that a digest covers and that are read twice
MOST_COUNTED = 1_000_000  # batches of a stream without a length


@dataclass(frozen=True)
class UserBatch:
    """Some examples of the user. ``index`` says which, where that is known."""

    index: Tensor  # (n,)
    content: Any
    whole: int


class Source(ABC):
    """A training set, a validation set or a test set.

    Attributes:
        unpaired: why batches are not the same for every unit; empty if they are.
        digest: of the content, or of its form if the content is random.
    """

    unpaired: str = ""
    digest: str = ""

    @property
    @abstractmethod
    def count(self) -> int:
        """Batches in an epoch."""

    @property
    @abstractmethod
    def examples(self) -> int | None:
        """Examples in an epoch; None if not known."""

    @abstractmethod
    def read(self, seed: int, epoch: int, start: int = 0) -> Iterator[UserBatch]:
        """Yield the batches of an epoch from the one at ``start`` on."""

    def first(self, count: int) -> Any:
        """Return a batch of a few examples, if a batch can be cut."""
        with all_randomness():
            for batch in self.read(0, 0):
                return first_examples(batch.content, count)
        raise ArgumentError("data: there is no batch", got=type(self).__name__)


@dataclass(frozen=True)
class SeededBatches:
    """A source as a run reads it: the batches of one seed."""

    source: Source
    seed: int

    @property
    def count(self) -> int:
        """Batches in an epoch."""
        return self.source.count

    @property
    def examples(self) -> int:
        """Examples in an epoch."""
        return self.source.examples or 0

    def walk(self, epoch: int, start: int, workers: int = 0) -> Iterator[UserBatch]:
        """Yield the batches of an epoch from the one at ``start`` on."""
        return self.source.read(self.seed, epoch, start)


class ArraySource(Source):
    """Tensors in memory, in batches of one size.

    Args:
        content: a tuple, list or mapping of tensors with one row per example.
        size: of a batch.
        shuffle: whether every epoch has another order.
        augment: of the recipe, for images that come first.
    """

    def __init__(
        self,
        content: Any,
        size: int,
        *,
        shuffle: bool,
        augment: Augment | None = None,
    ) -> None:
        self.content = content
        self.size = size
        self.shuffle = shuffle
        self.augment = augment
        self.rows = torch.arange(length(content))
        tensors = [leaf for leaf in leaves(content) if isinstance(leaf, Tensor)]
        self.digest = content_digest(tensors)

    @property
    def count(self) -> int:
        """Batches; in training a single example left over joins the batch before it."""
        whole, rest = divmod(len(self.rows), self.size)
        smallest = 2 if self.shuffle else 1  # batch norm cannot train on one example
        return max(1, whole + (rest >= smallest))

    @property
    def examples(self) -> int:
        """The number of rows."""
        return len(self.rows)

    def read(self, seed: int, epoch: int, start: int = 0) -> Iterator[UserBatch]:
        """Yield the batches of an epoch from the one at ``start`` on."""
        rows = self.rows
        if self.shuffle:
            rows = rows[order(len(rows), seed=seed, epoch=epoch)]
        for place in range(start, self.count):
            end = len(rows) if place == self.count - 1 else (place + 1) * self.size
            index = rows[place * self.size : end]
            content = self._images(take(self.content, index), index, seed, epoch)
            yield UserBatch(index, content, len(index))

    def first(self, count: int) -> Any:
        """Return the first rows."""
        return self._images(take(self.content, self.rows[:count]), None, 0, 0)

    def _images(self, content: Any, index: Tensor | None, seed: int, epoch: int) -> Any:
        """Return the batch with its images as the network reads them."""
        if self.augment is None:
            return content
        images, *rest = content
        if index is None or not self.shuffle:
            images = self.augment.plain(images)
        else:
            images = self.augment.apply(images, seed=seed, epoch=epoch, index=index)
        return (images, *rest)


class LoaderSource(Source):
    """A data loader over a data set that is read by index; see Note [Live augmentation].

    Args:
        loader: of the user. It is not changed.
        name: of the part of the data in error messages.
    """

    def __init__(
        self,
        loader: DataLoader,
        name: str,
    ) -> None:
        self.loader = loader
        self.name = name
        batches = self._index_batches(0, 0)
        self._count = len(batches)
        self._examples = sum(len(batch) for batch in batches)
        if not self._count:
            raise ArgumentError(f"data: {name} is empty", got="no batch", allowed="one or more")
        self._check_pairs()

    @property
    def count(self) -> int:
        """Batches in an epoch."""
        return self._count

    @property
    def examples(self) -> int:
        """Examples in an epoch."""
        return self._examples

    def read(self, seed: int, epoch: int, start: int = 0) -> Iterator[UserBatch]:
        """Yield the batches of an epoch from the one at ``start`` on."""
        batches = self._index_batches(seed, epoch)[start:]
        if self._is_plain:
            tensors = list(self.loader.dataset.tensors)  # pyright: ignore[reportAttributeAccessIssue]
            for batch in batches:
                index = torch.tensor(batch)
                yield UserBatch(index, take(tensors, index), len(index))
            return
        for batch, content in zip(batches, self._load(batches, seed, epoch), strict=True):
            whole = len(batch) if self._collates else length(content)
            yield UserBatch(torch.tensor(batch), content, whole)

    @property
    def _collates(self) -> bool:
        """Whether the loader makes batches; otherwise each item of the data set is one."""
        return self.loader.batch_sampler is not None

    @property
    def _is_plain(self) -> bool:
        """Whether the data set is tensors in memory, which can be indexed at once."""
        is_default = self.loader.collate_fn is default_collate and self._collates
        return type(self.loader.dataset) is TensorDataset and is_default

    def _load(self, batches: list[list[int]], seed: int, epoch: int) -> Iterable[Any]:
        """Return an iterable over the batches with these indices."""
        loader = self.loader
        options: dict[str, Any] = {
            "collate_fn": loader.collate_fn,
            "num_workers": loader.num_workers,
            "pin_memory": loader.pin_memory,
            "timeout": loader.timeout,
            "worker_init_fn": loader.worker_init_fn,
        }
        if loader.num_workers:
            options["prefetch_factor"] = loader.prefetch_factor
            options["multiprocessing_context"] = loader.multiprocessing_context
        dataset: Any = _SeededExamples(loader.dataset, seed, epoch)
        if self._collates:
            return DataLoader(dataset, batch_sampler=batches, **options)
        items = [index for batch in batches for index in batch]
        return DataLoader(dataset, batch_size=None, sampler=items, **options)

    def _index_batches(self, seed: int, epoch: int) -> list[list[int]]:
        """Return the indices of every batch of an epoch."""
        loader = self.loader
        batches = loader.batch_sampler
        with all_randomness(), _seeded_samplers(loader, stream_seed(seed, "sampler", epoch), epoch):
            if batches is None:
                return [[int(index)] for index in loader.sampler]
            return [[int(index) for index in batch] for batch in batches]

    def _check_pairs(self) -> None:
        """Read the order and a few examples twice, and take their digest."""
        first = self._index_batches(1, 1)
        same = first == self._index_batches(1, 1)
        flat = sorted({index for batch in first for index in batch})
        probes = flat[:: max(1, len(flat) // PROBES)][:PROBES]
        contents = []
        for _ in range(2):
            examples = _SeededExamples(self.loader.dataset, 0, 0)
            with all_randomness():
                contents.append(batch_digest([examples[index] for index in probes]))
        dataset = self.loader.dataset
        words = [type(dataset).__name__, str(len(dataset)), str(self._count)]  # pyright: ignore[reportArgumentType]
        if not same:
            self.unpaired = "the order of the loader's sampler cannot be seeded"
        elif contents[0] != contents[1]:
            self.unpaired = "the random changes of the data set cannot be seeded"
        else:
            words += [contents[0], str(flat[:3])]
        self.digest = sha256(" ".join(words).encode()).hexdigest()


class StreamSource(Source):
    """Batches that can only be read one after another, or a list of them.

    Args:
        batches: can be read again and again.
        name: of the part of the data in error messages.
    """

    def __init__(self, batches: Any, name: str) -> None:
        self.batches = batches
        self.fixed = isinstance(batches, list | tuple)
        if not self.fixed:
            self.unpaired = "the loader cannot be read by index"
        try:
            self._count = len(batches)
        except TypeError:
            self._count = self._counted(name)
        if not self._count:
            raise ArgumentError(f"data: {name} is empty", got="no batch", allowed="one or more")
        words = f"{type(batches).__name__} {self._count} {batch_structure(self.first(2))}"
        if self.fixed:
            words += batch_digest(list(batches))
        self.digest = sha256(words.encode()).hexdigest()

    @property
    def count(self) -> int:
        """Batches in an epoch."""
        return self._count

    @property
    def examples(self) -> int | None:
        """Not known, except for a list of batches."""
        if self.fixed:
            return sum(length(batch) for batch in self.batches)
        return None

    def read(self, seed: int, epoch: int, start: int = 0) -> Iterator[UserBatch]:
        """Yield the batches of an epoch; to begin later, the first ones are read and dropped."""
        seed_all(stream_seed(seed, "stream", epoch))
        _set_epoch(self.batches, epoch)
        for place, content in enumerate(self.batches):
            if place >= self._count:
                break
            if place >= start:
                whole = length(content)
                yield UserBatch(torch.arange(whole), content, whole)

    def _counted(self, name: str) -> int:
        """Count the batches by reading all of them once."""
        total = 0
        with all_randomness():
            for _ in self.batches:
                total += 1
                if total > MOST_COUNTED:
                    raise ArgumentError(
                        f"data: {name} does not end",
                        got=f"more than {MOST_COUNTED:,} batches",
                        fix="give the loader a length, with the method __len__",
                    )
        return total


class _SeededExamples:
    """A data set whose random changes depend on (seed, epoch, index) alone."""

    def __init__(self, dataset: Any, seed: int, epoch: int) -> None:
        self.dataset = dataset
        self.seed = seed
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        seed_all(stream_seed(self.seed, "example", self.epoch, index))
        return self.dataset[index]

    def __getitems__(self, indices: list[int]) -> Any:
        """Return the examples of a batch, and seed what the collate function draws."""
        read_all = getattr(self.dataset, "__getitems__", None)
        if callable(read_all):
            seed_all(stream_seed(self.seed, "examples", self.epoch, *indices))
            examples = read_all(indices)
        else:
            examples = [self[index] for index in indices]
        seed_all(stream_seed(self.seed, "collate", self.epoch, *indices[:1]))
        return examples


def loader_source(part: Any, name: str, batch: int = 1, *, shuffle: bool = False) -> Source:
    """Return the source of a data loader, a data set, or any other iterable of batches.

    Args:
        part: of the user.
        name: of the part of the data in error messages.
        batch: examples in a batch of a data set.
        shuffle: whether a data set is shuffled.
    """
    try:
        if is_dataset(part):
            part = DataLoader(part, batch, shuffle=shuffle)
        if isinstance(part, DataLoader) and not isinstance(part.dataset, IterableDataset):
            return LoaderSource(part, name)
        if iter(part) is part:
            raise ArgumentError(
                f"data: {name} is an iterator, which can be read only once",
                got=type(part).__name__,
                fix="give a DataLoader, a data set, or a list of batches",
            )
        return StreamSource(part, name)
    except GatewiseError:
        raise
    except Exception as problem:  # whatever the code of the user raises
        raise ArgumentError(
            f"data: {name} cannot be read", got=f"{type(problem).__name__}: {first_line(problem)}"
        ) from problem


@contextmanager
def _seeded_samplers(loader: DataLoader, seed: int, epoch: int) -> Iterator[None]:
    """Seed the global generators and those of the loader's samplers; restore the latter."""
    states: list[tuple[torch.Generator, Tensor]] = []
    parts = [loader, loader.sampler, loader.batch_sampler]
    parts.append(getattr(loader.batch_sampler, "sampler", None))
    for part in parts:
        for value in vars(part).values() if hasattr(part, "__dict__") else ():
            if isinstance(value, torch.Generator):
                states.append((value, value.get_state()))
        if part is not loader:
            _set_epoch(part, epoch)
    seed_all(seed)
    for generator, _ in states:
        generator.manual_seed(seed)
    try:
        yield
    finally:
        for generator, state in reversed(states):
            generator.set_state(state)


def _set_epoch(part: Any, epoch: int) -> None:
    """Tell a sampler or a data set which epoch it is, as those of distributed training expect."""
    for target in (part, getattr(part, "dataset", None)):
        method = getattr(target, "set_epoch", None)
        if callable(method):
            method(epoch)
