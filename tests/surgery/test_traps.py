"""Eighteen ways in which surgery on real networks has gone wrong, or proved nothing.

Each is a test, by its number.
"""

import copy
import inspect
import pickle
from functools import partial

import pytest
import torch
from surgery import test_random_networks as random_tests
from surgery.small_networks import (
    Excited,
    HardView,
    Residual,
    TwoChannelShuffle,
    WithAuxiliary,
    ZeroHead,
    image,
    plain,
    rows,
)
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F
from torch.nn.utils import parametrizations

import gatewise as gw
from gatewise.errors import ArgumentError, RectifiedInputWarning
from gatewise.graph import find_sites


def network(make) -> nn.Module:
    torch.manual_seed(0)
    return make().eval()


class Block(nn.Module):
    """Two linear layers and an activation.

    ``inside`` says what is done to its output before the second.
    """

    def __init__(self, act: nn.Module | None = None):
        super().__init__()
        self.a, self.act, self.b = nn.Linear(6, 6), act or nn.ReLU(), nn.Linear(6, 6)

    def inside(self, x: Tensor) -> Tensor:
        return x

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.inside(self.act(self.a(x))))


def apart(one: nn.Module, other: nn.Module, x: Tensor, training: bool = False) -> float:
    """The largest difference of the outputs in float64, relative to the largest output."""
    with torch.no_grad():
        first, second = (
            copy.deepcopy(each).double().train(training)(x.double()) for each in (one, other)
        )
    pairs = (
        [(first, second)] if isinstance(first, Tensor) else list(zip(first, second, strict=True))
    )
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in pairs)


def reasons(model: nn.Module, x: Tensor, **choices) -> dict[str, str]:
    return {
        entry.site: entry.reason
        for entry in gw.plan(model, "crelu", x, preserve=True, **choices).refused
    }


def test_t1_consumers_that_exist_in_training_only_are_widened_too():
    model = network(WithAuxiliary)
    changed = gw.swap(model, "crelu", image(), preserve=True)
    assert changed.aux.in_channels == 16
    assert apart(changed, model, image(4), training=True) <= 1e-12


@pytest.mark.parametrize("make", [Residual, Excited])
def test_t2_widening_does_not_compound(make):
    model = network(make)
    changed = gw.swap(model, "crelu", image(), preserve=True, policy="streams")
    before = dict(model.named_parameters())
    for name, value in changed.named_parameters():
        assert all(
            new <= 2 * old for new, old in zip(value.shape, before[name].shape, strict=True)
        ), name


def test_t3_an_activation_added_to_its_own_input_is_refused():
    class Own(Block):
        def forward(self, x: Tensor) -> Tensor:
            x = self.a(x)
            return self.b(self.act(x) + x)

    for policy in ("consumers", "gates", "streams"):
        with pytest.raises(ArgumentError, match="nothing would change"):
            gw.plan(network(Own), "crelu", rows(), preserve=True, policy=policy)


def test_t4_an_operator_with_several_outputs_does_not_lose_the_widening():
    class Pooled(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.act = nn.Conv2d(3, 8, 1), nn.Linear(32, 4), nn.ReLU()

        def forward(self, x: Tensor) -> Tensor:
            return self.b(F.adaptive_max_pool2d(self.act(self.a(x)), 2).flatten(1))

    model = network(Pooled)
    try:
        changed = gw.swap(model, "crelu", image(), preserve=True)
    except ArgumentError as refused:
        assert "no rule for an operator" in str(refused)
    else:
        assert changed.b.in_features == 64 and apart(changed, model, image(3)) <= 1e-12


def test_t5_a_zero_head_is_said_to_hide_what_was_proved():
    changed = gw.swap(network(ZeroHead), "crelu", rows(), preserve=True)
    proof = gw.receipt(changed).proof
    assert proof.live == "live, once zero weights are random" and proof.moved == 0


def test_t5_a_norm_does_not_hide_the_new_weights():
    model = network(
        lambda: nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6), nn.LayerNorm(6))
    )
    assert (
        gw.receipt(gw.swap(model, "crelu", rows(), preserve=True)).proof.moved > 1e-4
    )  # a constant would be removed


