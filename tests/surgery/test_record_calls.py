"""What record_calls says about calls.

Op, place, arguments, sharing, and why one cannot be rewritten.
"""

import ast
from pathlib import Path

import pytest
import torch
from surgery import rewrite_blocks as blocks
from surgery.refused_blocks import REFUSED
from surgery.rewrite_blocks import FORMS, WIDTH, Block, Unit
from torch import nn
from torch.nn import functional as F

from gatewise.errors import ArgumentError
from gatewise.surgery.calls import FUNCTIONS, PARAMETERS, REFUSALS, record_calls
from gatewise.surgery.rewrite import rewrite_calls

X = torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(1))


def only(calls):
    (call,) = calls
    return call


@pytest.mark.parametrize("kind", FORMS, ids=lambda kind: kind.__name__)
def test_the_text_at_the_position_is_the_call(kind):
    lines = Path(blocks.__file__).read_bytes().splitlines()
    for call in record_calls(kind(), (X,)):
        line, last, column, end = call.position
        text = b"\n".join(lines[line - 1 : last])
        cut = text[column : len(text) - len(lines[last - 1]) + end].decode()
        node = ast.parse(
            f"({cut})" if cut.startswith(("F.", "self", "torch", "getattr")) else f"x.{cut}"
        ).body[0]
        assert isinstance(node.value, ast.Call), cut


@pytest.mark.parametrize(("op", "names"), PARAMETERS.items(), ids=list(PARAMETERS))
def test_every_spelling_of_an_activation_is_seen(op, names):
    """Torch's functional form, its function, its method, each also in place, where there is one."""
    spelled = [f for f, what in FUNCTIONS.items() if what.op == op]
    given = {"prelu": (torch.tensor([0.3]),), "threshold": (0.1, 0.2)}.get(op, ())

    class Caller(Block):
        def forward(self, x):
            return self.function(x + 0, *given)

    for function in spelled:
        model = Caller()
        model.function = function
        call = only(record_calls(model, (X,)))
        assert (call.op, call.inplace, call.refused) == (op, FUNCTIONS[function].inplace, None)
        assert {name for name, _ in call.arguments} <= set(names)


class Arguments(Block):
    def __init__(self):
        super().__init__()
        self.slope = nn.Parameter(torch.tensor([0.25]))
        self.leaky, self.prelu = nn.LeakyReLU(0.3, inplace=True), nn.PReLU()

    def forward(self, x):
        x = (
            F.leaky_relu(x, 0.2)
            + F.elu(x, alpha=2.0)
            + F.gelu(x, approximate="tanh")
            + F.prelu(x, self.slope)
        )
        return self.prelu(self.leaky(x + 1)) + F.softplus(x, 3, 4)


def test_arguments_beyond_the_input_are_told():
    calls = record_calls(Arguments(), (X,))
    assert [(call.op, dict(call.arguments)) for call in calls] == [
        ("leaky_relu", {"negative_slope": 0.2}),
        ("elu", {"alpha": 2.0}),
        ("gelu", {"approximate": "tanh"}),
        ("prelu", {"weight": "parameter slope"}),
        ("leaky_relu", {"negative_slope": 0.3}),
        ("prelu", {"weight": "parameter prelu.weight"}),
        ("softplus", {"beta": 3, "threshold": 4}),
    ]
    assert [call.inplace for call in calls] == [False, False, False, False, True, False, False]
    assert [call.attribute for call in calls] == [None, None, None, None, "leaky", "prelu", None]
    assert [call.module for call in calls] == [None, None, None, None, "leaky", "prelu", None]


def test_sharing_is_said():
    helper = record_calls(blocks.HelperCalledTwice(), (X,))
    assert [(call.method, call.shared, call.iteration) for call in helper] == [
        ("act", True, None)
    ] * 2
    assert helper[0].slot == helper[1].slot
    passing = record_calls(blocks.LoopThatPassesOver(), (X,))
    assert [(call.shared, call.iteration) for call in passing] == [(True, None)] * 2
    loop = record_calls(blocks.WhileLoop(), (X,))
    assert [(call.shared, call.iteration, call.iterations) for call in loop] == [
        (False, i, 3) for i in range(3)
    ]
    reused = record_calls(blocks.ReusedModule(), (X,))
    assert [(call.shared, call.reused) for call in reused] == [(False, True)] * 3
    assert len({call.slot for call in reused}) == 3


