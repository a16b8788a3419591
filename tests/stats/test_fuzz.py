"""Wrong arguments of the statistics raise errors of this library and nothing else."""

import decimal
import inspect
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gatewise as gw
from gatewise import stats
from gatewise.errors import GatewiseError

FUNCTIONS = [
    stats.compare_runs,
    stats.permutation_p,
    stats.detectable_difference,
    stats.seeds_needed,
    stats.safe_spread,
    stats.plan_seeds,
    stats.holm,
    stats.mean,
    stats.standard_deviation,
    stats.finite,
    stats.half_width,
    stats.p_at_most,
]
NUMBERS = [
    0,
    1,
    -1,
    3,
    10**400,
    0.05,
    0.5,
    1.0,
    -2.5,
    1e-320,
    1e308,
    -1e308,
    math.nan,
    math.inf,
    -math.inf,
    np.float32(0.25),
    np.int64(4),
    True,
    decimal.Decimal("0.1"),
    2 + 1j,
]
OTHERS = [
    None,
    "",
    "relu",
    "0.5",
    b"x",
    [],
    {},
    (),
    set(),
    object(),
    int,
    np.zeros(3),
    np.nan * np.ones((2, 2)),
]


class Draw:
    """Random arguments: often of the right form, with wrong values anywhere in them.

    Args:
        seed: Of the generator.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311

    def number(self) -> Any:
        if self.random.random() < 0.6:
            return self.random.gauss(0, 1)
        return self.random.choice(NUMBERS)

    def name(self) -> Any:
        return self.random.choice(["relu", "gelu", "silu", 0, None, ("a", 1)])

    def seeds(self) -> Any:
        count = self.random.randrange(8)
        shape = self.random.random()
        if shape < 0.7:
            return {
                self.random.choice([place, str(place)]): self.number() for place in range(count)
            }
        if shape < 0.85:
            return [self.number() for _ in range(count)]
        return self.anything()

    def results(self) -> Any:
        return {self.name(): self.seeds() for _ in range(self.random.randrange(4))}

    def rates(self) -> Any:
        grid = [0.001, 0.01, 0.1, self.number()]
        names = [self.name() for _ in range(self.random.randrange(4))]
        return {
            name: {self.random.choice(grid): self.seeds() for _ in range(self.random.randrange(4))}
            for name in names
        }

    def anything(self) -> Any:
        return self.random.choice([*NUMBERS, *OTHERS])

    def argument(self) -> Any:
        makers: list[Callable[[], Any]] = [
            self.number,
            self.name,
            self.seeds,
            self.results,
            self.rates,
            self.anything,
            lambda: [self.seeds() for _ in range(self.random.randrange(4))],
            lambda: {self.name(): self.results() for _ in range(3)},
            lambda: {self.name(): self.rates() for _ in range(3)},
            lambda: {self.name(): self.random.choice([0.001, 0.01, 0.1]) for _ in range(3)},
            lambda: [self.number() for _ in range(self.random.randrange(60))],
        ]
        return self.random.choice(makers)()

    def call(self, function: Callable) -> tuple[list[Any], dict[str, Any]]:
        positional = []
        named = {}
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind == parameter.KEYWORD_ONLY:
                if parameter.default is parameter.empty or self.random.random() < 0.2:
                    named[parameter.name] = self.argument()
            elif parameter.default is parameter.empty or self.random.random() < 0.3:
                positional.append(self.argument())
        return positional, named


def raw_exceptions(function: Callable, calls: int, seed: int) -> list[str]:
    """What a function raised that is not an error of this library."""
    draw = Draw(seed)
    found = []
    for _ in range(calls):
        positional, named = draw.call(function)
        try:
            function(*positional, **named)
        except GatewiseError as problem:
            assert "\n" not in str(problem)
        except Exception as problem:  # any other is a fault
            found.append(f"{function.__name__}(*{positional!r:.300}, **{named!r}): {problem!r}")
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_no_raw_exception(function: Callable, full: bool) -> None:
    calls = 3000 if full else 120
    found = raw_exceptions(function, calls, seed=0)
    assert not found, f"{len(found)} of {calls} calls:\n" + "\n".join(found[:3])


TEXTS = [
    "method",
    "seed",
    "acc",
    "relu",
    "gelu",
    "0",
    "1",
    "nan",
    "inf",
    "",
    "x",
    "0.9",
    "1e400",
    "é",
]


def random_table(random: random.Random) -> Any:
    """A table of any layout with cells of any kind."""
    count = random.randrange(6)
    names = random.sample(
        ["method", "seed", "acc", "task", "step", "name", "3", "value", "metric", "", "lr", "fold"],
        4,
    )
    cells = [*NUMBERS, *TEXTS, None]
    shape = random.random()
    if shape < 0.5:
        return {
            name: [
                random.choice(["relu", "gelu"])
                if name in ("method", "name")
                else random.choice(cells)
                for _ in range(count)
            ]
            for name in names
        }
    if shape < 0.8:
        return [{name: random.choice(cells) for name in names} for _ in range(count)]
    return random.choice([*NUMBERS, *OTHERS, [1, 2], ["none.csv"], {"a": None}, {3: [1], "3": [2]}])


@pytest.mark.filterwarnings("ignore")
def test_no_raw_exception_of_tables(full: bool) -> None:
    draw = random.Random(1)  # noqa: S311
    found = []
    calls = 4000 if full else 300
    for _ in range(calls):
        table = random_table(draw)
        options = {
            name: draw.choice([None, "acc", "method", 3, ["seed"], "max", 0.5, True, math.nan])
            for name in (
                "method",
                "task",
                "rate",
                "average",
                "seed",
                "value",
                "metric",
                "mode",
                "baseline",
                "margin",
                "paired",
                "examples",
                "title",
            )
            if draw.random() < 0.15
        }
        try:
            result = gw.compare_records(table, **options)
            str(result)
            result.to_dict()
        except GatewiseError as problem:
            assert "\n" not in str(problem)
        except Exception as problem:  # any other is a fault
            found.append(f"{table!r:.300} {options}: {problem!r}")
    assert not found, f"{len(found)} of {calls} calls:\n" + "\n".join(found[:3])


@pytest.mark.filterwarnings("ignore")
def test_no_raw_exception_of_files(tmp_path: Path, full: bool) -> None:
    """Random bytes and random changes of a right file."""
    draw = random.Random(2)  # noqa: S311
    right = b"method,seed,acc\n" + b"".join(
        b"%s,%d,0.9%d\n" % (name, seed, seed) for name in (b"relu", b"gelu") for seed in range(4)
    )
    found = []
    for place in range(1500 if full else 150):
        content = bytearray(right)
        for _ in range(draw.randrange(4)):
            at = draw.randrange(len(content))
            content[at : at + draw.randrange(3)] = bytes(
                draw.choice([0, 10, 13, 34, 44, 59, 200, 255, 0x2D])
                for _ in range(draw.randrange(4))
            )
        path = tmp_path / f"{place % 7}{draw.choice(['.csv', '.tsv', '.parquet', ''])}"
        path.write_bytes(bytes(content))
        try:
            gw.compare_records(path)
        except GatewiseError as problem:
            assert "\n" not in str(problem)
        except Exception as problem:  # any other is a fault
            found.append(f"{bytes(content)!r}: {problem!r}")
    assert not found, "\n".join(found[:3])
