"""Random networks for surgery.

Branches, residuals, concatenations, gates, groups, functional and reused activations.

Every branch reaches the output, so that what is proved about it is not proved in vain.
"""

import random

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class ModuleAct(nn.Module):
    """Convolution, norm and an activation module, in place or not."""

    def __init__(self, width: int, groups: int, inplace: bool):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1, groups=groups, bias=not inplace)
        self.norm = nn.BatchNorm2d(width) if inplace else nn.Identity()
        self.act = nn.ReLU(inplace=inplace)

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.norm(self.conv(x)))


class FunctionalAct(nn.Module):
    def __init__(self, width: int, out: int):
        super().__init__()
        self.conv = nn.Conv2d(width, out, 1)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.conv(x))


class ReusedAct(nn.Module):
    """A residual block that calls one activation twice."""

    def __init__(self, width: int):
        super().__init__()
        self.first, self.second = (
            nn.Conv2d(width, width, 3, padding=1),
            nn.Conv2d(width, width, 3, padding=1),
        )
        self.norm = nn.GroupNorm(2, width)
        self.act = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        y = self.act(self.norm(self.first(x)))
        return self.act(self.second(y) + x)


class Gated(nn.Module):
    """Squeeze and excite over an activation."""

    def __init__(self, width: int):
        super().__init__()
        self.conv, self.act = nn.Conv2d(width, width, 1), nn.ReLU(inplace=True)
        self.down, self.up = nn.Conv2d(width, 2, 1), nn.Conv2d(2, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.act(self.conv(x))
        gate = torch.sigmoid(self.up(F.relu(self.down(y.mean((2, 3), keepdim=True)))))
        return y * gate


class Shuffled(nn.Module):
    """A chunk goes through a layer, both halves are shuffled together."""

    def __init__(self, width: int):
        super().__init__()
        self.enter, self.act = nn.Conv2d(width, width, 1), nn.ReLU()
        self.branch = nn.Conv2d(width // 2, width // 2, 3, padding=1, groups=width // 2)

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.act(self.enter(x)).chunk(2, 1)
        y = torch.cat((a, self.branch(b)), 1)
        n, c, h, w = y.shape
        return y.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


class RandomNetwork(nn.Module):
    """Steps on a list of tensors; what nothing reads is pooled, flattened and read by the head."""

    def __init__(self, seed: int):
        super().__init__()
        draw = random.Random(seed)  # noqa: S311  a test's choice
        self.plan: list[tuple[str, int, int]] = []
        self.blocks = nn.ModuleList()
        widths = [draw.choice((4, 8, 12))]
        self.stem = nn.Conv2d(3, widths[0], 3, padding=1)
        self.open = {0}
        for _ in range(draw.randint(2, 6)):
            self._step(draw, widths)
        self.pool = draw.choice((nn.AdaptiveAvgPool2d(2), nn.AdaptiveMaxPool2d(2), nn.MaxPool2d(3)))
        self.head = nn.Linear(sum(widths[i] for i in self.open) * 4, 5)

    def _step(self, draw: random.Random, widths: list[int]) -> None:
        source = draw.randrange(len(widths))
        other = draw.choice([i for i, width in enumerate(widths) if width == widths[source]])
        kind = draw.choice(
            ("module", "module", "functional", "reused", "gated", "shuffled", "add", "cat", "again")
        )
        width = widths[source]
        after = width
        if kind == "module":
            groups = draw.choice((1, 1, 2, width))
            self.blocks.append(ModuleAct(width, groups, draw.random() < 0.5))
        elif kind == "functional":
            after = draw.choice((4, 8, 12))
            self.blocks.append(FunctionalAct(width, after))
        elif (
            kind == "again"
            and len(self.blocks)
            and (found := self._block_of(draw, width)) is not None
        ):
            self.plan.append(("call", found, source))
        elif kind == "cat":
            other = draw.randrange(len(widths))
            after = width + widths[other]
        elif kind not in ("add", "again"):
            self.blocks.append(
                {"reused": ReusedAct, "gated": Gated, "shuffled": Shuffled}[kind](width)
            )
        if kind in ("add", "cat"):
            self.plan.append((kind, source, other))
            self.open -= {source, other}
        elif kind != "again":
            self.plan.append(("call", len(self.blocks) - 1, source))
            self.open -= {source}
        elif len(self.plan) < len(widths):
            return
        widths.append(after)
        self.open.add(len(widths) - 1)

    def _block_of(self, draw: random.Random, width: int) -> int | None:
        """A block that can be called again, on another tensor."""
        fits = [
            i
            for i, block in enumerate(self.blocks)
            if isinstance(block, ModuleAct) and block.conv.in_channels == width
        ]
        return draw.choice(fits) if fits else None

    def forward(self, x: Tensor) -> Tensor:
        tensors = [self.stem(x)]
        for kind, first, second in self.plan:
            if kind == "call":
                tensors.append(self.blocks[first](tensors[second].clone()))
            elif kind == "add":
                tensors.append(tensors[first] + tensors[second])
            else:
                tensors.append(torch.cat((tensors[first], tensors[second]), 1))
        return self.head(
            torch.cat([self.pool(tensors[i]) for i in sorted(self.open)], 1).flatten(1)
        )


def example() -> Tensor:
    return torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(0))
