"""What a unit's module class leaves out: its constructor and ``forward``, from its function.

The options of the module are those of the function, in the same order: numbers that train have one
start value each, and stand before ``channels``. Device and dtype follow.
"""

import inspect
from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import Tensor

from gatewise.units.contract.unit_module import (
    Device,
    DType,
    TrainableUnit,
    UnitModule,
    ignoring_inplace,
)

Probe = Callable[[Tensor], dict[str, Any]] | None
_GENERAL = (UnitModule.__init__, TrainableUnit.__init__)


def complete(
    module: type[UnitModule],
    function: Callable[..., Tensor],
    trained: Collection[str],
    probe: Probe,
) -> None:
    """Give a module class what it does not define itself.

    Args:
        module: the class.
        function: of the unit.
        trained: the names of the parameters.
        probe: returns the function's further inputs for a first one.
    """
    if module.__init__ in _GENERAL and "__init__" in vars(module):
        return  # a base class
    signature = inspect.signature(function)
    module.argument_names = tuple(
        name for name in list(signature.parameters)[1:] if name not in ("gate", "up")
    )
    module.trained = tuple(name for name in module.argument_names if name in trained)
    if module.__init__ in _GENERAL:
        construct = _constructor(module, function, probe, _options(signature, module.trained))
        module.__init__ = ignoring_inplace(construct)
    if "expression" in vars(module) and "forward" not in vars(module):
        module.forward = module.leaf_of(module.expression)
    module.function = staticmethod(function)
    if "forward" in vars(module):
        vars(module.forward)["function"] = function


def bind_options(
    owner: str, signature: inspect.Signature, *args: Any, **given: Any
) -> dict[str, Any]:
    """Return all options of a constructor by name.

    Args:
        owner: the class, for the error.
        signature: of the constructor.
        *args: the options given by position.
        **given: the options given by name.

    Raises:
        TypeError: as Python does for a constructor of this signature.
    """
    try:
        bound = signature.bind(*args, **given)
    except TypeError as error:
        raise TypeError(f"{owner}.__init__() {error}") from None
    bound.apply_defaults()
    options = dict(bound.arguments)
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            options |= options.pop(parameter.name)
    return options


def _options(function: inspect.Signature, trained: Collection[str]) -> inspect.Signature:
    """Return the signature of a constructor."""
    kind = inspect.Parameter.KEYWORD_ONLY
    options = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    channels = inspect.Parameter("channels", kind, default=None, annotation=int | None)
    for name, parameter in list(function.parameters.items())[1:]:
        if name in trained:
            options.append(parameter.replace(kind=kind, annotation=float))
        elif parameter.annotation != Tensor | None:
            options += [channels] if trained and name == "dim" else []
            options.append(parameter.replace(kind=kind))
    if trained:
        for name, annotation in (("device", Device), ("dtype", DType)):
            options.append(inspect.Parameter(name, kind, default=None, annotation=annotation))
    return inspect.Signature(options, return_annotation=None)


def _constructor(
    module: type[UnitModule],
    function: Callable[..., Tensor],
    probe: Probe,
    signature: inspect.Signature,
) -> Callable[..., None]:
    plain = [name for name in module.argument_names if name not in module.trained]
    checked = [name for name in plain if name != "dim"]  # that needs an input

    def __init__(self: Any, *args: Any, **given: Any) -> None:  # noqa: N807 - a method
        options = bind_options(module.__name__, signature, None, *args, **given)
        del options["self"]
        super(module, self).__init__(**options)
        # The function checks its options, also those of a call without numbers.
        nothing = torch.empty(0, 0)
        numbers = {name: options[name] for name in checked}
        function(nothing, **(probe(nothing) if probe else {}), **numbers)
        for name in plain:
            is_number = signature.parameters[name].annotation is float
            setattr(self, name, float(options[name]) if is_number else options[name])

    __init__.__qualname__ = f"{module.__qualname__}.__init__"
    __init__.__module__ = module.__module__
    __init__.__signature__ = signature  # pyright: ignore[reportFunctionMemberAccess]
    return __init__
