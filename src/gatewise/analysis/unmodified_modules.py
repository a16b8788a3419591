"""Modules that do what their class says, so that they can be read without running them."""

from typing import Any

from torch import nn

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def is_as_written(module: nn.Module) -> bool:
    """Whether calling it is what its class says.

    No hooks, no parametrisation, no ``forward`` of its own.
    """
    own = vars(module)
    if "forward" in own or "_conv_forward" in own or any(own.get(name) for name in HOOKS):
        return False
    if any(
        getattr(nn.modules.module, f"_global{name}", None) for name in HOOKS
    ):  # of all modules there are
        return False
    return all(map(_is_plain_parameter, module._parameters.values()))


def _is_plain_parameter(parameter: Any) -> bool:
    return parameter is None or type(parameter) is nn.Parameter
