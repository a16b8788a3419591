"""What a unit is: its mathematics, its module, and the facts every other part of the library reads."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from difflib import get_close_matches
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Literal, TypeVar

from torch import Tensor

from gatewise.errors import ArgumentError, UnitDefinitionError, unknown_name
from gatewise.units.contract.gain import quadrature_gain
from gatewise.units.contract.unit_module import UnitModule

Family = Literal["max-affine", "soft", "smooth", "adaptive", "context"]
FAMILIES: dict[Family, str] = {
    "max-affine": "largest of a few straight lines",
    "soft": "a max-affine unit with softened gates",
    "smooth": "fixed smooth curve",
    "adaptive": "curve with trainable shape",
    "context": "looks beyond its own element",
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
)  # what `spans` may say a weighted sum of the parts gives back
NEEDS = (
    "channels",
    "maps",
    "groups",
)  # channel count; 2-d feature maps; input channels divisible by `pieces`

Module = TypeVar("Module", bound=type[UnitModule])
Pieces = tuple[tuple[float, ...], tuple[float, ...]]  # slopes, offsets


@dataclass(frozen=True)
class Bound:
    """A promised error: at most ``ulps`` units in the last place, or at most ``absolute``.

    Both 0 is exact.
    """

    ulps: int = 0
    absolute: float = 0.0


@dataclass(frozen=True)
class Promise:
    """Largest error of a unit's value and of its derivative with respect to the input, in one dtype."""

    forward: Bound = Bound()
    backward: Bound = Bound()


@dataclass(frozen=True)
class Limits:
    """Value of each part of the output as the input goes to minus and to plus infinity.

    NaN always gives NaN.
    """

    minus: tuple[float, ...]
    plus: tuple[float, ...]


DTYPES = ("float16", "bfloat16", "float32")
EXACT: Mapping[str, Promise] = MappingProxyType({name: Promise() for name in DTYPES})


def promise(
    ulps: int, absolute: float = 0.0, *, back: int | None = None, back_absolute: float | None = None
) -> Promise:
    """``ulps`` or ``absolute`` forward.

    The same backward unless ``back`` and ``back_absolute`` say otherwise.
    """
    backward = Bound(
        ulps if back is None else back, absolute if back_absolute is None else back_absolute
    )
    return Promise(Bound(ulps, absolute), backward)


@dataclass(frozen=True, kw_only=True)
class Unit:
    """One nonlinearity.

    Facts that depend on the options are functions of them; :meth:`fact` evaluates either kind.
    """

    name: str  # the one spelling used by configs, command line, docs and reports
    title: str
    family: Family
    function: Callable[..., Tensor]  # function(x, **module.arguments(x)) is module(x)
    module: type[UnitModule]
    formula: str  # LaTeX
    paper: str  # where the unit was first defined
    reference: Callable[
        ..., Tensor
    ]  # slow and obvious, same arguments as `function`; run in float64
    limits: Limits | Callable[..., Limits]
    error: Mapping[str, Promise]  # by dtype name
    studied_in: tuple[str, ...] = ()  # keys of PAPERS
    channel_ratio: Fraction | Callable[..., Fraction] = Fraction(
        1
    )  # output channels per input channel
    kinks: Mapping[float, float] | Callable[..., Mapping[float, float]] = field(
        default_factory=dict
    )  # point: derivative there
    pieces: Pieces | Callable[..., Pieces] | None = None  # the max-affine pieces, where it has them
    spans: Mapping[str, tuple[float, ...]] | Callable[..., Mapping[str, tuple[float, ...]]] = field(
        default_factory=dict
    )
    parameters: Mapping[str, str] = field(
        default_factory=dict
    )  # trainable parameter: its initial value
    init_gain: float | Callable[..., float] | None = (
        None  # None: 1 / sqrt(E f(z)^2), z standard normal, by quadrature
    )
    needs: tuple[str, ...] = ()  # besides its input, out of NEEDS
    samples: tuple[Mapping[str, Any], ...] = ({},)  # options the contract builds the module with
    probe: Callable[[Tensor], dict[str, Any]] | None = (
        None  # arguments for an elementwise sweep, where the module's look around
    )
    note: str = ""  # a trap the user should know of

    def __post_init__(self) -> None:
        _check_facts(self)

    def fact(self, name: str, **options: Any) -> Any:
        """The fact ``name`` for these options, e.g.

        ``get_unit("leaky_relu").fact("kinks", slope=0.2)``.
        """
        value = getattr(self, name)
        if not callable(value):
            return value
        wanted = inspect.signature(value).parameters
        return value(**{k: v for k, v in options.items() if k in wanted})

    @property
    def options(self) -> dict[str, inspect.Parameter]:
        """Constructor options of the module, in order, without device and dtype."""
        found = inspect.signature(self.module).parameters
        return {k: v for k, v in found.items() if k not in ("device", "dtype")}

    def init_gain_for(self, **options: Any) -> float:
        """``1 / sqrt(E f(z)^2)`` for standard normal ``z`` and the starting values these options give.

        To be used as :func:`torch.nn.init.calculate_gain`: ``std = gain / sqrt(fan_in)`` in the layer that reads the
        unit's output.
        """
        if self.init_gain is not None:
            return float(self.fact("init_gain", **options))
        return quadrature_gain(self.function, self.module(**options), self.probe)

    @property
    def learns(self) -> bool:
        """Whether the unit has trainable parameters."""
        return bool(self.parameters)


