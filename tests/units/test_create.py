"""Names, options and facts: what is wrong is said, with the nearest right thing (I1 to I3)."""

import dataclasses
import inspect
import json
import math
import pickle
import string
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import gatewise as gw
from gatewise.errors import ArgumentError, GatewiseError, UnitDefinitionError, UnknownNameError
from gatewise.units.contract import (
    EXACT,
    FAMILIES,
    Limits,
    UnitModule,
    promise,
    registered_units,
    unit_facts,
)

GOLDEN = Path(__file__).parent.parent / "golden" / "0.1.0" / "state_dicts.json"
# Parameters of units that the first release did not have.
LATER = {
    "dyt-0": {"alpha": [1], "weight": [1], "bias": [1]},
    "dyt-1": {"alpha": [1], "weight": [6], "bias": [6]},
    "dyt-2": {"alpha": [1], "weight": [1], "bias": [1]},
    "jump_relu-0": {"threshold": [1]},
    "jump_relu-1": {"threshold": [6]},
    "star_relu-0": {"scale": [1], "bias": [1]},
    "star_relu-1": {"scale": [6], "bias": [6]},
    "xielu-0": {"alpha_p": [1], "alpha_n": [1]},
    "xielu-1": {"alpha_p": [6], "alpha_n": [6]},
}
PROMISED = [
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
]
PROMISED += [
    "acon_c",
    "meta_acon",
    "smu",
    "smu1",
    "frelu",
    "pau",
    "pwlu",
    "maxout",
    "crelu",
    "leaky_crelu",
    "soft_relu",
    "beta_vq",
    "iieu_b",
]
PROMISED += "relu2 leaky_relu2 star_relu telu xielu jump_relu dyt".split()
PROMISED += "glu swiglu geglu reglu bilinear clamped_swiglu situ_glu".split()
PROMISED += "hardswish hardsigmoid hardtanh relu6 selu celu tanh sigmoid".split()
PROMISED += "gelu_tanh softsign logsigmoid tanhshrink threshold".split()


def test_every_promised_name_is_in_the_catalogue():
    assert sorted(gw.list_units()) == sorted(PROMISED)


def test_the_catalogue_is_read_only():
    with pytest.raises(TypeError):
        registered_units()["mine"] = gw.get_unit("relu")
    with pytest.raises(dataclasses.FrozenInstanceError):
        gw.get_unit("relu").name = "mine"


@pytest.mark.parametrize(
    "wrong, right",
    [("rellu", "relu"), ("CRELU", "crelu"), ("leakyrelu", "leaky_relu"), ("gelo", "gelu")],
)
def test_a_wrong_name_gets_the_nearest_right_one(wrong, right):
    for ask in (gw.get_unit, gw.create_unit):
        with pytest.raises(UnknownNameError, match=f"did you mean '{right}'"):
            ask(wrong)


@given(
    st.one_of(
        st.text(),
        st.integers(),
        st.none(),
        st.binary(),
        st.text(alphabet=string.printable, min_size=200),
    )
)
def test_any_wrong_name_is_our_error_of_readable_length(name):
    if name in gw.list_units():
        return
    with pytest.raises(ArgumentError) as caught:
        gw.get_unit(name)
    assert len(str(caught.value)) < 1000 and "\n" not in str(caught.value)


def test_a_wrong_option_gets_the_nearest_right_one():
    with pytest.raises(ArgumentError, match="did you mean 'slope'"):
        gw.create_unit("leaky_relu", slop=0.1)


def test_a_unit_that_needs_channels_says_so_and_takes_them_from_a_layer():
    with pytest.raises(ArgumentError, match="channels=C"):
        gw.create_unit("acon_c")
    assert gw.create_unit("acon_c", conv=nn.Conv2d(3, 7, 3)).p1.shape == (7,)
    assert gw.create_unit("frelu", conv=nn.Conv2d(3, 7, 3)).funnel.in_channels == 7
    with pytest.raises(ArgumentError, match="convolution or a linear"):
        gw.create_unit("acon_c", conv=nn.ReLU())


def test_units_without_channels_ignore_a_given_count():
    assert isinstance(gw.create_unit("relu", channels=64), gw.nn.ReLU)


def test_device_and_dtype_reach_the_parameters():
    assert gw.create_unit("swish", dtype=torch.float64).beta.dtype == torch.float64
    assert gw.create_unit("swish", device="meta").beta.device.type == "meta"
    assert isinstance(gw.create_unit("relu", dtype=torch.float64), gw.nn.ReLU)


NUMBERS = [float("nan"), float("inf"), -float("inf"), "1", None, True, [1.0], 1j]


def test_numbers_that_are_none_are_refused():
    """Every option whose default is a number, as the constructors' signatures have it."""
    tried = 0
    for name, unit in registered_units().items():
        extra = {"channels": 4} if "channels" in unit.needs else {}
        for option, parameter in unit.options.items():
            if not isinstance(parameter.default, float):
                continue
            for bad in NUMBERS:
                tried += 1
                with pytest.raises(ArgumentError, match=option):
                    gw.create_unit(name, **extra, **{option: bad})
    assert tried > 200


