"""What questions are asked of: a model with some inputs, and how much a question may take."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor, nn

from gatewise.analysis.diagnosis.checkpoints import Moments
from gatewise.analysis.diagnosis.finding import DoesNotApply
from gatewise.analysis.diagnosis.inputs import Inputs
from gatewise.analysis.diagnosis.one_output import with_one_output
from gatewise.analysis.gating import GateSite, gate_sites
from gatewise.graph import Reading, SiteGraph, find_sites, producers

Count = Callable[[int, int | None], None]


@dataclass(eq=False)
class Subject:
    """A model in eval mode, its inputs, and the limits."""

    model: nn.Module
    inputs: Inputs
    memory: int  # bytes that one question may take
    seconds: float  # for which a question that can stop early may go on
    count: Count  # to be told how much of a question is done
    moments: Moments  # checkpoints, and the model as it is

    @cached_property
    def graph(self) -> SiteGraph:
        """The activation sites, read in eval mode."""
        return find_sites(self.model, self.inputs.example, modes=("eval",))

    @property
    def reading(self) -> Reading:
        """The graph of calls that the sites were found in."""
        return self.graph.readings["eval"]

    @cached_property
    def map(self) -> nn.Module:
        """The model as a function from one tensor to one; only where it is that."""
        return with_one_output(self.model, self.tensors(1))

    @cached_property
    def gates(self) -> list[GateSite]:
        """The calls of units that have one gate, in order."""
        return gate_sites(self.reading, self.model)[0]

    def layers_before(self, site: GateSite) -> list[str]:
        """The layers with weights that make what a unit is given; the model's input is none."""
        made = (each for each in producers(site.response) if each.op not in ("input", "output"))
        return [each.scope[0] for each in made]

    def tensors(self, count: int) -> Tensor:
        """The first ``count`` inputs, of a model that takes one tensor of numbers."""
        self.check_one_tensor()
        return self.inputs.some(count)

    def check_one_tensor(self) -> None:
        """Refuse a model of several inputs or of indices."""
        if self.inputs.tensor is None:
            raise DoesNotApply("several inputs" if _has_numbers(self.inputs) else "no numbers")

    @property
    def has_images(self) -> bool:
        """Whether inputs are grey or colour images."""
        x = self.inputs.tensor
        return x is not None and x.dim() == 4 and x.shape[1] in (1, 3) and min(x.shape[2:]) > 1


def _has_numbers(inputs: Inputs) -> bool:
    from gatewise.graph import example_tensors, split_example

    return any(
        each.is_floating_point() for each in example_tensors(split_example(inputs.batches[0]))
    )
