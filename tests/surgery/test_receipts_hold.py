"""What a receipt calls proved agrees with a reference that is written by hand.

A swap is right, refused, or said to be not proved. It is never wrong with a clean receipt.
"""

import copy
from typing import Any

import pytest
import torch
from surgery import tricky_models
from surgery.tricky_models import ALL, Tricky
from torch import Tensor, nn
from torch.nn import functional as F

import gatewise as gw
from gatewise.errors import ArgumentError
from gatewise.surgery import Reason
from gatewise.surgery.proof import SwapFailed, against_reference, float32, limits

TYPES = (torch.float32, torch.bfloat16, torch.float16)


def tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    items = value.values() if isinstance(value, dict) else value
    return [tensor for item in items for tensor in tensors(item)]


def error(actual: Any, expected: Any) -> float:
    pairs = zip(tensors(actual), tensors(expected), strict=True)
    return max(float((a - b).abs().max() / b.abs().max().clamp_min(1e-6)) for a, b in pairs)


def swapped_or_none(model: nn.Module, *args: Any, **choices: Any) -> nn.Module | None:
    try:
        return gw.swap(model, *args, **choices)
    except (SwapFailed, ArgumentError):
        return None


def truth(model: Tricky, x: Tensor, act: Any) -> list[Tensor]:
    with torch.no_grad():
        return tensors(model.truth(x.clone(), act))


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float32,
        pytest.param(torch.bfloat16, marks=pytest.mark.slow),
        pytest.param(torch.float16, marks=pytest.mark.slow),
    ],
    ids=str,
)
@pytest.mark.parametrize("make", ALL)
def test_a_swap_is_right_refused_or_said_not_to_be_proved(make: type[Tricky], dtype: torch.dtype):
    torch.manual_seed(0)
    model = make().eval().to(dtype)
    x = torch.randn(4, 8).to(dtype)
    before = x.clone()
    changed = swapped_or_none(model, "silu", x)
    assert torch.equal(x, before)  # the user's example was not written to
    if changed is None or not gw.receipt(changed).proved or gw.receipt(changed).refused:
        return
    for training in (False, True):
        changed.train(training)
        expected_model = copy.deepcopy(model).train(training).float()
        if make is tricky_models.Normed and training:
            changed.drop.p = expected_model.drop.p = 0.0
        with torch.no_grad():
            actual = copy.deepcopy(changed).float()(x.float().clone())
            expected = expected_model.truth(x.float().clone(), F.silu)
        if make is tricky_models.ZeroHead:
            changed.last.weight.data.fill_(1.0)
            expected_model.last.weight.data.fill_(1.0)
            actual = copy.deepcopy(changed).float()(x.float())
            expected = expected_model.truth(x.float(), F.silu)
        assert error(actual, expected) <= 1e-4, (make.__name__, training)


# What can be replaced is replaced, so that the test above does not pass by refusing everything.
TAKEN = {
    "Twice",
    "SharedModule",
    "WithoutGradients",
    "Checkpointed",
    "Dictionary",
    "Normed",
    "Counting",
    "Custom",
    "Mapped",
    "InTrainingElse",
    "InTrainingBefore",
}


@pytest.mark.parametrize("make", [make for make in ALL if make.__name__ in TAKEN])
def test_what_can_be_replaced_is_proved(make: type[Tricky]):
    model = make().eval()
    changed = gw.swap(model, "silu", torch.randn(4, 8))
    receipt = gw.receipt(changed)
    assert receipt.proved and str(receipt).startswith("CHECKED, function changed: ")


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_an_activation_in_place_whose_result_is_dropped_is_refused_in_every_type(dtype):
    model = tricky_models.Discarded().eval().to(dtype)
    with pytest.raises(SwapFailed, match="computes something else"):
        gw.swap(model, "silu", torch.randn(4, 8).to(dtype))


