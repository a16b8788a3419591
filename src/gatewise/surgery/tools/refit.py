"""Fit the layers behind a changed one anew, by least squares on example data."""

import copy
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gatewise.surgery.proof import Arguments, outputs_of

# of the inputs' mean square: what keeps a direction that the example hardly has from being made up
RIDGE = 1e-3


def layer_outputs(model: nn.Module, paths: Iterable[str], example: Arguments) -> dict[str, Tensor]:
    """What each of the layers at ``paths`` gives out when ``model`` is run on ``example``."""
    return {path: output for path, (_, output) in _calls(model, paths, example).items()}


def refit(model: nn.Module, path: str, wanted: Tensor, example: Arguments) -> None:
    """Change weight and bias of the layer at ``path`` so that it gives out what is wanted, as near as can be.

    The change is the smallest one that does, in the sense of ridge regression.
    """
    fast = copy.deepcopy(model).to(
        wanted.dtype
    )  # the sums are in float64, what is summed need not be
    source, _ = _calls(fast, [path], example)[path]
    weight = model.get_parameter(f"{path}.weight")
    _solve(model.get_submodule(path), source.to(weight), wanted)


def can_refit(layer: nn.Module) -> bool:
    """Whether the layer is one whose inputs are known how to be cut into the patches its filters see."""
    if isinstance(layer, nn.Conv2d | nn.Conv1d):
        return (
            layer.groups == 1
            and layer.padding_mode == "zeros"
            and not isinstance(layer.padding, str)
        )
    return isinstance(layer, nn.Linear)


def _calls(
    model: nn.Module, paths: Iterable[str], example: Arguments
) -> dict[str, tuple[Tensor, Tensor]]:
    found: dict[str, tuple[Tensor, Tensor]] = {}
    handles = []
    try:
        for path in paths:

            def keep(_: nn.Module, args: Any, output: Tensor, path: str = path) -> None:
                found[path] = (args[0], output)

            handles.append(model.get_submodule(path).register_forward_hook(keep))
        outputs_of(model, example)
    finally:
        for handle in handles:
            handle.remove()
    return found


@torch.no_grad()
def _solve(layer: nn.Module, source: Tensor, wanted: Tensor) -> None:
    weight = layer.get_parameter("weight")
    bias = layer._parameters["bias"]
    columns = weight[0].numel() + (bias is not None)
    gram = weight.new_zeros(columns, columns, dtype=torch.float64)
    missing = weight.new_zeros(columns, len(weight), dtype=torch.float64)
    count = 0
    for each, target in zip(
        source, wanted, strict=True
    ):  # one by one: patches of a whole batch would fill the memory
        seen = patches(layer, each[None]).double()
        if bias is not None:
            seen = F.pad(seen, (0, 1), value=1.0)
        rest = target[None].double() - layer(each[None]).double()
        rest = rest.movedim(-1 if isinstance(layer, nn.Linear) else 1, -1).flatten(0, -2)
        gram += seen.mT @ seen
        missing += seen.mT @ rest
        count += len(seen)
    gram, missing = gram / max(1, count), missing / max(1, count)
    gram.diagonal().add_(RIDGE * gram.diagonal().mean())
    change = torch.linalg.solve(gram, missing).mT.to(weight)
    weight += change[:, : weight[0].numel()].reshape(weight.shape)
    if bias is not None:
        bias += change[:, -1]


def patches(layer: nn.Module, x: Tensor) -> Tensor:
    """What the filters of ``layer`` see of ``x``, one row for each place.

    ``(places, numbers of a filter)``.
    """
    if isinstance(layer, nn.Linear):
        return x.flatten(0, -2)
    assert isinstance(layer, nn.Conv1d | nn.Conv2d)  # noqa: S101  can_refit has seen to it
    sizes = [layer.kernel_size, layer.dilation, layer.padding, layer.stride]
    if isinstance(layer, nn.Conv1d):
        x, sizes = (
            x[..., None],
            [(*size, end) for size, end in zip(sizes, (1, 1, 0, 1), strict=True)],
        )
    return F.unfold(x, *sizes).mT.flatten(0, 1)
