"""Write ``explorer/src/catalogue.ts``: the units of the catalogue as TypeScript.

The reference form of each unit is called with symbols instead of tensors. sympy differentiates the
result and prints both as TypeScript, so that the explorer draws and trains the catalogue's own
formulas. ``tests/report/test_explorer.py`` compares the curves with the units in a browser.

    python tools/explorer_units.py explorer/src/catalogue.ts
"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy
import sympy
import torch
from sympy.printing.jscode import JavascriptCodePrinter
from torch.nn import functional

from gatewise.units import FAMILIES, get_unit, list_units
from gatewise.units.catalogue import selu

X = sympy.Symbol("x", real=True)


# Functions with derivatives that do not overflow.
class expit(sympy.Function):  # noqa: N801 - printed under this name
    """The logistic function."""

    def fdiff(self, argindex: int = 1) -> sympy.Expr:
        """Return the derivative as a product of two factors that cannot overflow."""
        (z,) = self.args
        return expit(z) * expit(-z)


class softplus(sympy.Function):  # noqa: N801
    """``log(1 + exp(z))``."""

    def fdiff(self, argindex: int = 1) -> sympy.Expr:
        """Return the derivative."""
        return expit(self.args[0])


class expm1(sympy.Function):  # noqa: N801
    """``exp(z) - 1``."""

    def fdiff(self, argindex: int = 1) -> sympy.Expr:
        """Return the derivative."""
        return sympy.exp(self.args[0])


class Symbols:
    """A tensor of expressions with the part of torch's interface that the references use."""

    dtype = torch.float64

    def __init__(self, entries: Any) -> None:
        self.entries = numpy.asarray(entries, dtype=object)

    @classmethod
    def __torch_function__(
        cls, function: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> "Symbols":
        return FUNCTIONS[function](*args, **(kwargs or {}))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.entries.shape

    def dim(self) -> int:
        return self.entries.ndim

    def __bool__(self) -> bool:
        return True  # a dial is never exactly at a special case

    def __iter__(self) -> Iterator["Symbols"]:
        return iter(Symbols(entry) for entry in self.entries)

    def __getitem__(self, key: Any) -> "Symbols":
        return Symbols(self.entries[key])

    def movedim(self, source: int, target: int) -> "Symbols":
        return Symbols(numpy.moveaxis(self.entries, source, target)) if self.shape else self

    def reshape(self, *shape: int) -> "Symbols":
        return Symbols(self.entries.reshape(shape))

    def unflatten(self, dim: int, sizes: tuple[int, ...]) -> "Symbols":
        return Symbols(self.entries.reshape(*self.shape[:dim], *sizes))

    def sum(self, dim: int) -> "Symbols":
        return Symbols(self.entries.sum(dim))

    def amax(self, dim: int) -> "Symbols":
        return Symbols(numpy.apply_along_axis(_largest, dim, self.entries))

    def relu(self) -> "Symbols":
        return self.clamp(min=0)

    def abs(self) -> "Symbols":
        return where(self > 0, self, -self)

    def sign(self) -> "Symbols":
        return where(self > 0, 1, -1)  # the point 0 has no weight in a curve

    def isinf(self) -> "Symbols":
        return self._each(lambda entry: sympy.false)

    def isnan(self) -> "Symbols":
        return self._each(lambda entry: sympy.false)

    def square(self) -> "Symbols":
        return self * self

    def clamp(self, min: float | None = None, max: float | None = None) -> "Symbols":
        low = self if min is None else where(self > min, self, min)
        return low if max is None else where(low < max, low, max)

    def _each(self, change: Callable[..., Any], *others: Any) -> "Symbols":
        arrays = numpy.broadcast_arrays(self.entries, *(_entries(other) for other in others))
        changed = [change(*values) for values in zip(*(a.ravel() for a in arrays), strict=True)]
        result = numpy.empty(len(changed), dtype=object)
        result[:] = changed
        return Symbols(result.reshape(arrays[0].shape))

    def __add__(self, other: Any) -> "Symbols":
        return self._each(lambda a, b: a + b, other)

    def __sub__(self, other: Any) -> "Symbols":
        return self._each(lambda a, b: a - b, other)

    def __rsub__(self, other: Any) -> "Symbols":
        return self._each(lambda a, b: b - a, other)

    def __mul__(self, other: Any) -> "Symbols":
        return self._each(lambda a, b: a * b, other)

    def __truediv__(self, other: Any) -> "Symbols":
        return self._each(lambda a, b: a / b, other)

    def __pow__(self, other: Any) -> "Symbols":
        return self._each(lambda a, b: a**b, other)

    def __neg__(self) -> "Symbols":
        return self._each(lambda a: -a)

    def __gt__(self, other: Any) -> "Symbols":
        return self._each(sympy.Gt, other)

    def __lt__(self, other: Any) -> "Symbols":
        return self._each(sympy.Lt, other)

    def __or__(self, other: Any) -> "Symbols":
        return self._each(sympy.Or, other)

    def __eq__(self, other: object) -> Any:
        if isinstance(other, float) and other == numpy.inf:
            return torch.tensor(False)
        return self._each(lambda a, b: sympy.Eq(a, b), other)

    __hash__ = None  # type: ignore[assignment]
    __radd__ = __add__
    __rmul__ = __mul__


def _entries(value: Any) -> Any:
    """The expressions in a tensor of symbols, a tensor of numbers or a number."""
    if isinstance(value, Symbols):
        return value.entries
    numbers = value.tolist() if isinstance(value, torch.Tensor) else value
    flat = numpy.ravel(numbers).tolist()
    result = numpy.empty(len(flat), dtype=object)
    for place, n in enumerate(flat):
        result[place] = sympy.Integer(int(n)) if float(n).is_integer() else sympy.Float(n, 17)
    return result.reshape(numpy.shape(numbers))


def where(condition: Symbols, yes: Any, no: Any) -> Symbols:
    """Return ``torch.where`` of expressions."""
    return condition._each(
        lambda c, a, b: sympy.Piecewise((a, c), (b, True)),
        yes,
        no,
    )


def _largest(row: Sequence[Any]) -> Any:
    largest = row[0]
    for entry in row[1:]:
        largest = sympy.Piecewise((entry, entry > largest), (largest, True))
    return largest


def _apply(function: Callable[[Any], Any]) -> Callable[[Symbols], Symbols]:
    return lambda z: z._each(function)


def _softmax_of_two(scores: Symbols, dim: int) -> Symbols:
    first, second = numpy.moveaxis(scores.entries, dim, 0)
    gates = [expit(first - second), expit(second - first)]
    return Symbols(numpy.moveaxis(numpy.array(gates, dtype=object), 0, dim))


def _stack(parts: Sequence[Symbols]) -> Symbols:
    return Symbols(numpy.stack([part.entries for part in parts]))


def _concatenate(parts: Sequence[Symbols], dim: int) -> Symbols:
    return Symbols(numpy.concatenate([part.entries for part in parts], dim))


def _elu(x: Symbols, alpha: Any = 1.0, inplace: bool = False) -> Symbols:
    return where(x > 0, x, _apply(expm1)(x) * alpha)


def _selu(x: Symbols, inplace: bool = False) -> Symbols:
    return _elu(x, selu.ALPHA) * selu.SCALE


FUNCTIONS: dict[Callable, Callable] = {
    torch.where: where,
    torch.stack: _stack,
    torch.cat: _concatenate,
    torch.exp: _apply(sympy.exp),
    torch.tanh: _apply(sympy.tanh),
    torch.erf: _apply(sympy.erf),
    torch.erfc: _apply(sympy.erfc),
    torch.special.expit: _apply(expit),
    torch.softmax: _softmax_of_two,
    torch.zeros_like: lambda x: x * 0,
    torch.logaddexp: lambda a, b: b + _apply(softplus)(a - b),
    torch.hypot: lambda a, b: (a * a + b * b)._each(sympy.sqrt),
    torch.expm1: _apply(expm1),
    functional.elu: _elu,
    functional.celu: _elu,  # equal at alpha = 1
    functional.selu: _selu,
}


@dataclass(frozen=True)
class Dial:
    """A number of a unit that can be dragged.

    Args:
        argument: The argument of the reference form; ``name[i]`` for one entry of a tensor.
        start: Where the dial starts.
        low: The lowest value.
        high: The highest value.
        option: The option of the unit's module; empty for an entry of a parameter or a context.
        label: What the page shows, if not the argument.
    """

    argument: str
    start: float
    low: float
    high: float
    option: str = ""
    label: str = ""

    @property
    def symbol(self) -> sympy.Symbol:
        name = self.argument.replace("[", "_").replace("]", "")
        return sympy.Symbol(f"p_{name}", real=True)  # a prefix: "switch" is a word of JavaScript


@dataclass(frozen=True)
class Entry:
    """One unit as the page offers it.

    Args:
        unit: The name in the catalogue.
        dials: Its numbers.
        key: The name on the page, if not that of the unit.
        fixed: Options that are not dragged.
        shape: The shape of the input symbol.
        context: What the curve holds fixed, for units that read other elements; such a unit has a
            curve and is not offered in the networks.
    """

    unit: str
    dials: tuple[Dial, ...] = ()
    key: str = ""
    fixed: dict[str, Any] = field(default_factory=dict)
    shape: tuple[int, ...] = ()
    context: str = ""


def _option(name: str, start: float, low: float, high: float) -> Dial:
    return Dial(name, start, low, high, option=name)


def _coefficients() -> tuple[Dial, ...]:
    module: Any = get_unit("pau").create()
    dials = []
    for name, letter, first in (("numerator", "a", 0), ("denominator", "b", 1)):
        for place, start in enumerate(getattr(module, name).tolist()):
            label = f"{letter}{place + first}"
            reach = max(1.0, 2 * abs(start))
            dials.append(Dial(f"{name}[{place}]", round(start, 6), -reach, reach, label=label))
    return tuple(dials)


BETA = Dial("eta", 0.5, 0.0, 1.0, option="beta", label="beta")
ENTRIES = (
    Entry("relu"),
    Entry("leaky_relu", (_option("slope", 0.01, -1.0, 1.0),)),
    Entry("abs"),
    Entry("crelu", shape=(1, 1)),
    Entry("leaky_crelu", (_option("slope", 0.01, -1.0, 1.0),), shape=(1, 1)),
    Entry("maxout", (Dial("other", 0.0, -3.0, 3.0),), shape=(1, 2),
          context="The second channel of the pair is held at the value of the dial."),
    Entry("beta_vq", (BETA,), key="beta_vq of relu", fixed={"pieces": "relu"}),
    Entry("beta_vq", (BETA,), key="beta_vq of leaky_relu", fixed={"pieces": "leaky_relu"}),
    Entry("beta_vq", (BETA,), key="beta_vq of abs", fixed={"pieces": "abs"}),
    Entry("silu"),
    Entry("swish", (_option("beta", 1.0, -4.0, 8.0),)),
    Entry("soft_relu", (_option("beta", 4.0, 0.1, 16.0), _option("eps", 0.1, -0.9, 1.0))),
    Entry("elu", (_option("alpha", 1.0, 0.0, 3.0),)),
    Entry("gelu"),
    Entry("mish"),
    Entry("softplus", (_option("beta", 1.0, 0.1, 8.0),)),
    Entry("prelu", (_option("slope", 0.25, -1.0, 1.0),)),
    Entry("acon_c", (_option("p1", 1.2, -2.0, 2.0), _option("p2", -0.3, -2.0, 2.0),
                     _option("beta", 1.0, 0.0, 8.0))),
    Entry("smu", (_option("mu", 2.5, 0.0, 10.0), _option("alpha", 0.25, -1.0, 1.0))),
    Entry("smu1", (_option("mu", 0.5, 0.0, 4.0), _option("alpha", 0.25, -1.0, 1.0))),
    Entry("erfact", (_option("alpha", 0.75, 0.0, 3.0), _option("beta", 0.75, 0.0, 3.0))),
    Entry("pserf", (_option("gamma", 1.25, 0.0, 3.0), _option("delta", 0.85, 0.0, 3.0))),
    Entry("pau", _coefficients()),
    Entry("pwlu", (Dial("slopes[0]", 0.0, -1.0, 1.0, label="left slope"),
                   Dial("slopes[1]", 1.0, -1.0, 2.0, label="right slope")), shape=(1, 1)),
    Entry("frelu", (Dial("condition", 0.0, -3.0, 3.0),),
          context="The funnel's answer, the condition, is held at the value of the dial."),
    Entry("iieu_b", (Dial("eta", 0.05, 0.0, 1.0), Dial("shift", 0.5, -1.0, 1.0)),
          context="The lengths of filter and patch are 1."),
    Entry("meta_acon", (Dial("p1", 1.2, -2.0, 2.0), Dial("p2", -0.3, -2.0, 2.0),
                        Dial("switch", 0.0, -4.0, 4.0)), shape=(1, 1),
          context="The switch, which the unit computes from its channel, is held at the dial."),
    Entry("celu"),
    Entry("hardsigmoid"),
    Entry("hardswish"),
    Entry("hardtanh"),
    Entry("leaky_relu2"),
    Entry("logsigmoid"),
    Entry("relu2"),
    Entry("relu6"),
    Entry("selu"),
    Entry("sigmoid"),
    Entry("softsign"),
    Entry("tanh"),
    Entry("tanhshrink"),
    Entry("telu"),
)  # fmt: skip
# Units that the page does not offer: those of two inputs, those that jump, and those whose numbers
# are trained per layer or channel.
NOT_OFFERED = {
    "bilinear",
    "dyt",
    "geglu",
    "glu",
    "jump_relu",
    "reglu",
    "star_relu",
    "swiglu",
    "clamped_swiglu",
    "situ_glu",
    "gelu_tanh",
    "threshold",
    "xielu",
}
NUMBERS = {"iieu_b": {"patch": 1.0, "filter_norm": 1.0}}


def arguments(entry: Entry) -> dict[str, Any]:
    """Return what the reference is called with besides the input: symbols where there are dials."""
    values: dict[str, Any] = dict(entry.fixed)
    values |= {name: Symbols(_entries(n)) for name, n in NUMBERS.get(entry.unit, {}).items()}
    tensors: dict[str, dict[int, sympy.Symbol]] = {}
    for dial in entry.dials:
        name, _, place = dial.argument.rstrip("]").partition("[")
        if place:
            tensors.setdefault(name, {})[int(place)] = dial.symbol
        elif dial.argument != "other":
            entries = numpy.full((1, 1) if dial.argument == "switch" else (), dial.symbol)
            values[name] = Symbols(entries)
    for name, symbols in tensors.items():
        entries = [symbols[place] for place in sorted(symbols)]
        values[name] = Symbols([entries] if entry.unit == "pwlu" else entries)
    if entry.unit == "pwlu":
        module: Any = get_unit("pwlu").create()
        values |= {n: Symbols(_entries(getattr(module, n).detach())) for n in ("heights", "bounds")}
    return values


def expressions(entry: Entry) -> list[sympy.Expr]:
    """Return each part of the unit's output as an expression in ``x`` and the dials."""
    x = numpy.full(entry.shape, X, dtype=object)
    if entry.unit == "maxout":
        x[0, 1] = entry.dials[0].symbol
    with patch.object(torch, "as_tensor", lambda value, dtype=None: value):
        out = get_unit(entry.unit).reference(Symbols(x), **arguments(entry))
    return list(numpy.ravel(out.entries))


def breaks(parts: Sequence[sympy.Expr]) -> list[float] | None:
    """Return where the slope jumps if every part is made of straight lines, else None."""
    if any(part.diff(X, 2) != 0 for part in parts):
        return None
    points = set()
    for part in parts:
        for relation in part.atoms(sympy.core.relational.Relational):
            if relation.has(X):
                points.update(float(s) for s in sympy.solve(relation.lhs - relation.rhs, X))
    return sorted(points)


class Printer(JavascriptCodePrinter):
    """JavaScript with our functions under their names."""

    def __init__(self) -> None:
        names = {name: name for name in ("expit", "softplus", "expm1", "erf", "erfc")}
        super().__init__({"user_functions": names | {"expm1": "Math.expm1"}, "precision": 17})

    def _print_Float(self, number: sympy.Float) -> str:  # noqa: N802
        return repr(float(number))


def function_text(parts: Sequence[sympy.Expr], entry: Entry) -> str:
    """Return an arrow function from ``x`` and the dials to one number, or to all parts."""
    shared, results = sympy.cse(list(parts), symbols=sympy.numbered_symbols("t"))
    printer = Printer()
    lines = [f"const {name} = {_flat(printer.doprint(text))};" for name, text in shared]
    texts = [_flat(printer.doprint(result)) for result in results]
    names = ", ".join(str(dial.symbol) for dial in entry.dials)
    opening = f"const [{names}] = p; " if names else ""
    values = texts[0] if len(texts) == 1 else f"k ? {texts[1]} : {texts[0]}"
    return f"(x, p, k) => {{ {opening}{' '.join(lines)} return {values}; }}"


def _flat(text: str) -> str:
    return " ".join(text.split())


def record(entry: Entry) -> str:
    """Return one unit as a TypeScript object."""
    unit = get_unit(entry.unit)
    parts = expressions(entry)
    corners = None if entry.context else breaks(parts)
    plain = {
        "key": entry.key or entry.unit,
        "unit": entry.unit,
        "title": unit.title,
        "family": unit.family,
        "formula": unit.formula,
        "fixed": entry.fixed,
        "channels": "channels" in unit.needs,
        "context": entry.context,
        "parts": len(parts),
        "breaks": corners,
        "dials": [
            {
                "name": dial.option or dial.argument,
                "label": dial.label or dial.argument,
                "start": dial.start,
                "low": dial.low,
                "high": dial.high,
                "option": bool(dial.option),
            }
            for dial in entry.dials
        ],
    }
    lines = [f"    {name}: {json.dumps(value)}," for name, value in plain.items()]
    lines.append(f"    value: {function_text(parts, entry)},")
    lines.append(f"    slope: {function_text([part.diff(X) for part in parts], entry)},")
    return "  {\n" + "\n".join(lines) + "\n  },"


HEAD = """\
// Written by tools/explorer_units.py from the catalogue of gatewise. Do not edit.
import { erf, erfc, expit, softplus } from "./functions";
import type { CatalogueUnit } from "./units";

"""


def catalogue() -> str:
    """Return the text of ``catalogue.ts``."""
    missing = set(list_units()) - {entry.unit for entry in ENTRIES} - NOT_OFFERED
    if missing:
        raise SystemExit(f"units without an entry in {Path(__file__).name}: {sorted(missing)}")
    families = json.dumps(FAMILIES, indent=2)
    records = "\n".join(record(entry) for entry in ENTRIES)
    return (
        f"{HEAD}export const FAMILIES: Record<string, string> = {families};\n\n"
        f"export const CATALOGUE: CatalogueUnit[] = [\n{records}\n];\n"
    )


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(catalogue(), encoding="utf-8")
