"""Questions about the function of the network: its linear form at an input, and its kernel."""

import math
from dataclasses import replace

import torch
from torch import Tensor, nn

from gatewise.analysis.diagnosis.context import DiagnosisContext
from gatewise.analysis.diagnosis.inputs import POINTS
from gatewise.analysis.diagnosis.pictures import picture, signed_picture
from gatewise.analysis.diagnosis.question import Finding, Question
from gatewise.analysis.diagnosis.words import percentage, plural
from gatewise.analysis.kernel_measures import spectrum
from gatewise.analysis.regions import affine_map, is_soft
from gatewise.analysis.tangent_kernel import ntk
from gatewise.errors import Limitation, NotApplicableError

TEMPLATE_INPUTS = 3
OUTPUTS = 5  # outputs whose templates are shown, those with the largest values
KERNEL_INPUTS = 50
KERNEL_NUMBERS = 50 * 3 * 32 * 32  # in the inputs of a kernel: 50 images of CIFAR


def _answer_templates(context: DiagnosisContext) -> Finding:
    """Compute the affine map at some inputs, and compare it with the output of the model.

    The map of a soft network is that with its gates fixed.
    """
    context.check_one_tensor()
    context.check_one_output()
    x = context.inputs.of_each_class(min(TEMPLATE_INPUTS, context.inputs.count))
    with torch.no_grad():
        y = context.function(x).flatten(1)
    outputs = sorted(y.mean(0).topk(min(OUTPUTS, y.shape[1])).indices.tolist())
    # As many rows as in other questions, so that the model is not read once more.
    rows = x[torch.arange(POINTS) % len(x)]
    result = affine_map(context.function, rows, outputs=outputs, memory=context.memory)
    result = replace(result, A=result.A[: len(x)], b=result.b[: len(x)], x=x)
    error = float((result() - y[:, outputs]).abs().max() / y.abs().max().clamp_min(1e-30))
    soft = is_soft(context.reading.graph, context.model)
    offsets = result.b.abs().sum()
    sizes = y[:, outputs].abs().sum() + offsets
    facts = result.to_dict() | {"error": error, "soft": soft, "outputs": outputs}
    facts["offset_share"] = float(offsets / sizes.clamp_min(1e-30))
    if context.has_images:  # a template has the shape of the input
        facts["pictures"] = []
        for image, rows, values in zip(x, result.A, y, strict=True):
            templates = [signed_picture(row) for row in rows]
            largest = int(values.argmax())
            row = {"input": picture(image), "templates": templates, "largest": largest}
            facts["pictures"].append(row)
    fixed = ", with its gates fixed," if soft else ""
    exactly = f"to {error:.0e}" if error else "exactly"
    line = (
        f"At each of {plural(len(x), 'input')} we computed the linear function that the "
        f"network{fixed} applies. It reproduces the output {exactly}."
    )
    return Finding(line, facts, result)


def _answer_kernel(context: DiagnosisContext) -> Finding:
    """Compute the spectrum of the tangent kernel on some inputs."""
    context.check_one_tensor()
    context.check_one_output()
    x = context.tensors(KERNEL_INPUTS)
    x = x[: max(8, min(len(x), KERNEL_NUMBERS // x[0].numel()))]
    if len(x) < 2:
        raise NotApplicableError(Limitation.TOO_FEW_INPUTS, "a kernel needs two")
    result = spectrum(ntk(_MixedOutputs(context.function, x[:1]), x, memory=context.memory))
    eigenvalues = result.eigenvalues
    largest = float(eigenvalues[-1] / eigenvalues.sum().clamp_min(1e-300))
    infinite = math.isinf(result.condition)
    facts = result.to_dict() | {
        "inputs": len(x),
        "condition": None if infinite else result.condition,
        "largest_share": largest,
    }
    condition = "too large to measure"
    if not infinite:
        condition = f"{result.condition:,.{'3g' if result.condition < 1000 else '0f'}}"
    line = (
        f"The tangent kernel of {plural(len(x), 'input')} has an effective rank of "
        f"{result.effective_rank:.1f}. One direction holds {percentage(largest)} of it, and its "
        f"condition number is {condition}."
    )
    return Finding(line, facts, result)


class _MixedOutputs(nn.Module):
    """A model whose outputs are added with random normal weights, so that its kernel is a matrix.

    Averaged over the weights, this is the trace of the kernel over the outputs, divided by their
    number.
    """

    def __init__(self, model: nn.Module, x: Tensor) -> None:
        super().__init__()
        self.model = model
        with torch.no_grad():
            y = model(x).flatten(1)
        count = y.shape[1]
        weights = torch.ones(1)
        if count > 1:
            generator = torch.Generator().manual_seed(0)
            weights = torch.randn(count, generator=generator) / math.sqrt(count)
        self.register_buffer("weights", weights.to(y))
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        return (self.model(x).flatten(1) * self.weights).sum(1, keepdim=True)


TEMPLATES = Question(
    "templates", "Which linear function does the network apply at an input?", _answer_templates
)
KERNEL = Question("kernel", "How well conditioned is the tangent kernel?", _answer_kernel)
