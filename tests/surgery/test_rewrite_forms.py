"""Rewritten calls in every form python allows, against the same module written out by hand.

Equal bit for bit.
"""

import copy
import json
import pickle

import pytest
import torch
from surgery.rewrite_blocks import FORMS, WIDTH, Unit
from torch import nn

from gatewise.surgery.calls import CallSite, record_calls
from gatewise.surgery.planning.plain import from_plain, to_plain
from gatewise.surgery.rewrite import RewrittenCalls, Transaction, rewrite_calls

FORM = pytest.mark.parametrize("kind", FORMS, ids=lambda kind: kind.__name__)


def example():
    return torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(5))


def record_both_modes(model):
    """Calls in training and in evaluation, each slot once, in order of slots."""
    calls = [
        call for mode in (True, False) for call in record_calls(model.train(mode), (example(),))
    ]
    return list({call.slot: call for call in calls}.values())


def rewritten(kind):
    torch.manual_seed(3)
    model = kind()
    calls = record_both_modes(model)
    units = [Unit(number) for number in range(len(calls))]
    original = copy.deepcopy(model)
    work = Transaction(model)
    rewrite_calls(model, calls, units)
    return model, original, calls, units, work.roll_back


@FORM
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_the_rewritten_module_is_the_one_written_by_hand(kind, training):
    model, original, calls, units, _ = rewritten(kind)
    assert not [call.reason for call in calls if call.refused]
    got, want = (
        model.train(training)(example()),
        FORMS[kind](original.train(training), units, example()),
    )
    assert torch.equal(got, want)
    wrong = FORMS[kind](original, [*units[1:], Unit(40)], example())
    assert not torch.equal(
        got, wrong
    )  # so that equality says something about which unit stands where


@FORM
def test_gradients_are_those_of_the_module_written_by_hand(kind):
    model, original, _, units, _ = rewritten(kind)
    if not model(example()).requires_grad:
        return
    twins = copy.deepcopy(units)
    model(example()).square().sum().backward()
    FORMS[kind](original, twins, example()).square().sum().backward()
    named = dict(original.named_parameters())
    for name, parameter in model.named_parameters():
        if ".gw." not in f".{name}":
            assert parameter.grad is named[name].grad or torch.equal(
                parameter.grad, named[name].grad
            ), name
    for unit, twin in zip(units, twins, strict=True):
        assert unit.slope.grad is twin.slope.grad or torch.equal(unit.slope.grad, twin.slope.grad)


@FORM
@pytest.mark.parametrize("by", ["undo", "model"])
def test_undo_is_exact(kind, by):
    model, original, _, _, undo = rewritten(kind)
    assert {type(module) for module in model.modules()} != {
        type(module) for module in original.modules()
    }
    if by == "undo":
        undo()
    else:
        RewrittenCalls().restore(model)
    assert [type(module) for module in model.modules()] == [
        type(module) for module in original.modules()
    ]
    for module, before in zip(model.modules(), original.modules(), strict=True):
        assert list(module.__dict__) == list(before.__dict__)
        assert list(module._modules) == list(before._modules)
        assert not module._forward_hooks and not module._forward_pre_hooks
    assert torch.equal(model(example()), original(example()))
    assert list(model.state_dict()) == list(original.state_dict())


@FORM
def test_a_deep_copy_computes_the_same_with_its_own_units(kind):
    model, _, _, units, _ = rewritten(kind)
    copied = copy.deepcopy(model)
    want = model(example())
    for unit in units:
        nn.init.constant_(unit.slope, 9.0)
    assert torch.equal(copied(example()), want)
    assert type(copied) is type(model)


@FORM
def test_a_pickled_copy_computes_the_same(kind):
    if "<locals>" in kind.__qualname__:
        return  # no class inside a function can be pickled
    model, *_ = rewritten(kind)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert torch.equal(pickle.loads(pickle.dumps(model, protocol))(example()), model(example()))


@FORM
def test_calls_survive_json_and_fit_a_fresh_model(kind):
    model, _, calls, units, _ = rewritten(kind)
    again = [from_plain(CallSite, json.loads(json.dumps(to_plain(call)))) for call in calls]
    assert again == calls
    torch.manual_seed(3)
    fresh = kind()
    rewrite_calls(fresh, again, units)
    assert torch.equal(fresh.eval()(example()), model.eval()(example()))
    assert [type(module) for module in fresh.modules()] == [
        type(module) for module in model.modules()
    ]


@FORM
def test_old_names_of_the_state_dict_stay_and_new_ones_are_under_gw(kind):
    model, original, _, _, _ = rewritten(kind)
    old, new = list(original.state_dict()), list(model.state_dict())
    assert [name for name in new if ".gw." not in f".{name}"] == old
    assert len(new) > len(old)


@FORM
def test_class_and_methods_keep_their_names(kind):
    model, *_ = rewritten(kind)
    assert isinstance(model, kind)
    for attribute in ("__name__", "__qualname__", "__module__", "__doc__"):
        assert getattr(type(model), attribute) == getattr(kind, attribute)
    assert type(model).forward.__qualname__ == kind.forward.__qualname__
    assert type(model).forward.__defaults__ == kind.forward.__defaults__
    assert type(model).forward.__kwdefaults__ == kind.forward.__kwdefaults__
