"""The activation function after a layer of a model, as a module that can be applied elsewhere."""

from typing import Any

from torch import Tensor, nn

from gatewise.analysis.gating import GateSite
from gatewise.graph import Node
from gatewise.units import UnitModule


class OperatorCall(nn.Module):
    """One call of an operator in a graph, applied to another tensor.

    Parameters of the model that the call reads, e.g. the slopes of a PReLU, are copied, so that
    the copies can be converted to another dtype.
    """

    def __init__(self, call: Node, response: Node, model: nn.Module) -> None:
        super().__init__()
        self.call = call
        self.response = response
        self.weights = nn.ParameterDict()
        for key, value in call.arguments.items():
            if isinstance(value, Node) and value is not response:
                weight = model.get_parameter(value.name)
                self.weights[key] = nn.Parameter(weight.detach().clone())

    def __deepcopy__(self, memo: dict[int, Any]) -> "OperatorCall":
        # A copy of a node would copy the whole graph.
        copy = object.__new__(OperatorCall)
        nn.Module.__init__(copy)
        copy.call = self.call
        copy.response = self.response
        copy.weights = nn.ParameterDict()
        for key, weight in self.weights.items():
            copy.weights[key] = nn.Parameter(weight.detach().clone())
        return copy

    def forward(self, x: Tensor) -> Tensor:
        """Return the result of the call for ``x``, which is never changed in place."""
        # The caller may need x again.
        response = x.clone() if self.call.inplace else x
        arguments = dict(self.call.arguments) | dict(self.weights.items())
        for key, value in self.call.arguments.items():
            if value is self.response:
                arguments[key] = response
        return self.call.overload(**arguments)


def unit_at(site: GateSite, model: nn.Module) -> nn.Module | None:
    """Return the unit of a site as a module; ``None`` if it cannot be applied to other tensors.

    Args:
        site: The call of the unit.
        model: The model.
    """
    if isinstance(site.module, UnitModule):
        return site.module
    if site.output.overload is None or site.response not in site.output.inputs:
        return None
    try:
        return OperatorCall(site.output, site.response, model)
    except AttributeError:  # an argument is computed, and not a parameter of the model
        return None
