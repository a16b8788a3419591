"""A rewrite is done completely or not at all, can be undone, and notices changed source text."""

import gc
import importlib.util
import pickle
import sys
import weakref

import pytest
import torch
from surgery import rewrite_blocks as blocks
from surgery.rewrite_blocks import WIDTH, Block, Unit
from torch import nn
from torch.nn import functional as F

from gatewise.errors import ArgumentError
from gatewise.surgery.calls import record_calls
from gatewise.surgery.rewrite import (
    CallEdit,
    RewrittenCalls,
    Transaction,
    rewrite_calls,
    rewriting,
    rewritten_class,
)
from gatewise.units.contract import create_unit

X = torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(1))


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = blocks.Nested(), blocks.ReusedModule()

    def forward(self, x):
        return F.relu(self.b(self.a(x)))


def shape_of(model):
    modules = [
        (type(module), list(module.__dict__), list(module._modules)) for module in model.modules()
    ]
    return modules, list(model.state_dict())


def test_an_exception_midway_can_be_rolled_back(monkeypatch):
    model = Two()
    work = Transaction(model)
    calls, before, want = record_calls(model, (X,)), shape_of(model), model(X)
    made = []

    def make(change, original=rewriting.OwnerChange.make):
        made.append(change)
        original(change)
        if len(made) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(rewriting.OwnerChange, "make", make)
    with pytest.raises(KeyboardInterrupt):
        rewrite_calls(model, calls, [Unit(i) for i in range(len(calls))])
    assert len(made) == 2 and shape_of(model) != before
    work.roll_back()
    assert shape_of(model) == before
    assert torch.equal(model(X), want)


def test_one_impossible_call_among_many_leaves_the_model_as_it_was():
    model = Two()
    calls, before = record_calls(model, (X,)), shape_of(model)
    wrong = [*calls[:-1], type(calls[-1])(**{**vars(calls[-1]), "position": (1, 1, 0, 4)})]
    with pytest.raises(
        ArgumentError,
        match=r"cannot be rewritten: the source text has changed since it was imported",
    ):
        rewrite_calls(model, wrong, [Unit(0) for _ in calls])
    assert shape_of(model) == before


def test_a_second_rewrite_of_one_owner_adds_to_the_first():
    torch.manual_seed(0)
    model = blocks.ReusedModule()
    calls, units = record_calls(model, (X,)), [Unit(i) for i in range(3)]
    first = Transaction(model)
    rewrite_calls(model, calls[1:2], units[1:2])
    once, want_once = model(X), F.relu(F.relu(X) + units[1](-X))
    rest = [call for call in record_calls(model, (X,)) if not call.refused]
    assert [call.position for call in rest] == [calls[0].position, calls[2].position]
    second = Transaction(model)
    rewrite_calls(model, rest, [units[0], units[2]])
    assert torch.equal(once, want_once)
    assert torch.equal(model(X), blocks.FORMS[blocks.ReusedModule](model, units, X))
    assert torch.equal(pickle.loads(pickle.dumps(model))(X), model(X))
    second.roll_back()
    assert torch.equal(model(X), once)
    first.roll_back()
    assert type(model) is blocks.ReusedModule


def test_a_call_is_not_rewritten_twice():
    model = blocks.ReusedModule()
    calls = record_calls(model, (X,))
    rewrite_calls(model, calls[:1], [Unit(0)])
    with pytest.raises(ArgumentError, match="already rewritten"):
        rewrite_calls(model, calls[:1], [Unit(1)])


def test_rounds_of_a_loop_that_are_not_given_keep_the_original_call():
    model = blocks.WhileLoop()
    calls = record_calls(model, (X,))
    rewrite_calls(model, [calls[0], calls[2]], [first := Unit(0), third := Unit(1)])
    assert torch.equal(model(X), third(F.relu(first(X))))
    assert list(model.gw.state_dict()) == ["s0.0.slope", "s0.2.slope"]


class Rounds(Block):
    def forward(self, x, rounds=2):
        for _ in range(rounds):
            x = F.relu(x)
        return x


def test_a_loop_that_runs_more_often_than_recorded_is_an_error_and_less_often_is_not():
    model = Rounds()
    rewrite_calls(model, record_calls(model, (X,)), units := [Unit(0), Unit(1)])
    assert torch.equal(model(X, rounds=1), units[0](X))
    with pytest.raises(ArgumentError, match=r"got: iteration 3; allowed: iterations up to 2"):
        model(X, rounds=3)


