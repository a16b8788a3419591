"""Swaps keep the function where promised, load checkpoints, can be undone, and are atomic."""

import copy
import pickle

import pytest
import torch
from surgery.small_networks import Excited, Residual, Tied, image, plain, rows
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import gatewise as gw
from gatewise.errors import ArgumentError
from gatewise.surgery import Plan, applying
from gatewise.surgery.planning import signature_of
from gatewise.surgery.proof import SwapFailed
from gatewise.surgery.rewrite import placement, transaction

NETWORKS = {"plain": (plain, image), "residual": (Residual, image), "excited": (Excited, image)}


def build(name: str) -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    make, example = NETWORKS[name]
    return make().eval(), example()


def in_float64(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return copy.deepcopy(model).double().eval()(x.double())


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """To rounding: the sums have the same terms, some more that are zero, and another order."""
    return bool((one - other).abs().max() <= 1e-12 * other.abs().max())


@pytest.mark.parametrize("unit", ["crelu", "concat_act", "psc"])
@pytest.mark.parametrize("name", NETWORKS)
def test_the_function_is_kept_on_inputs_surgery_has_not_seen(name: str, unit: str):
    model, x = build(name)
    changed = (
        gw.swap(model, unit, x, preserve=True, policy="streams")
        if unit != "psc"
        else swap_psc(model, x)
    )
    assert same(in_float64(changed, image(5)), in_float64(model, image(5)))
    assert gw.receipt(changed).proof.live.startswith("live")


def swap_psc(model: nn.Module, x: torch.Tensor) -> nn.Module:
    return gw.swap(model, "psc", x, preserve=True)


def test_the_new_weights_are_the_old_ones_and_zeros():
    model, x = build("plain")
    changed = gw.swap(model, "crelu", x, preserve=True, where="8")
    old, new = model[9].weight, changed[9].weight
    assert torch.equal(new, torch.cat((old, torch.zeros_like(old)), 1))
    assert isinstance(changed[8], gw.nn.CReLU) and changed[9].in_features == 20


def test_groups_get_their_channels_interleaved():
    model, x = build("plain")
    changed = gw.swap(model, "crelu", x, preserve=True, where="2")
    new = changed[4].weight
    assert torch.equal(new[:, 0::2], model[4].weight) and not new[:, 1::2].any()
    assert changed[4].groups == 2 and changed[4].in_channels == 16


def test_a_depthwise_layer_doubles_with_its_gate_and_scale():
    model, x = build("excited")
    changed = gw.swap(model, "crelu", x, preserve=True, where="act0")
    assert (
        changed.depth.groups == 16
        and changed.up.out_channels == 16
        and changed.scale.shape == (16, 1, 1)
    )
    assert torch.equal(
        changed.up.weight, model.up.weight.repeat(2, 1, 1, 1)
    )  # copies: zero rows would never train


def test_phase_selective_layers_keep_their_parameters_and_gain_one():
    model, x = build("plain")
    changed = gw.swap(model, "psc", x, preserve=True, inplace=False)
    assert isinstance(changed[4], gw.nn.PSConv2d) and isinstance(changed[2], nn.Identity)
    assert set(changed.state_dict()) - set(model.state_dict()) == {
        f"{i}.weight_neg" for i in (4, 7, 9)
    }
    assert not changed[4].weight_neg.any()


@pytest.mark.parametrize(
    "slope", [0.25, 0.01]
)  # one that multiplies without rounding, and torch's default
def test_a_leaky_site_gives_its_slope_to_the_layer(slope: float):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.LeakyReLU(slope), nn.Linear(5, 3))
    changed = gw.swap(model, "psc", rows(), preserve=True)
    assert torch.equal(changed[2].weight_neg, slope * model[2].weight)
    one, other = in_float64(changed, rows(4)), in_float64(model, rows(4))
    assert (one - other).abs().max() <= (1e-12 if slope == 0.25 else 2**-23) * other.abs().max()
    in_double = gw.swap(model.double(), "psc", rows().double(), preserve=True)
    assert same(in_float64(in_double, rows(4)), in_float64(model, rows(4)))


def test_half_the_filters_make_as_many_channels():
    model, x = build("plain")
    changed = gw.swap(model, "crelu", x, where="2", width="half")
    assert (
        changed[0].weight.shape[0] == 4 == changed[1].num_features
        and changed[4].weight is not model[4].weight
    )
    assert torch.equal(changed[4].weight, model[4].weight)
    stem = changed[1](changed[0](x))
    assert torch.equal(changed[2](stem), torch.cat((stem.relu(), stem.neg().relu()), 1))
    want = nn.functional.conv2d(x, model[0].weight[:4], model[0].bias[:4], padding=1)
    assert torch.allclose(changed[0](x), want, atol=1e-6)


