"""Trace a function of tensors that works element by element into an expression.

The function is called once with a symbolic element in place of tensors. Every operation that it
uses must be in the tables below; any other operation is an error that names it.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from gatewise.errors import ArgumentError
from gatewise.fused.expressions import (
    ONE,
    ZERO,
    Expression,
    apply,
    choose,
    constant,
    read_input,
)

Operand = Expression | float


def trace(function: Callable[..., Any], numbers: int) -> Expression:
    """Return what ``function(x, *numbers)`` computes for one element.

    Args:
        function: of tensors.
        numbers: how many arguments it takes besides ``x``.

    Raises:
        ArgumentError: if it uses an operation that has no generated form, does not return one
            tensor, or decides by values.
    """
    result = function(*(Symbol(read_input(position)) for position in range(numbers + 1)))
    if not isinstance(result, Symbol):
        raise ArgumentError(
            "fuse: the function must return one tensor made from its input",
            got=type(result).__name__,
        )
    if result.expression.is_condition:
        raise ArgumentError("fuse: the function must return numbers", got="true or false")
    return result.expression


class Symbol:
    """A symbolic element. Torch's functions and operators record what they compute.

    Args:
        expression: of the element.
    """

    dtype = torch.float32
    device = torch.device("cpu")
    is_cpu = True
    requires_grad = True

    def __init__(self, expression: Expression) -> None:
        self.expression = expression

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> "Symbol":
        """Record a function of torch."""
        name = getattr(func, "__name__", str(func))
        if func in _FUNCTIONS:
            return _FUNCTIONS[func](*args, **(kwargs or {}))
        raise _unsupported(name)

    def __getattr__(self, name: str) -> Callable[..., "Symbol"]:
        """Return a method of tensors."""
        if name in _METHODS:
            return lambda *args, **options: _METHODS[name](self, *args, **options)
        if name.startswith("__"):
            raise AttributeError(name)
        raise _unsupported(f"Tensor.{name}")

    def __bool__(self) -> bool:
        raise ArgumentError(
            "fuse: the function must not decide by the value of an element",
            got="a Python condition on a tensor",
            fix="torch.where(condition, first, second)",
        )

    def __iter__(self) -> Any:
        raise _unsupported("iteration over a tensor")

    def __neg__(self) -> "Symbol":
        return _unary("neg")(self)

    def __abs__(self) -> "Symbol":
        return _unary("abs")(self)

    def __invert__(self) -> "Symbol":
        return _unary("not")(self)

    def __pow__(self, exponent: float) -> "Symbol":
        return _power(self, exponent)


def _unsupported(name: str) -> ArgumentError:
    return ArgumentError(
        "fuse: the function uses an operation that has no generated form",
        got=name,
        allowed=", ".join(sorted(_METHODS)),
        fix="write it with these operations, or call the function without gw.fuse",
    )


def _expression(value: Any) -> Expression:
    if isinstance(value, Symbol):
        return value.expression
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        return constant(float(value))
    if isinstance(value, bool | int | float):
        return constant(float(value))
    raise _unsupported(f"an operand of type {type(value).__name__}")


def _unary(operation: str) -> Callable[..., Symbol]:
    def record(x: Any) -> Symbol:
        return Symbol(apply(operation, _expression(x)))

    return record


def _binary(operation: str) -> Callable[..., Symbol]:
    def record(x: Any, other: Any) -> Symbol:
        return Symbol(apply(operation, _expression(x), _expression(other)))

    return record


def _reversed(operation: str) -> Callable[..., Symbol]:
    def record(x: Any, other: Any) -> Symbol:
        return Symbol(apply(operation, _expression(other), _expression(x)))

    return record


def _same(x: Any, *_: Any, **__: Any) -> Symbol:
    return Symbol(_expression(x))


def _where(condition: Any, x: Any, other: Any) -> Symbol:
    return Symbol(choose(_expression(condition), _expression(x), _expression(other)))


def _power(x: Any, exponent: Any) -> Symbol:
    if not isinstance(exponent, int | float) or exponent != int(exponent) or abs(exponent) > 16:
        if exponent == 0.5:
            return _unary("sqrt")(x)
        raise _unsupported(f"pow with exponent {exponent}")
    base = _expression(x)
    result = ONE
    # By squaring, from the highest bit down.
    for bit in bin(abs(int(exponent)))[2:]:
        result = apply("mul", result, result)
        if bit == "1":
            result = apply("mul", result, base)
    return Symbol(apply("div", ONE, result) if exponent < 0 else result)


def _maximum(x: Any, other: Any) -> Symbol:
    a, b = _expression(x), _expression(other)
    # A NaN in either is kept.
    larger = choose(apply("ge", a, b), a, choose(apply("ne", a, a), a, b))
    return Symbol(choose(_is_tie(a, b), _middle(a, b), larger))


def _minimum(x: Any, other: Any) -> Symbol:
    a, b = _expression(x), _expression(other)
    smaller = choose(apply("le", a, b), a, choose(apply("ne", a, a), a, b))
    return Symbol(choose(_is_tie(a, b), _middle(a, b), smaller))


def _is_tie(a: Expression, b: Expression) -> Expression:
    """Return whether both are equal and finite."""
    is_finite = apply("lt", apply("abs", a), constant(math.inf))
    return apply("and", apply("eq", a, b), is_finite)


def _middle(a: Expression, b: Expression) -> Expression:
    """Return the value of a tie, exactly. Each side gets half of the gradient, as in torch."""
    return apply("add", a, apply("mul", constant(0.5), apply("sub", b, a)))


def _clamp(x: Any, min: Any = None, max: Any = None) -> Symbol:
    result = _expression(x)
    if min is not None:
        low = _expression(min)
        result = choose(apply("lt", result, low), low, result)
    if max is not None:
        high = _expression(max)
        result = choose(apply("gt", result, high), high, result)
    return Symbol(result)


def _isinf(x: Any) -> Symbol:
    size = apply("abs", _expression(x))
    return Symbol(apply("eq", size, constant(math.inf)))


def _isnan(x: Any) -> Symbol:
    a = _expression(x)
    return Symbol(apply("ne", a, a))


def _isfinite(x: Any) -> Symbol:
    return Symbol(apply("lt", apply("abs", _expression(x)), constant(math.inf)))


def _sign(x: Any) -> Symbol:
    a = _expression(x)
    negative = choose(apply("lt", a, ZERO), constant(-1.0), ZERO)
    return Symbol(choose(apply("gt", a, ZERO), ONE, negative))


def _relu(x: Any, inplace: bool = False) -> Symbol:
    a = _expression(x)
    return Symbol(choose(apply("le", a, ZERO), ZERO, a))


def _sigmoid(x: Any) -> Symbol:
    a = _expression(x)
    positive = apply("ge", a, ZERO)
    e = apply("exp", choose(positive, apply("neg", a), a))
    return Symbol(apply("div", choose(positive, ONE, e), apply("add", ONE, e)))


def _softplus(x: Any, beta: float = 1.0, threshold: float = 20.0) -> Symbol:
    a, b = _expression(x), constant(beta)
    positive = apply("ge", a, ZERO)
    e = apply("exp", apply("mul", b, choose(positive, apply("neg", a), a)))
    curve = apply("div", apply("log1p", e), b)
    return Symbol(apply("add", choose(positive, a, ZERO), curve))


def _silu(x: Any, inplace: bool = False) -> Symbol:
    return _binary("mul")(x, _sigmoid(x))


def _gelu(x: Any, approximate: str = "none") -> Symbol:
    if approximate != "none":
        raise _unsupported(f"gelu with approximate={approximate!r}")
    argument = apply("mul", constant(-math.sqrt(0.5)), _expression(x))
    half = apply("mul", constant(0.5), _expression(x))
    return Symbol(apply("mul", half, apply("erfc", argument)))


def _leaky_relu(x: Any, negative_slope: float = 0.01, inplace: bool = False) -> Symbol:
    a = _expression(x)
    return Symbol(
        choose(apply("gt", a, ZERO), a, apply("mul", constant(negative_slope), a)),
    )


def _elu(x: Any, alpha: float = 1.0, inplace: bool = False) -> Symbol:
    a = _expression(x)
    low = choose(apply("gt", a, ZERO), ZERO, a)
    return Symbol(
        choose(apply("gt", a, ZERO), a, apply("mul", constant(alpha), apply("expm1", low)))
    )


def _mish(x: Any, inplace: bool = False) -> Symbol:
    return _binary("mul")(x, _unary("tanh")(_softplus(x)))


def _square(x: Any) -> Symbol:
    return _power(x, 2)


def _zeros(x: Any, **_: Any) -> Symbol:
    return Symbol(ZERO)


def _ones(x: Any, **_: Any) -> Symbol:
    return Symbol(ONE)


def _full(x: Any, fill_value: float, **_: Any) -> Symbol:
    return Symbol(constant(fill_value))


_METHODS: dict[str, Callable[..., Symbol]] = {
    "abs": _unary("abs"),
    "add": _binary("add"),
    "clamp": _clamp,
    "clone": _same,
    "contiguous": _same,
    "detach": _unary("detach"),
    "div": _binary("div"),
    "erf": _unary("erf"),
    "erfc": _unary("erfc"),
    "exp": _unary("exp"),
    "expm1": _unary("expm1"),
    "float": _same,
    "isfinite": _isfinite,
    "isinf": _isinf,
    "isnan": _isnan,
    "log": _unary("log"),
    "log1p": _unary("log1p"),
    "maximum": _maximum,
    "minimum": _minimum,
    "mul": _binary("mul"),
    "neg": _unary("neg"),
    "pow": _power,
    "reciprocal": lambda x: _reversed("div")(x, 1.0),
    "relu": _relu,
    "rsqrt": lambda x: _reversed("div")(_unary("sqrt")(x), 1.0),
    "sigmoid": _sigmoid,
    "sign": _sign,
    "sqrt": _unary("sqrt"),
    "square": _square,
    "sub": _binary("sub"),
    "tanh": _unary("tanh"),
    "to": _same,
    "type_as": _same,
    "where": lambda x, condition, other: _where(condition, x, other),
}
_OTHER = {
    torch.where: _where,
    torch.special.expit: _sigmoid,
    torch.special.erf: _unary("erf"),
    torch.special.erfc: _unary("erfc"),
    torch.zeros_like: _zeros,
    torch.ones_like: _ones,
    torch.full_like: _full,
    torch.logical_and: _binary("and"),
    torch.logical_or: _binary("or"),
    torch.logical_not: _unary("not"),
    torch.nn.functional.elu: _elu,
    torch.nn.functional.gelu: _gelu,
    torch.nn.functional.leaky_relu: _leaky_relu,
    torch.nn.functional.mish: _mish,
    torch.nn.functional.relu: _relu,
    torch.nn.functional.silu: _silu,
    torch.nn.functional.softplus: _softplus,
    torch.nn.functional.tanh: _unary("tanh"),
    torch.nn.functional.sigmoid: _sigmoid,
}
_FUNCTIONS: dict[Any, Callable[..., Symbol]] = dict(_OTHER)
for _name, _record in _METHODS.items():
    for _owner in (torch, functional):
        _function = getattr(_owner, _name, None)
        if callable(_function):
            _FUNCTIONS.setdefault(_function, _record)

_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
_ARITHMETIC = {"add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "and": "and", "or": "or"}
for _name in _COMPARISONS:
    _METHODS[_name] = _binary(_name)
    _FUNCTIONS[getattr(torch, _name)] = _binary(_name)
    setattr(Symbol, f"__{_name}__", _binary(_name))
for _name, _operation in _ARITHMETIC.items():
    setattr(Symbol, f"__{_name}__", _binary(_operation))
    setattr(Symbol, f"__r{_name}__", _reversed(_operation))
Symbol.__hash__ = object.__hash__  # comparing two symbols records the comparison
