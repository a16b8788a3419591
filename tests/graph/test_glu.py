"""Gated linear units are sites with two branches, however they are written."""

import pytest
import torch
from torch import nn
from torch.nn import functional

import gatewise as gw
from gatewise.errors import ArgumentError
from tests.graph import gated_blocks as blocks

FIRST, SECOND = "first half", "second half"
WRITTEN = [
    (blocks.TwoLinears, "silu", ("gate_proj", "all"), ("up_proj", "all")),
    (blocks.Chunked, "silu", ("gate_up", FIRST), ("gate_up", SECOND)),
    (blocks.SplitGateLast, "silu", ("gate_up", SECOND), ("gate_up", FIRST)),
    (blocks.Sliced, "silu", ("gate_up", FIRST), ("gate_up", SECOND)),
    (blocks.Interleaved, "silu", ("gate_up", "even"), ("gate_up", "odd")),
    (blocks.Pairs, "silu", ("gate_up", "even"), ("gate_up", "odd")),
    (blocks.Clamped, "sigmoid", ("gate_up", "even"), ("gate_up", "odd")),
    (blocks.FunctionalGLU, "glu", ("gate_up", SECOND), ("gate_up", FIRST)),
    (blocks.OwnUnit, "swiglu", ("gate_up", SECOND), ("gate_up", FIRST)),
    (blocks.OwnUnitGateFirst, "swiglu", ("gate_up", FIRST), ("gate_up", SECOND)),
    (blocks.OwnUnitInterleaved, "swiglu", ("gate_up", "even"), ("gate_up", "odd")),
]


def example(seed: int = 0) -> torch.Tensor:
    return torch.randn(12, 8, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("block, op, gate, value", WRITTEN)
def test_gate_and_value_are_found_however_they_are_written(block, op, gate, value):
    (site,) = gw.find_sites(block(), example())
    assert (site.op, site.role) == (op, "glu")
    assert (site.gate.layers, site.gate.part) == ((gate[0],), gate[1])
    assert (site.value.layers, site.value.part) == ((value[0],), value[1])
    assert site.to_dict()["gate"] == {"layers": (gate[0],), "part": gate[1]}


@pytest.mark.parametrize("block, op, gate, value", WRITTEN)
def test_the_value_is_the_branch_in_which_the_block_is_linear(block, op, gate, value):
    """Independent of the graph: a value of 0 (-1 for the offset of gpt-oss) closes the block."""
    torch.manual_seed(0)
    model = block()
    (site,) = gw.find_sites(model, example())
    layer = model.get_submodule(site.value.layers[0])
    rows = {
        "all": slice(None),
        FIRST: slice(0, 16),
        SECOND: slice(16, 32),
        "even": slice(0, 32, 2),
        "odd": slice(1, 32, 2),
    }[site.value.part]
    with torch.no_grad():
        layer.weight[rows] = 0
        layer.bias[rows] = -1.0 if block is blocks.Clamped else 0.0
    down = model.down_proj if block is blocks.TwoLinears else model.down
    want = down.bias.expand(12, 8)
    if block is blocks.TwoLinears:
        want = want + example()
    torch.testing.assert_close(model(example()), want)


@pytest.mark.parametrize("block", [blocks.SqueezeExcite, blocks.WrittenSiLU])
def test_a_product_with_the_own_input_is_no_gated_linear_unit(block):
    for site in gw.find_sites(block(), example()):
        assert site.role != "glu" and site.gate is None and site.value is None


def test_a_squared_relu_is_not_read_as_relu():
    model = blocks.SquaredReLU()
    graph = gw.find_sites(model, example())
    assert [site.op for site in graph] == ["relu2"]
    assert not graph.notes
    assert gw.gates(model, example()).sites[0].unit == "relu2"
    with pytest.raises(ArgumentError, match="nothing would change"):
        gw.plan(model, "crelu", example())


@pytest.mark.parametrize("unit, layout", [("swiglu", "gate_first"), ("reglu", "interleaved")])
def test_gates_of_a_unit_that_holds_both_branches_are_those_of_its_gate_half(unit, layout):
    torch.manual_seed(0)
    packed = nn.Linear(8, 32)
    model = nn.Sequential(packed, gw.create_unit(unit, layout=layout), nn.Linear(16, 8))
    x = example()
    gate = packed(x)[:, :16] if layout == "gate_first" else packed(x)[:, ::2]
    site = gw.gates(model, x).sites[0]
    assert site.unit == unit
    assert torch.equal(site.on_rate, (gate > 0).double().mean(0))


def test_gates_of_torchs_own_glu_are_those_of_the_second_half():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.GLU(), nn.Linear(16, 8))
    gate = model[0](example())[:, 16:]
    site = gw.gates(model, example()).sites[0]
    assert torch.equal(site.on_rate, (gate > 0).double().mean(0))


