"""What the pages are made from: plain records, filled by whoever has the facts."""

from dataclasses import dataclass

Point = tuple[float, float]  # a y that is not finite breaks the line


@dataclass(frozen=True)
class Line:
    """One part of a unit's output along a sweep of its input, with its derivative."""

    part: str  # which part of the output, "" if there is only one
    value: tuple[Point, ...]
    slope: tuple[Point, ...]


@dataclass(frozen=True)
class Curve:
    """A unit under one set of options."""

    label: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Kink:
    """A point where the derivative jumps, each part's value there, and the derivative that is used there."""

    x: float
    values: tuple[float, ...]
    slope: float


@dataclass(frozen=True)
class Plot:
    """The curves of one unit, the default options first, and how its input was swept."""

    curves: tuple[Curve, ...] = ()
    kinks: tuple[Kink, ...] = ()
    about: str = ""


@dataclass(frozen=True)
class Fact:
    """One declared fact, in words."""

    label: str
    text: str


@dataclass(frozen=True)
class ErrorRow:
    """Promised and measured error of one unit in one dtype and direction, worst over its sample options."""

    dtype: str
    direction: str
    inputs: int
    promised: str
    ulps: float
    ulps_at: float
    absolute: float
    absolute_at: float
    kept: bool
    torch_ulps: float | None = None
    torch_absolute: float | None = None
    torch_hidden: int | None = None


@dataclass(frozen=True)
class Card:
    """Everything the gallery says about one unit."""

    name: str
    title: str
    family: str
    formula: str  # LaTeX
    call: str  # how to make one
    channels: str
    parameters: str
    note: str = ""
    facts: tuple[Fact, ...] = ()
    plot: Plot = Plot()
    errors: tuple[ErrorRow, ...] = ()


@dataclass(frozen=True)
class Gallery:
    """The whole page."""

    version: str
    made_with: str  # versions and processor the errors were measured on
    cards: tuple[Card, ...]
    families: tuple[Fact, ...] = ()  # what each family's name means
    papers: tuple[Fact, ...] = ()  # what each paper's short name stands for
