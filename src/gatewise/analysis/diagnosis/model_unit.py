"""The activation function after a layer of a model, as a module that can be applied elsewhere."""

from typing import Any

from torch import Tensor, nn

from gatewise.analysis.diagnosis.context import DiagnosisContext
from gatewise.graph import Node
from gatewise.units import UnitModule

ALWAYS_COMPARED = {"relu", "crelu"}


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


def unit_after(context: DiagnosisContext, layer: str) -> tuple[str, nn.Module] | None:
    """Return name and module of the first unit after a layer.

    Args:
        context: The model and its graph.
        layer: The name of the layer.

    Returns:
        ``None`` for ReLU and CReLU, which are always compared, and for an unknown unit.
    """
    after = (site for site in context.gates if layer in context.layers_before(site))
    site = next(after, None)
    if site is None or site.unit in ALWAYS_COMPARED:
        return None
    if isinstance(site.module, UnitModule):
        return site.unit, site.module
    if site.output.overload is None or site.response not in site.output.inputs:
        return None
    try:
        return site.unit, OperatorCall(site.output, site.response, context.model)
    except AttributeError:  # an argument is computed, and not a parameter of the model
        return None
