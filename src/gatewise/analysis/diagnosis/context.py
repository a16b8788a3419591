"""The model, the inputs and the limits that all questions of one diagnosis share."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis.diagnosis.checkpoints import Checkpoints
from gatewise.analysis.diagnosis.inputs import Inputs
from gatewise.analysis.diagnosis.one_output import OneOutput
from gatewise.analysis.gating import GateSite, gate_sites
from gatewise.batches import Progress
from gatewise.errors import Limitation, NotApplicableError
from gatewise.graph import (
    Example,
    Reading,
    SiteGraph,
    example_tensors,
    find_sites,
    producers,
    split_example,
    tensors_in,
)


@dataclass(eq=False)
class DiagnosisContext:
    """A model in eval mode, its inputs, and the limits.

    The ``check_*`` methods raise :class:`~gatewise.errors.NotApplicableError`.

    Attributes:
        model: The model, in eval mode.
        inputs: The inputs, on the model's device.
        memory: Bytes that one question may use.
        seconds: How long a question that can stop early may run.
        progress: Called with how much of the question is done, and of how much if that is known.
        checkpoints: Earlier weights of the model, and the current ones; fewer than two if there
            is nothing to compare.
    """

    model: nn.Module
    inputs: Inputs
    memory: int
    seconds: float
    progress: Progress
    checkpoints: Checkpoints

    @cached_property
    def graph(self) -> SiteGraph:
        """The activation sites, read in eval mode."""
        return find_sites(self.model, self.inputs.example, modes=("eval",))

    @property
    def reading(self) -> Reading:
        """The graph of calls in which the sites were found."""
        return self.graph.readings["eval"]

    @cached_property
    def function(self) -> nn.Module:
        """The model as a function from one tensor to one tensor."""
        with torch.no_grad():
            output = self.model(self.tensors(1))
        return self.model if isinstance(output, Tensor) else OneOutput(self.model)

    def run(self, batch: Example) -> Any:
        """Return the output of the model for a batch; the first tensor of a record or tuple."""
        args, kwargs = split_example(batch)
        output = self.model(*args, **kwargs)
        return output if isinstance(output, Tensor) else OneOutput.first_of(output)

    @cached_property
    def gates(self) -> list[GateSite]:
        """The calls of units that have one gate, in the order of the calls."""
        return gate_sites(self.reading, self.model)[0]

    def layers_before(self, site: GateSite) -> list[str]:
        """Return the names of the layers with weights that compute the input of a site."""
        nodes = producers(site.response)
        return [node.scope[0] for node in nodes if node.op not in ("input", "output")]

    def tensors(self, count: int) -> Tensor:
        """Return the first ``count`` inputs of a model that takes one tensor of numbers."""
        self.check_one_tensor()
        return self.inputs.some(count)

    @property
    def has_images(self) -> bool:
        """Whether the inputs are grey or colour images."""
        x = self.inputs.tensor
        return x is not None and x.dim() == 4 and x.shape[1] in (1, 3) and min(x.shape[2:]) > 1

    def check_gates(self) -> None:
        """Check that the model has sites, and takes one tensor of real data."""
        if not len(self.graph):
            raise NotApplicableError(Limitation.NO_GATES, "; ".join(self.graph.notes))
        if not self.inputs.real:
            raise NotApplicableError(Limitation.NO_REAL_INPUTS)
        if isinstance(self.inputs.batches[0], tuple):  # analyses would take the second for labels
            raise NotApplicableError(Limitation.SEVERAL_INPUTS)

    def check_one_tensor(self) -> None:
        """Check that the model takes one tensor, and that the tensor holds no indices."""
        if self.inputs.tensor is not None:
            return
        tensors = example_tensors(split_example(self.inputs.batches[0]))
        if any(tensor.is_floating_point() for tensor in tensors):
            raise NotApplicableError(Limitation.SEVERAL_INPUTS)
        raise NotApplicableError(Limitation.NO_NUMBERS)

    def check_one_output(self) -> None:
        """Check that the model returns one tensor with a row of numbers for each input."""
        outputs = []
        for node in self.reading.graph:
            if node.op == "output":
                outputs += tensors_in(node.arguments["values"])
        if len(outputs) != 1:
            raise NotApplicableError(Limitation.SEVERAL_OUTPUTS, f"{len(outputs)} tensors")
        output = outputs[0]
        args, _ = split_example(self.inputs.example)
        if not output.floating or not output.shape or output.shape[0] != len(args[0]):
            raise NotApplicableError(
                Limitation.UNSUPPORTED_MODEL,
                f"an output of shape {output.shape} has no row for each input",
            )

    def check_plane(self) -> None:
        """Check that a plane through three inputs can be followed through the model."""
        self.check_one_tensor()
        self.check_one_output()
        if self.inputs.count < 3:
            raise NotApplicableError(Limitation.TOO_FEW_INPUTS, "a plane needs three")
