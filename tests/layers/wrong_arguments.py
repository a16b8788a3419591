"""Every parameter of a function or class, given what it cannot be.

A wrong value gets our error. What is accepted is of the kind that the signature says, and then
works.
"""

import inspect
import math
from typing import Any

import torch
from torch import nn

from gatewise.errors import GatewiseError

WRONG: list[Any] = [
    None,
    True,
    "no",
    "",
    b"no",
    0,
    -1,
    3,
    2**62,
    2**70,
    0.5,
    -2.5,
    math.nan,
    math.inf,
    1j,
    [],
    (),
    (2, "a", 3),
    (0, 1),
    (2, 2),
    {},
    {"a": 1},
    object(),
    int,
    print,
    torch.int32,
    torch.complex64,
    torch.tensor(1.0),
    torch.ones(2, 3),
    torch.ones(0),
    torch.Generator(),
    nn.Identity(),
    slice(None),
]
CONVOLUTION = {"in_channels": 2, "out_channels": 4, "kernel_size": 3}
LINEAR = {"in_features": 6, "out_features": 4}
KINDS = {"bool": (bool,), "int": (int,), "float": (int, float)}
# What is called, arguments that are right, and an input for what it makes.
Call = tuple[Any, dict[str, Any], Any]


def check_call(call: Call, described: Any = None) -> None:
    """Call with right arguments, and with every wrong value of every parameter.

    Args:
        call: what is called, right arguments, and an input.
        described: what has the signature, if that is not what is called.
    """
    make, right, x = call
    result = make(**right)
    if isinstance(result, nn.Module) and x is not None:
        result = result(x)
    assert result is not None
    problems = {}
    for parameter in inspect.signature(described or make).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        for value in WRONG:
            problem = _problem(call, parameter, value)
            if problem:
                problems[f"{parameter.name}={value!r}"[:60]] = problem
    assert not problems


def _problem(call: Call, parameter: inspect.Parameter, value: Any) -> str:
    """Return what goes wrong; nothing for our error, or a right kind of value that works."""
    make, right, x = call
    try:
        made = make(**{**right, parameter.name: value})
        if isinstance(made, nn.Module) and x is not None:
            made(x)
    except GatewiseError:
        return ""
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:120]}"
    kinds = KINDS.get(getattr(parameter.annotation, "__name__", str(parameter.annotation)))
    if kinds and (not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds)):
        return "is accepted"
    return ""