_UNITS: dict[str, Unit] = {}


def unit_facts(module: type[UnitModule], **facts: Any) -> Unit:
    """A :class:`Unit` from its facts; a misspelt or missing fact is an error that says so."""
    known = {f.name: f for f in fields(Unit)}
    for name in facts:
        if name not in known or name == "module":
            near = get_close_matches(name, known, n=1)
            raise UnitDefinitionError(
                f"{module.__name__} declares a fact that units do not have",
                got=name,
                allowed=", ".join(known),
                fix=f"did you mean {near[0]!r}?" if near else None,
            )
    missing = [n for n, f in known.items() if n != "module" and n not in facts and _is_required(f)]
    if missing:
        raise UnitDefinitionError(
            f"{module.__name__} does not declare {', '.join(missing)}", fix="add the missing facts"
        )
    return Unit(module=module, **facts)


def unit(**facts: Any) -> Callable[[Module], Module]:
    """Enter the decorated module in the catalogue under ``facts["name"]``."""

    def enter(module: Module) -> Module:
        spec = unit_facts(module, **facts)
        if spec.name in _UNITS:
            home = _UNITS[spec.name].module.__module__
            raise UnitDefinitionError(
                f"unit {spec.name!r} is already defined in {home}", fix="choose another name"
            )
        _UNITS[spec.name] = spec
        return module

    return enter


def registered_units() -> Mapping[str, Unit]:
    """All units by name. The mapping is read-only."""
    return MappingProxyType(_UNITS)


def list_units(*, family: str | None = None, paper: str | None = None) -> list[str]:
    """Names of the units in the catalogue.

    Args:
        family: only units of this family, one of ``"max-affine"``, ``"soft"``, ``"smooth"``,
            ``"adaptive"`` and ``"context"``.
        paper: only units studied in this paper, one of ``"psc"``, ``"maso"``, ``"crelu"``,
            ``"iieu"`` and ``"dgn"``.

    Returns:
        The names, in the order of registration. :func:`get_unit` returns the unit of a name.
    """
    if family is not None and family not in FAMILIES:
        raise unknown_name("family", family, FAMILIES)
    if paper is not None and paper not in PAPERS:
        raise unknown_name("paper", paper, PAPERS)
    names = []
    for name, spec in _UNITS.items():
        if family is not None and spec.family != family:
            continue
        if paper is not None and paper not in spec.studied_in:
            continue
        names.append(name)
    return names


def get_unit(name: str) -> Unit:
    """The unit called ``name``; a wrong name gets an error that names the nearest right one."""
    if not isinstance(name, str):
        raise ArgumentError(
            "a unit's name must be a string", got=name, allowed=", ".join(sorted(_UNITS))
        )
    if name not in _UNITS:
        raise unknown_name("unit", name, _UNITS)
    return _UNITS[name]


def _is_required(f: Any) -> bool:
    return f.default is MISSING and f.default_factory is MISSING


def _check_facts(spec: Unit) -> None:
    """Contradictions that can be seen without running the unit."""

    def refuse(what: str, got: object, allowed: object) -> UnitDefinitionError:
        return UnitDefinitionError(f"unit {spec.name!r}: {what}", got=got, allowed=allowed)

    if not spec.name.isidentifier() or spec.name != spec.name.lower():
        raise refuse("a name must be a lower-case identifier", spec.name, "letters, digits and _")
    if spec.function.__name__ != spec.name:
        raise refuse("the function must be called like the unit", spec.function.__name__, spec.name)
    if spec.family not in FAMILIES:
        raise refuse("unknown family", spec.family, ", ".join(FAMILIES))
    for given, known, what in (
        (spec.studied_in, PAPERS, "paper"),
        (spec.needs, NEEDS, "need"),
        (spec.error, DTYPES, "dtype"),
    ):
        for name in given:
            if name not in known:
                raise refuse(f"unknown {what}", name, ", ".join(known))
    if set(spec.error) != set(DTYPES):
        raise refuse(
            "an error must be promised for each dtype", ", ".join(spec.error), ", ".join(DTYPES)
        )
    taken = spec.options if any(spec.samples) else {}
    for options in spec.samples:
        for name in options:
            if name not in taken:
                raise refuse(
                    "a sample names an option the module does not take",
                    name,
                    ", ".join(spec.options),
                )