def test_t5_a_dead_branch_is_vacuous():
    class Dead(Block):
        def forward(self, x: Tensor) -> Tensor:
            return x + 0 * super().forward(x)

    assert (
        gw.receipt(gw.swap(network(Dead), "crelu", rows(), preserve=True)).proof.live == "vacuous"
    )


def test_t6_the_fast_path_of_torchs_transformer_layer_does_not_pass_the_unit_by():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    x = torch.randn(2, 5, 8)
    changed = gw.swap(layer, "silu", x)
    with torch.no_grad():
        got = changed(x)
        layer.activation = nn.functional.silu
        layer.activation_relu_or_gelu = 0
        assert torch.allclose(got, layer(x), atol=1e-6)
    widened = gw.swap(gw.undo(changed), "crelu", x, preserve=True)
    assert widened.linear2.in_features == 32 and gw.receipt(widened).proof.live == "live"


def test_t7_a_size_written_out_in_the_code_is_found_by_running_it():
    model = network(HardView)
    for put_in in (gw.plan, partial(gw.swap, inplace=True)):
        with pytest.raises(ArgumentError, match="reshapes its channels to a fixed size"):
            put_in(model, "crelu", image(), preserve=True)
    assert model.head.in_features == 512 and isinstance(model.act, nn.ReLU)


def test_t8_rows_widened_for_others_are_copies_and_every_new_column_trains():
    model = network(Excited)
    nn.init.ones_(model.down.bias)  # the rectifier behind it lets something through
    changed = gw.swap(model, "crelu", image(), preserve=True, where="act1")
    assert torch.equal(changed.up.weight, model.up.weight.repeat(2, 1, 1, 1))
    alive, edits = gw.receipt(changed).proof.live_edits
    assert alive == edits >= 2


def test_t9_code_that_reads_attributes_of_the_activation_still_can():
    class Reading(Block):
        def inside(self, x: Tensor) -> Tensor:
            return x if self.act.inplace else x.clone()

    for unit in ("crelu", "psc", "silu"):
        changed = gw.swap(network(Reading), unit, rows(), preserve=unit != "silu")
        assert changed.act.inplace is False


def test_t10_a_nonlinearity_written_as_arithmetic_is_said_to_be_overlooked():
    class Arithmetic(Block):
        def forward(self, x: Tensor) -> Tensor:
            y = self.a(x).clamp(min=0)
            return self.b(self.act(y * torch.sigmoid(y)))

    notes = " ".join(gw.plan(network(Arithmetic), "silu", rows()).notes)
    assert "not a site" in notes and "clamp, sigmoid, mul" in notes


def test_t11_an_activation_made_of_several_operations_is_one_site():
    class WrittenOut(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return 0.5 * x * (1.0 + torch.tanh(0.8 * (x + 0.04 * x.pow(3.0))))

    model = network(lambda: Block(WrittenOut()))
    assert [(site.name, site.op, site.kind) for site in find_sites(model, rows())] == [
        ("act", "composite", "module")
    ]
    changed = gw.swap(model, "concat_act", rows(), preserve=True)
    assert apart(changed, model, rows(4)) <= 1e-12


def test_t12_a_computed_weight_is_refused_and_not_being_pickled_is_torchs_own():
    model = network(lambda: Block())
    parametrizations.weight_norm(model.b)
    with pytest.raises(ArgumentError, match="computed, not stored"):
        gw.plan(model, "crelu", rows(), preserve=True)
    changed = gw.swap(model, "silu", rows())
    for each in (model, changed):
        with pytest.raises(RuntimeError, match="parametrized"):
            pickle.dumps(each)


def test_t13_a_block_that_is_called_twice_is_tied_to_itself():
    class Again(nn.Module):
        def __init__(self):
            super().__init__()
            self.block, self.head = Block(), nn.Linear(6, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.block.act(self.block.a(self.block.act(self.block.a(x)))))

    model = network(Again)
    assert reasons(model, rows()) == {
        "block.act": "SHARED"
    }  # it is read by the layer that makes it
    assert apart(gw.swap(model, "crelu", rows(), preserve=True), model, rows(4)) <= 1e-12


@pytest.mark.parametrize("unit", ["crelu", "psc"])
def test_t14_dropout_masks_of_other_widths_do_not_spoil_the_proof(unit: str):
    model = network(
        lambda: nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))
    )
    proof = gw.receipt(gw.swap(model, unit, rows(), preserve=True)).proof
    assert proof.train_output <= 1e-12 and proof.gradient <= 1e-12 and proof.live == "live"