@pytest.mark.slow
def test_memory_that_is_kept_after_a_run_is_not_left_behind():
    model, x = tricky_models.Features().eval(), torch.randn(4, 8)
    with pytest.raises(ArgumentError, match="an attribute, a list or a hook keeps after the run"):
        gw.plan(model, "silu", x)
    assert model.features == [] and "forward" not in vars(model.act)
    # The result of an activation may be kept, or its input if nothing is written into it.
    for inplace in (True, False):
        kept = []
        plain = nn.Sequential(nn.Linear(8, 8), nn.ReLU(inplace), nn.Linear(8, 3)).eval()
        plain[1].register_forward_hook(lambda module, args, out, kept=kept: kept.append(out))
        if not inplace:
            plain[0].register_forward_hook(lambda module, args, out, kept=kept: kept.append(out))
        assert gw.receipt(gw.swap(plain, "silu", x)).proved


class WritesIntoInput(nn.Module):
    """An activation that does not say that it writes into its input."""

    def forward(self, x: Tensor) -> Tensor:
        return x.relu_()


def relu_with_forward_of_its_own() -> nn.Module:
    module = nn.ReLU()
    module.forward = lambda x: x.relu_()
    return module


WRITING = [lambda: nn.ReLU(inplace=True), WritesIntoInput, relu_with_forward_of_its_own]


@pytest.mark.parametrize("make", WRITING, ids=["inplace", "own class", "own forward"])
def test_modules_that_write_into_kept_memory_are_found_whether_or_not_they_say_so(make):
    model = tricky_models.Features().eval()
    model.act = make()
    with pytest.raises(ArgumentError, match="an attribute, a list or a hook keeps after the run"):
        gw.plan(model, "silu", torch.randn(4, 8))


class WritesInEvaluation(tricky_models.Features):
    """A model that lets its activation write into its input in evaluation mode alone."""

    def train(self, mode: bool = True) -> nn.Module:
        self.act.inplace = not mode
        return super().train(mode)


def test_what_torchs_own_class_does_in_the_run_decides_and_not_what_it_said_before(monkeypatch):
    message = "an attribute, a list or a hook keeps after the run"
    model = WritesInEvaluation()
    model.act = nn.ReLU()
    with pytest.raises(ArgumentError, match=message):
        gw.plan(model, "silu", torch.randn(4, 8))
    model = tricky_models.Features().eval()
    model.act = nn.ReLU()
    monkeypatch.setattr(nn.ReLU, "forward", lambda self, x: x.relu_())
    with pytest.raises(ArgumentError, match=message):
        gw.plan(model, "silu", torch.randn(4, 8))


@pytest.mark.parametrize("unit", ["psc", "concat_act"])
def test_outputs_in_slots_are_compared(unit: str):
    with pytest.raises(SwapFailed, match="computes something else"):
        gw.swap(tricky_models.SlotsBeside().eval(), unit, torch.randn(4, 8), preserve=True)


@pytest.mark.parametrize("unit", ["silu", "prelu", "psc", "concat_act"])
def test_calls_of_training_and_eval_mode_are_two_sites(unit: str):
    model, x = tricky_models.InTrainingElse().eval(), torch.randn(4, 8)
    plan = gw.plan(model, unit, x, preserve=unit in ("psc", "concat_act"))
    assert [entry.site for entry in plan.swapped] == ["(model):relu#0", "(model):relu#0 (train)"]
    changed = plan.apply(model, inplace=False)
    assert gw.receipt(changed).proved
    act = {"silu": F.silu, "prelu": lambda h: F.leaky_relu(h, 0.25)}.get(unit, F.relu)
    for training in (False, True):
        with torch.no_grad():
            actual = changed.train(training)(x)
            assert error(actual, model.train(training).truth(x, act)) <= 1e-5
    gw.undo(changed)
    assert torch.equal(changed(x), model(x))


def test_without_an_example_nothing_is_proved():
    model, x = tricky_models.Normed().eval(), torch.randn(4, 8)
    plan = gw.surgery.Plan.from_json(gw.plan(model, "silu", x).to_json())
    receipt = gw.receipt(plan.apply(model, inplace=False))
    assert not receipt.proved and str(receipt).startswith("NOT CHECKED: ")
    assert receipt.to_dict()["proved"] is False
    proved = gw.receipt(plan.apply(model, inplace=False, example=x))
    assert proved.proved and proved.to_dict()["proved"] is True


