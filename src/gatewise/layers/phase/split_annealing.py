"""How the temperature of learned splits falls while a model trains."""

from torch import nn

from gatewise.errors import ArgumentError
from gatewise.layers.phase.static_ps_conv import StaticPhaseSelective, check_temperature


def split_temperature(progress: float, *, start: float = 5.0, end: float = 0.1) -> float:
    r"""The temperature after a share ``progress`` of the training.

    From ``start`` to ``end`` in equal ratios.

    .. math:: \tau = \tau_0 (\tau_1 / \tau_0)^p

    Cooled too fast, a split freezes where it happens to be; not cooled at all, it stays a mixture
    of both phases.

    >>> [round(split_temperature(p, start=4.0, end=1.0), 6) for p in (0, 0.5, 1)]
    [4.0, 2.0, 1.0]
    """
    if (
        isinstance(progress, bool)
        or not isinstance(progress, int | float)
        or not 0 <= progress <= 1
    ):
        raise ArgumentError(
            "split_temperature: progress is not allowed", got=progress, allowed="0 <= progress <= 1"
        )
    first, last = (check_temperature("split_temperature", each) for each in (start, end))
    return first * (last / first) ** progress


def anneal_splits(
    model: nn.Module, progress: float, *, start: float = 5.0, end: float = 0.1
) -> float:
    """Set every learned split in ``model`` to :func:`split_temperature`, and return that.

    Call it once per step or epoch. The temperature is a buffer, so a resumed run continues with it,
    and a compiled model is not compiled again.
    """
    temperature = split_temperature(progress, start=start, end=end)
    if not isinstance(model, nn.Module):
        raise ArgumentError(
            "anneal_splits: a model is needed", got=type(model).__name__, allowed="nn.Module"
        )
    layers = [
        each
        for each in model.modules()
        if isinstance(each, StaticPhaseSelective) and each.split == "learned"
    ]
    if not layers:
        raise ArgumentError(
            "anneal_splits: the model has no learned split", got=type(model).__name__
        )
    for layer in layers:
        layer.set_temperature(temperature)
    return temperature
