"""Which share of a model's gates do two inputs have on in common, and inputs of two classes?"""

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis.gating.gate_calls import GateSite
from gatewise.analysis.gating.stream import Progress, SiteStream, each_batch
from gatewise.errors import Limitation, NotApplicableError

GIB = 2**30


@dataclass(frozen=True, eq=False)
class GateOverlap:
    """The answer of :func:`gate_overlap`. Every overlap is a share of all gates."""

    gates: int  # of one input: units times positions
    # (m, m): gates on for both of two inputs, of the first m; its diagonal is the share that is on
    inputs: Tensor
    classes: tuple[int, ...]  # empty where batches have no labels
    counts: tuple[int, ...]  # inputs of each
    # (k, k): mean overlap of an input of one class with another input of the other; NaN for none
    between: Tensor
    on_rate: float

    @property
    def chance(self) -> float:
        """The square of the rate.

        The overlap if every gate were on equally often, and for each input by itself.

        Gates that differ in how often they are on overlap more, though no two inputs have anything
        in common.
        """
        return self.on_rate**2

    @property
    def gap(self) -> float:
        """How much more two inputs of one class overlap than two of different classes, on average.

        NaN if unknown.
        """
        same = torch.eye(len(self.classes), dtype=torch.bool)
        return float(self.between[same].nanmean() - self.between[~same].nanmean())

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for a file."""
        between = [
            [None if value != value else value for value in row] for row in self.between.tolist()
        ]
        return {
            "gates": self.gates,
            "on_rate": self.on_rate,
            "chance": self.chance,
            "classes": list(self.classes),
            "counts": list(self.counts),
            "between": between,
            "inputs": self.inputs.tolist(),
        }

    def plot(self, axes: Any = None) -> Any:
        """Overlaps of the classes, or of the inputs where there are none, as a picture.

        Returns the axes.
        """
        if axes is None:
            from matplotlib.figure import Figure

            axes = Figure(figsize=(4.4, 3.6), layout="constrained").subplots()
        what, shown = ("class", self.between) if self.classes else ("input", self.inputs)
        axes.figure.colorbar(
            axes.imshow(shown.numpy()), ax=axes, label="share of gates on for both"
        )
        axes.set(xlabel=what, ylabel=what)
        return axes

    def __repr__(self) -> str:
        words = f"GateOverlap({self.gates} gates, {self.on_rate:.3f} of them on; two inputs share "
        off = ~torch.eye(len(self.inputs), dtype=torch.bool)
        words += f"{float(self.inputs[off].mean()):.3f}, the rate's square is {self.chance:.3f}"
        return words + (f"; one class {self.gap:+.4f} over two)" if len(self.classes) > 1 else ")")

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"


def gate_overlap(
    model: nn.Module,
    batches: Iterable[Any],
    *,
    inputs: int = 64,
    memory: int = 2 * GIB,
    progress: Progress | None = None,
) -> GateOverlap:
    """The overlap of the active sub-networks of inputs, and of classes where batches are ``(inputs, labels)``.

    The active sub-network of an input is the set of its gates that are on. Of classes it is the mean over all pairs of
    different inputs, computed from each class's mean gates: one pass, and memory for one number a gate and class.

    Args:
        model, batches, progress: as in :func:`gates`. inputs: how many of the first are compared one by one.
        memory: bytes that may be used; an error says how much is needed.

    :func:`subnetworks` has active and sensitive gates of deep gated networks; Lakshminarayanan and Singh, 2020,
    arXiv:2002.03996, section 3.1.
    """
    stream = SiteStream("gate_overlap", model)
    first: list[Tensor] = []
    sums: dict[int, Tensor] = {}
    counts: dict[int, int] = {}
    squares: dict[int, float] = {}
    labelled = True
    for given, labels in each_batch("gate_overlap", batches, progress):
        masks = _masks(stream, given)
        if sum(map(len, first)) < inputs:
            first.append(masks[: inputs - sum(map(len, first))].clone())
        usable = labels is not None and labels.dim() == 1 and len(labels) == len(masks)
        labelled = labelled and usable
        names = labels.tolist() if usable and labels is not None else [0] * len(masks)
        for label in sorted(set(names)):
            own = masks[torch.tensor([name == label for name in names])]
            _check_memory(len(sums) + 1, masks.shape[1], memory)
            sums[label] = sums.get(label, torch.zeros(())) + own.sum(0, dtype=torch.float32)
            counts[label] = counts.get(label, 0) + len(own)
            squares[label] = squares.get(label, 0.0) + float(own.sum())
    return _result(torch.cat(first).float(), sums, counts, squares, labelled)


def _result(
    first: Tensor,
    sums: dict[int, Tensor],
    counts: dict[int, int],
    squares: dict[int, float],
    labelled: bool,
) -> GateOverlap:
    names, gates = tuple(sorted(sums)), first.shape[1]
    on_rate = sum(squares.values()) / (sum(counts.values()) * gates)
    shared = (first @ first.T).double() / gates
    if not labelled:
        return GateOverlap(gates, shared, (), (), torch.empty(0, 0, dtype=torch.float64), on_rate)
    between = torch.empty(len(names), len(names), dtype=torch.float64)
    for i, a in enumerate(names):
        for j, b in enumerate(names):
            together = float(torch.dot(sums[a].double(), sums[b].double())) - (
                squares[a] if a == b else 0.0
            )
            pairs = counts[a] * (counts[b] - (a == b))
            between[i, j] = together / (pairs * gates) if pairs else torch.nan
    return GateOverlap(
        gates, shared, names, tuple(counts[name] for name in names), between, on_rate
    )


def _masks(stream: SiteStream, inputs: Any) -> Tensor:
    """Which gates are on, one row an input (n, gates)."""
    found: list[Tensor] = []

    def tell(site: GateSite, gate: Tensor) -> None:
        found.append((gate if gate.dtype == torch.bool else gate > 0.5).flatten(1).cpu())

    stream.run(inputs, tell)
    return torch.cat(found, 1)


def _check_memory(classes: int, gates: int, memory: int) -> None:
    needed = 4 * classes * gates
    if needed > memory:
        raise NotApplicableError(
            Limitation.TOO_LARGE,
            "gate_overlap: the mean gates of every class do not fit into memory",
            got=f"{needed / GIB:.1f} GiB for {classes} classes of {gates} gates",
            allowed=f"{memory / GIB:.1f} GiB",
            fix="fewer classes, smaller inputs, or a larger memory=",
        )
