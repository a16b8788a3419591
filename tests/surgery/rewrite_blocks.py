"""Small modules that call activations in every way python allows, each with an oracle.

``FORMS`` maps a class to its oracle: a function of the original module, the units in the order of
their slots, and the input. It says what the rewritten module must compute, bit for bit.
"""

import functools
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

WIDTH = 4
FORMS: dict[type[nn.Module], Callable] = {}


class Unit(nn.Module):
    """A curve that no other unit has: a wrong one in a wrong place changes the output."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.tensor(0.3 + 0.11 * number))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.atan(self.slope * x + 0.5)


class Block(nn.Module):
    """A linear layer and a ReLU that forms may use as often as they like."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(WIDTH, WIDTH)
        self.relu = nn.ReLU()


def form(oracle: Callable) -> Callable:
    """Enter a class and its oracle in the table."""

    def enter(kind: type[nn.Module]) -> type[nn.Module]:
        FORMS[kind] = oracle
        return kind

    return enter


@form(lambda m, u, x: u[1](m.lin(u[0](x))))
class Nested(Block):
    def forward(self, x):
        return F.relu(self.lin(torch.relu(x)))


@form(lambda m, u, x: u[1](u[0](m.lin(x)) + 1))
class Chain(Block):
    def forward(self, x):
        return self.lin(x).relu().add(1).sigmoid()


@form(lambda m, u, x: u[2](u[0](x) + u[1](-x)))
class ReusedModule(Block):
    def forward(self, x):
        y = self.relu(x) + self.relu(-x)
        return self.relu(y)


@form(lambda m, u, x: u[1](u[0](x) * 2))
class KeywordArguments(Block):
    def forward(self, x):
        y = F.leaky_relu(negative_slope=0.2, input=x) * 2
        return self.relu(input=y)


@form(lambda m, u, x: u[1](u[0](x) - 1))
class LocalName(Block):
    def forward(self, x):
        r = F.relu
        s = functools.partial(F.elu, alpha=0.5)
        return s(r(x) - 1)


@form(lambda m, u, x: u[2](u[1](u[0](x))))
class WhileLoop(Block):
    def forward(self, x):
        n = 0
        while n < 3:
            x = F.relu(x)
            n += 1
        return x


@form(lambda m, u, x: sum(u[2 * i + j](x + i - j) for i in range(2) for j in range(2)))
class NestedLoops(Block):
    def forward(self, x):
        """Two loops, one in the other."""
        y = 0
        for i in range(2):
            for j in range(2):
                y = y + F.silu(x + i - j)
        return y


@form(lambda m, u, x: torch.stack([u[i](x + i) for i in range(3)]).sum(0))
class Comprehension(Block):
    def forward(self, x):
        return torch.stack([F.gelu(x + i) for i in range(3)]).sum(0)


@form(lambda m, u, x: u[0](x) + u[1](x + 1) + u[2](x - 5))
class GeneratorExpression(Block):
    def forward(self, x):
        return sum(F.mish(x + i) for i in range(2)) + torch.tanh(x - 5)


@form(lambda m, u, x: u[0](x) + u[0](x + 1) + u[1](x))
class LambdaAndNestedDef(Block):
    def forward(self, x):
        act = lambda y: F.relu(y)  # noqa: E731  it is what is tested

        def other(y):
            return F.softplus(y)

        return act(x) + act(x + 1) + other(x)


@form(lambda m, u, x: u[0](m.lin(u[0](x))))
class HelperCalledTwice(Block):
    def forward(self, x):
        return self.act(self.lin(self.act(x)))

    def act(self, x):
        return F.relu(x)


@form(lambda m, u, x: m.lin(u[0](m._PrivateNames__twice(x))))
class PrivateNames(Block):
    def __init__(self) -> None:
        super().__init__()
        self.__act = nn.ReLU()

    def forward(self, x):
        return self.lin(self.__act(self.__twice(x)))

    def __twice(self, x):
        return 2 * x


def plus_one(method):
    @functools.wraps(method)
    def wrapper(self, *args, **kwargs):
        return method(self, *args, **kwargs) + 1

    return wrapper


def times_two(factor):
    def decorate(method):
        def hidden(*args):
            return method(*args) * factor

        return hidden

    return decorate


@form(lambda m, u, x: u[0](x) * 2 + 1 + 1)
class Decorated(Block):
    @plus_one
    @plus_one
    @times_two(2)
    def forward(self, x, scale=1.0, *, shift=0.0):
        return F.relu(x) * scale + shift