def test_fresh_columns_are_drawn_when_nothing_is_to_be_kept():
    model, x = build("plain")
    changed = gw.swap(model, "crelu", x, where="8", preserve=False, width="same")
    new = changed[9].weight[:, 10:].detach()
    assert torch.equal(changed[9].weight[:, :10], model[9].weight)
    assert 0.3 < float(new.std() / model[9].weight.detach().std()) < 3


@pytest.mark.parametrize("unit", ["silu", "prelu", "abs", "frelu"])
def test_a_unit_of_as_many_outputs_goes_to_every_kind_of_site(unit: str):
    model, x = build("excited")
    choices = {"where": "act*"} if unit == "frelu" else {}
    changed = gw.swap(model, unit, x, **choices)
    assert gw.receipt(changed).proof.against_reference == 0
    assert len(gw.receipt(changed).sites) == (2 if unit == "frelu" else 3)
    assert isinstance(changed.act0, gw.get_unit(unit).module)


def test_a_per_channel_unit_has_the_sites_channels_and_the_plan_counts_them():
    model, x = build("residual")
    changed = gw.swap(model, "prelu", x)
    assert changed.act1.options["channels"] == 8
    receipt = gw.receipt(changed)
    assert (
        receipt.parameters[1]
        == sum(p.numel() for p in changed.parameters())
        == gw.plan(model, "prelu", x).parameters[1]
    )


@pytest.mark.parametrize("unit", ["crelu", "psc", "prelu"])
def test_a_checkpoint_of_the_original_loads_strictly_and_a_new_one_too(unit: str):
    model, x = build("plain")
    changed = gw.swap(model, unit, x, preserve=unit != "prelu")
    torch.manual_seed(9)
    trained = plain().eval()
    changed.load_state_dict(trained.state_dict(), strict=True)
    if unit != "prelu":
        assert same(in_float64(changed, image(3)), in_float64(trained, image(3)))
    again = gw.swap(model, unit, x, preserve=unit != "prelu")
    with torch.no_grad():
        changed[9].weight += 1
    again.load_state_dict(changed.state_dict(), strict=True)
    assert all(
        torch.equal(again.state_dict()[name], value) for name, value in changed.state_dict().items()
    )


def test_an_activation_with_parameters_of_its_own_can_be_replaced_and_its_checkpoint_loads():
    model = nn.Sequential(nn.Linear(6, 5), nn.PReLU(5), nn.Linear(5, 3))
    changed = gw.swap(model, "silu", rows())
    assert "1.weight" not in changed.state_dict()
    changed.load_state_dict(model.state_dict(), strict=True)


@pytest.mark.parametrize(
    "copying", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))]
)
@pytest.mark.parametrize("name", NETWORKS)
def test_a_copy_of_a_changed_model_works_loads_and_is_undone(name: str, copying):
    model, x = build(name)
    twin = copying(gw.swap(model, "crelu", x, preserve=True))
    assert same(in_float64(twin, image(3)), in_float64(model, image(3)))
    twin.load_state_dict(model.state_dict(), strict=True)
    assert_same_model(gw.undo(twin), model)


def assert_same_model(one: nn.Module, other: nn.Module) -> None:
    assert [(name, type(module)) for name, module in one.named_modules()] == [
        (name, type(module)) for name, module in other.named_modules()
    ]
    assert list(one.state_dict()) == list(other.state_dict())
    assert all(
        torch.equal(value, other.state_dict()[name]) for name, value in one.state_dict().items()
    )
    assert str(one) == str(other)


@pytest.mark.parametrize("unit", ["crelu", "psc", "silu"])
@pytest.mark.parametrize("name", NETWORKS)
def test_undo_gives_back_the_very_objects(name: str, unit: str):
    model, x = build(name)
    before = {**dict(model.named_parameters()), **dict(model.named_modules())}
    hooks = len(model._load_state_dict_pre_hooks)
    gw.swap(model, unit, x, preserve=unit != "silu", inplace=True)
    assert gw.undo(model) is model
    after = {**dict(model.named_parameters()), **dict(model.named_modules())}
    assert before.keys() == after.keys() and all(
        after[key] is value for key, value in before.items()
    )
    assert (
        len(model._load_state_dict_pre_hooks) == hooks
        and model.__dict__.keys() == build(name)[0].__dict__.keys()
    )


