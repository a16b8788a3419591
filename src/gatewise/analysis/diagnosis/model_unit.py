"""The unit that a model has behind a layer, as a module that can be applied elsewhere."""

from typing import Any

from torch import Tensor, nn

from gatewise.analysis.diagnosis.context import Subject
from gatewise.graph import Node
from gatewise.units import UnitModule

ASKED_ANYWAY = {"relu", "crelu"}


class Called(nn.Module):
    """One call of an operator, on another tensor."""

    def __init__(self, call: Node, response: Node, model: nn.Module) -> None:
        super().__init__()
        self.call, self.response = call, response
        held = {
            key: value
            for key, value in call.arguments.items()
            if isinstance(value, Node) and value is not response
        }
        # Parameters of the model, such as the slopes of a PReLU: copies, so that they can be
        # brought to another dtype.
        self.held = nn.ParameterDict(
            {
                key: nn.Parameter(model.get_parameter(each.name).detach().clone())
                for key, each in held.items()
            }
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> "Called":
        made = object.__new__(Called)
        nn.Module.__init__(made)
        made.call, made.response = self.call, self.response
        made.held = nn.ParameterDict(
            {key: nn.Parameter(value.detach().clone()) for key, value in self.held.items()}
        )
        return made

    def forward(self, x: Tensor) -> Tensor:
        """A copy where the call would write into what it is given."""
        given = x.clone() if self.call.inplace else x
        arguments = {
            key: given if value is self.response else value
            for key, value in self.call.arguments.items()
        }
        return self.call.overload(**(arguments | dict(self.held.items())))


def own_unit(subject: Subject, layer: str) -> tuple[str, nn.Module] | None:
    """The name and the unit of the first site behind ``layer``.

    None where it is ReLU or CReLU, or not known.
    """
    site = next((each for each in subject.gates if layer in subject.layers_before(each)), None)
    if site is None or site.unit in ASKED_ANYWAY:
        return None
    if isinstance(site.module, UnitModule):
        return site.unit, site.module
    if site.output.overload is None or site.response not in site.output.inputs:
        return None
    try:
        return site.unit, Called(site.output, site.response, subject.model)
    except AttributeError:  # an argument that is computed, and no parameter
        return None
