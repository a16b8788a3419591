"""What the gallery is made from: plain records, filled by the command that knows the units."""

from dataclasses import dataclass

from gatewise.report.charts import Point
from gatewise.words import number, ulps


@dataclass(frozen=True)
class Line:
    """One part of a unit's output over its input, with its derivative.

    Args:
        part: The name of the part; empty if the output has only one.
        value: Points of the curve. A y that is not finite breaks the line.
        slope: Points of the derivative.
    """

    part: str
    value: tuple[Point, ...]
    slope: tuple[Point, ...]


@dataclass(frozen=True)
class Curve:
    """A unit with one set of options."""

    label: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Kink:
    """A point where the derivative jumps.

    Args:
        x: The input at which it jumps.
        values: The value of each part of the output there.
        slope: The derivative that the library uses there.
    """

    x: float
    values: tuple[float, ...]
    slope: float


@dataclass(frozen=True)
class Plot:
    """The curves of one unit, default options first.

    ``about`` says how the input was varied, if that needs words.
    """

    curves: tuple[Curve, ...] = ()
    kinks: tuple[Kink, ...] = ()
    about: str = ""


@dataclass(frozen=True)
class Fact:
    """One declared fact in words."""

    label: str
    text: str


@dataclass(frozen=True)
class ErrorRow:
    """Promised and measured error of one unit in one dtype and direction.

    The measured numbers are the worst over the sample options of the unit.

    Args:
        dtype: The dtype of the input.
        direction: ``forward`` or ``backward``.
        inputs: How many inputs were evaluated.
        promised: The bound in words.
        ulps: The largest error in units in the last place.
        ulps_at: The input with that error.
        absolute: The largest absolute error of results beyond the promised ulp.
        absolute_at: The input with that error.
        kept: Whether every error is within the bound.
        torch_ulps: The largest error of PyTorch's own function; None if it has none.
        torch_absolute: Its largest absolute error.
    """

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

    @property
    def largest(self) -> str:
        """The largest error in the measure that decides about the bound.

        A result may exceed the promised ulp if it is near zero and its absolute error is within
        the absolute bound: then the absolute error decides, and its ulp say nothing.
        """
        if not self.kept and self.absolute:
            return f"{ulps(self.ulps)} ulp, {number(self.absolute)} absolute"
        return _largest_error(self.ulps, self.absolute)

    @property
    def largest_at(self) -> float | None:
        """The input with that error; None if there is no error."""
        if self.absolute:
            return self.absolute_at
        return self.ulps_at if self.ulps else None

    @property
    def torch_largest(self) -> str:
        """The largest error of PyTorch's own function in the same measure; empty without one."""
        if self.torch_ulps is None:
            return ""
        return _largest_error(self.torch_ulps, self.torch_absolute or 0.0)


def _largest_error(largest_ulps: float, largest_absolute: float) -> str:
    """An error in ulp, or absolute if some result exceeds the promised ulp."""
    if largest_absolute:
        return f"{number(largest_absolute)} absolute"
    return f"{ulps(largest_ulps)} ulp" if largest_ulps else "exact"


@dataclass(frozen=True)
class Card:
    """Everything the gallery says about one unit.

    Args:
        name: The name in the catalogue.
        title: The name in words.
        family: The family the unit belongs to.
        formula: The formula in LaTeX.
        call: The Python call that makes one.
        channels: Output channels for each input channel.
        parameters: What is trained.
        note: A remark, if there is one.
        facts: Declared facts.
        plot: The curves.
        errors: Promised and measured errors; empty if they were not measured.
    """

    name: str
    title: str
    family: str
    formula: str
    call: str
    channels: str
    parameters: str
    note: str = ""
    facts: tuple[Fact, ...] = ()
    plot: Plot = Plot()
    errors: tuple[ErrorRow, ...] = ()


@dataclass(frozen=True)
class Gallery:
    """The whole page.

    Args:
        version: The version of gatewise.
        made_with: Versions and processor that the errors were measured with.
        cards: One per unit.
        families: What the name of each family means.
        papers: Which paper each short name stands for.
    """

    version: str
    made_with: str
    cards: tuple[Card, ...]
    families: tuple[Fact, ...] = ()
    papers: tuple[Fact, ...] = ()