def test_channel_counts_that_are_none_are_refused():
    units = [unit for unit in registered_units().values() if "channels" in unit.options]
    assert len(units) > 10
    for unit in units:
        for bad in (0, -1, 1.5, "3", True):
            with pytest.raises(ArgumentError, match="channels"):
                unit.module(channels=bad)


@pytest.mark.parametrize("name", [n for n, u in registered_units().items() if "dim" in u.options])
def test_a_dimension_the_input_does_not_have_is_our_error(name):
    options = dict(gw.get_unit(name).samples[0])
    options |= {"dim": 5}
    if "channels" in gw.get_unit(name).options:
        options["channels"] = 6
    if name == "beta_vq":
        options["learn_beta"] = True
    with pytest.raises(ArgumentError, match="no dimension 5"):
        gw.get_unit(name).module(**options)(torch.randn(2, 6, 4, 4))


def test_a_parameter_on_another_device_is_our_error():
    with pytest.raises(ArgumentError, match="different devices"):
        gw.nn.Swish(channels=3, device="meta")(torch.randn(2, 3))


def facts(**changes):
    def mine(x):
        return x

    good = dict(
        name="mine",
        title="Mine",
        family="smooth",
        function=mine,
        formula="x",
        paper="none",
        reference=mine,
        limits=Limits((0.0,), (0.0,)),
        error=EXACT,
    )
    return {k: v for k, v in (good | changes).items() if v is not ...}


@pytest.mark.parametrize(
    "changes, word",
    [
        ({"kink": {}}, "did you mean 'kinks'"),
        ({"formula": ...}, "formula"),
        ({"family": "odd"}, "family"),
        ({"name": "Mine"}, "lower-case"),
        ({"name": "other"}, "must have the name of the unit"),
        ({"studied_in": ("nips",)}, "paper"),
        ({"needs": ("luck",)}, "need"),
        ({"error": {"float16": promise(1)}}, "every dtype needs an error bound"),
        ({"samples": ({"sloep": 1},)}, "sample"),
    ],
)
def test_a_wrong_fact_fails_at_definition(changes, word):
    with pytest.raises(UnitDefinitionError, match=word):
        unit_facts(UnitModule, **facts(**changes))


def test_a_unit_cannot_be_defined_twice():
    from gatewise.units.contract import unit

    with pytest.raises(UnitDefinitionError, match="already defined"):
        unit(**facts(name="relu", function=gw.functional.relu))(UnitModule)


def test_every_family_is_used_and_every_unit_is_documented():
    assert {u.family for u in registered_units().values()} == set(FAMILIES)
    for unit in registered_units().values():
        text = unit.function.__doc__
        assert ".. math::" in text and "Shape:" in text, unit.name
        assert unit.module.__doc__, unit.name


def test_state_dict_keys_and_shapes_are_those_of_the_first_release():
    """S5: names are for ever.

    A change here breaks users' checkpoints: write a migration, and a new golden file.
    """
    now = {}
    for name, unit in registered_units().items():
        for i, options in enumerate(unit.samples):
            now[f"{name}-{i}"] = {
                k: list(v.shape) for k, v in unit.module(**options).state_dict().items()
            }
    first = json.loads(GOLDEN.read_text())
    assert {name: now[name] for name in first} == first
    assert {name: keys for name, keys in now.items() if keys and name not in first} == LATER


def test_constructor_signatures_are_those_of_the_first_release():
    signatures = {
        name: str(inspect.signature(unit.module)) for name, unit in registered_units().items()
    }
    first = json.loads((GOLDEN.parent / "unit_signatures.json").read_text())
    assert {name: signatures[name] for name in first} == first


def test_a_constructor_made_from_the_function_checks_names_and_values():
    with pytest.raises(TypeError, match=r"LeakyReLU.__init__\(\).*'slop'"):
        gw.nn.LeakyReLU(slop=0.1)
    with pytest.raises(ArgumentError, match="slope"):
        gw.nn.LeakyReLU(slope="0.1")
    with pytest.raises(ArgumentError, match="alpha"):
        gw.nn.SMU(alpha=math.nan)
    module = gw.nn.SMU(mu=2.0, alpha=0, channels=3)
    assert repr(module) == "SMU(mu=2.0, alpha=0, channels=3)" and type(module.alpha) is float
    assert gw.nn.SMU.__init__.__qualname__ == "SMU.__init__"


class Steeper(gw.nn.LeakyReLU):
    """A user's subclass with a constructor of its own."""

    def __init__(self, factor: float) -> None:
        super().__init__(slope=2 * factor)
        self.factor = factor


def test_a_subclass_of_a_unit_can_have_a_constructor_of_its_own():
    module = pickle.loads(pickle.dumps(Steeper(0.25)))
    assert torch.equal(module(torch.tensor([-2.0, 3.0])), torch.tensor([-1.0, 3.0]))
    assert str(inspect.signature(Steeper)) == "(factor: float) -> None"


def test_all_our_errors_say_what_and_are_caught_by_the_usual_types():
    with pytest.raises(ValueError):
        gw.create_unit("relu", slope=1)
    with pytest.raises(LookupError):
        gw.get_unit("nope")
    assert issubclass(ArgumentError, GatewiseError)