def test_t15_what_torch_does_not_document_is_still_there():
    class TwoCalls(Block):
        def inside(self, x: Tensor) -> Tensor:
            return self.act(-x)

    exported = torch.export.export(network(TwoCalls), (rows(),), strict=False)
    keys = [key for node in exported.graph.nodes for key in node.meta.get("nn_module_stack", {})]
    assert any(key.endswith("act@1") for key in keys)
    assert "_error_on_data_dependent_ops" in inspect.signature(make_fx).parameters


def test_t16_a_reshape_that_can_be_read_in_two_ways_is_refused():
    with pytest.raises(ArgumentError, match="cannot be followed"):
        gw.plan(network(TwoChannelShuffle), "crelu", image(), preserve=True)


@pytest.mark.parametrize("unit", ["crelu", "psc", "concat_act"])
def test_t17_an_input_that_is_never_negative_is_warned_of(unit: str):
    class Twice(Block):
        def __init__(self):
            super().__init__()
            self.second = nn.ReLU()

        def inside(self, x: Tensor) -> Tensor:
            return self.second(F.dropout(x, training=False) * 2 + x.sigmoid())

    with pytest.warns(RectifiedInputWarning, match="input of second is never negative"):
        plan = gw.plan(network(Twice), unit, rows(), preserve=True, where="second")
    assert "second is never negative" in str(plan)
    changed = plan.apply(network(Twice), inplace=False)
    receipt = gw.receipt(changed)
    assert receipt.proof.live == "vacuous" and "never negative" in receipt.details


def test_t17_an_input_that_may_be_negative_is_not():
    class Minus(Block):
        def inside(self, x: Tensor) -> Tensor:
            return F.relu(x * -1 + 0.5) + F.relu(x - 0.1)

    for make, x in ((Minus, rows()), (lambda: plain(), image())):
        assert not any(
            "never negative" in note
            for note in gw.plan(network(make), "crelu", x, preserve=True).notes
        )


def test_t18_a_property_test_on_dead_branches_fails(monkeypatch: pytest.MonkeyPatch):
    class Dead(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.act, self.b = nn.Conv2d(3, 4, 1), nn.ReLU(), nn.Conv2d(4, 3, 1)

        def forward(self, x: Tensor) -> Tensor:
            return x.mean((2, 3)) + 0 * self.b(self.act(self.a(x))).mean((2, 3))

    monkeypatch.setattr(random_tests, "network", lambda seed: network(Dead))
    with pytest.raises(AssertionError, match="'live': 0"):
        random_tests.try_many(range(4))


class WholeSlice(nn.Module):
    """It takes the channels up to a number that is written out: all of them, before a change."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 1)
        self.last = nn.Conv2d(8, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(F.relu(self.first(x))[:, :8, :6]).mean((2, 3))


def test_a_slice_that_takes_all_channels_is_refused_as_one_of_fixed_size():
    image = torch.randn(2, 3, 6, 6)
    with pytest.raises(ArgumentError, match=r"split of fixed sizes cuts .*slice"):
        gw.plan(WholeSlice().eval(), "concat_act", image, preserve=True)
    assert gw.receipt(gw.swap(WholeSlice().eval(), "silu", image)).proved
