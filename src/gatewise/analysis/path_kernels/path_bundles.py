"""Paths that share all their weights.

Under convolution and pooling they come in bundles, and only bundles count.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis.path_kernels.all_paths import Paths
from gatewise.analysis.path_kernels.shared_paths import CHUNK, rows_of, slices
from gatewise.analysis.path_kernels.wiring import taps, whole
from gatewise.errors import ArgumentError, Limitation, NotApplicableError
from gatewise.layers import (
    Average,
    Convolve,
    Dense,
    Flatten,
    Gate,
    GlobalAverage,
    Linear,
    Step,
    path_steps,
)
from gatewise.units import check_input, check_number


@dataclass(frozen=True, eq=False)
class Bundles:
    """The B bundles of P paths for n inputs."""

    which: Tensor  # (P,): the bundle each path is in
    sizes: Tensor  # (B,): how many paths
    strength: Tensor  # (B,): of each of them
    features: Tensor  # (n, B): their hidden features, added up

    def __len__(self) -> int:
        return len(self.sizes)

    def kernel(self) -> Tensor:
        """Sums over bundles of products of features for each pair of inputs: (n, n)."""
        return self.features @ self.features.T

    def to_dict(self) -> dict[str, Any]:
        """Numbers and lists only."""
        names = ("which", "sizes", "strength", "features")
        return {"count": len(self), **{name: getattr(self, name).tolist() for name in names}}

    def _repr_html_(self) -> str:
        sizes, counts = self.sizes.unique(return_counts=True)
        rows = "".join(
            f"<tr><td>{s}</td><td>{c}</td></tr>"
            for s, c in zip(sizes.tolist(), counts.tolist(), strict=True)
        )
        head = "<tr><th>paths in a bundle</th><th>bundles</th></tr>"
        return f"<p>{len(self)} bundles of {len(self.which)} paths</p><table>{head}{rows}</table>"


def bundles(found: Paths) -> Bundles:
    """The paths grouped by the weights they use, which gives all of a group the same strength.

    A circular convolution of kernel size k over D positions, d - 1 times, then an average over all
    positions, has D k^(d-1) paths in k^(d-1) bundles of D.
    """
    _, which = found.weights.unique(dim=0, return_inverse=True)
    count = int(which.max()) + 1
    strength = torch.zeros(count).double().index_copy(0, which, found.strength)
    features = torch.zeros(len(found.features), count).double().index_add(1, which, found.features)
    return Bundles(which, torch.bincount(which, minlength=count), strength, features)


def bundle_kernel(
    model: nn.Module,
    x: Tensor,
    x2: Tensor | None = None,
    *,
    index: Tensor | None = None,
    index2: Tensor | None = None,
) -> Tensor:
    r"""Sums over bundles ``b`` of paths for the inputs ``x`` (n, \*) and ``x2`` (m, \*), in float64: (n, m).

    .. math:: \sum_b \Bigl(\sum_{p \in b} \phi(x_s, p)\Bigr) \Bigl(\sum_{p \in b} \phi(x_{s'}, p)\Bigr)

    No path is walked: it takes one number for each pair of positions in a layer, whatever the number of channels.
    Without pooling every path is a bundle of its own, and this is ``path_kernel(kind="features")``. Models, ``index``
    and ``index2`` as there, convolutions without groups.
    """
    return _end("bundle_kernel", model, x, x2, index, index2).mass[:, :, 0, 0]


def expected_products(
    model: nn.Module,
    x: Tensor,
    x2: Tensor | None = None,
    *,
    sigmas: float | Sequence[float] | None = None,
    index: Tensor | None = None,
    index2: Tensor | None = None,
) -> Tensor:
    r"""What products of outputs are on average over random weights, the gates being held.

    Lemma 4.1. (n, m), float64.

    .. math:: \mathbb{E}[\hat y(x_s)\,\hat y(x_{s'})] = \frac{\prod_l \sigma_l^2}{D^2}
        \sum_b \sum_{p_1, p_2 \in b} \phi(x_s, p_1)\,\phi(x_{s'}, p_2)

    Weights are independent, of mean 0 and standard deviation :math:`\sigma_l`, and independent of
    the gates; ``D`` is how many positions the average pool has (1 without). With circular
    convolutions and a pool over all positions, rotating an input changes nothing, if its gates
    rotate along.

    Args: sigmas: one for each layer of weights, or one for all; by default those the model says it
        began with. index: which training examples ``x`` are, for random gates; ``index2`` for
        ``x2``.

    Lakshminarayanan and Singh, 2020, "Deep Gated Networks", arXiv:2002.03996, for one channel and
    one dimension.
    """
    end = _end("expected_products", model, x, x2, index, index2)
    variance = math.prod(sigma**2 for sigma in _sigmas(model, end.layers, sigmas))
    return variance / end.pooled**2 * end.mass[:, :, 0, 0]


@dataclass(frozen=True)
class _State:
    """What has flowed so far, for each pair of inputs and of positions.

    As in Note [One channel for all].
    """

    mass: Tensor  # (a, b, P, P): what one channel holds, before the gate
    positions: tuple[int, ...]
    channels: int
    gates: tuple[Tensor, Tensor] | None = None  # (a, C, P) and (b, C, P)
    pooled: int = 1  # one over the weight that the pools give to a path
    layers: int = 0  # of weights

    def collect(self) -> Tensor:
        """The gated channels, added up: (a, b, P, P)."""
        if self.gates is None:
            return self.mass * self.channels
        return self.mass * torch.einsum("acp,bcq->abpq", *self.gates)


def _end(
    name: str,
    model: nn.Module,
    x: Tensor,
    x2: Tensor | None,
    index: Tensor | None,
    index2: Tensor | None,
) -> _State:
    """The state at the output, some pairs of inputs at a time."""
    with torch.no_grad():
        mine = path_steps(model, check_input(name, x), index=index)
        theirs = mine if x2 is None else path_steps(model, check_input(name, x2), index=index2)
        other = x if x2 is None else x2
        pairs = list(zip(mine, theirs, strict=True))
        # a layer's states are of about the input's size, and a few are alive at a time
        columns = max(1, min(len(other), CHUNK // (4 * math.prod(x.shape[2:]) ** 2)))
        rows = max(1, CHUNK // (4 * columns * math.prod(x.shape[2:]) ** 2))
        state, masses = None, []
        for i in slices(len(x), rows):
            states = [
                _flow(_select(pairs, i, j), x[i], other[j]) for j in slices(len(other), columns)
            ]
            state = states[0]
            masses.append(torch.cat([each.mass for each in states], 1))
    if state is None or state.layers == 0:
        raise ArgumentError(
            f"{name}: the network has no layer of weights", got=f"{len(mine)} steps"
        )
    if state.mass.shape[2] != 1 or (state.gates is not None and state.channels > 1):
        raise ArgumentError(
            f"{name}: paths end at one output", got="a network that ends otherwise", allowed=_ENDS
        )
    return replace(state, mass=torch.cat(masses), gates=None)


def _select(pairs: list[tuple[Step, Step]], i: slice, j: slice) -> list[tuple[Step, Step]]:
    return [(rows_of(one, i), rows_of(other, j)) for one, other in pairs]


def _flow(pairs: list[tuple[Step, Step]], x: Tensor, x2: Tensor) -> _State:
    left, right = (each.double().reshape(*each.shape[:2], -1) for each in (x, x2))
    positions = left.shape[2]
    ones = left.new_ones(len(left), len(right), positions, positions)
    # what an input holds multiplies its paths as a gate does: channel by channel, until a layer
    # joins them
    state = _State(ones, tuple(x.shape[2:]), x.shape[1], (left, right))
    for i, (one, other) in enumerate(pairs):
        if isinstance(one, Gate) and isinstance(other, Gate):
            state = replace(state, gates=_gates(state, one.values, other.values))
        elif isinstance(one, Linear):
            _check_joined(one, state, [step for step, _ in pairs[i + 1 :]])
            state = _through(one, state)
    return state if state.gates is None else replace(state, mass=state.collect())


_ENDS = "a linear layer at the end, without a gate; or one channel, averaged over all positions"


def _gates(state: _State, mine: Tensor, theirs: Tensor) -> tuple[Tensor, Tensor]:
    left, right = (each.double().reshape(len(each), state.channels, -1) for each in (mine, theirs))
    return (left, right) if state.gates is None else (left * state.gates[0], right * state.gates[1])


def _check_joined(step: Linear, state: _State, rest: Sequence[Step]) -> None:
    """A pool is taken after the channels are added up.

    Right if nothing tells them apart before that happens.
    """
    behind = next(
        (each for each in rest if not isinstance(each, Flatten | Average | GlobalAverage)), None
    )
    joined = isinstance(behind, Dense) or (isinstance(behind, Convolve) and behind.groups == 1)
    if isinstance(step, Average | GlobalAverage) and state.channels > 1 and not joined:
        what = "bundles: a pool must be followed by a layer that joins all channels"
        raise NotApplicableError(
            Limitation.UNSUPPORTED_MODEL,
            what,
            got=f"{type(behind).__name__} behind the pool",
            allowed=_ENDS,
        )
    if isinstance(step, Convolve) and step.groups > 1:
        raise NotApplicableError(
            Limitation.UNSUPPORTED_OPERATOR,
            "bundles: convolutions with groups are not read",
            got=f"groups={step.groups}",
            allowed="1",
        )


def _through(step: Linear, state: _State) -> _State:
    held = state.collect()
    if isinstance(step, Dense):  # each position has weights of its own
        mass = held.diagonal(dim1=2, dim2=3).sum(2)[..., None, None]
        return replace(
            state,
            mass=mass,
            positions=(),
            channels=len(step.weight),
            gates=None,
            layers=state.layers + 1,
        )
    window = whole(state.positions) if isinstance(step, GlobalAverage) else step
    seen, positions = taps(window, state.positions)
    padded = nn.functional.pad(held, (0, 1, 0, 1))  # position -1, in the padding, holds nothing
    if isinstance(window, Convolve):  # one weight a tap: both inputs must take the same
        mass = sum(
            (padded[:, :, tap][..., tap] for tap in seen[1:]), padded[:, :, seen[0]][..., seen[0]]
        )
        return _State(mass, positions, len(window.weight), None, state.pooled, state.layers + 1)
    mass = sum((padded[:, :, :, tap] for tap in seen[1:]), padded[:, :, :, seen[0]])
    mass = sum((mass[:, :, tap] for tap in seen[1:]), mass[:, :, seen[0]])
    return _State(mass, positions, 1, None, state.pooled * len(seen), state.layers)


def _sigmas(
    model: nn.Module, count: int, sigmas: float | Sequence[float] | None
) -> tuple[float, ...]:
    given: Any = getattr(model, "sigmas", None) if sigmas is None else sigmas
    if given is None:
        what = "expected_products: the model does not say how its weights were drawn"
        raise ArgumentError(
            what,
            got=type(model).__name__,
            fix="sigmas=, the standard deviation of each layer's weights",
        )
    each = (given,) * count if isinstance(given, int | float) else tuple(given)
    if len(each) != count:
        what = "expected_products: there is one sigma for each layer of weights"
        raise ArgumentError(what, got=f"{len(each)}", allowed=f"{count}, or one number for all")
    return tuple(check_number("expected_products", "sigmas", sigma, above=0.0) for sigma in each)
