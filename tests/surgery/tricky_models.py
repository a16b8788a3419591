"""Small models whose activations are easy to replace wrongly, with a reference written by hand.

``model.truth(x, act)`` is what ``model(x)`` must be after ReLU was replaced by ``act``. It is
written without in-place calls, views and hooks.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

Function = Callable[[Tensor], Tensor]


class Tricky(nn.Module):
    """Two layers, and two ways to write what is between them: ``forward`` and ``truth``."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.last = nn.Linear(8, 3)

    def truth(self, x: Tensor, act: Function) -> Tensor:
        return self.last(act(self.first(x)))


class View(Tricky):
    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        F.relu_(h.view(-1, 2, 4))
        return self.last(h)


class ViewOfView(Tricky):
    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        pairs = h.view(-1, 2, 4).transpose(1, 2)
        pairs.relu_()
        return self.last(h)


class ModuleOnView(Tricky):
    def __init__(self) -> None:
        super().__init__()
        self.act = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        self.act(h.view(-1, 4))
        return self.last(h)


class Slice(Tricky):
    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        F.relu(h[:, :4], inplace=True)
        return self.last(h)

    def truth(self, x: Tensor, act: Function) -> Tensor:
        h = self.first(x)
        return self.last(torch.cat((act(h[:, :4]), h[:, 4:]), 1))


class SliceAssigned(Tricky):
    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x) * 1
        h[:, 4:] = F.relu(h[:, 4:])
        return self.last(h)

    def truth(self, x: Tensor, act: Function) -> Tensor:
        h = self.first(x)
        return self.last(torch.cat((h[:, :4], act(h[:, 4:])), 1))


class Chunk(Tricky):
    """With gradients, torch refuses to write into what chunk returns."""

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        h.chunk(2, 1)[0].relu_()
        return self.last(h)

    def truth(self, x: Tensor, act: Function) -> Tensor:
        h = self.first(x)
        return self.last(torch.cat((act(h[:, :4]), h[:, 4:]), 1))


class Unbound(Tricky):
    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        for row in h.unbind(0):
            F.relu_(row)
        return self.last(h)


class Strided(Tricky):
    """A partial function in place on every second column."""

    def __init__(self) -> None:
        super().__init__()
        self.act = partial(F.relu, inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        self.act(h[:, ::2])
        return self.last(h)

    def truth(self, x: Tensor, act: Function) -> Tensor:
        h = self.first(x)
        pairs = torch.stack((act(h[:, ::2]), h[:, 1::2]), 2)
        return self.last(pairs.flatten(1))


class AddedInto(Tricky):
    """The result of a module in place is added to, and read under its other name."""

    def __init__(self) -> None:
        super().__init__()
        self.act = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        y = self.act(h)
        y += x
        return self.last(h)

    def truth(self, x: Tensor, act: Function) -> Tensor:
        return self.last(act(self.first(x)) + x)


class Mapped(Tricky):
    """The activation is called inside ``torch.vmap``, where tensors stand for their rows."""

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.vmap(lambda row: F.relu(self.first(row)))(x))


class Discarded(Tricky):
    def __init__(self) -> None:
        super().__init__()
        self.act = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        self.act(h)
        return self.last(h)


class PositionalInplace(Tricky):
    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        kept = h
        F.relu(h, True)
        return self.last(kept)


class SharedMemory(Tricky):
    """The activation's input is read again after it was overwritten."""

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        other = h.detach()
        y = F.relu_(h)
        return self.last(y) + other.sum(1, keepdim=True)

    def truth(self, x: Tensor, act: Function) -> Tensor:
        h = act(self.first(x))
        return self.last(h) + h.detach().sum(1, keepdim=True)


class Where(Tricky):
    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        out = torch.where(h > 0.5, F.relu(h), h)
        return self.last(out)

    def truth(self, x: Tensor, act: Function) -> Tensor:
        h = self.first(x)
        return self.last(torch.where(h > 0.5, act(h), h))


class Twice(Tricky):
    def __init__(self) -> None:
        super().__init__()
        self.act = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.act(self.first(self.act(x))))

    def truth(self, x: Tensor, act: Function) -> Tensor:
        return self.last(act(self.first(act(x))))


