"""The largest values of many filters over a stream.

Counts by size, in memory that does not grow.
"""

import math

import torch
from torch import Tensor

BITS = 7  # of the fraction: buckets are 0.8 % wide
LOW, HIGH = -24, 24  # powers of two between which sizes are told apart


class SizeHistogram:
    """How often each of C filters gave a number of each size; numbers are 0 or more."""

    def __init__(self, filters: int) -> None:
        self.buckets = (HIGH - LOW) << BITS
        self.counts = torch.zeros(filters, self.buckets + 1, dtype=torch.int32)
        self.seen = 0

    def add(self, rows: Tensor) -> None:
        """Count ``rows`` (C, n)."""
        places = self._bucket(rows)
        offsets = torch.arange(len(rows))[:, None] * self.counts.shape[1]
        found = torch.bincount((places + offsets).flatten(), minlength=self.counts.numel())
        self.counts += found.view_as(self.counts).int()
        self.seen += rows.shape[1]

    def exceeded_by(self, rate: float) -> Tensor:
        """For each filter the number that a share ``rate`` of its values exceeds (C,).

        0 if fewer are above 0.
        """
        wanted = rate * self.seen
        above = self.counts.double().flip(1).cumsum(1).flip(1)  # in this bucket or a larger one
        reached = (above >= wanted).sum(1) - 1  # the last bucket with enough
        here = reached.clamp(min=0)
        inside = self.counts.gather(1, here[:, None])[:, 0].double()
        beyond = above.gather(1, here[:, None])[:, 0] - inside
        share = ((wanted - beyond) / inside.clamp(min=1)).clamp(
            0, 1
        )  # of the bucket, from its upper edge
        low, high = self._edge(here - 1), self._edge(here)
        return torch.where(here <= 0, 0.0, high - share * (high - low))

    def _bucket(self, rows: Tensor) -> Tensor:
        bits = rows.float().contiguous().view(torch.int32) >> (23 - BITS)
        return (bits - ((127 + LOW) << BITS) + 1).clamp(0, self.buckets).long()

    def _edge(self, place: Tensor) -> Tensor:
        """The upper edge of a bucket; bucket 0 holds what is 0 or nearly."""
        step = (1 << BITS) - 1
        power = (place >> BITS) + LOW
        fraction = 1 + (place & step).double() / (step + 1)
        return torch.where(place <= 0, math.ldexp(1.0, LOW), fraction * torch.exp2(power.double()))
