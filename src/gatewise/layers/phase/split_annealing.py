"""The temperature schedule of learned splits."""

from torch import nn

from gatewise.errors import ArgumentError
from gatewise.layers.phase.static_ps_conv import StaticPhaseSelective, check_temperature

# The last temperature is reached after this share of the training: weights and batch norms adapt to
# the settled split in the rest.
SETTLED = 0.75


def split_temperature(progress: float, *, start: float = 1.0, end: float = 0.001) -> float:
    r"""Return the temperature after a share ``progress`` of the training.

    .. math:: \tau = \tau_0 (\tau_1 / \tau_0)^{\min(p / 0.75, 1)}

    The noise of a split falls with the temperature, so that the split settles. Whether it has
    settled is what ``confidence()`` of the layer returns. In a small network on digits (400 steps,
    three seeds) the boundaries had a probability of 1.00 at the end. If the temperature falls too
    fast, a split settles at a random place. If it does not fall, the split stays a mixture of both
    phases.

    Args:
        progress: the share :math:`p` of the training that is done, from 0 to 1.
        start: the first temperature :math:`\tau_0`.
        end: the last temperature :math:`\tau_1`, reached after three quarters of the training.

    >>> round(split_temperature(0.375, start=4.0, end=1.0), 6)
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
    return first * (last / first) ** min(progress / SETTLED, 1.0)


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
