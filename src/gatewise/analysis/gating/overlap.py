"""Which share of the gates of a model two inputs share, and inputs of two classes."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis.gating.channels import is_on
from gatewise.analysis.gating.gate_calls import GateSite
from gatewise.analysis.gating.stream import SiteStream
from gatewise.analysis.record import PlottedResult
from gatewise.batches import Progress, read_batches
from gatewise.errors import Limitation, NotApplicableError

GIB = 2**30


@dataclass(frozen=True, eq=False)
class GateOverlap(PlottedResult):
    """The result of :func:`gate_overlap`. Every overlap is a share of all gates.

    Attributes:
        gates: The number of gates of one input: units times positions.
        inputs: The gates that are on for both of two inputs, (m, m), for the first m inputs. The
            diagonal is the share of gates that are on.
        classes: The k classes. Empty if the batches have no labels.
        counts: The number of inputs of each class.
        between: The mean overlap of two different inputs of two classes, (k, k). NaN if there are
            no two such inputs.
        on_rate: The share of gates that are on.
        sites: For each site: the mean overlap of two different inputs as a share of its gates, the
            share of them that are on, and the square of that.
    """

    gates: int
    inputs: Tensor
    classes: tuple[int, ...]
    counts: tuple[int, ...]
    between: Tensor
    on_rate: float
    sites: tuple[dict[str, Any], ...] = ()

    _properties = ("chance",)
    _finite = True

    @property
    def chance(self) -> float:
        """The square of the rate: the overlap if all gates were independent and equally often on.

        Gates that differ in how often they are on overlap more, even for unrelated inputs.
        """
        return self.on_rate**2

    @property
    def gap(self) -> float:
        """How much more two inputs of one class overlap than two of different classes.

        NaN if it is not known.
        """
        same = torch.eye(len(self.classes), dtype=torch.bool)
        return float(self.between[same].nanmean() - self.between[~same].nanmean())

    def _figure_size(self) -> tuple[float, float]:
        return 4.4, 3.6

    def _draw(self, axes: Any) -> None:
        """Draw the overlaps of the classes, or of the inputs if there are no classes."""
        kind = "class" if self.classes else "input"
        values = self.between if self.classes else self.inputs
        image = axes.imshow(values.numpy())
        axes.figure.colorbar(image, ax=axes, label="share of gates on for both")
        axes.set(xlabel=kind, ylabel=kind)

    def __str__(self) -> str:
        different = ~torch.eye(len(self.inputs), dtype=torch.bool)
        mean = float(self.inputs[different].mean())
        text = f"GateOverlap({self.gates} gates, {self.on_rate:.3f} of them on; two inputs share "
        text += f"{mean:.3f}, the square of the rate is {self.chance:.3f}"
        return text + (f"; one class {self.gap:+.4f})" if len(self.classes) > 1 else ")")


def gate_overlap(
    model: nn.Module,
    batches: Iterable[Any],
    *,
    inputs: int = 64,
    memory: int = 2 * GIB,
    progress: Progress | None = None,
) -> GateOverlap:
    """Measure how many gates inputs share, and classes if batches are ``(inputs, labels)``.

    The active sub-network of an input is the set of its gates that are on. The overlap of classes
    is the mean over all pairs of different inputs. It is computed from the mean gates of each
    class, in one pass and with memory for one number for each gate and class.

    :func:`subnetworks` has active and sensitive gates of deep gated networks; Lakshminarayanan and
    Singh, 2020, arXiv:2002.03996, section 3.1.

    Args:
        model: Any module.
        batches: As in :func:`gates`.
        inputs: How many of the first inputs are compared one by one.
        memory: Bytes that may be used.
        progress: As in :func:`gates`.

    Raises:
        NotApplicableError: The mean gates do not fit into ``memory``. The message says how much
            is needed.
    """
    stream = SiteStream("gate_overlap", model)
    first: list[Tensor] = []
    missing = inputs
    totals = _ClassTotals(memory)
    sizes: dict[str, int] = {}
    for call in read_batches("gate_overlap", model, batches, progress):
        masks, sizes = _masks(stream, call.example)
        if missing > 0:
            first.append(masks[:missing].clone())  # a view would keep the whole batch
            missing -= len(first[-1])
        totals.add(masks, call.labels)
    compared = torch.cat(first).float()
    gates = compared.shape[1]
    shared = (compared @ compared.T).double() / gates
    sites = _by_site(compared, sizes)
    on_rate = sum(totals.on.values()) / (sum(totals.counts.values()) * gates)
    if not totals.labelled:
        between = torch.empty(0, 0, dtype=torch.float64)
        return GateOverlap(gates, shared, (), (), between, on_rate, sites)
    classes = tuple(sorted(totals.sums))
    counts = tuple(totals.counts[label] for label in classes)
    between = totals.overlaps(classes)
    return GateOverlap(gates, shared, classes, counts, between, on_rate, sites)


def _by_site(compared: Tensor, sizes: dict[str, int]) -> tuple[dict[str, Any], ...]:
    """Return the mean overlap of two different inputs at each site, from all gates of each input.

    The sum over all pairs is the square of how often a gate is on, so no pair is looked at.
    """
    count = len(compared)
    rows = []
    for name, gates in zip(sizes, compared.split(list(sizes.values()), 1), strict=True):
        often = gates.sum(0).double()
        rate = float(often.sum()) / max(1, gates.numel())
        pairs = count * (count - 1) * gates.shape[1]
        together = float((often * (often - 1)).sum())
        overlap = together / pairs if pairs else None
        rows.append({"site": name, "overlap": overlap, "on_rate": rate, "chance": rate**2})
    return tuple(rows)


class _ClassTotals:
    """Running sums of the gates of each class. Without labels, all inputs are of one class."""

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self.labelled = True
        self.sums: dict[int, Tensor] = {}  # how often each gate is on
        self.counts: dict[int, int] = defaultdict(int)  # inputs
        self.on: dict[int, float] = defaultdict(float)  # gates that are on, over all inputs

    def add(self, masks: Tensor, labels: Tensor | None) -> None:
        if labels is None or labels.dim() != 1 or len(labels) != len(masks):
            self.labelled = False
            labels = torch.zeros(len(masks), dtype=torch.long)
        labels = labels.cpu()
        for label in labels.unique().tolist():
            rows = masks[labels == label]
            self._check_memory(len(self.sums) + 1, masks.shape[1])
            # float32 counts exactly up to 16 million inputs, in half the memory of float64.
            total = rows.sum(0, dtype=torch.float32)
            self.sums[label] = self.sums[label] + total if label in self.sums else total
            self.counts[label] += len(rows)
            self.on[label] += float(rows.sum())

    def overlaps(self, classes: tuple[int, ...]) -> Tensor:
        """Return the mean overlap (k, k) of two different inputs of two classes."""
        between = torch.full((len(classes), len(classes)), torch.nan, dtype=torch.float64)
        for i, a in enumerate(classes):
            for j, b in enumerate(classes):
                together = float(torch.dot(self.sums[a].double(), self.sums[b].double()))
                pairs = self.counts[a] * self.counts[b]
                if a == b:  # leave out each input with itself
                    together -= self.on[a]
                    pairs -= self.counts[a]
                if pairs:
                    between[i, j] = together / (pairs * len(self.sums[a]))
        return between

    def _check_memory(self, classes: int, gates: int) -> None:
        needed = 4 * classes * gates
        if needed > self.memory:
            raise NotApplicableError(
                Limitation.TOO_LARGE,
                "gate_overlap: the mean gates of all classes do not fit into memory",
                got=f"{needed / GIB:.1f} GiB for {classes} classes of {gates} gates",
                allowed=f"{self.memory / GIB:.1f} GiB",
                fix="fewer classes, smaller inputs, or a larger memory=",
            )


def _masks(stream: SiteStream, inputs: Any) -> tuple[Tensor, dict[str, int]]:
    """Return which gates are on, with one row for each input (n, gates), and the gates by site."""
    masks: list[Tensor] = []
    sizes: dict[str, int] = {}

    def keep(site: GateSite, gate: Tensor) -> None:
        masks.append(is_on(gate).flatten(1).cpu())
        sizes[site.name] = masks[-1].shape[1]

    stream.run(inputs, keep)
    return torch.cat(masks, 1), sizes
