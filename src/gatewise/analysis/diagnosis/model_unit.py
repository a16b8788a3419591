"""The activation function after a layer of a model, as a module that can be applied elsewhere."""

from torch import nn

from gatewise.analysis.gating import GateSite, OperatorCall
from gatewise.units import UnitModule


def unit_at(site: GateSite, model: nn.Module) -> nn.Module | None:
    """Return the unit of a site as a module; ``None`` if it cannot be applied to other tensors.

    Args:
        site: The call of the unit.
        model: The model.
    """
    if isinstance(site.module, UnitModule):
        return site.module
    if site.output.overload is None or site.output.inputs[:1] != (site.response,):
        return None
    if any(source.op != "parameter" for source in site.output.inputs[1:]):
        return None  # an argument is computed
    return OperatorCall(site.output, model)