class SharedModule(Tricky):
    """One module under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.ReLU()
        self.two = self.one

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.two(self.first(self.one(x))))

    def truth(self, x: Tensor, act: Function) -> Tensor:
        return self.last(act(self.first(act(x))))


class WithoutGradients(Tricky):
    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            gate = F.relu(self.first(x))
        return self.last(gate * x)

    def truth(self, x: Tensor, act: Function) -> Tensor:
        return self.last(act(self.first(x)).detach() * x)


class Checkpointed(Tricky):
    def inner(self, x: Tensor) -> Tensor:
        return F.relu(self.first(x))

    def forward(self, x: Tensor) -> Tensor:
        return self.last(checkpoint(self.inner, x, use_reentrant=False))


class Dictionary(Tricky):
    def forward(self, x: Tensor) -> dict[str, list[Tensor]]:
        return {"scores": [self.last(F.relu(self.first(x)))]}


class ViewOfInput(Tricky):
    """It writes into its argument, and returns a view of it, too."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        F.relu_(x)
        return self.last(self.first(x)), x.view(-1)

    def truth(self, x: Tensor, act: Function) -> tuple[Tensor, Tensor]:
        x = act(x)
        return self.last(self.first(x)), x.reshape(-1)


class Normed(Tricky):
    """In training, batch norm and dropout are active."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(8)
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.drop(F.relu(self.norm(self.first(x)))))

    def truth(self, x: Tensor, act: Function) -> Tensor:
        return self.last(self.drop(act(self.norm(self.first(x)))))


class TrainOnly(Tricky):
    """A call that exists in training only, in place on a view."""

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.first(x))
        if self.training:
            g = self.first(h)
            F.relu_(g.view(-1))
            return self.last(g)
        return self.last(h)

    def truth(self, x: Tensor, act: Function) -> Tensor:
        h = act(self.first(x))
        return self.last(act(self.first(h)) if self.training else h)


class ZeroHead(Tricky):
    """The output does not depend on the activation: outputs alone cannot show what it computes."""

    def __init__(self) -> None:
        super().__init__()
        self.middle = nn.Linear(8, 8)
        nn.init.zeros_(self.last.weight)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        F.relu_(h.view(-1, 2, 4))
        return self.last(self.middle(h))

    def truth(self, x: Tensor, act: Function) -> Tensor:
        return self.last(self.middle(act(self.first(x))))


class Counting(Tricky):
    """A buffer changes in every call and decides nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.last(F.relu(self.first(x)))


class Double(torch.autograd.Function):
    """A custom function around a value that an activation made."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        return gradient * 2


class Custom(Tricky):
    def forward(self, x: Tensor) -> Tensor:
        return self.last(Double.apply(F.relu(self.first(x))))

    def truth(self, x: Tensor, act: Function) -> Tensor:
        return self.last(2 * act(self.first(x)))


class Features(Tricky):
    """What an activation module writes into is kept, for others to read."""

    def __init__(self) -> None:
        super().__init__()
        self.act = nn.ReLU(inplace=True)
        self.features: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        self.features[:] = [h]
        return self.last(self.act(h))


class InTrainingElse(Tricky):
    """Under one name, training and eval mode make different calls."""

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        h = F.relu(h) if self.training else F.relu(h * 2)
        return self.last(h)

    def truth(self, x: Tensor, act: Function) -> Tensor:
        return self.last(act(self.first(x) * (1 if self.training else 2)))


class InTrainingBefore(Tricky):
    """In training, a call is made before the one that both modes make."""

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        if self.training:
            h = torch.relu(h - 0.1)
        return self.last(F.relu(h + 0.1))

    def truth(self, x: Tensor, act: Function) -> Tensor:
        h = self.first(x)
        return self.last(act((act(h - 0.1) if self.training else h) + 0.1))


@dataclass(slots=True)
class Slots:
    """An output whose attributes are not in a dictionary."""

    scores: Tensor
    hidden: Tensor


class SlotsBeside(Tricky):
    """A second output shows what was written in place."""

    def forward(self, x: Tensor) -> tuple[Tensor, Slots]:
        h = self.first(x) * 1
        y = F.relu_(h)
        return self.last(y), Slots(y, h)


class WithSettings(nn.Module):
    """Its branches depend on settings, or raise errors: no input takes another path."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 3)
        self.down = None

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() != 2:
            raise ValueError("rows only")
        assert x.shape[1] == 8
        h = F.relu(x)
        if self.down is not None:
            h = self.down(h)
        if self.training:
            h = h * 1
        return self.layer(h)


ALL: tuple[type[Tricky], ...] = (
    View,
    ViewOfView,
    ModuleOnView,
    Slice,
    SliceAssigned,
    Chunk,
    Unbound,
    Strided,
    AddedInto,
    Mapped,
    Discarded,
    PositionalInplace,
    SharedMemory,
    Where,
    Twice,
    SharedModule,
    WithoutGradients,
    Checkpointed,
    Dictionary,
    ViewOfInput,
    Normed,
    TrainOnly,
    ZeroHead,
    Counting,
    Custom,
    Features,
    InTrainingElse,
    InTrainingBefore,
)
