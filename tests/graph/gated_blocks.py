"""The same gated linear unit, written in the ways that libraries have."""

import torch
from torch import Tensor, nn
from torch.nn import functional

import gatewise as gw


class TwoLinears(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(8, 16)
        self.up_proj = nn.Linear(8, 16)
        self.down_proj = nn.Linear(16, 8)
        self.act_fn = nn.SiLU()

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class Packed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate_up = nn.Linear(8, 32)
        self.down = nn.Linear(16, 8)

    def branches(self, x: Tensor) -> tuple[Tensor, Tensor]:
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.branches(self.gate_up(x))
        return self.down(up * functional.silu(gate))


class Chunked(Packed):
    def branches(self, x):
        return x.chunk(2, dim=-1)


class SplitGateLast(Packed):
    def branches(self, x):
        up, gate = x.split(16, dim=-1)
        return gate, up


class Sliced(Packed):
    def branches(self, x):
        return x[..., :16], x[..., 16:]


class Interleaved(Packed):
    def branches(self, x):
        return x[..., ::2], x[..., 1::2]


class Pairs(Packed):
    def branches(self, x):
        return x.view(*x.shape[:-1], 16, 2).unbind(-1)


class Clamped(Packed):
    """As gpt-oss has it."""

    def forward(self, x: Tensor) -> Tensor:
        packed = self.gate_up(x)
        gate = packed[..., ::2].clamp(max=7.0)
        up = packed[..., 1::2].clamp(-7.0, 7.0)
        return self.down((up + 1) * (gate * torch.sigmoid(gate * 1.702)))


class FunctionalGLU(Packed):
    def forward(self, x: Tensor) -> Tensor:
        return self.down(functional.glu(self.gate_up(x), -1))


class OwnUnit(Packed):
    """As the small decoders of this library have it."""

    layout = "gate_last"

    def __init__(self) -> None:
        super().__init__()
        self.unit = gw.nn.SwiGLU(layout=self.layout)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.unit(self.gate_up(x)))


class OwnUnitGateFirst(OwnUnit):
    layout = "gate_first"


class OwnUnitInterleaved(OwnUnit):
    layout = "interleaved"


class SquaredReLU(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(8, 16)
        self.down = nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(functional.relu(self.up(x)).square())


class SqueezeExcite(nn.Module):
    """Scales its own input: no gated linear unit."""

    def __init__(self) -> None:
        super().__init__()
        self.reduce = nn.Linear(8, 4)
        self.expand = nn.Linear(4, 8)

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(self.expand(functional.relu(self.reduce(x))))


class WrittenSiLU(nn.Module):
    """Multiplies a sigmoid with its own input: a plain SiLU."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(8, 16)
        self.down = nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        h = self.up(x)
        return self.down(h * torch.sigmoid(h))
