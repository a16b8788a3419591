"""Batches from memory: the batch at a place is a function of (seed, epoch, place), whoever makes it and when."""

import itertools
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gatewise.data import Augment, Split, order
from gatewise.errors import ArgumentError

LARGEST_READY = 1 << 29  # bytes of images that are made ready once, instead of in every epoch


@dataclass(frozen=True)
class Batch:
    """Some examples.

    ``index`` is where each stands in the training set; ``whole`` counts those of all processes.
    """

    index: Tensor  # (n,)
    images: Tensor  # (n, channels, height, width)
    labels: Tensor  # (n,)
    whole: int


class Batches:
    """The training set cut into batches, anew in every epoch; the last one may be smaller.

    A single example left over joins the batch before it: batch norm has nothing to say about one.
    With several processes each takes every so manieth example of a batch.
    """

    def __init__(
        self,
        split: Split,
        *,
        size: int,
        augment: Augment,
        seed: int,
        rank: int = 0,
        processes: int = 1,
    ) -> None:
        if len(split) < 2:
            raise ArgumentError(
                "data: there is nothing to train on",
                got=f"{len(split)} examples",
                allowed="2 or more",
            )
        self.split, self.size, self.augment, self.seed = split, size, augment, seed
        self.rank, self.processes = rank, processes
        self.count = max(1, len(split) // size + (len(split) % size > 1))
        self._check_share()
        self.ready = self._ready()
        self._order: tuple[int, Tensor] = (-1, torch.empty(0))

    def index(self, epoch: int, place: int) -> Tensor:
        """Which examples are in the batch at ``place`` of ``epoch``, in all processes together."""
        known, found = self._order
        if known != epoch:
            found = order(len(self.split), seed=self.seed, epoch=epoch)
            self._order = epoch, found
        end = len(found) if place == self.count - 1 else (place + 1) * self.size
        return found[place * self.size : end]

    def get(self, epoch: int, place: int) -> Batch:
        """This process's share of the batch at ``place`` of ``epoch``."""
        whole = self.index(epoch, place)
        mine = whole[self.rank :: self.processes]
        if self.ready is not None:
            images = self.ready[mine]
        else:
            images = self.augment.apply(
                self.split.images[mine], seed=self.seed, epoch=epoch, index=mine
            )
        return Batch(mine, images, self.split.labels[mine], len(whole))

    def walk(self, epoch: int, start: int, workers: int = 0) -> Iterator[Batch]:
        """The batches of an epoch from ``start`` on.

        With workers, made ahead of time by so many threads.
        """
        places = iter(range(start, self.count))
        if not workers:
            yield from (self.get(epoch, place) for place in places)
            return
        self.index(epoch, start)  # the order is made here once, not by several threads
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
        smallest = min(self.size, len(self.split) - (self.count - 1) * self.size)
        if smallest < self.processes:
            raise ArgumentError(
                "batch: the smallest one of an epoch is too small to be shared",
                got=f"{smallest} examples, {self.processes} processes",
                fix="choose a larger batch, or one that divides the data",
            )

    def _ready(self) -> Tensor | None:
        """All images as the network reads them, where that is the same in every epoch and not too much."""
        drawn = replace(self.augment, normalise=None) != Augment()
        images = self.split.images
        if drawn or images.numel() * 4 > LARGEST_READY:
            return None
        return self.augment.plain(images)
