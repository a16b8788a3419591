"""Models that certainly do not mix their samples, recognised without running them.

Note [Plain models]. A pass over one sample shows how the model uses its parameters, and that the
output of a sample does not depend on the other samples. A plain model does not need that pass. It
is a sequence of torch's own layers that treat every row separately, without hooks, work in place,
parametrisations or randomness. Any other model is probed first, which only costs time.
"""

from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from gatewise.analysis.unmodified_modules import is_as_written

PLAIN_CLASSES = frozenset(
    {
        nn.Sequential,
        nn.Flatten,
        nn.Identity,
        # activations
        nn.CELU,
        nn.ELU,
        nn.GELU,
        nn.Hardsigmoid,
        nn.Hardswish,
        nn.Hardtanh,
        nn.LeakyReLU,
        nn.LogSigmoid,
        nn.Mish,
        nn.ReLU,
        nn.ReLU6,
        nn.SELU,
        nn.SiLU,
        nn.Sigmoid,
        nn.Softplus,
        nn.Softsign,
        nn.Tanh,
        # pooling
        nn.AdaptiveAvgPool1d,
        nn.AdaptiveAvgPool2d,
        nn.AdaptiveAvgPool3d,
        nn.AvgPool1d,
        nn.AvgPool2d,
        nn.AvgPool3d,
        nn.MaxPool1d,
        nn.MaxPool2d,
        nn.MaxPool3d,
        # layers with weights
        nn.BatchNorm1d,
        nn.BatchNorm2d,
        nn.BatchNorm3d,
        nn.Conv1d,
        nn.Conv2d,
        nn.Conv3d,
        nn.GroupNorm,
        nn.Linear,
        # dropout, in eval mode
        nn.Dropout,
        nn.Dropout1d,
        nn.Dropout2d,
        nn.Dropout3d,
    }
)


def is_plain(modules: Iterable[nn.Module], x: Tensor) -> bool:
    """Whether each output of a model certainly depends on one row of ``x`` alone.

    Args:
        modules: all modules of the model.
        x: its input.
    """
    return type(x) is Tensor and x.dim() > 1 and all(map(_is_plain_module, modules))


def _is_plain_module(module: nn.Module) -> bool:
    return (
        type(module) in PLAIN_CLASSES
        and is_as_written(module)
        and not vars(module).get("inplace")
        and _keeps_to_rows(module)
    )


def _keeps_to_rows(module: Any) -> bool:
    """Whether the options of a module keep the rows separate, which its class does not say."""
    if isinstance(module, nn.Flatten):
        return module.start_dim >= 1
    if isinstance(module, _BatchNorm):
        return not module.training and module.running_mean is not None
    return not (module.training and isinstance(module, _DropoutNd) and module.p > 0)
