"""Questions about the map that the network is: templates, and the kernel it learns with."""

import math

import torch
from torch import Tensor, nn

from gatewise.analysis.diagnosis.context import Subject
from gatewise.analysis.diagnosis.finding import DoesNotApply, Finding
from gatewise.analysis.diagnosis.pictures import picture, signed
from gatewise.analysis.diagnosis.words import plural, share
from gatewise.analysis.kernel_measures import Spectrum, spectrum
from gatewise.analysis.regions import affine_map, is_soft
from gatewise.analysis.tangent_kernel import ntk
from gatewise.graph import split_example, tensors_in

TEMPLATE_INPUTS, TEMPLATES = 3, 5
KERNEL_INPUTS = 50
KERNEL_NUMBERS = 50 * 3 * 32 * 32  # in the inputs of a kernel: as many as 50 of CIFAR


def ask_templates(subject: Subject) -> Finding:
    """Which affine map is the network where the inputs are, and what does it look for?"""
    subject.check_one_tensor()
    check_one_output(subject)
    x = subject.inputs.of_each_class(TEMPLATE_INPUTS)
    with torch.no_grad():
        y = subject.map(x).flatten(1)
    outputs = sorted(y.mean(0).topk(min(TEMPLATES, y.shape[1])).indices.tolist())
    found = affine_map(subject.map, x, outputs=outputs, memory=subject.memory)
    error = float((found() - y[:, outputs]).abs().max() / y.abs().max().clamp_min(1e-30))
    soft = is_soft(subject.reading.graph, subject.model)
    same = f"to {error:.0e}" if error else "exactly"
    kind = "with its gates held, " if soft else ""
    line = f"At {plural(len(x), 'input')} the network is, {kind}one affine map each: A x + b is f(x) {same}."
    facts = found.to_dict() | {"error": error, "soft": soft, "outputs": outputs}
    facts["offset_share"] = float(
        found.b.abs().sum() / (y[:, outputs].abs().sum() + found.b.abs().sum()).clamp_min(1e-30)
    )
    if subject.has_images:
        facts["pictures"] = [
            {
                "input": picture(each),
                "templates": [signed(row) for row in rows],
                "largest": int(own.argmax()),
            }
            for each, rows, own in zip(x, found.A, y, strict=True)
        ]
    return Finding(line, facts, found)


def ask_kernel(subject: Subject) -> Finding:
    """How well conditioned is the kernel that the network learns with?"""
    subject.check_one_tensor()
    check_one_output(subject)
    x = subject.tensors(KERNEL_INPUTS)
    x = x[: max(8, min(len(x), KERNEL_NUMBERS // x[0].numel()))]
    if len(x) < 2:
        raise DoesNotApply("too few inputs", "two are needed, for a kernel")
    mixed = _Mixed(subject.map, x[:1])
    found = spectrum(ntk(mixed, x, memory=subject.memory))
    infinite = math.isinf(found.condition)
    rank = f"effective rank {found.effective_rank:.1f} of {len(x)}"
    condition = (
        "beyond rounding"
        if infinite
        else f"{found.condition:,.3g}"
        if found.condition < 1000
        else f"{found.condition:,.0f}"
    )
    facts = found.to_dict() | {"inputs": len(x), "condition": None if infinite else found.condition}
    facts["largest_share"] = _largest_share(found)
    line = f"The tangent kernel of {plural(len(x), 'input')} has {rank}; "
    line += f"one direction holds {share(facts['largest_share'])} of it"
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
        weights = torch.randn(y.shape[1], generator=torch.Generator().manual_seed(0)) / math.sqrt(
            y.shape[1]
        )
        self.register_buffer("weights", weights.to(y) if y.shape[1] > 1 else torch.ones(1).to(y))
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        return (self.model(x).flatten(1) * self.weights).sum(1, keepdim=True)


def check_one_output(subject: Subject) -> None:
    """Refuse a model that gives several tensors, or something else than rows of numbers."""
    graph = subject.reading.graph
    outputs = [
        each
        for node in graph
        if node.op == "output"
        for each in tensors_in(node.arguments["values"])
    ]
    args, _ = split_example(subject.inputs.example)
    if len(outputs) != 1:
        raise DoesNotApply("several outputs", f"{len(outputs)} tensors")
    if not outputs[0].floating or not outputs[0].shape or outputs[0].shape[0] != len(args[0]):
        raise DoesNotApply(
            "refused", f"an output of shape {outputs[0].shape} has no row for each input"
        )
