"""Models that cannot mix their samples, which can be told without running them.

Note [Plain models]. A pass over one sample alone shows how the model treats its parameters, and
that a sample's output does not depend on its company. A plain model needs neither: a sequence of
torch's own layers, each of which treats every row for itself, without hooks, work in place,
parametrisations or randomness. What is not certainly so is not plain; it is probed first, and
nothing is lost but time.
"""

from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from gatewise.analysis.unmodified_modules import is_as_written

ELEMENTWISE = (
    nn.ReLU,
    nn.LeakyReLU,
    nn.ELU,
    nn.CELU,
    nn.SELU,
    nn.GELU,
    nn.SiLU,
    nn.Mish,
    nn.Softplus,
    nn.Softsign,
)
ELEMENTWISE += (
    nn.Sigmoid,
    nn.Tanh,
    nn.Hardtanh,
    nn.ReLU6,
    nn.Hardsigmoid,
    nn.Hardswish,
    nn.LogSigmoid,
    nn.Identity,
)
POOLS = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d, nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d)
POOLS += (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d)
LAYERS = (
    nn.Linear,
    nn.Conv1d,
    nn.Conv2d,
    nn.Conv3d,
    nn.BatchNorm1d,
    nn.BatchNorm2d,
    nn.BatchNorm3d,
    nn.GroupNorm,
)
DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)
PLAIN = frozenset((nn.Sequential, nn.Flatten, *ELEMENTWISE, *POOLS, *LAYERS, *DROPOUTS))


def is_plain(modules: Iterable[nn.Module], x: Tensor) -> bool:
    """Whether each output of the model of these ``modules`` is certain to depend on its own row of ``x`` alone."""
    return type(x) is Tensor and x.dim() > 1 and all(map(_is_plain_module, modules))


def _is_plain_module(module: nn.Module) -> bool:
    return (
        type(module) in PLAIN
        and is_as_written(module)
        and not vars(module).get("inplace")
        and _keeps_to_rows(module)
    )


def _keeps_to_rows(module: Any) -> bool:
    """What a class alone does not say."""
    if isinstance(module, nn.Flatten):
        return module.start_dim >= 1
    if isinstance(module, _BatchNorm):
        return not module.training and module.running_mean is not None
    return not (module.training and isinstance(module, _DropoutNd) and module.p > 0)
