"""The public names exist, and every unit can be reached in every documented way."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from zoo import declare_missing_torchvision_operators

import gatewise as gw
from gatewise.units.contract import registered_units

CATALOGUE = Path(gw.__file__).parent / "units" / "catalogue"
# the recorders' packages import torchvision where it is installed
declare_missing_torchvision_operators()

STABLE = [
    "GateMonitor",
    "GatewiseError",
    "analysis",
    "compare",
    "compare_records",
    "cost",
    "create_unit",
    "diagnose",
    "find_sites",
    "from_pretrained",
    "functional",
    "fuse",
    "gates",
    "get_unit",
    "identify",
    "layers",
    "list_units",
    "load_swaps",
    "models",
    "nn",
    "plan",
    "receipt",
    "revive",
    "save_swaps",
    "sparsify",
    "sparsity",
    "surgery",
    "swap",
    "testing",
    "undo",
    "unfuse",
    "units",
    "write_page",
]
STABLE_UNITS = (
    "relu",
    "leaky_relu",
    "prelu",
    "abs",
    "elu",
    "softplus",
    "gelu",
    "silu",
    "swish",
    "mish",
    "erfact",
    "pserf",
    "acon_c",
    "meta_acon",
    "smu",
    "smu1",
    "frelu",
    "pau",
    "pwlu",
    "maxout",
    "crelu",
    "soft_relu",
    "beta_vq",
    "iieu_b",
)


STABLE_LAYERS = (
    "BetaPool2d",
    "PSConv2d",
    "PSLinear",
    "ConvIIEU",
    "LinearIIEU",
    "Coupler",
    "orthogonal",
    "orthogonality_penalty",
)


@pytest.mark.parametrize("name", STABLE_LAYERS)
def test_stable_layer_is_there(name: str):
    assert getattr(gw.nn, name).__module__.startswith("gatewise.layers.")
    assert name in dir(gw.nn)


def test_a_layer_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        gw.nn.Nonsense  # noqa: B018


def test_listed_names_are_those_of_the_snapshot():
    assert gw.__all__ == STABLE
    for name in STABLE:
        assert hasattr(gw, name), name


def test_every_part_is_an_attribute_in_a_fresh_process():
    parts = (
        "surgery",
        "models",
        "units",
        "analysis",
        "graph",
        "train",
        "studies",
        "report",
        "stats",
    )
    code = "import types, gatewise as gw\n"
    for part in parts:
        code += f"assert isinstance(gw.{part}, types.ModuleType)\n"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parent)


def test_the_file_of_a_unit_can_be_imported_by_its_dotted_name():
    code = "import gatewise.units.catalogue.relu as m; assert m.relu and m.ReLU"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parent)


def test_dir_shows_only_what_a_user_is_meant_to_use():
    shown = set(dir(gw))
    assert shown == {*gw.__all__, "__version__"}
    assert not shown & {"Any", "importlib", "TYPE_CHECKING"}


@pytest.mark.parametrize("name", STABLE_UNITS)
def test_stable_unit_is_there(name: str):
    assert gw.get_unit(name) is registered_units()[name]
    assert name in gw.list_units()


@pytest.mark.parametrize("name", sorted(gw.list_units()))
def test_unit_is_reached_by_its_function_and_its_class(name: str):
    unit = gw.get_unit(name)
    assert getattr(gw.functional, name) is unit.function
    assert getattr(gw.nn, unit.module.__name__) is unit.module
    assert name in dir(gw.functional)
    assert unit.module.__name__ in dir(gw.nn)


def test_functional_has_one_entry_per_unit_and_nothing_else():
    assert sorted(gw.functional.__all__) == sorted(gw.list_units())


def test_nn_lists_every_class_of_a_unit():
    assert {unit.module.__name__ for unit in registered_units().values()} <= set(gw.nn.__all__)


def missing_lines(init: str, files: dict[str, str]) -> list[str]:
    """The import lines ``init`` lacks, one for each of ``files`` (name.

    Text) that it does not import from.
    """
    known = {node.module for node in ast.walk(ast.parse(init)) if isinstance(node, ast.ImportFrom)}
    return [
        import_line(name, text)
        for name, text in files.items()
        if f"gatewise.units.catalogue.{name}" not in known
    ]


def import_line(name: str, text: str) -> str:
    """The line for the class that is decorated with ``@unit(...)``."""
    classes = (
        node.name
        for node in ast.parse(text).body
        if isinstance(node, ast.ClassDef) and node.decorator_list
    )
    return f"from gatewise.units.catalogue.{name} import " + ", ".join(
        f"{each} as {each}" for each in classes
    )


def test_every_unit_file_is_imported():
    files = {path.stem: path.read_text() for path in sorted(CATALOGUE.glob("[!_]*.py"))}
    lines = missing_lines((CATALOGUE / "__init__.py").read_text(), files)
    assert not lines, "add to src/gatewise/units/catalogue/__init__.py:\n" + "\n".join(lines)


def test_the_line_to_add_is_printed():
    text = "def cube(x): ...\n@unit(name='cube')\nclass Cube: ..."
    assert missing_lines(
        "from gatewise.units.catalogue.relu import relu", {"relu": "", "cube": text}
    ) == ["from gatewise.units.catalogue.cube import Cube as Cube"]
