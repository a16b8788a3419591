"""A unit from an activation of the user: a module class, a module, a factory or a function.

Note [Units outside the catalogue]. :func:`unit_from` gives the object a name, under which
:func:`get_unit` and surgery know it in this process. It is not listed in the catalogue, because
nothing is known about it: it declares no limits, no error bounds and no pieces.
"""

import copy
import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.errors import ArgumentError, GatewiseError, shorten
from gatewise.units.contract.spec import (
    DTYPES,
    OWN_UNITS,
    Bound,
    Limits,
    Promise,
    Unit,
    registered_units,
)

MARK = "gatewise_unit"  # attribute of modules that were made from a user's activation
ALLOWED = "a unit's name, an nn.Module class or instance, a function that makes one, or f(x)"
UNKNOWN = Limits(minus=(torch.nan,), plus=(torch.nan,))
UNBOUNDED = Promise(Bound(0, torch.inf), Bound(0, torch.inf))
PROBE = (2, 6)  # shape of the inputs in a fingerprint


class FunctionUnit(nn.Module):
    """A module that calls a function of one tensor.

    Args:
        function: of the user.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        """Return the function of ``x``."""
        return self.function(x)

    def extra_repr(self) -> str:
        """Return the name of the function."""
        return _name_of(self.function)


def unit_from(activation: Any, name: str | None = None) -> Unit:
    """Return the unit of an activation that is not in the catalogue, or of its name.

    The same activation gives the same unit again. See Note [Units outside the catalogue].

    Args:
        activation: a class derived from ``nn.Module``, a module (each place gets a copy), a
            function without arguments or with the argument ``channels`` that makes a module, a
            function of one tensor, a :class:`Unit`, or the name of a unit. A class or function
            with the arguments ``channels`` or ``dim`` gets the number of channels and their
            dimension at each place.
        name: of the unit; taken from the activation if not given.

    Raises:
        ArgumentError: if it is none of these, or the module cannot be made.
    """
    known = _known_unit(activation)
    if known is not None:
        return known
    make = _maker(activation)
    label = _identifier(name or _name_of(activation))
    fingerprint = _fingerprint(activation, make, label)
    taken = {*registered_units(), *_SWAP_NAMES}
    chosen = f"{label}_{fingerprint[:8]}"
    for candidate in (label, f"{label}_own", chosen):
        before = OWN_UNITS.get(candidate)
        if before is not None and before.fingerprint == fingerprint:
            return before
        if before is None and candidate not in taken:
            chosen = candidate
            break
    unit = _unit(chosen, _name_of(activation), make, fingerprint)
    OWN_UNITS[chosen] = unit
    return unit


def is_activation_object(value: Any) -> bool:
    """Return whether ``value`` can be given to :func:`unit_from` and is not a name."""
    return isinstance(value, Unit | nn.Module) or (callable(value) and not isinstance(value, str))


# Names of swaps that are not units of the catalogue; a unit of the user must not hide one.
_SWAP_NAMES = (
    "psc",
    "concat_act",
    "iieu_dc",
    "beta",
    "galu",
    "gated_attention",
    "plain_mlp",
    "thresholded",
)


def _known_unit(activation: Any) -> Unit | None:
    """Return the unit that is meant, if there is one already."""
    if isinstance(activation, str):
        from gatewise.units.contract.spec import get_unit

        return get_unit(activation)
    if isinstance(activation, Unit):
        if registered_units().get(activation.name) is not activation:
            OWN_UNITS[activation.name] = activation
        return activation
    if isinstance(activation, type):
        for unit in registered_units().values():
            if unit.module is activation:
                return unit
    return None


def _maker(activation: Any) -> Callable[..., Any]:
    """Return a function that makes the module."""
    if isinstance(activation, nn.Module):
        return lambda: copy.deepcopy(activation)
    if isinstance(activation, type) and not issubclass(activation, nn.Module):
        raise ArgumentError("unit: a class that is not an nn.Module", got=activation.__name__)
    if not callable(activation):
        raise ArgumentError("unit: not understood", got=activation, allowed=ALLOWED)
    if isinstance(activation, type) or _makes_modules(activation):
        return activation
    return lambda: FunctionUnit(activation)


def _makes_modules(function: Callable[..., Any]) -> bool:
    """Return whether a function makes modules, instead of being the activation itself."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a function written in C
        return False
    needed = []
    for parameter in parameters:
        optional = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if parameter.default is parameter.empty and not optional:
            needed.append(parameter.name)
    if needed:
        return needed == ["channels"]
    with _kept_randomness():
        try:
            return isinstance(function(), nn.Module)
        except Exception:  # whatever a function of the user raises without its argument
            return False


