"""What the tests of the command share: a way to call it."""

from collections.abc import Callable

import pytest
from typer.testing import CliRunner

from gatewise.cli import app


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable:
    """Call ``gatewise`` with arguments in this process; 100 columns, no colour."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")

    def call(*arguments: object):
        return CliRunner().invoke(app, [str(each) for each in arguments])

    return call