@pytest.mark.parametrize("unit", ["crelu", "psc", "prelu"])
@pytest.mark.parametrize("name", NETWORKS)
def test_an_exception_at_any_change_leaves_the_model_as_it_was(
    name: str, unit: str, monkeypatch: pytest.MonkeyPatch
):
    model, x = build(name)
    twin = copy.deepcopy(model)
    plan = gw.plan(model, unit, x, preserve=unit != "prelu")
    honest, steps = transaction.Transaction.replace, 0
    while True:
        made = fail_after(steps, honest, monkeypatch)
        try:
            plan.apply(model)
            break
        except KeyboardInterrupt:
            assert made[0] == steps + 1
            assert_same_model(model, twin)
            steps += 1
    assert steps >= 2  # every change was the one that failed, once
    gw.undo(model)
    assert_same_model(model, twin)


def fail_after(steps: int, honest, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    made = [0]

    def replace(self, *given):
        made[0] += 1
        honest(self, *given)
        if made[0] > steps:
            raise KeyboardInterrupt

    monkeypatch.setattr(transaction.Transaction, "replace", replace)
    return made


@pytest.mark.parametrize("stage", ["prove", "_keep_record"])
def test_an_exception_after_the_changes_leaves_the_model_as_it_was(
    stage: str, monkeypatch: pytest.MonkeyPatch
):
    model, x = build("excited")
    twin = copy.deepcopy(model)
    monkeypatch.setattr(applying, stage, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        gw.swap(model, "crelu", x, preserve=True, inplace=True)
    assert_same_model(model, twin)


def wrong_edit(plan: Plan) -> Plan:
    """The plan with the columns of one reader in the wrong order.

    The shapes are right, the function is not.
    """
    values = {name: getattr(plan, name) for name in plan.__dataclass_fields__}
    edits = list(plan.edits)
    place = next(
        i for i, edit in enumerate(edits) if edit.fill == "zero" and edit.name == "9.weight"
    )
    edit = edits[place]
    edits[place] = type(edit)(edit.name, edit.dim, edit.index.flip(0), edit.new, edit.fill)
    return Plan(**{**values, "edits": tuple(edits)})


def test_a_wrong_rewrite_is_caught_and_taken_back():
    model, x = build("plain")
    twin = copy.deepcopy(model)
    plan = wrong_edit(gw.plan(model, "crelu", x, preserve=True))
    with pytest.raises(SwapFailed, match="computes something else"):
        plan.apply(model)
    assert_same_model(model, twin)


def test_a_layer_that_makes_other_sizes_than_planned_is_caught():
    model, x = build("plain")
    plan = gw.plan(model, "crelu", x, preserve=True)
    assert plan.sizes["4"] == (2, 8, 4, 4) and plan.sizes["9"] == (2, 4)
    plan.sizes["4"] = (2, 9, 4, 4)
    with pytest.raises(SwapFailed, match="does not make what the plan expects"):
        plan.apply(model)


def test_a_unit_that_is_not_what_the_model_calls_is_caught(monkeypatch: pytest.MonkeyPatch):
    model, x = build("excited")
    honest = placement.rewrite_calls
    wrong = lambda model, calls, units: honest(model, calls, [nn.Tanh() for _ in units])  # noqa: E731
    monkeypatch.setattr(placement, "rewrite_calls", wrong)
    with pytest.raises(SwapFailed, match="computes something else"):
        gw.swap(model, "silu", x)


def test_an_in_place_activation_whose_result_is_thrown_away_is_caught():
    class Careless(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.act, self.b = nn.Linear(6, 6), nn.ReLU(inplace=True), nn.Linear(6, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.a(x)
            self.act(y)
            return self.b(y)

    for unit, preserve in (("silu", False), ("crelu", True)):
        with pytest.raises(SwapFailed):
            gw.swap(Careless(), unit, rows(), preserve=preserve)


class Overwriting(nn.Module):
    """What its activation was given is overwritten.

    ReLU needs its output for the gradient; SiLU would need that.
    """

    def __init__(self):
        super().__init__()
        self.a, self.act, self.b = nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.a(x)
        z = self.act(y)
        y += x
        return self.b(z + y)


def test_a_model_that_could_be_trained_and_no_longer_can_is_caught():
    model = Overwriting()
    twin = copy.deepcopy(model)
    model(rows()).sum().backward()
    with pytest.raises(SwapFailed, match=r"cannot be trained \(.*inplace.*an operation in place"):
        gw.swap(model, "silu", rows(), inplace=True)
    assert_same_model(model, twin)


@pytest.mark.parametrize("unit", ["relu", "elu", "softplus", "gelu"])
def test_the_form_of_a_unit_that_is_proved_is_the_one_that_runs(unit: str):
    """A compiled form keeps its input where the plain one keeps something else."""
    by_hand = Overwriting()
    by_hand.act = gw.create_unit(unit)
    try:
        by_hand(rows()).sum().backward()
    except RuntimeError:  # torch: needed for a gradient, and changed in place
        with pytest.raises(SwapFailed, match="cannot be trained"):
            gw.swap(Overwriting(), unit, rows())
    else:
        changed = gw.swap(Overwriting(), unit, rows())
        changed(rows()).sum().backward()
        assert all(weight.grad is not None for weight in changed.parameters())


@pytest.mark.parametrize("unit", ["silu", "swish", "gelu", "elu"])
def test_bytes_for_backward_are_those_of_the_form_that_runs(unit: str):
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2)
    )
    x = torch.randn(2, 3, 8, 8)
    changed = gw.swap(model, unit, x)
    own, kept = {each.untyped_storage().data_ptr() for each in changed.parameters()}, {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = (tensor, storage.nbytes())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        changed.train()(x)
    proof = gw.receipt(changed).proof
    assert proof is not None and proof.saved_bytes is not None
    assert proof.saved_bytes[1] == sum(size for _, size in kept.values())


@pytest.mark.parametrize("unit", ["frelu", "meta_acon"])
@pytest.mark.parametrize("training", [False, True])
def test_units_with_norms_of_their_own_go_into_a_model_in_either_mode(unit: str, training: bool):
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 3)
    ).train(training)
    changed = gw.swap(model, unit, torch.randn(4, 3, 8, 8))
    assert all(module.training is training for module in changed.modules())


@pytest.mark.parametrize(("unit", "passes"), [("frelu", 1), ("meta_acon", 1), ("galu", 2)])
def test_operations_inside_a_unit_are_counted(unit: str, passes: int):
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3)
    ).eval()
    x = torch.randn(2, 3, 12, 12)
    changed = gw.swap(model, unit, x)
    before, after = gw.receipt(changed).operations
    counted = []
    for each in (model, changed):
        with FlopCounterMode(display=False) as count, torch.no_grad():
            each(x)
        counted.append(count.get_total_flops())
    elements = before - counted[0]  # an activation counts one for each
    assert after - passes * elements == counted[1] > counted[0]


