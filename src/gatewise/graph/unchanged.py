"""Leave a model as it was: the one context manager for everything that runs a user's model."""

import copy
import operator
import random
import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from gatewise.errors import ArgumentError
from gatewise.graph.eager import run_eagerly

# Dictionaries of hooks that a module, or a parameter, may have.
MODULE_HOOKS = (
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_backward_pre_hooks",
    "_backward_hooks",
)
PARAMETER_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")
# Attributes of a module that are restored each in its own way.
OWN_ATTRIBUTES = frozenset(("_parameters", "_buffers", "_modules", *MODULE_HOOKS))
# Containers that code can change, subclasses before their bases.
CONTAINERS: tuple[Any, ...] = (OrderedDict, dict, list, set, deque)
# By attribute: the dictionary itself, ``None`` if there is none yet, and the keys it has.
HookDicts = dict[str, tuple[Any, frozenset[int]]]


@contextmanager
def untouched(model: nn.Module, *, buffers: bool = True) -> Iterator[None]:
    """Restore a model and the random state on exit, also after an error.

    Restored are the training flags of all modules, which parameters, buffers, modules and other
    attributes the modules hold, what is in their dicts, lists and sets (a model may cache tensors
    there), ``requires_grad`` and ``.grad`` of the parameters, and the random state of Python, of
    numpy, of torch on the devices of the model, and of generators that modules hold. Hooks that
    were added meanwhile are removed. Inside the context ``.grad`` of every parameter is ``None``,
    so that a backward pass does not add to the user's gradients. Values of parameters are not
    copied. The model runs as plain code meanwhile, see :func:`run_eagerly`.

    Args:
        model: the model.
        buffers: whether to restore the values of buffers, too. This takes a copy of each. Tensors
            in plain attributes are copied in any case, as no other state can stand in for them.

    Raises:
        ArgumentError: the model has parameters that its first run would give a shape. That could
            not be taken back.
    """
    check_not_lazy(model)
    state = _ModelState(model, buffers=buffers)
    try:
        with run_eagerly(model):
            yield
    finally:
        state.restore()


