"""Questions about the map that the network is: templates, regions, and the kernel it learns with."""

import math
import time
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis._diagnosis.finding import DoesNotApply, Finding
from gatewise.analysis._diagnosis.pictures import picture, signed
from gatewise.analysis._diagnosis.subject import Subject
from gatewise.analysis._diagnosis.words import plural
from gatewise.analysis._gate_entropy import is_soft
from gatewise.analysis.affine_map import affine_map
from gatewise.analysis.ntk import ntk
from gatewise.analysis.partition import Partition, SoftPartition, partition
from gatewise.analysis.spectrum import Spectrum, spectrum
from gatewise.errors import ArgumentError
from gatewise.sites._example import split_example
from gatewise.sites._node import tensors_in

TEMPLATE_INPUTS, TEMPLATES = 3, 6
WIDEST = 1.5  # of the window of a partition, in units of the three inputs' distance
FIRST = WIDEST / 2**12  # the window that is tried first
REGIONS = 4000  # more are not told apart on a page
KERNEL_INPUTS = 50
KERNEL_NUMBERS = 50 * 3 * 32 * 32  # in the inputs of a kernel: as many as 50 of CIFAR


def ask_templates(subject: Subject) -> Finding:
    """Which affine map is the network where the inputs are, and what does it look for?"""
    subject.check_one_tensor()
    check_one_output(subject)
    x = subject.inputs.of_each_class(TEMPLATE_INPUTS)
    with torch.no_grad():
        y = subject.model(x).flatten(1)
    outputs = sorted(y.mean(0).topk(min(TEMPLATES, y.shape[1])).indices.tolist())
    found = affine_map(subject.model, x, outputs=outputs, memory=subject.memory)
    error = float((found() - y[:, outputs]).abs().max() / y.abs().max().clamp_min(1e-30))
    soft = is_soft(subject.reading.graph, subject.model)
    kind = "with its gates held, " if soft else ""
    line = (
        f"At {plural(len(x), 'input')} the network is, {kind}one affine map each: A x + b equals f(x) to {error:.0e}."
    )
    facts = found.to_dict() | {"error": error, "soft": soft, "outputs": outputs}
    facts["offset_share"] = float(
        found.b.abs().sum() / (y[:, outputs].abs().sum() + found.b.abs().sum()).clamp_min(1e-30)
    )
    if subject.has_images:
        facts["pictures"] = [
            {"input": picture(each), "templates": [signed(row) for row in rows], "largest": int(own.argmax())}
            for each, rows, own in zip(x, found.A, y, strict=True)
        ]
    return Finding(line, facts, found)


def ask_partition(subject: Subject) -> Finding:
    """Into which regions does the network divide a plane through three inputs?"""
    subject.check_one_tensor()
    check_one_output(subject)
    if subject.inputs.count < 3:
        raise DoesNotApply("too few inputs", "three are needed, for a plane")
    points = subject.inputs.of_each_class(3)
    if is_soft(subject.reading.graph, subject.model):
        return _soft_finding(partition(subject.model, points, steps=_steps(subject, points)))
    return _regions_finding(*_widest(subject, points))


def _widest(subject: Subject, points: Tensor) -> tuple[Partition, float]:
    """The partition of a window about as wide as the limits allow, found from narrow to wide, and its width.

    The number of regions grows with the window's area, and time with their number.
    """
    few = _few(subject, points)
    reach, extent, most = _reach(points), FIRST, few
    best: tuple[Partition, float] | None = None
    until = time.monotonic() + subject.seconds
    while best is None or extent > 1.2 * best[1]:
        began = time.monotonic()
        try:
            found = _window(subject.model, points, extent, reach, most)
        except ArgumentError as problem:
            if "limit" not in str(problem):
                raise
            if best is not None or extent < FIRST / 2**16:
                break
            extent /= 16
            continue
        best = (found, extent)
        taken, left = time.monotonic() - began, until - time.monotonic()
        subject.count(min(found.count, REGIONS), REGIONS)
        most = int(min(REGIONS, max(found.count, few) * max(left, 0) / taken))
        extent = min(WIDEST, extent * min(16.0, max(1.0, math.sqrt(0.7 * most / found.count))))
    if best is None:
        raise DoesNotApply("too large", "no window is small enough")
    return best


def _window(model: nn.Module, points: Tensor, extent: float, reach: float, most: int) -> Partition:
    """About the first input; the widest window is about all three."""
    half = extent * reach
    found = partition(model, points, extent=extent if extent == WIDEST else (-half, half, -half, half), limit=most)
    assert isinstance(found, Partition)  # noqa: S101 - the network is not soft
    return found


def _reach(points: Tensor) -> float:
    """The largest distance of the points from their mean."""
    flat = points.detach().flatten(1).double()
    return float((flat - flat.mean(0)).norm(dim=1).max())


