"""Additions recorded and rewritten.

Every spelling against the same program written by hand, equal bit for bit.
"""

import copy
import json
import pickle

import pytest
import torch
from torch import nn

from gatewise.surgery.calls import CallSite, record_run
from gatewise.surgery.planning.plain import from_plain, to_plain
from gatewise.surgery.rewrite import Transaction, rewrite_calls


class Mix(nn.Module):
    """In place of an addition: the operands weighed differently, so that their order shows."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([1.0 + number, 0.5 - number]))

    def forward(self, u, v):
        return self.weight[0] * u + self.weight[1] * v


class Sums(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        y = self.layer(x)
        y += x
        y = torch.add(
            y,
            x,
        )
        z = y.add(x)
        y = (z + y) * 2 + 1
        y.add_(x)
        for _ in range(2):
            y += z
        return sum_with(self, y) if x.shape[0] > 100 else (y + z)


def sum_with(module, y):
    return module.layer(y)


def by_hand(model, units, x):
    u = iter(units)
    y = next(u)(model.layer(x), x)
    y = next(u)(y, x)
    z = next(u)(y, x)
    y = next(u)(z, y) * 2 + 1
    y = next(u)(y, x)
    for _ in range(2):
        y = next(u)(y, z)
    return next(u)(y, z)


FORMS = [
    "sum assigned",
    "sum function",
    "sum method",
    "sum",
    "sum method",
    "sum assigned",
    "sum assigned",
    "sum",
]


def rewritten():
    torch.manual_seed(0)
    model = Sums()
    original = copy.deepcopy(model)
    sums = record_run(model, (torch.ones(2, 4),), {}).sums
    units = [Mix(number) for number in range(len(sums))]
    work = Transaction(model)
    rewrite_calls(model, sums, units)
    return model, original, units, sums, work.roll_back


def test_every_spelling_is_recorded_in_order_and_scalars_are_none():
    *_, sums, _ = rewritten()
    assert [call.form for call in sums] == FORMS and not any(call.refused for call in sums)
    assert [call.inplace for call in sums] == [True, False, False, False, True, True, True, False]
    assert [call.iteration for call in sums] == [None] * 5 + [0, 1, None]
    assert [from_plain(CallSite, json.loads(json.dumps(to_plain(call)))) for call in sums] == sums


def test_a_unit_in_place_of_an_addition_is_given_both_operands_in_order():
    model, original, units, _, _ = rewritten()
    x = torch.randn(3, 4)
    want = by_hand(original, units, x)
    assert torch.equal(model(x), want)
    assert torch.equal(pickle.loads(pickle.dumps(model))(x), want) and torch.equal(
        copy.deepcopy(model)(x), want
    )
    assert {f"gw.s{number}.weight" for number in range(5)} <= model.state_dict().keys()


def test_undo_is_exact():
    model, original, _, _, undo = rewritten()
    undo()
    x = torch.randn(3, 4)
    assert type(model) is Sums and torch.equal(model(x), original(x))
    assert list(model.state_dict()) == list(original.state_dict())


def test_compile_in_one_graph():
    model, original, units, _, _ = rewritten()
    x = torch.randn(3, 4)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), by_hand(original, units, x))


class Refused(nn.Module):
    def __init__(self):
        super().__init__()
        self.held = None

    def forward(self, x):
        y = sum([x, x, x])
        y = torch.add(x, y, alpha=2)
        y = torch.add(*(x, y))
        y = free(x, y)
        parts = [y, x]
        parts[0] += x
        return parts[0] - x


def free(x, y):
    return x + y


@pytest.mark.parametrize("place", range(6))
def test_what_is_no_plain_addition_of_a_method_is_listed_with_its_reason(place):
    sums = record_run(Refused(), (torch.ones(2, 4),), {}).sums
    assert len(sums) == 6
    assert sums[place].refused == ("free_function" if place == 4 else "not_recognised")