def run_on_copies(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> None:
    """Run ``model`` on copies of all tensors, since it may write into them.

    What it returns is dropped. No variable of the caller holds a tensor of the run.
    """
    args, kwargs = tree_map(
        lambda item: item.clone() if isinstance(item, Tensor) else item, (args, dict(kwargs))
    )
    model(*args, **kwargs)


def copied(model: nn.Module) -> nn.Module:
    """A deep copy of ``model``, also if a module keeps a tensor that was computed.

    Old-style weight norm does, and so do models that cache what they derive from their weights.
    Torch copies no such tensors. The copy has their values.

    Raises:
        ArgumentError: the model cannot be copied for another reason.
    """
    check_not_lazy(model)
    copies: dict[int, Any] = {}  # by identity; deepcopy takes what is here already
    try:
        for tensor in _Held(model).tensors:
            if not tensor.is_leaf:
                copies[id(tensor)] = copy.deepcopy(tensor.detach(), copies)
        return copy.deepcopy(model, copies)
    except (RuntimeError, TypeError, NotImplementedError) as problem:
        raise ArgumentError(
            f"model: cannot be copied ({problem})",
            got=type(model).__name__,
            fix="remove what cannot be copied, or pass inplace=True where it is an option",
        ) from problem


class RandomState:
    """The random state of Python and of torch, on the CPU and on CUDA devices.

    Args:
        devices: other devices than CUDA devices are ignored.
    """

    def __init__(self, devices: Iterable[torch.device]) -> None:
        self.devices = sorted({device for device in devices if device.type == "cuda"}, key=str)
        self.python = random.getstate()
        self.torch = self._torch_state()
        # numpy's state is large, and few models use it: it is kept where numpy was imported.
        numpy = sys.modules.get("numpy")
        self.numpy = numpy.random.get_state() if numpy is not None else None

    def _torch_state(self) -> list[Tensor]:
        return [torch.get_rng_state(), *map(torch.cuda.get_rng_state, self.devices)]

    @property
    def is_changed(self) -> bool:
        """Whether a random number was drawn since this object was created."""
        same = all(map(torch.equal, self.torch, self._torch_state()))
        return not same or random.getstate() != self.python

    def restore(self) -> None:
        """Set the random state to what it was when this object was created."""
        random.setstate(self.python)
        if self.numpy is not None:
            sys.modules["numpy"].random.set_state(self.numpy)
        torch.set_rng_state(self.torch[0])
        for device, state in zip(self.devices, self.torch[1:], strict=True):
            torch.cuda.set_rng_state(state, device)


class _ModelState:
    """What a model was like; takes the gradients of the parameters away until it is restored."""

    def __init__(self, model: nn.Module, *, buffers: bool) -> None:
        parameters = list(model.parameters())
        tensors = [*parameters, *model.buffers()]
        self.random = RandomState(tensor.device for tensor in tensors)
        self.modules = [_ModuleState(module) for module in model.modules()]
        held = _Held(model)
        self.containers = [(container, _parts(container)) for container in held.containers]
        kept = [*(model.buffers() if buffers else ()), *filter(_has_own_values, held.tensors)]
        self.values = [(tensor, tensor.clone()) for tensor in kept]
        self.parameters = [_ParameterState(parameter) for parameter in parameters]

    def restore(self) -> None:
        # Modules before parameters: a replaced parameter is put back, then its state.
        self.random.restore()
        for module in self.modules:
            module.restore()
        for container, parts in self.containers:
            _restore_container(container, parts)
        for parameter in self.parameters:
            parameter.restore()
        with torch.no_grad():
            for tensor, value in self.values:
                if not tensor.is_meta and not torch.equal(tensor, value):
                    tensor.copy_(value)


class _Held:
    """Containers and tensors in plain attributes of the modules of a model, each once.

    Containers inside containers count, too. Parameters and registered buffers do not.
    """

    def __init__(self, model: nn.Module) -> None:
        self.containers: list[Any] = []
        self.tensors: list[Tensor] = []
        self._seen = {id(tensor) for tensor in (*model.parameters(), *model.buffers())}
        for module in model.modules():
            for name, value in vars(module).items():
                if name not in OWN_ATTRIBUTES:
                    self._add(value)

    def _add(self, value: Any) -> None:
        if not isinstance(value, (Tensor, tuple, *CONTAINERS)) or id(value) in self._seen:
            return
        self._seen.add(id(value))
        if isinstance(value, Tensor):
            self.tensors.append(value)
            return
        if not isinstance(value, tuple):
            self.containers.append(value)
        for part in _parts(value):
            self._add(part)


class _ModuleState:
    """What one module was like, without the modules inside it."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.training = module.training
        self.parameters = dict(module._parameters)
        self.buffers = dict(module._buffers)
        self.modules = dict(module._modules)
        self.hooks = _hooks(module, MODULE_HOOKS)
        # Old-style spectral and weight norm write the weight of a pass into an attribute. A
        # module that keeps it cannot be copied.
        self.attributes = dict(module.__dict__)
        self.generators = _generator_states(self.attributes.values())

    def restore(self) -> None:
        _restore_entries(self.module.__dict__, self.attributes)
        self.module.training = self.training
        _restore_entries(self.module._parameters, self.parameters)
        _restore_entries(self.module._buffers, self.buffers)
        _restore_entries(self.module._modules, self.modules)
        _restore_hooks(self.module, self.hooks)
        for restore, state in self.generators:
            restore(state)


class _ParameterState:
    """What one parameter was like, except for its value."""

    def __init__(self, parameter: Tensor) -> None:
        self.parameter = parameter
        self.requires_grad = parameter.requires_grad
        self.hooks = _hooks(parameter, PARAMETER_HOOKS)
        self.grad = parameter.grad if parameter.is_leaf else None
        if self.grad is not None:
            parameter.grad = None

    def restore(self) -> None:
        if self.parameter.requires_grad != self.requires_grad:
            self.parameter.requires_grad_(self.requires_grad)
        if self.parameter.is_leaf and self.parameter.grad is not self.grad:
            self.parameter.grad = self.grad
        _restore_hooks(self.parameter, self.hooks)


def check_not_lazy(model: nn.Module) -> None:
    """An error, if ``model`` has parameters without a shape."""
    tensors = (*model.named_parameters(), *model.named_buffers())
    lazy = [name for name, value in tensors if nn.parameter.is_lazy(value)]
    if lazy:
        raise ArgumentError(
            "model: parameters have no shape yet",
            got=", ".join(lazy[:4]),
            fix="run the model once on an example: its lazy modules then get their shapes",
        )


def _generator_states(values: Iterable[Any]) -> list[tuple[Callable[[Any], Any], Any]]:
    """How to restore each random generator among ``values``, and its state."""
    states: list[tuple[Callable[[Any], Any], Any]] = []
    for value in values:
        if isinstance(value, torch.Generator):
            states.append((value.set_state, value.get_state()))
        elif isinstance(value, random.Random):
            states.append((value.setstate, value.getstate()))
        elif type(value).__module__.startswith("numpy.random"):
            inner = getattr(value, "bit_generator", None)
            if inner is not None:
                states.append((partial(setattr, inner, "state"), inner.state))
            elif hasattr(value, "set_state"):
                states.append((value.set_state, value.get_state()))
    return states


def _hooks(owner: Any, names: Iterable[str]) -> HookDicts:
    hooks: HookDicts = {}
    for name in names:
        entries = getattr(owner, name, None)
        hooks[name] = (entries, frozenset(entries or ()))
    return hooks


def _restore_hooks(owner: Any, before: HookDicts) -> None:
    """Remove the hooks that are new. A hook that removed itself stays removed."""
    for name, (entries, keys) in before.items():
        if getattr(owner, name, None) is not entries:
            setattr(owner, name, entries)
        for key in [key for key in entries or () if key not in keys]:
            del entries[key]


def _restore_entries(entries: dict[str, Any], before: dict[str, Any]) -> None:
    """Let ``entries``, the dictionary of a module itself, hold the same objects as before."""
    same = entries.keys() == before.keys() and all(
        entries[name] is value for name, value in before.items()
    )
    if not same:
        entries.clear()
        entries.update(before)


def _has_own_values(tensor: Tensor) -> bool:
    """Whether a tensor in a plain attribute has values that code may write into.

    What was computed with gradients has not: torch keeps it for the backward pass.
    """
    return type(tensor) is Tensor and tensor.is_leaf and tensor.layout is torch.strided


def _parts(container: Any) -> list[Any]:
    """What is in a container; of a dict all keys, then all values."""
    if isinstance(container, dict):
        return [*container.keys(), *container.values()]
    return list(container)


def _restore_container(container: Any, before: list[Any]) -> None:
    """Let ``container`` hold the same objects as before, if it does not."""
    now = _parts(container)
    if len(now) == len(before) and all(map(operator.is_, now, before)):
        return
    # The methods of the built-in type: a subclass may forbid its own.
    kind = next(kind for kind in CONTAINERS if isinstance(container, kind))
    kind.clear(container)
    add: Any = kind.extend if kind in (list, deque) else kind.update
    half = len(before) // 2
    pairs = zip(before[:half], before[half:], strict=False)
    add(container, pairs if isinstance(container, dict) else before)
