"""Look at a model without leaving a trace.

Flags, buffers, random streams and hooks are afterwards what they were.
"""

import random
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from gatewise.errors import Limitation, NotApplicableError

Owners: TypeAlias = dict[
    int, list[tuple[nn.Module, str]]
]  # by a parameter's id: who holds it, by which name


class Flags:
    """Which parameters of a model are part of the graph.

    The caller's choice, and ours meanwhile.
    """

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self.before = [(parameter, parameter.requires_grad) for parameter in parameters]

    def only(self, wanted: Iterable[Tensor]) -> None:
        """Let the ``wanted`` parameters, and no others, be part of the graph of what follows."""
        chosen = {id(parameter) for parameter in wanted}
        for parameter, _ in self.before:
            if parameter.requires_grad != (id(parameter) in chosen):
                parameter.requires_grad_(id(parameter) in chosen)

    def put_back(self) -> None:
        """Let the flags be what they were."""
        self.only(parameter for parameter, flag in self.before if flag)


class ParameterHooks:
    """The hooks of a model's parameters.

    What they do to a gradient is no part of the model, and is left out.
    """

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self.before = [(parameter, parameter._backward_hooks) for parameter in parameters]

    def silence(self) -> None:
        """Take all of them away, also those that a forward pass has set meanwhile."""
        for parameter, _ in self.before:
            if parameter._backward_hooks is not None:
                parameter._backward_hooks = None

    def put_back(self) -> None:
        """Let them be what they were."""
        for parameter, hooks in self.before:
            if parameter._backward_hooks is not hooks:
                parameter._backward_hooks = hooks


class RandomStreams:
    """The streams that a model may draw from unless it has one of its own.

    Those of torch and of Python.
    """

    def __init__(self, device: torch.device) -> None:
        self.device, self.torch, self.python = device, self._torch_now(device), random.getstate()

    @staticmethod
    def _torch_now(device: torch.device) -> list[Tensor]:
        on_device = [torch.cuda.get_rng_state(device)] if device.type == "cuda" else []
        return [torch.get_rng_state(), *on_device]

    def check(self) -> None:
        """Refuse a model that has drawn from one of them."""
        if random.getstate() != self.python or not all(
            map(torch.equal, self.torch, self._torch_now(self.device))
        ):
            fix = "model.eval(), F.dropout(..., training=self.training), or draw before the call and keep the numbers"
            raise NotApplicableError(
                Limitation.UNSUPPORTED_MODEL,
                "ntk: a model that draws at random in its forward pass has no kernel",
                fix=fix,
            )

    def put_back(self) -> None:
        """Let them be what they were."""
        torch.set_rng_state(self.torch[0])
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(self.torch[1], self.device)
        random.setstate(self.python)


@dataclass(frozen=True)
class Subject:
    """A model whose kernel is wanted, and the parameters it is about, by name."""

    model: nn.Module
    modules: list[nn.Module]  # all of the model's
    owners: Owners
    chosen: dict[str, Tensor]
    flags: Flags
    hooks: ParameterHooks
    random: RandomStreams
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
def untouched(
    model: nn.Module, chosen: dict[str, Tensor], device: torch.device
) -> Iterator[Subject]:
    """Inside, gradients can be taken, whatever the caller's modes.

    Afterwards the model is as before, also on error.

    Torch's fused attention leaves out the modules whose calls are recorded, so it is switched off
    meanwhile. So are the caches of autocast and of parametrisations: a copy that is used twice
    looks like one use in the graph.
    """
    modules = list(model.modules())
    owners, buffers = _owners(modules), list(_buffers(modules))
    held = (module._parameters[name] for (module, name), *_ in owners.values())
    parameters = [parameter for parameter in held if parameter is not None]
    flags, hooks = Flags(parameters), ParameterHooks(parameters)
    streams, cached = RandomStreams(device), parametrize._cache_enabled
    fused_attention = torch.backends.mha.get_fastpath_enabled()
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(torch.autocast(device.type, enabled=False, cache_enabled=False))
        kept = [buffer.clone() for _, _, buffer in buffers]
        torch.backends.mha.set_fastpath_enabled(False)
        parametrize._cache_enabled = 0
        try:
            hooks.silence()
            yield Subject(
                model,
                modules,
                owners,
                chosen,
                flags,
                hooks,
                streams,
                [buffer for _, _, buffer in buffers],
            )
        finally:
            streams.put_back()
            parametrize._cache_enabled = cached
            torch.backends.mha.set_fastpath_enabled(fused_attention)
            _put_back(buffers, kept)
            flags.put_back()
            hooks.put_back()


def _owners(modules: list[nn.Module]) -> Owners:
    owners: Owners = {}
    for module in modules:
        for name, parameter in module._parameters.items():
            if parameter is not None:
                owners.setdefault(id(parameter), []).append((module, name))
    return owners


def _buffers(modules: list[nn.Module]) -> Iterator[tuple[nn.Module, str, Tensor]]:
    for module in modules:
        for name, buffer in module._buffers.items():
            if buffer is not None:
                yield module, name, buffer


def _put_back(buffers: list[tuple[nn.Module, str, Tensor]], kept: list[Tensor]) -> None:
    with torch.no_grad():
        for (module, name, buffer), before in zip(buffers, kept, strict=True):
            module._buffers[name] = buffer
            if not torch.equal(buffer, before):
                buffer.copy_(before)
