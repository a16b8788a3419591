"""Places that have a threshold, the magnitudes that go through them, and thresholds for a target.

Note [Thresholds]. A threshold ``t`` for a target ``s`` is the ``s``-quantile of the magnitudes on
data: the numbers with ``|x| <= t`` become zero. It is one of the numbers themselves, so a target
holds whatever the distribution is. Where so many numbers have the same magnitude that no threshold
comes within ``CLOSE`` of the target from above, the next smaller magnitude is taken, and the share
stays below the target.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.errors import Limitation, NotApplicableError
from gatewise.sparsity.sparse_linear import SparseLinear

MOST = 2**17  # magnitudes of a place that are kept
MOST_TOKENS = 2**16  # tokens of a place whose shares are kept
CLOSE = 0.02  # from the target
SEED = 0
Thresholds = Mapping[str, float | None]
Tell = Callable[["Place", Tensor], None]


@dataclass(frozen=True, eq=False)
class Place:
    """A place of a model that has a threshold: the input of a linear layer, or a gate.

    Attributes:
        name: path of the layer or gate.
        module: the layer or gate, which holds the threshold.
        weights: of the layers that need not be read where this is zero.
        width: numbers for each token.
        kind: ``"input"`` or ``"gate"``.
    """

    name: str
    module: Any
    weights: int
    width: int
    kind: str = "input"

    def watch(self, tell: Tell) -> Any:
        """Call ``tell`` with the numbers before the threshold; return the handle of the hook."""
        if self.kind == "input":
            return self.module.register_forward_pre_hook(lambda _, args: tell(self, args[0]))
        return self.module.activation.register_forward_hook(lambda _, args, out: tell(self, out))


@contextmanager
def watched(places: Iterable[Place], tell: Tell) -> Iterator[None]:
    """Call ``tell`` with the numbers at all places inside the context."""
    handles = [place.watch(tell) for place in places]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def set_thresholds(places: Iterable[Place], thresholds: Thresholds) -> None:
    """Give each place its threshold; none to places that ``thresholds`` does not name."""
    for place in places:
        place.module.threshold = thresholds.get(place.name)


class Magnitudes:
    """A random sample of the magnitudes at each place.

    Args:
        runs: how many runs of the model there will be. Each gives the same share of the sample.
    """

    def __init__(self, runs: int) -> None:
        self.room = max(1, MOST // max(1, runs))
        self.parts: dict[str, list[Tensor]] = {}
        self.generator = torch.Generator().manual_seed(SEED)

    def add(self, place: Place, values: Tensor) -> None:
        """Add numbers of one run."""
        flat = values.detach().reshape(-1)
        if flat.numel() > self.room:
            chosen = torch.randint(flat.numel(), (self.room,), generator=self.generator)
            flat = flat[chosen.to(flat.device)]
        sample = flat.abs().cpu()
        if not bool(sample.isfinite().all()):
            raise NotApplicableError(
                Limitation.NOT_FINITE,
                "sparsify: a number is NaN or infinite",
                got=f"at {place.name!r}",
            )
        self.parts.setdefault(place.name, []).append(sample)

    def sorted(self) -> dict[str, Tensor]:
        """Return the sample of each place, from small to large."""
        return {name: torch.cat(parts).sort().values for name, parts in self.parts.items()}


def threshold_for(magnitudes: Tensor, target: float) -> float:
    """Return the threshold that sets a share ``target`` of the numbers to zero.

    See Note [Thresholds].

    Args:
        magnitudes: a sample, from small to large.
        target: the share.

    >>> threshold_for(torch.arange(1.0, 101.0), 0.5)
    50.0
    """
    count = len(magnitudes)
    wanted = int(target * count)
    if not wanted:
        return 0.0
    value = magnitudes[wanted - 1]
    through = int(torch.searchsorted(magnitudes, value, right=True))
    if through / count <= target + CLOSE or not bool(value):
        return float(value)
    below = int(torch.searchsorted(magnitudes, value))
    return float(magnitudes[below - 1]) if below else 0.0


class Counts:
    """How many numbers are zero or small at each place, over all tokens and for each token."""

    def __init__(self, below: float | None = None) -> None:
        self.below = below
        self.numbers: dict[str, int] = {}
        self.zeros: dict[str, int] = {}
        self.small: dict[str, int] = {}
        self.shares: dict[str, list[Tensor]] = {}

    def add(self, place: Place, values: Tensor) -> None:
        """Count the numbers of one run."""
        name = place.name
        limit = place.module.threshold if self.below is None else self.below
        is_small = values.abs() <= limit if limit is not None else values == 0
        self.numbers[name] = self.numbers.get(name, 0) + values.numel()
        self.zeros[name] = self.zeros.get(name, 0) + int((values == 0).sum())
        self.small[name] = self.small.get(name, 0) + int(is_small.sum())
        kept = self.shares.setdefault(name, [])
        if sum(map(len, kept)) < MOST_TOKENS:
            by_token = is_small.reshape(-1, values.shape[-1]).float().mean(-1)
            kept.append(by_token[:MOST_TOKENS].cpu())

    def zero_share(self, name: str) -> float:
        """Return the share of exact zeros at a place."""
        return self.zeros[name] / self.numbers[name]

    def small_share(self, name: str) -> float:
        """Return the share of numbers that are small at a place."""
        return self.small[name] / self.numbers[name]

    def by_token(self, name: str) -> tuple[float, float, float]:
        """Return the 10 %, 50 % and 90 % quantile over tokens of the share of small numbers."""
        shares = torch.cat(self.shares[name]).sort().values
        last = len(shares) - 1
        low, middle, high = (float(shares[round(last * part)]) for part in (0.1, 0.5, 0.9))
        return low, middle, high


def mean_share(places: Sequence[Place], counts: Counts, *, weighted: bool = True) -> float:
    """Return the mean share of small numbers, weighted by the weights that need not be read."""
    weights = [place.weights if weighted else 1 for place in places]
    total = math.fsum(
        weight * counts.small_share(place.name)
        for place, weight in zip(places, weights, strict=True)
    )
    return total / max(1, sum(weights))


def linear_layers(model: nn.Module) -> dict[str, nn.Linear]:
    """Return the linear layers of a model by path, plain ones of torch only."""
    layers: dict[str, nn.Linear] = {}
    for path, module in model.named_modules():
        if isinstance(module, nn.Linear) and type(module) in (nn.Linear, SparseLinear):
            layers[path] = module
    return layers