def _unit(name: str, title: str, make: Callable[..., nn.Module], fingerprint: str) -> Unit:
    """Return the unit, after checking that its module can be made."""
    options = _options(make)
    required = [o for o, p in options.items() if p.default is p.empty]
    unknown = [option for option in required if option != "channels"]
    if unknown:
        raise ArgumentError(
            f"unit: {title} needs arguments that are not known",
            got=", ".join(unknown),
            fix="give a module, or a function that makes one: lambda: MyUnit(...)",
        )

    def create(**values: Any) -> nn.Module:
        """Make one module, with the device and dtype of the layers around it."""
        place = {key: values.pop(key) for key in ("device", "dtype") if key in values}
        module = _call(make, title, values)
        setattr(module, MARK, name)
        return module.to(**place) if place else module

    example = create(**({"channels": PROBE[1]} if required else {}))
    trained = {key: "as made" for key, _ in example.named_parameters()}

    def function(x: Tensor) -> Tensor:
        """Call a new module."""
        return create()(x)

    function.__name__ = name
    return Unit(
        name=name,
        title=title,
        family="adaptive" if trained else "smooth",
        function=function,
        module=type(example),  # pyright: ignore[reportArgumentType] - any module of the user
        formula="",
        paper="",
        reference=function,
        limits=UNKNOWN,
        error=dict.fromkeys(DTYPES, UNBOUNDED),
        parameters=trained,
        needs=("channels",) if required else (),
        note="not in the catalogue: nothing is declared about it",
        make=create,
        make_options=options,
        fingerprint=fingerprint,
    )


def _options(make: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the arguments by name, without those that collect others."""
    try:
        parameters = inspect.signature(make).parameters
    except (TypeError, ValueError):
        return {}
    options = {}
    for name, parameter in parameters.items():
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            options[name] = parameter
    return options


def _call(make: Callable[..., Any], title: str, values: dict[str, Any]) -> nn.Module:
    """Make a module, or raise an error that names the unit."""
    try:
        module = make(**values)
    except GatewiseError:
        raise
    except Exception as problem:
        raise ArgumentError(
            f"unit: {title} cannot be made", got=f"{type(problem).__name__}: {problem}"
        ) from problem
    if not isinstance(module, nn.Module):
        raise ArgumentError(f"unit: {title} did not make a module", got=type(module).__name__)
    return module


def _name_of(activation: Any) -> str:
    """Return the name that the user knows the activation by."""
    if isinstance(activation, nn.Module):
        return type(activation).__name__
    inner = getattr(activation, "func", activation)  # of functools.partial
    name = getattr(inner, "__name__", type(inner).__name__)
    if name != "<lambda>":
        return name
    if _makes_modules(activation) and "channels" not in _options(activation):
        with _kept_randomness():
            return type(activation()).__name__
    return "function"


def _identifier(name: str) -> str:
    """Return a name in lower case with underscores: ``MyAct`` becomes ``my_act``."""
    if not isinstance(name, str):
        raise ArgumentError("unit: a name is needed", got=name, allowed="a string")
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z])", "_", name).lower()
    words = re.sub(r"[^a-z0-9_]+", "_", words).strip("_") or "unit"
    return words if words.isidentifier() else f"unit_{words}"


def _fingerprint(activation: Any, make: Callable[..., nn.Module], name: str) -> str:
    """Return a digest of the source, the weights and some outputs of the activation.

    It tells two activations of one name apart, also in another process.
    """
    inner = getattr(activation, "func", activation)
    subject = type(inner) if isinstance(inner, nn.Module) else inner
    try:
        source = inspect.getsource(subject)
    except (OSError, TypeError):
        source = getattr(subject, "__qualname__", "")
    words = [name, source]
    for keys in ("args", "keywords"):  # of functools.partial
        words.append(repr(getattr(activation, keys, "")))
    with _kept_randomness(), torch.no_grad():
        torch.default_generator.manual_seed(0)
        try:
            needs = "channels" in _options(make)
            module = make(**({"channels": PROBE[1]} if needs else {})).eval()
            words.append(repr(module))
            for key, tensor in module.state_dict().items():
                words.append(f"{key} {tuple(tensor.shape)} {tensor.flatten()[:64].tolist()}")
            outputs = module(torch.linspace(-3, 3, 12).reshape(PROBE))
            words.append(repr([round(value, 3) for value in outputs.flatten().tolist()]))
        except Exception as problem:  # reported later, at the shape of a real place
            words.append(type(problem).__name__)
    return sha256(shorten("\n".join(words), 1_000_000).encode()).hexdigest()


@contextmanager
def _kept_randomness() -> Iterator[None]:
    """Restore the state of torch's generator after the block."""
    state = torch.default_generator.get_state()
    try:
        yield
    finally:
        torch.default_generator.set_state(state)
