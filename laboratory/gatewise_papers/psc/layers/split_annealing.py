"""The temperature schedule of learned splits."""

from torch import nn

from gatewise.errors import ArgumentError
from gatewise_papers.psc.layers.static_ps_conv import StaticPhaseSelective, split_temperature


def learned_splits(model: nn.Module) -> list[StaticPhaseSelective]:
    """Return the layers of ``model`` whose split is learned.

    Args:
        model: any module.
    """
    layers = []
    for module in model.modules():
        if isinstance(module, StaticPhaseSelective) and module.split == "learned":
            layers.append(module)
    return layers


def anneal_splits(
    model: nn.Module,
    progress: float,
    *,
    start: float = 1.0,
    end: float = 0.001,
) -> float:
    """Set every learned split in ``model`` to :func:`split_temperature`, and return it.

    Call it once per step. Runs of :mod:`gatewise.train` do so by themselves. The temperature is a
    buffer, so a resumed run continues with it, and a compiled model is not compiled again.

    Args:
        model: a module with static phase selective layers.
        progress: the share of the training that is done, from 0 to 1.
        start: the first temperature.
        end: the last temperature.
    """
    temperature = split_temperature(progress, start=start, end=end)
    if not isinstance(model, nn.Module):
        raise ArgumentError(
            "anneal_splits: a model is needed",
            got=type(model).__name__,
            allowed="nn.Module",
        )
    layers = learned_splits(model)
    if not layers:
        raise ArgumentError(
            "anneal_splits: the model has no learned split", got=type(model).__name__
        )
    for layer in layers:
        layer.set_temperature(temperature)
    return temperature
