"""Thresholds that a given share of a stream of values exceeds, from counts by size."""

import math

import torch
from torch import Tensor

BITS = 7  # of the fraction: buckets are 0.8 % wide
LOW = -24  # sizes below 2 ** LOW share one bucket,
HIGH = 24  # and so do those above 2 ** HIGH


class SizeHistogram:
    """How often each of C filters returned a value of each size. Values are not negative.

    Memory does not grow with the number of values. Buckets are read off the bits of float32: the
    exponent and the first bits of the fraction.

    Args:
        filters: The number of filters.
    """

    def __init__(self, filters: int) -> None:
        self.buckets = (HIGH - LOW) << BITS
        self.counts = torch.zeros(filters, self.buckets + 1, dtype=torch.int32)
        self.seen = 0

    def add(self, rows: Tensor) -> None:
        """Count values of shape (C, n)."""
        offsets = torch.arange(len(rows))[:, None] * self.counts.shape[1]
        places = (self._bucket(rows) + offsets).flatten()
        counts = torch.bincount(places, minlength=self.counts.numel())
        self.counts += counts.view_as(self.counts).int()
        self.seen += rows.shape[1]

    def exceeded_by(self, rate: float) -> Tensor:
        """Return for each filter the value that a share ``rate`` of its values exceeds, (C,).

        The value is 0 if fewer values are above 0.
        """
        wanted = rate * self.seen
        above = self.counts.double().flip(1).cumsum(1).flip(1)  # in this bucket or a larger one
        last = (above >= wanted).sum(1) - 1  # the last bucket with enough values
        bucket = last.clamp(min=0)
        inside = self.counts.gather(1, bucket[:, None])[:, 0].double()
        beyond = above.gather(1, bucket[:, None])[:, 0] - inside
        # The part of the bucket, from its upper edge, that the wanted values take.
        share = ((wanted - beyond) / inside.clamp(min=1)).clamp(0, 1)
        low = self._upper_edge(bucket - 1)
        high = self._upper_edge(bucket)
        return torch.where(bucket <= 0, 0.0, high - share * (high - low))

    def _bucket(self, rows: Tensor) -> Tensor:
        bits = rows.float().contiguous().view(torch.int32) >> (23 - BITS)
        return (bits - ((127 + LOW) << BITS) + 1).clamp(0, self.buckets).long()

    def _upper_edge(self, place: Tensor) -> Tensor:
        """Return the upper edge of a bucket. Bucket 0 holds what is 0 or almost."""
        step = (1 << BITS) - 1
        power = (place >> BITS) + LOW
        fraction = 1 + (place & step).double() / (step + 1)
        return torch.where(place <= 0, math.ldexp(1.0, LOW), fraction * torch.exp2(power.double()))