def _regions_finding(found: Partition, extent: float) -> Finding:
    segments, _ = found.decision_boundary()
    share = extent / WIDEST
    facts: dict[str, Any] = {
        "exact": True, "count": found.count, "patterns": len(set(found.patterns.tolist())), "form": found.form,
        "window_share": share, "low": list(found.slice.low), "high": list(found.slice.high),
        "marks": found.slice.marks.tolist(), "neighbours": len(found.neighbours()),
        "starts": found.polygons.starts.tolist(), "vertices": _rounded(found.polygons.vertices, found),
        "boundary": _rounded(segments.reshape(-1, 2).numpy(), found),
        "areas": [float(each) for each in found.areas.quantile(torch.tensor([0, 0.5, 1.0], dtype=torch.float64))],
    }  # fmt: skip
    where = (
        "the plane through three inputs"
        if share == 1
        else f"a window around one, 1/{1 / share:.0f} of the plane's width"
    )
    crossed = f"{len(segments)} of them meet" if len(segments) else "none meets"
    return Finding(f"{plural(found.count, 'region')} in {where}; {crossed} the decision boundary.", facts, found)


def _soft_finding(found: Partition | SoftPartition) -> Finding:
    assert isinstance(found, SoftPartition)  # noqa: S101 - asked only of soft networks
    mean = float(found.entropy.mean())
    facts = found.to_dict() | {"mean": mean, "least": float(found.entropy.min()), "most": float(found.entropy.max())}
    facts["entropy"] = [[round(each, 5) for each in row] for row in facts["entropy"]]
    return Finding(f"Gates are soft, so there are no regions: they are {mean:.2f} undecided, of 1.", facts, found)


def _few(subject: Subject, points: Tensor) -> int:
    """Regions that take a third of the time allowed: each is some three inputs in double precision."""
    return int(min(REGIONS / 8, max(8, subject.seconds / 3 / (6 * _seconds_of_one(subject, points)))))


def _steps(subject: Subject, points: Tensor) -> int:
    """Cells along a side of the grid that a soft network is looked at on, as time allows."""
    return int(min(64, max(8, math.sqrt(subject.seconds / 2 / _seconds_of_one(subject, points)))))


def _seconds_of_one(subject: Subject, points: Tensor) -> float:
    began = time.monotonic()
    with torch.no_grad():
        subject.model(points)
    return max(time.monotonic() - began, 1e-6) / len(points)


def _rounded(points: Any, found: Partition) -> list[list[float]]:
    """Points to a ten-thousandth of the window: what a page can show."""
    width = found.slice.high[0] - found.slice.low[0]
    digits = max(0, 4 - math.floor(math.log10(width)))
    return [[round(u, digits), round(v, digits)] for u, v in points.tolist()]


def ask_kernel(subject: Subject) -> Finding:
    """How well conditioned is the kernel that the network learns with?"""
    subject.check_one_tensor()
    check_one_output(subject)
    x = subject.tensors(KERNEL_INPUTS)
    x = x[: max(8, min(len(x), KERNEL_NUMBERS // x[0].numel()))]
    if len(x) < 2:
        raise DoesNotApply("too few inputs", "two are needed, for a kernel")
    mixed = _Mixed(subject.model, x[:1])
    found = spectrum(ntk(mixed, x, memory=subject.memory))
    infinite = math.isinf(found.condition)
    rank = f"effective rank {found.effective_rank:.1f} of {len(x)}"
    condition = "beyond rounding" if infinite else f"{found.condition:.3g}"
    facts = found.to_dict() | {"inputs": len(x), "condition": None if infinite else found.condition}
    facts["largest_share"] = _largest_share(found)
    line = f"The tangent kernel of {len(x)} inputs has {rank}; one direction holds {facts['largest_share']:.0%} of it"
    return Finding(f"{line}, and its condition number is {condition}.", facts, found)


def _largest_share(found: Spectrum) -> float:
    return float(found.eigenvalues[-1] / found.eigenvalues.sum().clamp_min(1e-300))


class _Mixed(nn.Module):
    """A model whose outputs are added with random normal weights, so that its kernel is one matrix.

    Over the weights its mean is the kernel's trace over the outputs, divided by their number.
    """

    def __init__(self, model: nn.Module, x: Tensor) -> None:
        super().__init__()
        self.model = model
        with torch.no_grad():
            y = model(x).flatten(1)
        weights = torch.randn(y.shape[1], generator=torch.Generator().manual_seed(0)) / math.sqrt(y.shape[1])
        self.register_buffer("weights", weights.to(y) if y.shape[1] > 1 else torch.ones(1).to(y))
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        return (self.model(x).flatten(1) * self.weights).sum(1, keepdim=True)


def check_one_output(subject: Subject) -> None:
    """Refuse a model that gives several tensors, or something else than rows of numbers."""
    graph = subject.reading.graph
    outputs = [each for node in graph if node.op == "output" for each in tensors_in(node.arguments["values"])]
    args, _ = split_example(subject.inputs.example)
    if len(outputs) != 1:
        raise DoesNotApply("several outputs", f"{len(outputs)} tensors")
    if not outputs[0].floating or not outputs[0].shape or outputs[0].shape[0] != len(args[0]):
        raise DoesNotApply("refused", f"an output of shape {outputs[0].shape} has no row for each input")
