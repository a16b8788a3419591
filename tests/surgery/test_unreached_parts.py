"""Parts of a model's code that no example runs are named, whatever decides about them."""

import importlib.util
import inspect
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import gatewise as gw
from gatewise.surgery.calls import Coverage


class TwoLayers(nn.Module):
    """The path depends on whether there are more than four rows."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.last = nn.Linear(8, 3)


class ByAttribute(TwoLayers):
    """The input decides about an attribute, and the attribute about the path."""

    def __init__(self) -> None:
        super().__init__()
        self.big = False

    def forward(self, x: Tensor) -> Tensor:
        self.big = x.shape[0] > 4
        h = self.first(x)
        if self.big:
            return self.last(F.relu(2 * h))
        return self.last(F.relu(h))


class ByBuffer(TwoLayers):
    """A buffer decides, which calls change."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.rows.fill_(x.shape[0])
        h = self.first(x)
        if self.rows > 4:
            h = 2 * h
        return self.last(F.relu(h))


class ByLoop(TwoLayers):
    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.first(x))
        for _ in range(x.shape[0] // 5):
            h = F.relu(self.first(h))
        return self.last(h)


class ByCase(TwoLayers):
    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        match x.shape[0]:
            case 4:
                h = F.relu(h)
            case _:
                h = F.relu(3 * h)
        return self.last(h)


class ByException(TwoLayers):
    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        try:
            h = F.relu(h.view(2, 2, 8)).view(-1, 8)
        except RuntimeError:
            h = F.relu(2 * h)
        return self.last(h)


class ByTable(TwoLayers):
    def small(self, h: Tensor) -> Tensor:
        return F.relu(h)

    def large(self, h: Tensor) -> Tensor:
        return F.relu(2 * h)

    def forward(self, x: Tensor) -> Tensor:
        ways = {True: self.large, False: self.small}
        return self.last(ways[x.shape[0] > 4](self.first(x)))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (ByAttribute, "return self.last(F.relu(2 * h))"),
        (ByBuffer, "h = 2 * h"),
        (ByLoop, "h = F.relu(self.first(h))"),
        (ByCase, "h = F.relu(3 * h)"),
        (ByException, "h = F.relu(2 * h)"),
    ],
)
def test_lines_that_did_not_run_are_named(make: type[nn.Module], words: str):
    lines, first = inspect.getsourcelines(make)
    number = first + next(place for place, line in enumerate(lines) if words in line)
    receipt = gw.receipt(gw.swap(make().eval(), "silu", torch.randn(4, 8)))
    assert receipt.unreached == (f"test_unreached_parts.py line {number}",)
    assert "not reached" in str(receipt).splitlines()[2]


class BySkipping(TwoLayers):
    """What runs otherwise has no line of its own."""

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.first(x))
        if x.shape[0] < 5:
            h = h.flip(1)
        return self.last(h)


class OnOneLine(TwoLayers):
    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        return self.last(F.relu(h)) if x.shape[0] < 5 else self.last(F.relu(2 * h))


class ByOperand(TwoLayers):
    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        return self.last((x.shape[0] > 4 and F.relu(2 * h)) or F.relu(h))


class ByCondition(TwoLayers):
    def forward(self, x: Tensor) -> Tensor:
        return self.last(sum(F.relu(self.first(row)) for row in x if row.shape[0] < 9))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (ByTable, "method large, which forward refers to"),
        (BySkipping, "the other outcome of `x.shape[0] < 5`"),
        (OnOneLine, "`self.last(F.relu(2 * h))`"),
        (ByOperand, "`F.relu(2 * h)`"),
        (ByCondition, "the other outcome of `row.shape[0] < 9`"),
    ],
)
def test_parts_without_lines_of_their_own_are_named(make: type[nn.Module], words: str):
    receipt = gw.receipt(gw.swap(make().eval(), "silu", torch.randn(4, 8)))
    (part,) = receipt.unreached
    assert part.endswith(words)
    assert "not reached" in str(receipt).splitlines()[2]


