"""Look at a model without leaving a trace: flags, buffers, random streams and hooks are afterwards what they were."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn


@contextmanager
def untouched(model: nn.Module, device: torch.device) -> Iterator[None]:
    """Inside, gradients can be taken, whatever the caller's modes; afterwards the model is as before, also on error.

    Torch's fused attention leaves out the modules whose calls are recorded, so it is switched off meanwhile.
    """
    flags = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    buffers = list(_buffers(model))
    fused_attention = torch.backends.mha.get_fastpath_enabled()
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(torch.autocast(device.type, enabled=False))
        stack.enter_context(torch.random.fork_rng(devices=[] if device.type == "cpu" else [device]))
        kept = [buffer.clone() for _, _, buffer in buffers]
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            yield
        finally:
            torch.backends.mha.set_fastpath_enabled(fused_attention)
            _put_back(buffers, kept)
            for parameter, flag in flags:
                parameter.requires_grad_(flag)


def require_gradients(model: nn.Module, wanted: Iterable[Tensor]) -> None:
    """Let the ``wanted`` parameters, and no others, be part of the graph of what follows."""
    chosen = {id(parameter) for parameter in wanted}
    for parameter in model.parameters():
        if parameter.requires_grad != (id(parameter) in chosen):
            parameter.requires_grad_(id(parameter) in chosen)


def _buffers(model: nn.Module) -> Iterator[tuple[nn.Module, str, Tensor]]:
    for module in model.modules():
        for name, buffer in module._buffers.items():
            if buffer is not None:
                yield module, name, buffer


def _put_back(buffers: list[tuple[nn.Module, str, Tensor]], kept: list[Tensor]) -> None:
    with torch.no_grad():
        for (module, name, buffer), before in zip(buffers, kept, strict=True):
            module._buffers[name] = buffer
            if not torch.equal(buffer, before):
                buffer.copy_(before)
