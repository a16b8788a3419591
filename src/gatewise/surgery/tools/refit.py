"""Fit the layers after a changed layer again, by least squares on example data."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gatewise.graph import copied
from gatewise.surgery.proof import Arguments, outputs_of, watching_calls

# Relative to the mean square of the inputs. It keeps the fit from inventing weights for directions
# that the example hardly has.
RIDGE = 1e-3


def layer_outputs(model: nn.Module, paths: Iterable[str], example: Arguments) -> dict[str, Tensor]:
    """Return the outputs of the layers at ``paths`` in a run of ``model`` on ``example``."""
    return {path: output for path, (_, output) in _calls(model, paths, example).items()}


def refit(model: nn.Module, path: str, wanted: Tensor, example: Arguments) -> None:
    """Change weight and bias of a layer so that its outputs are as close as possible to ``wanted``.

    Of all such changes, ridge regression gives a small one.

    Args:
        model: The model to change in place.
        path: The layer.
        wanted: The outputs that the layer had in the original model.
        example: The input of the model.
    """
    # The sums of the fit are in float64. Their terms can be computed in the type of `wanted`.
    fast = copied(model).to(wanted.dtype)
    source, _ = _calls(fast, [path], example)[path]
    weight = model.get_parameter(f"{path}.weight")
    _solve(model.get_submodule(path), source.to(weight), wanted)


def can_refit(layer: nn.Module) -> bool:
    """Whether :func:`patches` can cut the inputs of ``layer`` into what its filters see."""
    if isinstance(layer, nn.Conv2d | nn.Conv1d):
        plain_padding = layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
        return layer.groups == 1 and plain_padding
    return isinstance(layer, nn.Linear)


def _calls(
    model: nn.Module, paths: Iterable[str], example: Arguments
) -> dict[str, tuple[Tensor, Tensor]]:
    """Run the model and return the input and the output of each layer."""
    calls: dict[str, tuple[Tensor, Tensor]] = {}

    def keep(path: str, args: Any, output: Tensor) -> None:
        calls[path] = (args[0], output)

    with watching_calls(model, paths, keep):
        outputs_of(model, example)
    return calls


@torch.no_grad()
def _solve(layer: nn.Module, inputs: Tensor, wanted: Tensor) -> None:
    """Add the solution of the normal equations to the layer's weight and bias."""
    weight = layer.get_parameter("weight")
    bias = layer._parameters["bias"]
    columns = weight[0].numel() + (bias is not None)
    gram = weight.new_zeros(columns, columns, dtype=torch.float64)
    missing = weight.new_zeros(columns, len(weight), dtype=torch.float64)
    count = 0
    # One input at a time: the patches of a whole batch would need too much memory.
    for x, target in zip(inputs, wanted, strict=True):
        seen = patches(layer, x[None]).double()
        if bias is not None:
            seen = F.pad(seen, (0, 1), value=1.0)
        # The fit is of the change, so that the ridge pulls towards the present weights.
        rest = target[None].double() - layer(x[None]).double()
        rest = rest.movedim(-1 if isinstance(layer, nn.Linear) else 1, -1).flatten(0, -2)
        gram += seen.mT @ seen
        missing += seen.mT @ rest
        count += len(seen)
    gram /= max(1, count)
    missing /= max(1, count)
    gram.diagonal().add_(RIDGE * gram.diagonal().mean())
    change = torch.linalg.solve(gram, missing).mT.to(weight)
    weight += change[:, : weight[0].numel()].reshape(weight.shape)
    if bias is not None:
        bias += change[:, -1]


def patches(layer: nn.Module, x: Tensor) -> Tensor:
    """Return the patches of ``x`` that the filters of ``layer`` see, ``(places, filter size)``."""
    if isinstance(layer, nn.Linear):
        return x.flatten(0, -2)
    assert isinstance(layer, nn.Conv1d | nn.Conv2d)  # noqa: S101  can_refit has checked it
    sizes = [layer.kernel_size, layer.dilation, layer.padding, layer.stride]
    if isinstance(layer, nn.Conv1d):
        # A second dimension of size 1, with the defaults of `unfold`.
        x = x[..., None]
        sizes = [(*size, end) for size, end in zip(sizes, (1, 1, 0, 1), strict=True)]
    return F.unfold(x, *sizes).mT.flatten(0, 1)
