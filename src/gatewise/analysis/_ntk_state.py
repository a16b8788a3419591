"""Look at a model without leaving a trace: flags, buffers, random streams and hooks are afterwards what they were."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn


class Flags:
    """Which parameters of a model are part of the graph: the caller's choice, and ours meanwhile."""

    def __init__(self, model: nn.Module) -> None:
        self.before = [(parameter, parameter.requires_grad) for parameter in model.parameters()]

    def only(self, wanted: Iterable[Tensor]) -> None:
        """Let the ``wanted`` parameters, and no others, be part of the graph of what follows."""
        chosen = {id(parameter) for parameter in wanted}
        for parameter, _ in self.before:
            if parameter.requires_grad != (id(parameter) in chosen):
                parameter.requires_grad_(id(parameter) in chosen)

    def put_back(self) -> None:
        """Let the flags be what they were."""
        self.only(parameter for parameter, flag in self.before if flag)


@dataclass(frozen=True)
class Subject:
    """A model whose kernel is wanted, and the parameters it is about, by name."""

    model: nn.Module
    chosen: dict[str, Tensor]
    flags: Flags
    buffers: list[Tensor]

    @property
    def tensors(self) -> list[Tensor]:
        """All that the model itself holds."""
        return [*(parameter for parameter, _ in self.flags.before), *self.buffers]

    @property
    def like(self) -> Tensor:
        """A tensor of the dtype and device of the kernel."""
        return next(iter(self.chosen.values()))


@contextmanager
def untouched(model: nn.Module, chosen: dict[str, Tensor], device: torch.device) -> Iterator[Subject]:
    """Inside, gradients can be taken, whatever the caller's modes; afterwards the model is as before, also on error.

    Torch's fused attention leaves out the modules whose calls are recorded, so it is switched off meanwhile.
    """
    flags, buffers = Flags(model), list(_buffers(model))
    fused_attention = torch.backends.mha.get_fastpath_enabled()
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(torch.autocast(device.type, enabled=False))
        stack.callback(torch.set_rng_state, torch.get_rng_state())
        if device.type == "cuda":
            stack.callback(torch.cuda.set_rng_state, torch.cuda.get_rng_state(device), device)
        kept = [buffer.clone() for _, _, buffer in buffers]
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            yield Subject(model, chosen, flags, [buffer for _, _, buffer in buffers])
        finally:
            torch.backends.mha.set_fastpath_enabled(fused_attention)
            _put_back(buffers, kept)
            flags.put_back()


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
