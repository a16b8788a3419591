"""Other packages add units, swaps, networks and commands by entry points."""

import sys
from importlib.metadata import EntryPoint

import pytest

import gatewise as gw
from gatewise import extensions
from gatewise.errors import UnknownNameError

ADDED = """
from torch import nn
from gatewise.models import network

def added_network(*, classes: int = 10):
    return nn.Sequential(nn.Flatten(), nn.Linear(192, classes))

def networks():
    network(title="Added network", reads=(3, 8, 8), paper="a test")(added_network)
"""
COMMAND = '''
def hello(name: str = "you"):
    """Say hello.

    Once.
    """
    print(f"hello {name}")
'''


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Return a function that installs a module under an entry point."""
    points = []

    def find(**selected):
        return [p for p in points if all(getattr(p, k) == v for k, v in selected.items())]

    def install(group: str, name: str, value: str, text: str) -> None:
        (tmp_path / f"{value.partition(':')[0]}.py").write_text(text)
        points.append(EntryPoint(name, value, group))

    monkeypatch.setattr(extensions, "entry_points", find)
    monkeypatch.setattr(extensions, "_LOADED", set())
    monkeypatch.syspath_prepend(tmp_path)
    return install


def test_a_network_of_another_package_is_found_by_its_name(install, monkeypatch):
    from gatewise.models import catalogue

    monkeypatch.setattr(catalogue, "_MODELS", dict(catalogue._MODELS))
    install(extensions.GROUP, "models", "added_models:networks", ADDED)
    assert gw.models.get_model("mlp") and "added_models" not in sys.modules
    assert gw.models.create_model("added_network", classes=3)[1].out_features == 3
    assert "added_network" in gw.models.list_models()


def test_an_unknown_name_has_no_fix_of_an_installation(install):
    with pytest.raises(UnknownNameError, match="did you mean 'mlp'") as problem:
        gw.models.get_model("mlpp")
    assert extensions.INSTALL_PAPERS not in str(problem.value)


def test_a_command_of_another_package_runs_and_is_in_the_help(install):
    from typer.testing import CliRunner

    from gatewise.cli import app

    install(extensions.COMMANDS, "hello", "added_command:hello", COMMAND)
    assert "added_command" not in sys.modules
    assert CliRunner().invoke(app, ["hello", "--name", "Ada"]).stdout == "hello Ada\n"
    shown = CliRunner().invoke(app, ["--help"]).stdout
    assert "hello" in shown and "Say hello." in shown


def test_a_name_of_the_papers_says_what_to_install(install, monkeypatch):
    monkeypatch.setitem(extensions.PAPERS, "models", ("far_away",))
    with pytest.raises(UnknownNameError, match="pip install -e laboratory"):
        gw.models.create_model("far_away")