def test_calls_that_share_a_unit_take_one_and_refuse_two():
    model = blocks.HelperCalledTwice()
    calls = record_calls(model, (X,))
    with pytest.raises(ArgumentError, match="share a unit are given different units"):
        rewrite_calls(model, calls, [Unit(0), Unit(1)])
    rewrite_calls(model, calls, [unit := Unit(0)] * 2)
    assert torch.equal(model(X), unit(model.lin(unit(X))))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"owner": "nothing.here"}, "no such owner"),
        ({"defined_in": "somewhere:Else"}, "does not inherit from a class that the recipe names"),
        ({"method": "backward"}, "has changed since it was imported"),
        ({"digest": "0" * 64}, "has changed since it was imported"),
    ],
)
def test_a_call_of_another_model_is_refused(change, message):
    model = blocks.Nested()
    call = type(made := record_calls(model, (X,))[0])(**{**vars(made), **change})
    with pytest.raises(ArgumentError, match=message):
        rewrite_calls(model, [call], [Unit(0)])
    assert type(model) is blocks.Nested


def test_bad_arguments_are_our_errors():
    model = blocks.Nested()
    calls = record_calls(model, (X,))
    for given, units in ((calls, [Unit(0)]), ([], []), (calls, [torch.relu, Unit(0)])):
        with pytest.raises(ArgumentError, match="rewrite_calls"):
            rewrite_calls(model, given, units)


def test_an_attribute_of_the_same_name_that_appears_later_is_kept():
    model = blocks.Nested()
    calls = record_calls(model, (X,))
    model.gw = nn.Identity()
    with pytest.raises(ArgumentError, match="has an attribute 'gw' of its own"):
        rewrite_calls(model, calls, [Unit(0), Unit(1)])
    assert isinstance(model.gw, nn.Identity)


TEXT = """
from torch import nn
from torch.nn import functional as F

class Moving(nn.Module):
    def forward(self, x):
        return F.relu(x) + 1
"""


@pytest.fixture
def moving(tmp_path):
    """A module in a file that a test may edit after its import."""
    file = tmp_path / "moving_source.py"
    file.write_text(TEXT)
    spec = importlib.util.spec_from_file_location("moving_source", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules["moving_source"] = module
    spec.loader.exec_module(module)
    yield module, file
    del sys.modules["moving_source"]


@pytest.mark.parametrize(
    "text", [TEXT.replace("+ 1", "+ 2"), "# a line more\n" + TEXT, "", "def broken(:"]
)
def test_a_source_that_changed_after_its_import_is_refused(moving, text):
    module, file = moving
    model = module.Moving()
    calls = record_calls(model, (X,))
    file.write_text(text + "\n# of another length\n")
    assert [call.refused for call in record_calls(model, (X,))] == ["source_changed"]
    with pytest.raises(ArgumentError, match="has changed since it was imported"):
        rewrite_calls(model, calls, [Unit(0)])
    assert type(model) is module.Moving


def test_a_pickle_from_another_source_is_refused(moving):
    module, file = moving
    model = module.Moving()
    rewrite_calls(model, record_calls(model, (X,)), [Unit(0)])
    data = pickle.dumps(model)
    del model
    gc.collect()  # the subclass too, or it would be found again
    file.write_text(TEXT + "# more\n")
    with pytest.raises(ArgumentError, match="has changed since it was imported"):
        pickle.loads(data)


def test_a_recipe_holds_no_text_of_a_program():
    """What a pickle or a plan could bring in are places and digests.

    A slot that is no name does not become code.
    """
    call = record_calls(blocks.TwoNames(), (X,))[0]
    place = (call.defined_in, call.method, call.digest, call.position, call.form, False, None)
    evil = rewritten_class(blocks.TwoNames, (CallEdit("s0 or print(1)", *place),))
    model = blocks.TwoNames()
    model.__class__ = evil
    model.gw = nn.Module()
    with pytest.raises(AttributeError, match=r"no attribute 's0 or print\(1\)'"):
        model(X)


def test_subclasses_are_let_go_with_their_models():
    model = blocks.TwoNames()
    rewrite_calls(model, record_calls(model, (X,)), [Unit(0)])
    kind = weakref.ref(type(model))
    RewrittenCalls().restore(model)
    gc.collect()
    assert kind() is None


def test_recording_keeps_no_tensor_alive():
    model, x = blocks.InPlaceModule(), torch.randn(3, WIDTH)
    gone = weakref.ref(x)
    gc.disable()
    try:
        record_calls(model, (x,))
        del x
        assert gone() is None
    finally:
        gc.enable()


class UsesUnits(Block):
    def __init__(self):
        super().__init__()
        self.act, self.wide = create_unit("swish"), create_unit("crelu")

    def forward(self, x):
        return self.wide(self.act(self.act(x)))


def test_units_of_this_library_are_activation_modules():
    calls = record_calls(UsesUnits(), (X,))
    assert [(call.op, call.module, call.reused) for call in calls] == [
        ("Swish", "act", True),
        ("Swish", "act", True),
        ("CReLU", "wide", False),
    ]
    assert not any(call.refused for call in calls)
