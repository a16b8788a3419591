"""Odd arguments of public names raise errors of gatewise, which say what is wrong.

A public name is one of ``gatewise`` and of the faces of its parts that have a list ``__all__``.
"""

import inspect
import math
import random
import types
import warnings
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import gatewise as gw

PARTS = ("analysis", "functional", "layers", "nn", "sparsity", "surgery", "testing")
OPTIONAL = 0.3  # how often an argument with a default is given


def public_names() -> Iterator[tuple[str, Callable]]:
    faces = {"gw": gw} | {f"gw.{part}": getattr(gw, part) for part in PARTS}
    faces["gw.models"] = gw.models
    for path, face in faces.items():
        for name in getattr(face, "__all__", None) or dir(face):
            value = getattr(face, name)
            if name.startswith("_") or isinstance(value, types.ModuleType) or not callable(value):
                continue
            if inspect.isclass(value) and issubclass(value, BaseException | Enum):
                continue
            if not inspect.isabstract(value):
                yield f"{path}.{name}", value


def odd_value(draw: random.Random) -> Any:
    network = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
    return draw.choice(
        [
            *(None, True, -1, 0, 1, 3, 2**70, math.nan, math.inf, -0.5, 0.5, 1j, float),
            *("", "relu", "gelu", "x" * 50, "\0", b"bytes", "/nonexistent/file", "class:Nope"),
            *([], [1, "a"], ["a", "b"], [[1.0, 2.0], [2.0]], {}, {"a": 1}, (), {1}, object()),
            *(torch.tensor([]), torch.randn(3), torch.randn(2, 4), torch.full((2, 4), math.nan)),
            *(torch.zeros(2, 4, dtype=torch.int64), torch.randn(2, 3, 8, 8)),
            *(torch.randn(2, 4).to(torch.complex64), np.zeros((2, 4)), [torch.randn(2, 4)]),
            *(network, nn.ReLU, nn.ReLU(), lambda *given: given, range(3), iter([1])),
        ]
    )


def odd_call(value: Callable, draw: random.Random) -> tuple[list, dict]:
    """Arguments that fit the signature."""
    args: list = []
    named: dict = {}
    for parameter in inspect.signature(value).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        required = parameter.default is parameter.empty
        if required and parameter.kind is not parameter.KEYWORD_ONLY:
            args.append(odd_value(draw))
        elif required or draw.random() < OPTIONAL:
            named[parameter.name] = odd_value(draw)
    return args, named


def raw_errors(count: int, seed: int, start: str = "gw.") -> list[str]:
    draw = random.Random(seed)  # noqa: S311 - not for secrets
    names = [(path, value) for path, value in public_names() if path.startswith(start)]
    found = []
    for _ in range(count):
        path, value = draw.choice(names)
        args, named = odd_call(value, draw)
        try:
            value(*args, **named)
        except gw.GatewiseError:
            continue
        except Exception as error:
            found.append(f"{path}: {type(error).__name__}: {error}")
    return found


@pytest.mark.parametrize("count, seed", [(300, 0), pytest.param(2000, 1, marks=pytest.mark.slow)])
def test_odd_calls_raise_errors_of_gatewise(count, seed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, about values that are odd
        assert raw_errors(count, seed) == []


def test_a_planted_raw_error_is_caught(monkeypatch):
    def planted(model: nn.Module) -> Any:
        return model.nothing

    monkeypatch.setattr(gw, "cost", planted)
    found = raw_errors(20, 0, "gw.cost")
    assert found and all(line.startswith("gw.cost: AttributeError") for line in found)


def test_the_public_names_are_those_of_the_faces():
    names = [path for path, _ in public_names()]
    assert len(names) > 200 and {"gw.swap", "gw.analysis.ntk", "gw.nn.CReLU"} <= set(names)
