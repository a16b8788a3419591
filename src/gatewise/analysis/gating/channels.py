"""Sums over the gates of each channel, in memory that does not grow with the data."""

from collections import defaultdict
from collections.abc import Collection
from hashlib import blake2b
from typing import Any

import numpy as np
import torch
from torch import Tensor


def by_channel(values: Tensor, dim: int) -> Tensor:
    """Return one row for each channel, of shape (C, everything else).

    Args:
        values: A tensor with channels along one dimension.
        dim: That dimension.
    """
    return values.movedim(dim, 0).flatten(1)


def is_on(gate: Tensor) -> Tensor:
    """Return which gates are on. Hard gates are truth values already; soft gates are above 1/2."""
    return gate if gate.dtype == torch.bool else gate > 0.5


def binary_entropy(probability: Tensor) -> Tensor:
    """Return the entropy of a binary variable in bits, elementwise."""
    return (torch.special.entr(probability) + torch.special.entr(1 - probability)) / np.log(2)


class ChannelSums:
    """Running sums of several quantities for each channel.

    Attributes:
        seen: How many values of each channel were added.
        sums: The sum of each quantity, of shape (C,) in float64.
    """

    def __init__(self) -> None:
        self.seen = 0
        self.sums: dict[str, Tensor] = {}

    def add(self, **quantities: Tensor) -> None:
        """Add rows (C, n) of each quantity, with the same n for all."""
        for name, rows in quantities.items():
            total = rows.sum(1).double()
            self.sums[name] = self.sums[name] + total if name in self.sums else total
        self.seen += next(iter(quantities.values())).shape[1]

    def mean(self, name: str) -> Tensor:
        """Return the mean of one quantity for each channel, on the CPU."""
        return (self.sums[name] / self.seen).cpu()

    def ratio(self, part: str, whole: str) -> Tensor:
        """Return the ratio of two sums for each channel, on the CPU. NaN where both are 0."""
        return (self.sums[part] / self.sums[whole]).cpu()


class ChannelDigests:
    """A digest of the gates of each channel, to find channels with the same gates."""

    def __init__(self) -> None:
        self.digests: list[Any] = []

    def add(self, on: Tensor) -> None:
        """Add gates of shape (C, n)."""
        # Bits, not bytes: an eighth of the work for the digest.
        packed = np.packbits(on.contiguous().cpu().numpy(), axis=1)
        if not self.digests:
            self.digests = [blake2b(digest_size=16) for _ in packed]
        for digest, row in zip(self.digests, packed, strict=True):
            digest.update(row.tobytes())

    def duplicates(self, on_rate: Tensor, without: Collection[int]) -> tuple[tuple[int, ...], ...]:
        """Return groups of channels with the same gates, without those that never change.

        Args:
            on_rate: the share of gates that are on, of each channel.
            without: channels that are in no group.
        """
        groups: dict[bytes, list[int]] = defaultdict(list)
        for channel, (digest, rate) in enumerate(zip(self.digests, on_rate.tolist(), strict=True)):
            # Dead and always-on channels would all be copies of each other.
            if 0 < rate < 1 and channel not in without:
                groups[digest.digest()].append(channel)
        return tuple(tuple(group) for group in groups.values() if len(group) > 1)
