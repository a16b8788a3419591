"""Modules that torch.fx and torch.jit take as a whole.

Note [Leaves]. A unit checks its input, which is Python that a symbolic trace cannot follow. So a
traced unit is one call in the graph, as torch's own activations are: feature extractors,
quantisation and other tools on top of torch.fx then work. A model that holds units can be scripted
for the same reason. The scripted model calls Python, so it can be run and trained, but not written
to a file.
"""

import functools
from collections.abc import Callable
from inspect import getattr_static
from typing import Any, ClassVar

import torch
from torch import nn
from torch.fx import Proxy


class LeafModule(nn.Module):
    """A module whose ``forward`` is one call in graphs of torch.fx. See Note [Leaves]."""

    unit_dtype: torch.dtype | None = None  # parameters are never of a coarser type

    __constants__: ClassVar[list[str]] = ["script_number"]
    __jit_unused_properties__: ClassVar[list[str]] = ["script_number"]

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if "forward" in vars(cls):
            cls.forward = cls.as_leaf(vars(cls)["forward"])
        # torch.jit.script would compile properties.
        properties = set(cls.__jit_unused_properties__)
        for name in dir(cls):
            if isinstance(getattr_static(cls, name), property):
                properties.add(name)
        cls.__jit_unused_properties__ = sorted(properties)

    @staticmethod
    def as_leaf(forward: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``forward`` of a new subclass as a leaf.

        Args:
            forward: as written in the class.
        """
        return as_leaf(forward)

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Any:
        """Change all tensors, but do not round parameters to a coarser type than ``unit_dtype``."""
        kept = self.unit_dtype
        if kept is None:
            return super()._apply(fn, recurse)
        return super()._apply(lambda tensor: _no_coarser(fn, tensor, kept), recurse)

    @property
    def script_number(self) -> int:
        """A number by which a scripted model finds this module, which is kept from then on."""
        _SCRIPTED[id(self)] = self
        return id(self)


def _no_coarser(fn: Callable[..., Any], tensor: torch.Tensor, kept: torch.dtype) -> Any:
    changed = fn(tensor)
    if not changed.is_floating_point() or torch.finfo(changed.dtype).eps <= torch.finfo(kept).eps:
        return changed
    return tensor.to(changed.device, kept)


_SCRIPTED: dict[int, nn.Module] = {}


def as_leaf(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``forward`` as a leaf. See Note [Leaves]."""

    @functools.wraps(forward)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        first = args[0] if args else next(iter(options.values()), None)
        if isinstance(first, Proxy):
            return _traced_call(self, first, args, options)
        if isinstance(self, torch.jit.ScriptModule):
            module = _SCRIPTED[self.script_number]
            if module.training != self.training:
                module.train(self.training)
            return module(*args, **options)
        return forward(self, *args, **options)

    ignore: Any = torch.jit.ignore  # its types do not say that it takes a function
    return ignore(call)


def _traced_call(
    module: nn.Module,
    proxy: Proxy,
    args: tuple[Any, ...],
    options: dict[str, Any],
) -> Any:
    """Record a call of ``module`` with the tracer of ``proxy``."""
    tracer: Any = proxy.tracer
    if tracer.root is module:
        # A graph calls modules by their name in the root, so the module needs a root around it.
        root = nn.Module().train(module.training)
        name = type(module).__name__.lower()
        root.add_module(name, module)
        tracer.root = root
        tracer.submodule_paths = {root: "", module: name}
    return tracer.create_proxy("call_module", tracer.path_of_module(module), args, options)