class NoNumbers(nn.Module):
    """It returns nothing that can be compared."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.layer(x)).argmax(1)


@pytest.mark.parametrize("choices", [{"unit": "silu"}, {"unit": "relu", "preserve": True}])
def test_a_model_without_comparable_outputs_is_not_proved(choices: dict):
    unit = choices.pop("unit")
    receipt = gw.receipt(gw.swap(NoNumbers().eval(), unit, torch.randn(4, 8), **choices))
    assert not receipt.proved and str(receipt).startswith("NOT CHECKED: ")


def test_a_model_without_activation_calls_is_told_what_is_written_out():
    class Clamped(tricky_models.Tricky):
        def forward(self, x: Tensor) -> Tensor:
            return self.last(self.first(x).clamp_(min=0))

    with pytest.raises(
        ArgumentError, match=r"calls no activation function.*ReLU, written as clamp"
    ):
        gw.plan(Clamped().eval(), "silu", torch.randn(4, 8))


# Other paths


class ByShape(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.small = nn.Conv2d(8, 4, 1)
        self.large = nn.Conv2d(8, 4, 1, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.first(x))
        return (self.small(h) if x.shape[-1] <= 16 else self.large(h)).mean((2, 3))


class ByArgument(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.main, self.more = nn.Linear(8, 8), nn.Linear(8, 3), nn.Linear(8, 3)

    def forward(self, x: Tensor, aux: bool = False) -> Tensor:
        h = F.relu(self.first(x))
        if aux:
            h = F.relu_(h - 0.2) * 2
            return self.main(h) + self.more(h)
        return self.main(h)


class ByValue(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        if x.sum() > 0:
            h = F.relu(h)
        else:
            h = F.relu(h * 2)
        return self.last(h)


def test_unreached_modules_and_branches_are_named_in_plan_and_receipt():
    model, x = ByShape().eval(), torch.randn(2, 3, 8, 8)
    plan = gw.plan(model, "psc", x, preserve=True)
    receipt = gw.receipt(plan.apply(model, inplace=False))
    for text in (str(plan), receipt.details):
        assert "module large" in text and ": `self.large(h)`" in text
    assert "not reached" in str(receipt).splitlines()[2]
    assert receipt.unreached == plan.unreached and len(plan.unreached) == 2


def test_strict_refuses_what_no_example_reaches():
    small, large = torch.randn(2, 3, 8, 8), torch.randn(2, 3, 32, 32)
    with pytest.raises(ArgumentError, match="module large"):
        gw.plan(ByShape().eval(), "psc", small, preserve=True, strict=True)
    model = ByShape().eval()
    changed = gw.swap(model, "psc", [small, large], preserve=True, strict=True)
    receipt = gw.receipt(changed)
    assert receipt.unreached == () and "on 2 examples" in str(receipt).splitlines()[0]
    for x in (torch.randn(3, 3, 12, 12), torch.randn(3, 3, 24, 24)):
        assert torch.allclose(changed(x), model(x), atol=1e-5)
    assert isinstance(changed.large, gw.nn.PSConv2d)


@pytest.mark.parametrize("unit", ["silu", "psc"])
def test_several_examples_change_the_calls_of_all_their_paths(unit: str):
    torch.manual_seed(1)
    model, x = ByArgument().eval(), torch.randn(4, 8)
    examples = [{"x": x}, {"x": x, "aux": True}]
    changed = gw.swap(model, unit, examples=examples, preserve=unit == "psc")
    receipt = gw.receipt(changed)
    assert receipt.proved and receipt.unreached == ()
    with torch.no_grad():
        if unit == "psc":
            expected = model(x, aux=True)
        else:
            h = F.silu(F.silu(model.first(x)) - 0.2) * 2
            expected = model.main(h) + model.more(h)
        assert torch.allclose(changed(x, aux=True), expected, atol=1e-5)


def test_calls_of_one_name_on_two_paths_are_two_sites():
    model = ByValue().eval()
    above, below = torch.ones(4, 8), -torch.ones(4, 8)
    plan = gw.plan(model, "silu", [above, below])
    assert [entry.change for entry in plan.entries] == ["swap", "swap"]
    changed = plan.apply(model, inplace=False)
    assert gw.receipt(changed).proved and not gw.receipt(changed).unreached
    with torch.no_grad():
        assert torch.allclose(changed(below), model.last(F.silu(2 * model.first(below))))
        assert torch.allclose(changed(above), model.last(F.silu(model.first(above))))


def test_settings_of_the_model_are_no_paths_and_errors_neither():
    receipt = gw.receipt(
        gw.swap(tricky_models.WithSettings().eval(), "silu", torch.randn(4, 8), strict=True)
    )
    assert receipt.unreached == ()


# Hooks


def hooked(where: int = 1) -> tuple[nn.Sequential, list[str]]:
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3)).eval()
    return model, []


def test_every_kind_of_hook_goes_on_with_the_unit():
    model, calls = hooked()
    act = model[1]
    act.register_forward_pre_hook(lambda module, args: calls.append("pre"))
    act.register_forward_pre_hook(
        lambda module, args, kwargs: calls.append("pre kwargs"), with_kwargs=True
    )
    handle = act.register_forward_hook(lambda module, args, output: output * 2)
    act.register_forward_hook(
        lambda module, args, kwargs, output: calls.append("kwargs"),
        with_kwargs=True,
        always_call=True,
    )
    act.register_full_backward_hook(lambda module, a, b: calls.append("backward"))
    act.register_full_backward_pre_hook(lambda module, b: calls.append("backward pre"))
    act.register_state_dict_post_hook(lambda *args: calls.append("state"))
    act.register_load_state_dict_pre_hook(lambda module, *args: calls.append(type(module).__name__))
    act.register_load_state_dict_post_hook(lambda module, keys: calls.append("load post"))
    x = torch.randn(4, 8)
    expected = model[2](2 * F.silu(model[0](x)))
    changed = gw.swap(model, "silu", x, inplace=True)
    calls.clear()
    output = changed(x)
    assert torch.allclose(output, expected, atol=1e-6)
    output.sum().backward()
    assert {"pre", "pre kwargs", "kwargs", "backward", "backward pre"} <= set(calls)
    changed.load_state_dict(changed.state_dict())
    assert {"state", "load post", type(changed[1]).__name__} <= set(calls)
    handle.remove()
    assert torch.allclose(changed(x), model[2](F.silu(model[0](x))), atol=1e-6)
    gw.undo(changed)
    calls.clear()
    changed(x)
    assert isinstance(changed[1], nn.ReLU) and "pre" in calls


def test_hooks_of_a_module_that_is_called_twice_go_on():
    calls = []
    model = tricky_models.Twice().eval()
    model.act.register_forward_hook(lambda *args: calls.append(1))
    changed = gw.swap(model, "silu", torch.randn(4, 8))
    calls.clear()
    changed(torch.randn(4, 8))
    assert len(calls) == 2


def test_phase_selective_layers_refuse_a_site_with_hooks_and_keep_those_of_layers():
    model, _ = hooked()
    model[1].register_forward_hook(lambda *args: None)
    with pytest.raises(ArgumentError, match="hooks"):
        gw.plan(model, "psc", torch.randn(4, 8), preserve=True)
    assert Reason.HOOKS.value.startswith("its module has hooks")
    model, calls = hooked()
    model[2].register_forward_hook(lambda *args: calls.append(1))
    changed = gw.swap(model, "psc", torch.randn(4, 8), preserve=True)
    calls.clear()
    changed(torch.randn(4, 8))
    assert calls == [1]


# Swaps that change widths


@pytest.mark.parametrize("width", ["half", "same"])
@pytest.mark.parametrize("act", [nn.ReLU, nn.GELU])
def test_the_wiring_is_proved_where_the_function_is_new(width: str, act: type[nn.Module]):
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), act(), nn.Conv2d(8, 4, 3), nn.Flatten(1)
    ).eval()
    changed = gw.swap(model, "crelu", torch.randn(2, 3, 8, 8), width=width, preserve=False)
    receipt = gw.receipt(changed)
    assert receipt.proved
    assert str(receipt).startswith("WIRING CHECKED, FUNCTION NEW: ")
    assert (receipt.proof.moved or 1) > 1e-9
    weights = changed[3].weight
    assert weights.shape[1] == (8 if width == "half" else 16)
    if width == "same":
        assert weights[:, 8:].abs().min() > 0  # the random numbers are back


def test_wrong_columns_of_a_new_function_are_caught(monkeypatch: pytest.MonkeyPatch):
    from gatewise.surgery.swaps import paired

    honest = paired.PairedSwap.build
    swap_halves = lambda unit: nn.Sequential(unit, Halves())  # noqa: E731
    monkeypatch.setattr(paired.PairedSwap, "build", lambda *args: swap_halves(honest(*args)))
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3)).eval()
    with pytest.raises(SwapFailed):
        gw.swap(model, "crelu", torch.randn(4, 8), width="same")


class Halves(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cat(x.chunk(2, 1)[::-1], 1)


def test_modules_that_return_other_values_are_named_where_the_function_is_kept():
    class Blocks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
            self.head = nn.Linear(8, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.block(x))

    receipt = gw.receipt(gw.swap(Blocks().eval(), "psc", torch.randn(4, 8), preserve=True))
    assert receipt.proof.changed_inside == ("block",) and "hidden states" in receipt.details


# Large 16-bit models


class Counted(nn.Module):
    """A decoder's feed-forward layers; ``passes`` counts the calls of all of them."""

    passes = 0

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.gate, self.up, self.down = nn.Linear(16, 32), nn.Linear(16, 32), nn.Linear(32, 16)
        self.act, self.norm = nn.SiLU(), nn.LayerNorm(16)
        self.head = nn.Linear(16, 50, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: Tensor) -> Tensor:
        Counted.passes += 1
        h = self.embed(ids)
        h = h + self.down(self.act(self.gate(h)) * self.up(F.gelu(h)))
        return self.head(self.norm(h))


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_swap_of_activations_takes_at_most_nine_passes(dtype: torch.dtype, inplace: bool):
    model = Counted().eval().to(dtype)
    Counted.passes = 0
    gw.swap(model, "relu", torch.arange(8)[None], inplace=inplace)
    assert Counted.passes <= 9