@form(lambda m, u, x: u[0](x).detach())
class DecoratedByTorch(Block):
    @torch.no_grad()
    def forward(self, x):
        return F.relu(x)


class Parent(Block):
    def forward(self, x):
        return F.relu(self.lin(x))


@form(lambda m, u, x: u[1](m.lin(u[0](x))) - 1)
class CallsSuper(Parent):
    def forward(self, x):
        return super().forward(torch.tanh(x)) - 1


@form(lambda m, u, x: u[0](m.lin(x)))
class Inherits(Parent):
    pass


@form(lambda m, u, x: u[0](x) if m.training else u[1](x))
class TrainingBranch(Block):
    def forward(self, x):
        return F.relu(x) if self.training else F.gelu(x)


@form(lambda m, u, x: u[0](u[0](x)))
class LoopThatPassesOver(Block):
    def forward(self, x):
        for i in range(4):
            if i % 2:
                x = F.relu(x)
        return x


@form(lambda m, u, x: sum(u[0](sum(u[0](x).unbind())[None]).unbind()))
class LoopThroughAComprehension(Block):
    def forward(self, x):
        for _ in range(2):
            x = sum([y for y in F.relu(x).unbind()])[None]
        return x[0]


@form(lambda m, u, x: u[1](u[0](x)))
class FunctionAttributes(Block):
    def __init__(self) -> None:
        super().__init__()
        self.act, self.name = F.relu, "gelu"

    def forward(self, x):
        return getattr(F, self.name)(self.act(x))


@form(lambda m, u, x: u[1](u[0](x)))
class ModulesInAList(Block):
    def __init__(self) -> None:
        super().__init__()
        self.acts = nn.ModuleList([nn.ReLU(), nn.Tanh()])

    def forward(self, x):
        for i in range(2):
            x = self.acts[i](x)
        return x


@form(lambda m, u, x: m.lin(u[1](u[0](m.lin(x)))))
class InPlaceStatements(Block):
    def forward(self, x):
        y = self.lin(x)
        y.relu_()
        F.leaky_relu_(y, 0.3)
        return self.lin(y)


@form(lambda m, u, x: u[0](m.lin(x)) * 2)
class InPlaceReadByItsName(Block):
    def forward(self, x):
        y = self.lin(x)
        z = F.relu(y, inplace=True)
        return z + y


@form(lambda m, u, x: u[1](u[0](m.lin(x)) + x))
class InPlaceModule(Block):
    def __init__(self) -> None:
        super().__init__()
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.relu(self.lin(x))
        y += x
        y = self.relu(y)
        return y


@form(lambda m, u, x: u[0](x) + u[1](m.lin(x)))
class OddColumns(Block):
    def forward(self, x):
        é = "ñ"
        y = F.relu(x)
        z = F.relu(self.lin(x)) if é else 0
        return y + z


@form(lambda m, u, x: u[1](m.lin(u[0](x))))
class Checkpointed(Block):
    def forward(self, x):
        return F.relu(checkpoint(self.inner, x, use_reentrant=False))

    def inner(self, x):
        return self.lin(F.relu(x))


@form(lambda m, u, x: u[0](x))
class TwoNames(Block):
    def _forward(self, x):
        return F.relu(x)

    forward = _forward


def make_local(power: float):
    class Local(Block):
        def forward(self, x):
            return F.relu(x) ** power + (0 if isinstance(super(), nn.Module) else 1)

    return Local


LocalClass = form(lambda m, u, x: u[0](x) ** 2.0 + 1)(make_local(2.0))


class NormAct(nn.Module):
    """A leaf with parameters: a norm with an activation inside."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, WIDTH))

    def forward(self, x):
        return F.relu(F.layer_norm(x, (WIDTH,), self.weight))


@form(lambda m, u, x: u[0](F.layer_norm(m.lin(x), (WIDTH,), m.norm.weight)))
class HiddenInANorm(Block):
    def __init__(self) -> None:
        super().__init__()
        self.norm = NormAct()

    def forward(self, x):
        return self.norm(self.lin(x))


class TanhGELU(nn.Module):
    """An activation class of its own, made of several torch functions."""

    def forward(self, x):
        return 0.5 * x * (1.0 + torch.tanh(0.8 * (x + 0.04 * x**3)))


@form(lambda m, u, x: u[1](u[0](x) + 1))
class CompositeReused(Block):
    def __init__(self) -> None:
        super().__init__()
        self.act = TanhGELU()

    def forward(self, x):
        return self.act(self.act(x) + 1)
