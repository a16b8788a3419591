"""A moving average of the weights, which is evaluated and saved in their place."""

from collections.abc import Sequence

from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


def start_average(model: nn.Module, decay: float) -> AveragedModel:
    """Return a copy of the network whose weights and buffers follow it.

    The average begins with the weights after the first step.

    Args:
        model: the network.
        decay: the share of the old average that a step keeps.
    """
    average = get_ema_multi_avg_fn(decay)

    def update(kept: Sequence[Tensor], new: Sequence[Tensor], count: Tensor) -> None:
        if kept[0].is_floating_point() or kept[0].is_complex():
            average(kept, new, count)  # pyright: ignore[reportArgumentType]
        else:  # a mean of counters, indices or masks means nothing
            for old, value in zip(kept, new, strict=True):
                old.copy_(value)

    return AveragedModel(
        model,
        multi_avg_fn=update,  # pyright: ignore[reportArgumentType]
        use_buffers=True,
    )
