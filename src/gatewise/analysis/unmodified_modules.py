"""Modules without hooks or overrides, which can be read without running them."""

from torch import nn

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
OVERRIDES = ("forward", "_conv_forward")


def is_as_written(module: nn.Module) -> bool:
    """Whether calling a module does what its class says.

    It has no hooks, no parametrisation, and no ``forward`` of its instance. There are no global
    hooks on all modules either.
    """
    attributes = vars(module)
    if any(name in attributes for name in OVERRIDES):
        return False
    for name in HOOKS:
        if attributes.get(name) or getattr(nn.modules.module, f"_global{name}", None):
            return False
    parameters = (each for each in module._parameters.values() if each is not None)
    return all(type(parameter) is nn.Parameter for parameter in parameters)