def test_an_owner_that_runs_twice_shares_its_units():
    child = blocks.Nested()

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.child = child

        def forward(self, x):
            return self.child(self.child(x))

    calls = record_calls(Twice(), (X,))
    assert [(call.owner, call.call, call.shared) for call in calls] == [
        ("child", i, True) for i in (0, 0, 1, 1)
    ]
    assert len({call.slot for call in calls}) == 2


def test_a_run_leaves_no_trace():
    model = nn.Sequential(
        nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.Dropout(0.5), nn.ReLU()
    )
    before, state = {k: v.clone() for k, v in model.state_dict().items()}, torch.get_rng_state()
    assert [call.op for call in record_calls(model, (X,))] == ["relu"]
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_model_that_fails_leaves_no_trace_either():
    model = blocks.Nested()
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        record_calls(model, (torch.zeros(3, WIDTH + 1),))
    assert not any(module._forward_pre_hooks for module in model.modules())
    assert len(record_calls(model, (X,))) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "reason"), REFUSED.items(), ids=lambda value: getattr(value, "__name__", value)
)
def test_what_cannot_be_rewritten_is_said_and_refused(kind, reason):
    model = kind()
    before = (type(model), list(model.state_dict()))
    calls = record_calls(model, (X,))
    assert {call.refused for call in calls} == {reason}
    assert all(f"{call.file}:{call.position[0]}" in call.reason for call in calls)
    with pytest.raises(ArgumentError, match=r"a call cannot be rewritten"):
        rewrite_calls(model, calls[:1], [Unit(0)])
    assert (type(model), list(model.state_dict())) == before


def test_the_list_of_reasons_is_closed_and_tested():
    elsewhere = {"rewritten", "source_changed", "no_positions", "graph"}
    assert set(REFUSED.values()) | elsewhere == set(REFUSALS)


def test_a_container_calls_its_children_itself():
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU())
    call = only(record_calls(model, (X,)))
    assert (call.refused, call.module, call.owner) == ("container", "1", "")


def test_a_call_that_was_rewritten_is_not_offered_again():
    model = blocks.NestedLoops()
    rewrite_calls(model, calls := record_calls(model, (X,)), [nn.GELU() for _ in calls])
    assert {call.refused for call in record_calls(model, (X,))} == {"rewritten"}


def test_an_interpreter_without_columns_is_said(monkeypatch):
    monkeypatch.setattr("gatewise.surgery.calls.record.position_of", lambda frame: None)
    assert only(record_calls(blocks.TwoNames(), (X,))).refused == "no_positions"


def test_what_is_no_module_is_our_error():
    with pytest.raises(ArgumentError, match="model is not a module"):
        record_calls(torch.relu, (X,))


class PreActivation(nn.Module):
    """The residual sum reads what the in-place activation inside the branch has written."""

    def __init__(self, inplace):
        super().__init__()
        self.branch = nn.Sequential(nn.ReLU(inplace=inplace), nn.Linear(WIDTH, WIDTH))

    def forward(self, x):
        y = x + 1
        return self.branch(y) + y


@pytest.mark.parametrize("inplace", [True, False])
def test_a_container_that_overwrites_what_is_read_later_is_said(inplace):
    call = only(record_calls(PreActivation(inplace), (X,)))
    assert (call.refused, call.inplace, call.aliased) == ("container", inplace, inplace)


class ReplacesItsBuffer(Block):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        self.count = self.count + 1
        return F.relu(x) * self.count


def test_a_buffer_that_a_run_replaces_is_put_back():
    model = ReplacesItsBuffer()
    before = model.count
    assert len(record_calls(model, (X,))) == 1
    assert model.count is before and before.item() == 0
