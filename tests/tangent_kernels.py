"""The tangent kernel as it is defined.

One gradient per sample and output, taken alone, then all inner products.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn


def jacobian(
    model: nn.Module, x: Tensor | tuple[Tensor, ...], parameters: Iterable[Tensor]
) -> Tensor:
    """Shape ``(n, o, numbers)``."""
    inputs = x if isinstance(x, tuple) else (x,)
    wanted = list(parameters)
    rows = []
    for sample in range(inputs[0].shape[0]):
        output = model(*(each[sample : sample + 1].clone() for each in inputs)).reshape(-1)
        rows.append(torch.stack([gradient(number, wanted) for number in output]))
    return torch.stack(rows)


def gradient(number: Tensor, wanted: list[Tensor]) -> Tensor:
    slopes = torch.autograd.grad(number, wanted, retain_graph=True, allow_unused=True)
    dense = [
        torch.zeros_like(p) if s is None else s.to_dense()
        for s, p in zip(slopes, wanted, strict=True)
    ]
    return torch.cat([slope.flatten() for slope in dense])


def explicit_ntk(
    model: nn.Module, x, x2=None, parameters: Iterable[Tensor] | None = None
) -> Tensor:
    wanted = (
        [p for p in model.parameters() if p.requires_grad]
        if parameters is None
        else list(parameters)
    )
    first = jacobian(model, x, wanted)
    second = first if x2 is None else jacobian(model, x2, wanted)
    kernel = torch.einsum("sip,tjp->stij", first, second)
    return kernel[:, :, 0, 0] if kernel.shape[-1] == 1 else kernel


def error(got: Tensor, want: Tensor) -> float:
    """Largest difference, in parts of the largest entry."""
    assert got.shape == want.shape, (got.shape, want.shape)
    return ((got.double() - want.double()).abs().max() / want.abs().max()).item()
