"""What a unit is: its mathematics, its module, and the facts that other parts read."""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from difflib import get_close_matches
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from gatewise.errors import ArgumentError, UnitDefinitionError, unknown_name
from gatewise.extensions import load_extensions, unknown_addition
from gatewise.units.contract.completing import complete
from gatewise.units.contract.unit_module import UnitModule

Family = Literal["max-affine", "piecewise", "soft", "smooth", "adaptive", "context"]
FAMILIES: dict[Family, str] = {
    "max-affine": "largest of a few straight lines",
    "piecewise": "other straight pieces",
    "soft": "a max-affine unit with softened gates",
    "smooth": "fixed curve",
    "adaptive": "curve with trainable shape",
    "context": "looks beyond its own element, or has two responses",
}
PAPERS = {
    "psc": "Phase Selective Convolution (CVPRW 2021)",
    "maso": "From Hard to Soft: Understanding Deep Network Nonlinearities via VQ (ICLR 2019)",
    "crelu": "Understanding and Improving CNNs via Concatenated Rectified Linear Units (ICML 2016)",
    "iieu": "IIEU: Rethinking Neural Feature Activation from Decision-Making (ICCV 2023)",
    "dgn": "Deep Gated Networks: a framework to understand training and generalisation (2020)",
}
SPAN_TARGETS = (
    "relu",
    "identity",
    "abs",
)  # functions that `spans` may name
# What it means that a unit is on for a response x, with output y. A gate is on a scale from 0,
# where the unit passes least, to 1, where it passes most.
ON = (
    "x > 0",
    "x > 0, x < 0",  # two outputs for each response, each on for one sign
    "gate > 1/2",
    "y = x",
    "similarity >= threshold",
    "no gate",
)
# What a unit may need: the number of channels, 2-d feature maps, or input channels that are
# divisible by `pieces`.
NEEDS = (
    "channels",
    "maps",
    "groups",
)

Module = TypeVar("Module", bound=type[UnitModule])
Pieces = tuple[tuple[float, ...], tuple[float, ...]]  # slopes, offsets
Spans = Mapping[str, tuple[float, ...]]


@dataclass(frozen=True)
class Bound:
    """A bound on the error: at most ``ulps`` units in the last place, or at most ``absolute``.

    Both are 0 for an exact result.
    """

    ulps: int = 0  # units in the last place
    absolute: float = 0.0


@dataclass(frozen=True)
class Promise:
    """Largest error of a unit's value, and of its derivative to the input, in one dtype."""

    forward: Bound = Bound()
    backward: Bound = Bound()


@dataclass(frozen=True)
class Limits:
    """Limit of each part of the curve as the input goes to minus and to plus infinity.

    An input that is infinite gives what torch's operations give, which may be NaN.
    """

    minus: tuple[float, ...]  # one number per part of the output
    plus: tuple[float, ...]


# Of a curve like ReLU.
RECTIFIED = Limits(minus=(0.0,), plus=(math.inf,))


def leaky_limits(slope: float) -> Limits:
    """Return the limits of a curve that is ``slope * x`` at minus and ``x`` at plus infinity."""
    return Limits(minus=(-math.copysign(math.inf, slope) if slope else 0.0,), plus=(math.inf,))


DTYPES = ("float16", "bfloat16", "float32")
EXACT: Mapping[str, Promise] = MappingProxyType({name: Promise() for name in DTYPES})


def promise(
    ulps: int,
    absolute: float = 0.0,
    *,
    back: int | None = None,
    back_absolute: float | None = None,
) -> Promise:
    """Return a bound of ``ulps`` or ``absolute`` on the value and the derivative.

    Args:
        ulps: units in the last place.
        absolute: an absolute error that is also allowed.
        back: ``ulps`` of the derivative, if different.
        back_absolute: ``absolute`` of the derivative, if different.
    """
    backward = Bound(
        ulps if back is None else back, absolute if back_absolute is None else back_absolute
    )
    return Promise(Bound(ulps, absolute), backward)


