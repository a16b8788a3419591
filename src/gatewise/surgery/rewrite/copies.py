"""Copies of a model, and what a module that replaces another one takes over from it."""

import copy
from typing import Any

from torch import Tensor, nn

# Dictionaries of hooks that a module may have.
HOOKS = (
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_backward_pre_hooks",
    "_backward_hooks",
    "_state_dict_pre_hooks",
    "_state_dict_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)
FORWARD_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")


def copy_with_same_tensors(model: nn.Module) -> nn.Module:
    """Return a copy of the module tree that shares all tensors with ``model``."""
    shared: dict[int, Any] = {}
    for module in model.modules():
        tables = (module._parameters, module._buffers, vars(module))
        for value in (value for table in tables for value in table.values()):
            if isinstance(value, Tensor):
                shared[id(value)] = value
    return copy.deepcopy(model, shared)


def has_hooks(module: nn.Module | None) -> bool:
    """Whether hooks look at what the module reads or returns."""
    return any(getattr(module, name, None) for name in FORWARD_HOOKS)


def carry_hooks(old: nn.Module, new: nn.Module) -> None:
    """Let the hooks of ``old`` run for ``new``, which takes its place.

    Both modules have the same dictionaries of hooks, so that a handle removes a hook from both. A
    hook that holds the module (before a state dict is loaded) is made anew for ``new``.
    """
    for name in HOOKS:
        hooks = getattr(old, name, None)
        if not hooks or hooks is getattr(new, name, None):
            continue
        entries = {key: _for_module(hook, new) for key, hook in hooks.items()}
        same = all(entries[key] is hook for key, hook in hooks.items())
        if same and not getattr(new, name):
            vars(new)[name] = hooks
        else:
            getattr(new, name).update(entries)
    if getattr(old, "_backward_hooks", None):
        vars(new)["_is_full_backward_hook"] = old._is_full_backward_hook


def _for_module(hook: Any, module: nn.Module) -> Any:
    """The hook itself, or a copy for another module if torch has stored the module with it."""
    if getattr(hook, "with_module", False) and hasattr(hook, "hook"):
        return type(hook)(hook.hook, module)
    return hook
