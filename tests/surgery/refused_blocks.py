"""Modules whose calls of activations cannot be rewritten, each with the reason."""

import functools
import types

import torch
from surgery.rewrite_blocks import Block
from torch import nn
from torch.nn import functional as F


def free(x):
    return F.gelu(x)


class FreeFunction(Block):
    def forward(self, x):
        return free(x)


class Mapped(Block):
    def forward(self, x):
        return sum(list(map(torch.relu, (x, -x))))


class Starred(Block):
    def forward(self, x):
        return F.relu(*(x,))


class RebindsItself(Block):
    def forward(self, x):
        y = F.relu(x)
        self = None
        return y if self is None else x


class InnerRebindsItself(Block):
    def forward(self, x):
        return (lambda self: F.relu(self))(x)


def opaque(method):
    class Descriptor:
        def __get__(self, instance, owner=None):
            return functools.partial(method, instance)

    return Descriptor()


class Opaque(Block):
    @opaque
    def forward(self, x):
        return F.relu(x)


class NameTaken(Block):
    def __init__(self):
        super().__init__()
        self.gw = 3

    def forward(self, x):
        return F.relu(x)


class Aliased(Block):
    def forward(self, x):
        kept = x = x + 1
        return F.relu(x, inplace=True) + kept


class InPlaceChild(Block):
    def forward(self, x):
        return self.lin(F.relu(x, inplace=True))


class AliasedByACaller(nn.Module):
    def __init__(self):
        super().__init__()
        self.child = InPlaceChild()

    def forward(self, x):
        y = x + 1
        return self.child(y) + y


class AliasedAttribute(Block):
    def forward(self, x):
        self.kept = x + 1
        self.kept.relu_()
        return self.kept


class Kept(Block):
    """Code outside of the model may read the attribute, which holds the activation's output."""

    def forward(self, x):
        h = x + 1
        self.features = h
        return self.lin(F.relu_(h))


class KeptByAHook(Block):
    def __init__(self):
        super().__init__()
        self.features = []
        self.lin.register_forward_hook(lambda module, args, out: self.features.append(out))

    def forward(self, x):
        h = F.relu(self.lin(x), inplace=True)
        return h + 1


class DefaultArgument(Block):
    def forward(self, x, act=F.relu):
        return self.lin(act(x))


class ChosenByShape(Block):
    table = (torch.tanh, F.gelu, F.relu, F.relu)

    def forward(self, x):
        return self.lin(self.table[x.dim()](x))


class ChosenByName(Block):
    def forward(self, x, name="relu"):
        return self.lin(getattr(F, name)(x))


class NoSource(Block):
    forward = types.FunctionType(
        compile("def forward(self, x):\n    return F.relu(x)\n", "<nowhere>", "exec").co_consts[0],
        {"F": F},
    )


class GoesThroughChildren(Block):
    def forward(self, x):
        for child in self.children():
            x = child(F.silu(x))
        return x


class OwnSequential(nn.Sequential):
    def forward(self, x):
        return F.relu(super().forward(x))


REFUSED = {
    FreeFunction: "free_function",
    Mapped: "not_recognised",
    Starred: "not_recognised",
    RebindsItself: "own_name",
    InnerRebindsItself: "own_name",
    Opaque: "decorated",
    NameTaken: "name_taken",
    Aliased: "aliased",
    AliasedByACaller: "aliased",
    AliasedAttribute: "aliased",
    Kept: "kept",
    KeptByAHook: "kept",
    DefaultArgument: "chosen",
    ChosenByShape: "chosen",
    ChosenByName: "chosen",
    NoSource: "no_source",
    GoesThroughChildren: "container",
    OwnSequential: "container",
}