HELPER = """
def scaled(x, h):
    if x.shape[0] > 4:
        return h[:, :8] * 2
    return h
"""


def test_branches_of_functions_in_another_file_of_the_user_are_named(tmp_path: Path):
    file = tmp_path / "helper_functions.py"
    file.write_text(HELPER)
    spec = importlib.util.spec_from_file_location("helper_functions", file)
    assert spec is not None and spec.loader is not None
    helpers = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(helpers)

    class WithHelper(TwoLayers):
        def forward(self, x: Tensor) -> Tensor:
            return self.last(helpers.scaled(x, F.relu(self.first(x))))

    receipt = gw.receipt(gw.swap(WithHelper().eval(), "silu", torch.randn(4, 8)))
    assert receipt.unreached == ("helper_functions.py line 4",)


class Settled(TwoLayers):
    """Nothing but settings decides: whether there are layers, and a constant tensor or none."""

    def __init__(self) -> None:
        super().__init__()
        self.more = nn.ModuleList()
        self.register_buffer("scale", torch.full((), 2.0))

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.first(x))
        for layer in self.more:
            h = layer(h)
        if self.scale is not None:
            h = h * self.scale
        if self.more and x.sum() > 0:
            h = -h
        try:
            h = self.last(h)
        except RuntimeError as problem:
            raise ValueError("no rows") from problem
        if h.dim() == 2:
            return h
        raise ValueError("no rows")


def test_settings_are_no_unreached_parts():
    receipt = gw.receipt(gw.swap(Settled().eval(), "silu", torch.randn(4, 8), strict=True))
    assert receipt.unreached == ()


class MethodByName(TwoLayers):
    def forward(self, x: Tensor) -> Tensor:
        return self.last(getattr(self, f"act{x.shape[0]}")(self.first(x)))

    def act4(self, h: Tensor) -> Tensor:
        return F.relu(h)

    def act6(self, h: Tensor) -> Tensor:
        return F.relu(h) * 2

    def other(self, h: Tensor) -> Tensor:
        return h


def test_methods_that_are_looked_up_by_a_computed_name_are_named():
    model, four, six = MethodByName().eval(), torch.randn(4, 8), torch.randn(6, 8)
    receipt = gw.receipt(gw.swap(model, "silu", four))
    assert receipt.unreached == ("method act6, which calls relu itself",)
    assert gw.receipt(gw.swap(model, "silu", [four, six], strict=True)).proved


def test_the_trace_function_of_before_is_back_after_watching():
    def tracer(frame: object, event: str, value: object) -> None:
        return None

    model, before = BySkipping().eval(), sys.gettrace()
    try:
        sys.settrace(tracer)
        with pytest.raises(RuntimeError), Coverage(model).watching():
            model(torch.randn(4, 7))
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before)


class LooksAtValues(TwoLayers):
    """Tracing does not look at the values, as in masks of language models."""

    def __init__(self) -> None:
        super().__init__()
        self.act = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        if not torch.compiler.is_compiling() and bool((x == 0).all()):
            return x
        return self.last(self.act(self.first(x)))


def test_a_plan_without_values_says_that_it_does_not_know_the_paths():
    with torch.device("meta"):
        model, x = LooksAtValues().eval(), torch.empty(4, 8)
    plan = gw.plan(model, "silu", x)
    assert [entry.site for entry in plan.swapped] == ["act"]
    (words,) = plan.unreached
    assert words.startswith("what an example reaches is not known: the model has no values")


WITHOUT_SOURCE = """
class Blocks(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3)])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x * 2 if x.shape[0] > 4 else x
"""


def test_a_model_whose_source_is_not_kept_can_be_swapped():
    names = {"nn": nn, "__name__": __name__}
    exec(compile(WITHOUT_SOURCE, "<string>", "exec"), names)
    receipt = gw.receipt(gw.swap(names["Blocks"]().eval(), "crelu", torch.randn(4, 8)))
    assert receipt.proved and len(receipt.sites) == 1
