"""Paths that share all their weights.

With convolution and pooling they form bundles, and only sums over bundles matter.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis import AnalysisResult
from gatewise.checks import check_number
from gatewise.errors import ArgumentError, Limitation, NotApplicableError
from gatewise.units import check_input
from gatewise_papers.deep_gated.layers import (
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
from gatewise_papers.deep_gated.path_kernels.all_paths import Paths
from gatewise_papers.deep_gated.path_kernels.shared_paths import (
    CHUNK,
    StepPairs,
    chunk_slices,
    select_rows,
)
from gatewise_papers.deep_gated.path_kernels.wiring import global_pool, tap_positions

ALLOWED_ENDS = (
    "a linear layer at the end, without a gate; or one channel, averaged over all positions"
)


@dataclass(frozen=True, eq=False)
class Bundles(AnalysisResult):
    """The B bundles of P paths for n inputs.

    Attributes:
        which: (P,), the bundle of each path.
        sizes: (B,), how many paths a bundle has.
        strength: (B,), the strength of each of its paths.
        features: (n, B), the sum of their hidden features.
    """

    which: Tensor
    sizes: Tensor
    strength: Tensor
    features: Tensor

    def __len__(self) -> int:
        return len(self.sizes)

    def kernel(self) -> Tensor:
        """Products of features for each pair of inputs, summed over bundles: (n, n)."""
        return self.features @ self.features.T

    def to_dict(self) -> dict[str, Any]:
        """Numbers and lists only."""
        names = ("which", "sizes", "strength", "features")
        return {"count": len(self), **{name: getattr(self, name).tolist() for name in names}}

    def _repr_html_(self) -> str:
        sizes, counts = self.sizes.unique(return_counts=True)
        rows = ""
        for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
            rows += f"<tr><td>{size}</td><td>{count}</td></tr>"
        head = "<tr><th>paths in a bundle</th><th>bundles</th></tr>"
        return f"<p>{len(self)} bundles of {len(self.which)} paths</p><table>{head}{rows}</table>"


def bundles(paths: Paths) -> Bundles:
    """Group paths by the weights they use, so that all paths of a group have the same strength.

    A circular convolution of kernel size k over D positions, d - 1 times, then an average over all
    positions, has D k^(d-1) paths in k^(d-1) bundles of D.
    """
    _, which = paths.weights.unique(dim=0, return_inverse=True)
    count = int(which.max()) + 1
    strength = torch.zeros(count).double().index_copy(0, which, paths.strength)
    features = torch.zeros(len(paths.features), count).double().index_add(1, which, paths.features)
    return Bundles(which, torch.bincount(which, minlength=count), strength, features)


def bundle_kernel(
    model: nn.Module,
    x: Tensor,
    x2: Tensor | None = None,
    *,
    index: Tensor | None = None,
    index2: Tensor | None = None,
) -> Tensor:
    r"""Sums over bundles ``b`` of paths for each pair of inputs, in float64: (n, m).

    .. math:: \sum_b \Bigl(\sum_{p \in b} \phi(x_s, p)\Bigr)
        \Bigl(\sum_{p \in b} \phi(x_{s'}, p)\Bigr)

    No path is enumerated. The computation takes one number for each pair of positions in a layer,
    whatever the number of channels. Without pooling every path is a bundle, and the result is
    ``path_kernel(kind="features")``.

    Args:
        model: a network as for :func:`path_kernel`; convolutions without groups.
        x: the first inputs (n, \*).
        x2: the second inputs (m, \*); ``x`` itself if None.
        index: which training examples ``x`` are, for random gates.
        index2: which training examples ``x2`` are.
    """
    return _sums_at_output("bundle_kernel", model, x, x2, index, index2).sums[:, :, 0, 0]


def expected_products(
    model: nn.Module,
    x: Tensor,
    x2: Tensor | None = None,
    *,
    sigmas: float | Sequence[float] | None = None,
    index: Tensor | None = None,
    index2: Tensor | None = None,
) -> Tensor:
    r"""The mean product of two outputs over random weights, with fixed gates: (n, m), float64.

    This is lemma 4.1:

    .. math:: \mathbb{E}[\hat y(x_s)\,\hat y(x_{s'})] = \frac{\prod_l \sigma_l^2}{D^2}
        \sum_b \sum_{p_1, p_2 \in b} \phi(x_s, p_1)\,\phi(x_{s'}, p_2)

    Weights are independent, of mean 0 and standard deviation :math:`\sigma_l`, and independent of
    the gates. ``D`` is the number of positions of the average pool (1 without a pool). With
    circular convolutions and a pool over all positions, rotating an input changes nothing, if its
    gates rotate with it.

    Args:
        model: a network as for :func:`path_kernel`; convolutions without groups.
        x: the first inputs (n, \*).
        x2: the second inputs (m, \*); ``x`` itself if None.
        sigmas: one for each layer of weights, or one for all. By default those that the model was
            initialised with.
        index: which training examples ``x`` are, for random gates.
        index2: which training examples ``x2`` are.

    Lakshminarayanan and Singh, 2020, "Deep Gated Networks", arXiv:2002.03996, for one channel and
    one dimension.
    """
    end = _sums_at_output("expected_products", model, x, x2, index, index2)
    variance = math.prod(sigma**2 for sigma in _check_sigmas(model, end.layers, sigmas))
    return variance / end.pooled**2 * end.sums[:, :, 0, 0]


@dataclass(frozen=True)
class _BundleSums:
    """Sums over the paths up to a layer, for each pair of inputs and of positions.

    See Note [One channel for all] in ``collapsed.py``.

    Attributes:
        sums: what one channel has, before the gate: (a, b, P, P).
        positions: the size of a feature map.
        channels: the number of channels.
        gates: (a, C, P) and (b, C, P), by which the channels are still to be multiplied.
        pooled: one over the weight that the pools give to a path.
        layers: the number of layers of weights so far.
    """

    sums: Tensor
    positions: tuple[int, ...]
    channels: int
    gates: tuple[Tensor, Tensor] | None = None
    pooled: int = 1
    layers: int = 0

    def sum_channels(self) -> Tensor:
        """The sum of the gated channels: (a, b, P, P)."""
        if self.gates is None:
            return self.sums * self.channels
        return self.sums * torch.einsum("acp,bcq->abpq", *self.gates)


def _sums_at_output(
    name: str,
    model: nn.Module,
    x: Tensor,
    x2: Tensor | None,
    index: Tensor | None,
    index2: Tensor | None,
) -> _BundleSums:
    """The sums at the output, computed for some pairs of inputs at a time."""
    with torch.no_grad():
        steps = steps2 = path_steps(model, check_input(name, x), index=index)
        if x2 is None:
            x2 = x
        else:
            steps2 = path_steps(model, check_input(name, x2), index=index2)
        pairs = list(zip(steps, steps2, strict=True))
        # The sums of a layer are about as large as those of the input, and about four exist at
        # the same time.
        size = 4 * math.prod(x.shape[2:]) ** 2
        columns = max(1, min(len(x2), CHUNK // size))
        rows = max(1, CHUNK // (columns * size))
        state = None
        parts = []
        for i in chunk_slices(len(x), rows):
            row = []
            for j in chunk_slices(len(x2), columns):
                state = _propagate(select_rows(pairs, i, j), x[i], x2[j])
                row.append(state.sums)
            parts.append(torch.cat(row, 1))
    if state is None or state.layers == 0:
        raise ArgumentError(
            f"{name}: the network has no layer of weights", got=f"{len(steps)} steps"
        )
    if state.sums.shape[2] != 1 or (state.gates is not None and state.channels > 1):
        raise ArgumentError(
            f"{name}: paths end at one output",
            got="a network that ends otherwise",
            allowed=ALLOWED_ENDS,
        )
    return replace(state, sums=torch.cat(parts), gates=None)


def _propagate(pairs: StepPairs, x: Tensor, x2: Tensor) -> _BundleSums:
    left = x.double().reshape(*x.shape[:2], -1)
    right = x2.double().reshape(*x2.shape[:2], -1)
    positions = left.shape[2]
    ones = left.new_ones(len(left), len(right), positions, positions)
    # An input multiplies its paths as a gate does: channel by channel, until a layer connects the
    # channels.
    state = _BundleSums(ones, tuple(x.shape[2:]), x.shape[1], (left, right))
    for i, (step, step2) in enumerate(pairs):
        if isinstance(step, Gate) and isinstance(step2, Gate):
            state = replace(state, gates=_multiply_gates(state, step.values, step2.values))
        elif isinstance(step, Linear):
            _check_connected(step, state, [following for following, _ in pairs[i + 1 :]])
            state = _through(step, state)
    if state.gates is None:
        return state
    return replace(state, sums=state.sum_channels())


def _multiply_gates(state: _BundleSums, gates: Tensor, gates2: Tensor) -> tuple[Tensor, Tensor]:
    left = gates.double().reshape(len(gates), state.channels, -1)
    right = gates2.double().reshape(len(gates2), state.channels, -1)
    if state.gates is None:
        return left, right
    return left * state.gates[0], right * state.gates[1]


def _check_connected(step: Linear, state: _BundleSums, rest: Sequence[Step]) -> None:
    """Raise if a pool is not followed by a layer that connects all channels.

    Pools are applied to the sum over channels. That is correct only if nothing treats the channels
    differently before they are summed.
    """
    if isinstance(step, Convolve) and step.groups > 1:
        raise NotApplicableError(
            Limitation.UNSUPPORTED_OPERATOR,
            "bundles: convolutions with groups are not supported",
            got=f"groups={step.groups}",
            allowed="1",
        )
    if not isinstance(step, Average | GlobalAverage) or state.channels == 1:
        return
    following = None
    for later in rest:
        if not isinstance(later, Flatten | Average | GlobalAverage):
            following = later
            break
    connects_all = isinstance(following, Convolve) and following.groups == 1
    if not connects_all and not isinstance(following, Dense):
        raise NotApplicableError(
            Limitation.UNSUPPORTED_MODEL,
            "bundles: a pool must be followed by a layer that joins all channels",
            got=f"{type(following).__name__} after the pool",
            allowed=ALLOWED_ENDS,
        )


def _through(step: Linear, state: _BundleSums) -> _BundleSums:
    sums = state.sum_channels()
    if isinstance(step, Dense):  # each position has its own weights
        return _BundleSums(
            sums.diagonal(dim1=2, dim2=3).sum(2)[..., None, None],
            (),
            len(step.weight),
            pooled=state.pooled,
            layers=state.layers + 1,
        )
    window = global_pool(state.positions) if isinstance(step, GlobalAverage) else step
    taps, positions = tap_positions(window, state.positions)
    padded = nn.functional.pad(sums, (0, 1, 0, 1))  # the last position, number -1, is the padding
    if isinstance(window, Convolve):  # one weight for each tap: both paths must use the same tap
        result = padded[:, :, taps[0]][..., taps[0]]
        for tap in taps[1:]:
            result = result + padded[:, :, tap][..., tap]
        return _BundleSums(
            result,
            positions,
            len(window.weight),
            pooled=state.pooled,
            layers=state.layers + 1,
        )
    # A pool has no weights: the paths may use any two taps.
    columns = padded[:, :, :, taps[0]]
    for tap in taps[1:]:
        columns = columns + padded[:, :, :, tap]
    result = columns[:, :, taps[0]]
    for tap in taps[1:]:
        result = result + columns[:, :, tap]
    return _BundleSums(result, positions, 1, pooled=state.pooled * len(taps), layers=state.layers)


def _check_sigmas(
    model: nn.Module,
    count: int,
    sigmas: float | Sequence[float] | None,
) -> list[float]:
    values: Any = getattr(model, "sigmas", None) if sigmas is None else sigmas
    if values is None:
        raise ArgumentError(
            "expected_products: the model does not say how its weights were drawn",
            got=type(model).__name__,
            fix="sigmas=, the standard deviation of each layer's weights",
        )
    values = (values,) * count if isinstance(values, int | float) else tuple(values)
    if len(values) != count:
        raise ArgumentError(
            "expected_products: there is one sigma for each layer of weights",
            got=f"{len(values)}",
            allowed=f"{count}, or one number for all",
        )
    return [check_number("expected_products", "sigmas", sigma, above=0.0) for sigma in values]