def test_bytes_for_backward_are_in_the_receipt_of_a_swap_that_preserves_nothing():
    model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3)).eval()
    x = torch.randn(5, 6)
    proof = gw.receipt(gw.swap(model, "crelu", x, width="half")).proof
    assert proof is not None and proof.notes == ()
    before = 4 * 5 * (6 + 8 + 8)  # the input, that of GELU, and that of the last layer
    # The input, both halves of CReLU, and the input of the last layer.
    after = 4 * 5 * (6 + 4 + 4 + 8)
    assert proof.saved_bytes == (before, after)


def test_an_original_that_cannot_be_trained_is_said_to_be_so():
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)).eval()
    proof = gw.receipt(gw.swap(model, "silu", torch.randn(1, 6))).proof
    assert proof is not None and proof.saved_bytes is None
    assert any("original cannot be trained on the example" in note for note in proof.notes)


@pytest.mark.parametrize("unit", ["crelu", "psc"])
@pytest.mark.parametrize("shape", [(0,), (0, 5), (5, 0)])
def test_a_parameter_without_entries_is_left_alone(unit: str, shape: tuple[int, ...]):
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    model.register_parameter("spare", nn.Parameter(torch.empty(shape)))
    changed = gw.swap(model, unit, torch.randn(2, 4), preserve=True)
    assert (
        gw.receipt(changed).proof.live == "live" and changed.get_parameter("spare").shape == shape
    )


def test_tied_weights_are_refused_and_the_plan_says_which():
    with pytest.raises(ArgumentError, match="tied or shared"):
        gw.plan(Tied(), "crelu", rows(), preserve=True)


def test_a_model_that_was_not_swapped_has_no_receipt():
    model, x = build("plain")
    gw.swap(model, "crelu", x, preserve=True)
    for function in (gw.receipt, gw.undo):
        with pytest.raises(ArgumentError, match="no units were put into it"):
            function(model)


def test_the_copy_leaves_the_model_handed_in_untouched():
    model, x = build("residual")
    before = signature_of(model)
    changed = gw.swap(model, "crelu", x, preserve=True)
    assert (
        changed is not model and signature_of(model) == before and signature_of(changed) != before
    )
