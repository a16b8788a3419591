"""Prepare a model for its tangent kernel, and leave the model as it was afterwards."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from gatewise.errors import Limitation, NotApplicableError
from gatewise.graph import RandomState, untouched

# By the id of a parameter: the modules that hold it, with its name there.
Owners: TypeAlias = dict[int, list[tuple[nn.Module, str]]]


@dataclass(frozen=True)
class Subject:
    """A model whose kernel is wanted, and the parameters the kernel is about, by name."""

    model: nn.Module
    owners: Owners
    chosen: dict[str, Tensor]
    parameters: Sequence[Tensor]  # all parameters of the model
    buffers: list[Tensor]
    random: RandomState

    @property
    def tensors(self) -> list[Tensor]:
        """All parameters and buffers of the model."""
        return [*self.parameters, *self.buffers]

    @property
    def like(self) -> Tensor:
        """A tensor that has the dtype and the device of the kernel."""
        return next(iter(self.chosen.values()))

    def require_grad_only(self, wanted: Iterable[Tensor]) -> None:
        """Let the ``wanted`` parameters, and no others, require a gradient."""
        chosen = {id(parameter) for parameter in wanted}
        for parameter in self.parameters:
            if parameter.requires_grad != (id(parameter) in chosen):
                parameter.requires_grad_(id(parameter) in chosen)

    def remove_parameter_hooks(self) -> None:
        """Remove the hooks of all parameters, also those that a forward pass has added.

        What a hook does to a gradient is no part of the model's function.
        """
        for parameter in self.parameters:
            if parameter._backward_hooks is not None:
                parameter._backward_hooks = None

    def check_not_random(self) -> None:
        """Raise an error if the model has drawn random numbers in its forward pass."""
        if self.random.is_changed:
            raise NotApplicableError(
                Limitation.UNSUPPORTED_MODEL,
                "ntk: a model that draws at random in its forward pass has no kernel",
                fix="model.eval(), F.dropout(..., training=self.training), or draw before the call "
                "and keep the numbers",
            )


@contextmanager
def prepared(
    model: nn.Module,
    chosen: dict[str, Tensor],
    device: torch.device,
) -> Iterator[Subject]:
    """Let gradients be computed inside, whatever the caller's modes; restore the model on exit.

    Torch's fused attention does not call the modules whose calls are recorded, so it is switched
    off. So are the caches of autocast and of parametrisations: a copy that is used twice would
    look like one use in the graph of autograd.
    """
    parameters = list(model.parameters())
    cache_enabled = parametrize._cache_enabled
    fused_attention = torch.backends.mha.get_fastpath_enabled()
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(torch.autocast(device.type, enabled=False, cache_enabled=False))
        stack.enter_context(untouched(model, buffers=True))
        subject = Subject(
            model,
            _owners(model),
            chosen,
            parameters,
            list(model.buffers()),
            RandomState([device]),
        )
        torch.backends.mha.set_fastpath_enabled(False)
        parametrize._cache_enabled = 0
        try:
            subject.remove_parameter_hooks()
            yield subject
        finally:
            parametrize._cache_enabled = cache_enabled
            torch.backends.mha.set_fastpath_enabled(fused_attention)


def _owners(model: nn.Module) -> Owners:
    owners: Owners = {}
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                owners.setdefault(id(parameter), []).append((module, name))
    return owners