FUNCTIONS = {
    "glu": torch.sigmoid,
    "swiglu": functional.silu,
    "geglu": functional.gelu,
    "reglu": torch.relu,
    "bilinear": lambda g: g,
}


EXCHANGES = [
    (block, unit)
    for block in (blocks.TwoLinears, blocks.Chunked, blocks.FunctionalGLU, blocks.OwnUnit)
    for unit in FUNCTIONS
]
QUICK = [
    (blocks.TwoLinears, "geglu"),
    (blocks.Chunked, "bilinear"),
    (blocks.FunctionalGLU, "reglu"),
    (blocks.OwnUnit, "geglu"),
]


@pytest.mark.parametrize(
    "block, unit",
    [pytest.param(*pair, marks=[] if pair in QUICK else [pytest.mark.slow]) for pair in EXCHANGES],
)
def test_the_gate_function_is_exchanged(block, unit):
    torch.manual_seed(0)
    model = block()
    x = example()
    changed = gw.swap(model, unit, x)
    if block is blocks.TwoLinears:
        h = FUNCTIONS[unit](model.gate_proj(x)) * model.up_proj(x)
        want = x + model.down_proj(h)
    else:
        gate, up = model.gate_up(x).chunk(2, -1)
        if block in (blocks.FunctionalGLU, blocks.OwnUnit):
            gate, up = up, gate
        want = model.down(FUNCTIONS[unit](gate) * up)
    torch.testing.assert_close(changed(x), want)


def test_a_module_glu_becomes_another_gated_unit():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.GLU(dim=1), nn.Linear(16, 8))
    changed = gw.swap(model, "geglu", example())
    assert isinstance(changed[1], gw.nn.GEGLU) and changed[1].dim == 1


@pytest.mark.parametrize("unit", FUNCTIONS)
def test_own_units_are_sites_and_keep_their_layout_when_exchanged(unit):
    torch.manual_seed(0)
    own = gw.create_unit(unit, layout="interleaved")
    model = nn.Sequential(nn.Linear(8, 32), own, nn.Linear(16, 8))
    (site,) = gw.find_sites(model, example())
    assert (site.op, site.role, site.kind, site.channels) == (unit, "glu", "module", 16)
    other = "reglu" if unit != "reglu" else "geglu"
    changed = gw.swap(model, other, example())
    assert changed[1].layout == "interleaved" and gw.receipt(changed).proved
    packed = model[0](example())
    want = model[2](FUNCTIONS[other](packed[:, ::2]) * packed[:, 1::2])
    torch.testing.assert_close(changed(example()), want)
    with pytest.raises(ArgumentError, match="holds a gate and a value"):
        gw.swap(model, "relu", example())


@pytest.mark.parametrize(
    "unit, name, value",
    [
        (gw.nn.GEGLU(), "gelu", "as it is"),
        (gw.nn.Bilinear(), "identity", "as it is"),
        (gw.nn.GLU(layout="gate_first"), "sigmoid", "as it is"),
        (
            gw.nn.SwiGLU(layout="interleaved", limit=7.0, alpha=1.702, offset=1.0),
            "quick_gelu",
            "clamped at 7, then plus 1",
        ),
    ],
)
def test_the_functions_of_own_units_are_recognised(unit, name, value):
    model = nn.Sequential(nn.Linear(8, 32), unit, nn.Linear(16, 8))
    (site,) = gw.identify(model, example()).sites
    assert site.name.startswith(name) and site.value == value


def test_bad_requests_say_why():
    plain = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
    with pytest.raises(ArgumentError, match="not the gate of a gated linear unit"):
        gw.swap(plain, "swiglu", example())
    packed = nn.Sequential(nn.Linear(8, 32), nn.GLU(), nn.Linear(16, 8))
    with pytest.raises(ArgumentError, match="holds a gate and a value"):
        gw.swap(packed, "relu", example())
    with pytest.raises(ArgumentError, match="computes more of its input"):
        gw.swap(blocks.Clamped(), "geglu", example())


@pytest.mark.parametrize("unit", ["situ_glu", "clamped_swiglu"])
def test_units_that_bound_the_value_replace_whole_operators_and_refuse_written_products(unit):
    model = nn.Sequential(nn.Linear(8, 32), nn.GLU(), nn.Linear(16, 8))
    changed = gw.swap(model, unit, example(), preserve=False)
    want = model[2](getattr(gw.functional, unit)(model[0](example())))
    torch.testing.assert_close(changed(example()), want)
    with pytest.raises(ArgumentError, match="several calls"):
        gw.swap(blocks.TwoLinears(), unit, example(), preserve=False)