def by_channel(formula: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a reference form for a formula whose arguments broadcast along the last dimension."""

    def reference(x: Tensor, *, dim: int = 1, **arguments: Tensor | float) -> Tensor:
        if x.dim() == 0:
            return formula(x, **arguments)
        return formula(x.movedim(dim, -1), **arguments).movedim(-1, dim)

    return reference


_ROUNDED = promise(1, 2**-24)


def error_bounds(*, float32: Promise, half: Promise = _ROUNDED) -> Mapping[str, Promise]:
    """Return the bounds by dtype, with one bound for both half types."""
    return {
        "float16": half,
        "bfloat16": half,
        "float32": float32,
    }


@dataclass(frozen=True, kw_only=True)
class Unit:
    """One activation function and its facts.

    Facts that depend on the options are functions of them; :meth:`fact` evaluates both kinds.
    """

    # The one spelling used by configs, command line, docs and reports.
    name: str
    title: str
    family: Family
    # function(x, **module.arguments(x)) is module(x).
    function: Callable[..., Tensor]
    module: type[UnitModule]
    # LaTeX.
    formula: str
    # Where the unit was first defined.
    paper: str
    # Slow and obvious, with the same arguments as `function`; run in float64.
    reference: Callable[..., Tensor]
    limits: Limits | Callable[..., Limits]
    # By dtype name.
    error: Mapping[str, Promise]
    # The largest magnitude of an input for which the error bounds hold in float32 and bfloat16.
    largest: float = math.inf
    # What "on" means, out of ON.
    on: str = "gate > 1/2"
    # Keys of PAPERS.
    studied_in: tuple[str, ...] = ()
    # Output channels per input channel.
    channel_ratio: Fraction | Callable[..., Fraction] = Fraction(1)
    # Points where the derivative jumps, and the derivative there.
    kinks: Mapping[float, float] | Callable[..., Mapping[float, float]] = field(
        default_factory=dict
    )
    # The max-affine pieces, if the unit has them.
    pieces: Pieces | Callable[..., Pieces] | None = None
    # Other units, and the weights with which the output parts add up to them.
    spans: Spans | Callable[..., Spans] = field(default_factory=dict)
    # Trainable parameters and their start values.
    parameters: Mapping[str, str] = field(default_factory=dict)
    # None: 1 / sqrt(E f(z)^2) for standard normal z, by quadrature.
    init_gain: float | Callable[..., float] | None = None
    # What the unit needs besides its input, out of NEEDS.
    needs: tuple[str, ...] = ()
    # Options with which the contract builds the module.
    samples: tuple[Mapping[str, Any], ...] = ({},)
    # Arguments for an elementwise sweep of units whose module reads other elements.
    probe: Callable[[Tensor], dict[str, Any]] | None = None
    # A pitfall that users should know.
    note: str = ""
    # How the module is made, its options and a digest: only for units outside the catalogue.
    make: Callable[..., Any] | None = None
    make_options: Mapping[str, inspect.Parameter] = field(default_factory=dict)
    fingerprint: str = ""

    def __post_init__(self) -> None:
        _check_facts(self)

    def fact(self, name: str, **options: Any) -> Any:
        """Return the fact ``name`` for these options.

        For example, ``get_unit("leaky_relu").fact("kinks", slope=0.2)``.
        """
        value = getattr(self, name)
        if not callable(value):
            return value
        accepted = inspect.signature(value).parameters
        return value(**{name: options[name] for name in options if name in accepted})

    @property
    def options(self) -> dict[str, inspect.Parameter]:
        """Constructor options of the module, in order, without device and dtype."""
        if self.make is not None:
            parameters = dict(self.make_options)
        else:
            parameters = dict(inspect.signature(self.module).parameters)
        for name in ("device", "dtype"):
            parameters.pop(name, None)
        return parameters

    def create(self, **options: Any) -> Any:
        """Return a new module of the unit.

        Args:
            **options: of the constructor; device and dtype too, if the unit has parameters.
        """
        if self.make is None:
            return self.module(**options)
        return self.make(**options)

    def init_gain_for(self, **options: Any) -> float:
        """Return ``1 / sqrt(E f(z)^2)`` for standard normal ``z`` and the options' start values.

        Use it like :func:`torch.nn.init.calculate_gain`: ``std = gain / sqrt(fan_in)`` in the layer
        that reads the unit's output.
        """
        if self.init_gain is not None:
            return float(self.fact("init_gain", **options))
        return _quadrature_gain(self.function, self.module(**options), self.probe)

    @property
    def learns(self) -> bool:
        """Whether the unit has trainable parameters."""
        return bool(self.parameters)


@torch.no_grad()
def _quadrature_gain(
    function: Callable[..., Tensor],
    module: UnitModule,
    probe: Callable[[Tensor], dict[str, Any]] | None,
) -> float:
    """Return ``1 / sqrt(E f(z)^2)`` for standard normal ``z``, by the trapezoid rule.

    The mean square is taken over all outputs. The error of the rule is below 1e-7 even for curves
    with corners: the step is 1e-3, and the tails end where the density is 1e-32.
    """
    z = torch.linspace(-12.0, 12.0, 24001, dtype=torch.float64)
    density = torch.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    channels = module.options.get("channels") or 1
    x = z.expand(1, channels, -1)
    arguments = probe(x) if probe else module.double().arguments(x)
    # The channels of ``x`` are in dimension 1, whatever the module's option says.
    if "dim" in arguments:
        arguments["dim"] = 1
    square = function(x, **arguments).square().mean((0, 1))
    return float(torch.trapezoid(square * density, z)) ** -0.5


# Filled by the decorator `unit` when the files of the catalogue are imported.
_UNITS: dict[str, Unit] = {}
# Units that users have made in this process: see Note [Units outside the catalogue].
OWN_UNITS: dict[str, Unit] = {}


def unit_facts(module: type[UnitModule], **facts: Any) -> Unit:
    """Return a :class:`Unit` from its facts.

    Args:
        module: the module class of the unit.
        **facts: the other fields of :class:`Unit`.

    Raises:
        UnitDefinitionError: if a fact is misspelt, missing or contradicts another.
    """
    known = {f.name: f for f in fields(Unit)}
    for name in facts:
        if name not in known or name == "module":
            near = get_close_matches(name, known, n=1)
            raise UnitDefinitionError(
                f"{module.__name__} declares an unknown fact",
                got=name,
                allowed=", ".join(known),
                fix=f"did you mean {near[0]!r}?" if near else None,
            )
    missing = [n for n, f in known.items() if n != "module" and n not in facts and _is_required(f)]
    if missing:
        raise UnitDefinitionError(
            f"{module.__name__} does not declare {', '.join(missing)}", fix="add the missing facts"
        )
    complete(module, facts["function"], facts.get("parameters", ()), facts.get("probe"))
    return Unit(module=module, **facts)


def unit(**facts: Any) -> Callable[[Module], Module]:
    """Return a decorator that registers a module class as the unit ``facts["name"]``.

    Args:
        **facts: the fields of :class:`Unit` except ``module``.
    """

    def enter(module: Module) -> Module:
        spec = unit_facts(module, **facts)
        if spec.name in _UNITS:
            home = _UNITS[spec.name].module.__module__
            raise UnitDefinitionError(
                f"unit {spec.name!r} is already defined in {home}", fix="choose another name"
            )
        _UNITS[spec.name] = spec
        module.function = staticmethod(spec.function)
        if "forward" in vars(module):
            vars(module.forward)["function"] = spec.function
        return module

    return enter


def registered_units() -> Mapping[str, Unit]:
    """Return all units by name, as a read-only mapping."""
    return MappingProxyType(_UNITS)


def list_units(*, family: str | None = None, paper: str | None = None) -> list[str]:
    """Names of the units in the catalogue.

    Args:
        family: only units of this family, one of ``"max-affine"``, ``"piecewise"``, ``"soft"``,
            ``"smooth"``,
            ``"adaptive"`` and ``"context"``.
        paper: only units studied in this paper, one of ``"psc"``, ``"maso"``, ``"crelu"``,
            ``"iieu"`` and ``"dgn"``.

    Returns:
        The names, in the order of registration. :func:`get_unit` returns the unit of a name.
    """
    if family is not None and (not isinstance(family, str) or family not in FAMILIES):
        raise unknown_name("family", family, FAMILIES)
    if paper is not None and (not isinstance(paper, str) or paper not in PAPERS):
        raise unknown_name("paper", paper, PAPERS)
    load_extensions("units")
    names = []
    for name, spec in _UNITS.items():
        if family is not None and spec.family != family:
            continue
        if paper is not None and paper not in spec.studied_in:
            continue
        names.append(name)
    return names


def get_unit(name: str) -> Unit:
    """Return the unit called ``name``.

    Args:
        name: the name of a unit, as :func:`list_units` lists it.

    Raises:
        UnknownNameError: if there is no such unit; the message names the nearest one.
    """
    if not isinstance(name, str):
        raise ArgumentError(
            "a unit's name must be a string",
            got=name,
            allowed=", ".join(sorted(_UNITS)),
        )
    if name in OWN_UNITS:
        return OWN_UNITS[name]
    if name not in _UNITS:
        load_extensions("units")
    if name not in _UNITS:
        raise unknown_addition("units", "unit", name, _UNITS)
    return _UNITS[name]


def _is_required(f: Any) -> bool:
    return f.default is MISSING and f.default_factory is MISSING


def _check_facts(spec: Unit) -> None:
    """Raise an error for contradictions that can be seen without running the unit."""

    def refuse(what: str, got: object, allowed: object) -> UnitDefinitionError:
        return UnitDefinitionError(f"unit {spec.name!r}: {what}", got=got, allowed=allowed)

    if not spec.name.isidentifier() or spec.name != spec.name.lower():
        raise refuse("a name must be a lower-case identifier", spec.name, "letters, digits and _")
    if spec.function.__name__ != spec.name:
        raise refuse(
            "the function must have the name of the unit",
            spec.function.__name__,
            spec.name,
        )
    if spec.family not in FAMILIES:
        raise refuse("unknown family", spec.family, ", ".join(FAMILIES))
    if spec.on not in ON:
        raise refuse("unknown meaning of on", spec.on, "; ".join(ON))
    for names, known, what in (
        (spec.studied_in, PAPERS, "paper"),
        (spec.needs, NEEDS, "need"),
        (spec.error, DTYPES, "dtype"),
    ):
        for name in names:
            if name not in known:
                raise refuse(f"unknown {what}", name, ", ".join(known))
    if set(spec.error) != set(DTYPES):
        raise refuse("every dtype needs an error bound", ", ".join(spec.error), ", ".join(DTYPES))
    accepted = spec.options if any(spec.samples) else {}
    for options in spec.samples:
        for name in options:
            if name not in accepted:
                raise refuse(
                    "a sample names an option that the module does not have",
                    name,
                    ", ".join(spec.options),
                )
