"""The temperature schedule of learned splits."""

from torch import nn

from gatewise.errors import ArgumentError
from gatewise.layers.phase.static_ps_conv import StaticPhaseSelective, check_temperature


def split_temperature(progress: float, *, start: float = 5.0, end: float = 0.1) -> float:
    r"""Return the temperature after a share ``progress`` of the training.

    .. math:: \tau = \tau_0 (\tau_1 / \tau_0)^p

    If it falls too fast, a split freezes at a random place. If it does not fall, the split stays a
    mixture of both phases.

    Args:
        progress: the share :math:`p` of the training that is done, from 0 to 1.
        start: the first temperature :math:`\tau_0`.
        end: the last temperature :math:`\tau_1`.

    >>> round(split_temperature(0.5, start=4.0, end=1.0), 6)
    2.0
    """
    is_number = isinstance(progress, int | float) and not isinstance(progress, bool)
    if not is_number or not 0 <= progress <= 1:
        raise ArgumentError(
            "split_temperature: progress is not allowed",
            got=progress,
            allowed="0 <= progress <= 1",
        )
    first = check_temperature("split_temperature", start)
    last = check_temperature("split_temperature", end)
    return first * (last / first) ** progress


def anneal_splits(
    model: nn.Module,
    progress: float,
    *,
    start: float = 5.0,
    end: float = 0.1,
) -> float:
    """Set every learned split in ``model`` to :func:`split_temperature`, and return it.

    Call it once per step or epoch. The temperature is a buffer, so a resumed run continues with it,
    and a compiled model is not compiled again.

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
    layers = []
    for module in model.modules():
        if isinstance(module, StaticPhaseSelective) and module.split == "learned":
            layers.append(module)
    if not layers:
        raise ArgumentError(
            "anneal_splits: the model has no learned split", got=type(model).__name__
        )
    for layer in layers:
        layer.set_temperature(temperature)
    return temperature
