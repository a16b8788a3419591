"""How long one row takes, with all weights and without those of small inputs."""

import copy
import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gatewise.analysis import AnalysisResult
from gatewise.sparsity.rows_product import can_skip_rows
from gatewise.sparsity.single_inputs import SingleInput
from gatewise.sparsity.sparse_linear import SparseLinear

ROWS = 8  # different inputs of a layer that are timed
COLD_ROWS = 3
COLD_RUNS = 2  # of each
CACHED = 2**23  # bytes of weights that may stay in a cache between two runs of a model
LARGEST_CACHE = 2**26  # bytes that displace everything in a cache
NOISE = 0.05  # of a ratio of two times
LEAST_SECONDS = 0.002  # of a layer's measurement; quick layers are run more often


def _clock() -> Callable[[], float]:
    """Return processor time for one thread, which other work does not add to; else wall time."""
    return time.thread_time if torch.get_num_threads() == 1 else time.perf_counter


@dataclass(frozen=True)
class Timing(AnalysisResult):
    """The time of the whole model on one input. See Note [What is timed].

    Attributes:
        dense_seconds: of the model without thresholds.
        sparse_seconds: of the model with thresholds.
        rows: rows of inputs that its linear layers had; work is skipped for one row only.
        threads: that torch may use.
        what: was timed, in words.
        zeros: mean share of small numbers in the rows that were timed, weighted by weights.
    """

    dense_seconds: float
    sparse_seconds: float
    rows: int
    threads: int
    what: str
    zeros: float

    _properties = ("ratio", "verdict")

    @property
    def ratio(self) -> float:
        """Time with thresholds by time without; below 1 is faster."""
        return self.sparse_seconds / self.dense_seconds

    @property
    def verdict(self) -> str:
        """Whether it pays. Ratios within 5 % of 1 decide nothing."""
        if self.ratio < 1 - NOISE:
            return "faster"
        return "slower, not worth it" if self.ratio > 1 + NOISE else "no clear difference"


@torch.no_grad()
def layer_seconds(
    layer: SparseLinear, rows: Sequence[Tensor], displace: Tensor | None
) -> tuple[float, float] | None:
    """Return the time of a layer with all weights and without those of small inputs.

    Afterwards the weight is stored for skipping if that is faster than to set small inputs to zero
    and to multiply by the whole matrix, else as it was.

    Args:
        layer: it has a threshold.
        rows: inputs of the layer, one row each.
        displace: numbers that are read before each call, so that no cache holds the weight. That
            is so in a large model.

    Returns:
        ``None`` if compiled code cannot run here. The weight is then stored as it was.
    """
    threshold = layer.threshold
    bias = layer.bias
    if threshold is None or not rows:
        return None
    seconds = _seconds if displace is None else partial(_cold_seconds, displace)
    dense = seconds(lambda row: F.linear(row, layer.weight, bias), rows)
    whole = seconds(layer, rows)
    layer.store_by_inputs()
    if not can_skip_rows(rows[0], layer.weight, bias):
        layer.store_by_outputs()
        return None
    sparse = seconds(layer, rows)
    if sparse >= whole:
        layer.store_by_outputs()
    return dense, sparse


def _seconds(call: Callable[[Tensor], object], rows: Sequence[Tensor]) -> float:
    """Return the median over rows of the least time of a call, after one to warm up."""
    clock = _clock()
    least = []
    for row in rows:
        call(row)
        seconds: list[float] = []
        while sum(seconds) < LEAST_SECONDS or len(seconds) < 3:
            start = clock()
            call(row)
            seconds.append(clock() - start)
        least.append(min(seconds))
    return statistics.median(least)


def _cold_seconds(
    displace: Tensor, call: Callable[[Tensor], object], rows: Sequence[Tensor]
) -> float:
    """Return the same for a weight that is in no cache. The code of the layers is in the cache."""
    clock = _clock()
    small = nn.Linear(8, 8, dtype=rows[0].dtype, device=rows[0].device).requires_grad_(False)
    other = SparseLinear(small, 0.0)
    other.store_by_inputs()
    least = []
    for row in rows[:COLD_ROWS]:
        seconds = []
        for _ in range(COLD_RUNS):
            displace.sum()
            for _ in range(3):
                other(rows[0][..., :8])
                F.linear(rows[0][..., :8], other.weight)
            start = clock()
            call(row)
            seconds.append(clock() - start)
        least.append(min(seconds))
    return statistics.median(least)


def numbers_to_displace(layers: Iterable[nn.Linear]) -> Tensor | None:
    """Return numbers that displace weights from the cache; ``None`` for a small model.

    Args:
        layers: all linear layers of the model.
    """
    total = sum(layer.weight.nbytes for layer in layers)
    return None if total <= CACHED else torch.zeros(LARGEST_CACHE // 4)


@torch.no_grad()
def model_seconds(
    models: Sequence[nn.Module], inputs: Sequence[SingleInput], repeats: int
) -> list[float]:
    """Return the time of each model on single inputs, the models in turns.

    Other work on the machine only adds to a time. So the time of an input is the least of its
    repeats, and that of a model the median over the inputs.

    Args:
        models: the models to time.
        inputs: one input each.
        repeats: how often each input is run.
    """
    clock = _clock()
    least = [[math.inf] * len(inputs) for _ in models]
    for place, each in enumerate(inputs):
        states = [each.start(model) for model in models]
        for turn in range(repeats + 1):
            for model, state, times in zip(models, states, least, strict=True):
                kept = copy.deepcopy(state)
                start = clock()
                each.run(model, kept)
                if turn:  # the first run warms up
                    times[place] = min(times[place], clock() - start)
    return [statistics.median(times) for times in least]
