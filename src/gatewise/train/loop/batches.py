"""Batches from memory; a batch is a function of seed, epoch and place alone."""

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gatewise.data import Augment, Split, order
from gatewise.errors import ArgumentError

# Bytes of images that are prepared once, instead of in every epoch.
LARGEST_READY = 1 << 29
# Pixels of an epoch that are augmented at once, because many small batches take longer.
LARGEST_EPOCH = 1 << 20


@dataclass(frozen=True)
class Batch:
    """Some examples.

    ``index`` is where each stands in the training set; ``whole`` counts those of all processes.
    """

    index: Tensor  # (n,)
    images: Tensor  # (n, channels, height, width), or token numbers (n, length)
    labels: Tensor  # (n,), or the next tokens (n, length)
    whole: int


class Batches:
    """The training set in batches, in a new order in every epoch; the last one may be smaller.

    A single example left over joins the batch before it, because batch norm fails on one example.

    Args:
        split: the training set.
        size: of a batch.
        augment: of the recipe; ``None`` for text, which is not changed.
        seed: of the run.
        rank: of this process, which takes the examples ``rank``, ``rank + processes``, ... of
            every batch.
        processes: of the run.
        mirror: mirrors labels as their images are mirrored; ``None`` if labels do not change.
    """

    def __init__(
        self,
        split: Split,
        *,
        size: int,
        augment: Augment | None,
        seed: int,
        rank: int = 0,
        processes: int = 1,
        mirror: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        if len(split) < 2:
            raise ArgumentError(
                "data: there are too few examples to train on",
                got=f"{len(split)} examples",
                allowed="2 or more",
            )
        self.split = split
        self.size = size
        self.augment = augment
        self.seed = seed
        self.rank = rank
        self.processes = processes
        self.mirror = mirror
        self.count = max(1, len(split) // size + (len(split) % size > 1))
        self._check_share()
        self.ready = self._ready()
        self._order: tuple[int, Tensor] = (-1, torch.empty(0))
        self._augmented: tuple[int, Tensor] = (-1, torch.empty(0))

    @property
    def examples(self) -> int:
        """Examples in an epoch."""
        return len(self.split)

    def index(self, epoch: int, place: int) -> Tensor:
        """Return the examples of the batch at ``place`` of ``epoch``, of all processes."""
        known_epoch, examples = self._order
        if known_epoch != epoch:
            examples = order(len(self.split), seed=self.seed, epoch=epoch)
            self._order = epoch, examples
        end = len(examples) if place == self.count - 1 else (place + 1) * self.size
        return examples[place * self.size : end]

    def get(self, epoch: int, place: int) -> Batch:
        """Return this process's share of the batch at ``place`` of ``epoch``."""
        whole = self.index(epoch, place)
        mine = whole[self.rank :: self.processes]
        if self.ready is not None:
            images = self.ready[mine]
        elif self.processes == 1 and self.split.images.numel() <= LARGEST_EPOCH:
            images = self._epoch(epoch)[mine]
        else:
            images = self._augment(epoch, mine)
        return Batch(mine, images, self._labels(epoch, mine), len(whole))

    def _labels(self, epoch: int, index: Tensor) -> Tensor:
        """Return some labels, mirrored where their images are."""
        labels = self.split.labels[index]
        if self.mirror is None or self.augment is None or not self.augment.flip:
            return labels
        mirrored = self.augment.mirrored(seed=self.seed, epoch=epoch, index=index)
        return torch.where(mirrored.view(-1, 1, 1), self.mirror(labels), labels)

    def _epoch(self, epoch: int) -> Tensor:
        """Return all images as they are in an epoch; an image does not depend on its batch."""
        known_epoch, images = self._augmented
        if known_epoch != epoch:
            images = self._augment(epoch, torch.arange(len(self.split)))
            self._augmented = epoch, images
        return images

    def _augment(self, epoch: int, index: Tensor) -> Tensor:
        """Return some images as they are in an epoch."""
        if self.augment is None:
            return self.split.images[index]
        return self.split.augmented(self.augment, seed=self.seed, epoch=epoch, index=index)

    def walk(self, epoch: int, start: int, workers: int = 0) -> Iterator[Batch]:
        """Yield the batches of an epoch.

        Args:
            epoch: its number.
            start: the first place.
            workers: threads that prepare batches ahead of time; 0 for none.
        """
        places = iter(range(start, self.count))
        if not workers:
            yield from (self.get(epoch, place) for place in places)
            return
        self.index(epoch, start)  # computes the order once, before several threads need it
        with ThreadPoolExecutor(workers) as pool:
            ahead: deque[Future[Batch]] = deque()
            try:
                for place in itertools.islice(places, workers + 1):
                    ahead.append(pool.submit(self.get, epoch, place))
                while ahead:
                    yield ahead.popleft().result()
                    for place in itertools.islice(places, 1):
                        ahead.append(pool.submit(self.get, epoch, place))
            finally:
                for waiting in ahead:
                    waiting.cancel()

    def _check_share(self) -> None:
        """Raise if a batch has fewer examples than there are processes."""
        smallest = min(self.size, len(self.split) - (self.count - 1) * self.size)
        if smallest < self.processes:
            raise ArgumentError(
                "batch: the smallest batch of an epoch has fewer examples than there are processes",
                got=f"{smallest} examples, {self.processes} processes",
                fix="choose a larger batch, or one that divides the data",
            )

    def _ready(self) -> Tensor | None:
        """Return all images as the network reads them; None if they are random or too large."""
        if self.augment is None:
            return self.split.images
        random = replace(self.augment, normalise=None) != Augment()
        images = self.split.images
        if not isinstance(images, Tensor) or random or images.numel() * 4 > LARGEST_READY:
            return None
        return self.augment.plain(images)