@pytest.mark.parametrize("make", [Counted, tricky_models.Normed])
def test_weights_are_converted_one_at_a_time(monkeypatch: pytest.MonkeyPatch, make: type):
    monkeypatch.setattr(limits, "MANY_BYTES", 0)
    model = make().eval().bfloat16()
    x = torch.arange(8)[None] if make is Counted else torch.randn(4, 8).bfloat16()
    receipt = gw.receipt(gw.swap(model, "mish", x))
    assert receipt.proved and "converted one at a time" in receipt.details
    reference = against_reference.ReferenceComparison
    monkeypatch.setattr(reference, "_reference", _wrong_reference(reference._reference))
    with pytest.raises(SwapFailed, match="computes something else"):
        gw.swap(model, "mish", x)


def _wrong_reference(honest: Any) -> Any:
    def wrong(self: Any, *args: Any) -> Any:
        reference = honest(self, *args)
        reference.functions = dict.fromkeys(reference.functions, torch.tanh)
        return reference

    return wrong


def test_modules_compute_in_float32_while_weights_stay_in_16_bits():
    model = Counted().eval().bfloat16()
    with torch.no_grad():
        with float32.in_float32(model):
            actual = model(torch.arange(8)[None])
        expected = copy.deepcopy(model).float()(torch.arange(8)[None])
    assert actual.dtype == torch.float32 and torch.allclose(actual, expected, atol=1e-5)
    assert all(value.dtype == torch.bfloat16 for value in model.parameters())


def test_a_large_model_whose_modules_share_weights_is_converted_at_once(
    monkeypatch: pytest.MonkeyPatch,
):
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.act = nn.Embedding(8, 8), nn.SiLU()

        def forward(self, ids: Tensor) -> Tensor:
            return F.linear(self.act(self.embed(ids)), self.embed.weight)

    monkeypatch.setattr(limits, "MANY_BYTES", 0)
    receipt = gw.receipt(gw.swap(Tied().eval().bfloat16(), "mish", torch.arange(8)[None]))
    assert receipt.proved and "one at a time" not in receipt.details
    assert receipt.proof.against_reference <= 1e-5
