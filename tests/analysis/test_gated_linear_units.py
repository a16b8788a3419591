"""Analyses read gated linear units of the user's own modules alike, however they are written.

All blocks get the same weights, so that one written with two layers is the reference, and numbers
are also computed by hand from these weights.
"""

import pytest
import torch
from torch import Tensor, nn

import gatewise as gw
from gatewise.errors import Limitation, NotApplicableError
from tests.graph import gated_blocks as blocks

GATE_FIRST = (blocks.Chunked, blocks.Sliced, blocks.OwnUnitGateFirst)
GATE_LAST = (blocks.SplitGateLast, blocks.FunctionalGLU, blocks.OwnUnit)
IN_TURNS = (blocks.Interleaved, blocks.Pairs, blocks.OwnUnitInterleaved)
WRITTEN = (*GATE_FIRST, *GATE_LAST, *IN_TURNS)


class ModuleGLU(blocks.Packed):
    """``torch.nn.GLU`` as a module."""

    def __init__(self) -> None:
        super().__init__()
        self.unit = nn.GLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.unit(self.gate_up(x)))


def example() -> Tensor:
    return torch.randn(12, 8, generator=torch.Generator().manual_seed(3))


def reference() -> blocks.TwoLinears:
    torch.manual_seed(0)
    return blocks.TwoLinears().eval()


def packed(form: type[blocks.Packed]) -> nn.Module:
    """The block with the weights of the reference."""
    source = reference()
    model = form().eval()
    gate, value = source.gate_proj, source.up_proj
    with torch.no_grad():
        for mine, one, other in (
            (model.gate_up.weight, gate.weight, value.weight),
            (model.gate_up.bias, gate.bias, value.bias),
        ):
            if form in IN_TURNS:
                mine[::2], mine[1::2] = one, other
            elif form in GATE_LAST or form is ModuleGLU:
                mine.copy_(torch.cat((other, one)))
            else:
                mine.copy_(torch.cat((one, other)))
        model.down.load_state_dict(source.down_proj.state_dict())
    return model


@pytest.mark.parametrize("form", [*WRITTEN, ModuleGLU])
def test_gates_and_their_overlap_are_those_of_the_gate_branch(form):
    model = packed(form)
    x = example()
    is_on = reference().gate_proj(x) > 0
    (site,) = gw.gates(model, x).sites
    assert torch.equal(site.on_rate, is_on.double().mean(0)) and site.seen == 12
    shared = (is_on[:, None] & is_on[None]).sum(-1)
    found = gw.analysis.gate_overlap(model, x)
    assert found.gates == 16
    torch.testing.assert_close(found.inputs.double(), shared.double() / 16)


@pytest.mark.parametrize("form", WRITTEN)
def test_the_cost_is_that_of_two_layers(form):
    mine = gw.cost(packed(form), example(), repeats=1)
    own = gw.cost(reference(), example(), repeats=1)
    assert mine.parameters == own.parameters == 2 * (8 * 16 + 16) + 16 * 8 + 8
    assert len(mine.sites) == 1
    products = 2 * 12 * (2 * 8 * 16 + 16 * 8)
    assert products <= mine.operations <= products + 12 * 16 * 32  # operations of the unit


@pytest.mark.parametrize("form", [*WRITTEN, ModuleGLU])
def test_the_tangent_kernel_is_that_of_automatic_differentiation(form):
    model = packed(form).double()
    x = example()[:3].double()
    jacobians = []
    for row in x:
        rows = []
        for output in model(row[None])[0]:
            gradients = torch.autograd.grad(output, list(model.parameters()), retain_graph=True)
            rows.append(torch.cat([each.flatten() for each in gradients]))
        jacobians.append(torch.stack(rows))
    stacked = torch.stack(jacobians)  # (3, 8, parameters)
    want = torch.einsum("sip,tjp->stij", stacked, stacked)
    torch.testing.assert_close(gw.analysis.ntk(model, x).reshape(want.shape), want)


@pytest.mark.parametrize("form", [*WRITTEN, ModuleGLU])
def test_regions_are_refused_with_the_reason(form):
    """The product of two responses is not piecewise linear."""
    with pytest.raises(NotApplicableError) as refused:
        gw.analysis.partition(packed(form), example()[:3])
    assert refused.value.limitation in (
        Limitation.UNSUPPORTED_OPERATOR,
        Limitation.UNSUPPORTED_UNIT,
        Limitation.UNSUPPORTED_MODEL,
    )


def test_opposite_filters_are_found_in_each_layer():
    """Layers are read without an example: a layer of both branches is one layer."""
    names = {layer.name: len(layer.partner) for layer in gw.analysis.pairing(reference()).layers}
    assert names == {"gate_proj": 16, "up_proj": 16, "down_proj": 8}
    names = {
        layer.name: len(layer.partner)
        for layer in gw.analysis.pairing(packed(blocks.Chunked)).layers
    }
    assert names == {"gate_up": 32, "down": 8}
