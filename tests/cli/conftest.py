"""What the tests of the command line share.

A way to call it, and a quick stand-in for the measurement of errors.
"""

from collections.abc import Callable

import pytest
from typer.testing import CliRunner

import gatewise.testing
from gatewise.cli import app
from gatewise.units.contract import Unit


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable:
    """Call ``gatewise`` with arguments in this process; 100 columns, no colour."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")

    def call(*arguments: object):
        return CliRunner().invoke(app, [str(a) for a in arguments])

    return call


@pytest.fixture
def quick_measure(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Errors are made up instead of measured.

    Units whose names are put into the returned set break their promise.
    """
    broken: set[str] = set()

    def measure(unit: Unit, *, dtypes=("float16", "bfloat16", "float32"), full=False):
        return [
            _made_up(unit, dtype, way, full, broken)
            for dtype in dtypes
            for way in ("forward", "backward")
        ]

    monkeypatch.setattr(gatewise.testing, "measure", measure)
    return broken


def _made_up(unit: Unit, dtype: str, direction: str, full: bool, broken: set[str]):
    promised = getattr(unit.error[dtype], direction)
    return gatewise.testing.Measured(
        unit=unit.name,
        options="",
        dtype=dtype,
        direction=direction,
        inputs=10_000_000 if full else 65536,
        ulps=float(promised.ulps),
        ulps_at=-3.25,
        absolute=1e-7,
        absolute_at=0.5,
        promised_ulps=promised.ulps,
        promised_absolute=promised.absolute,
        kept=unit.name not in broken,
    )
