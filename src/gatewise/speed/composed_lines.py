"""Lines of the benchmark for units and layers of several steps, against their simplest code."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from gatewise.fused import start_recording, stop_recording
from gatewise.layers import BetaPool2d, Coupler
from gatewise.speed.line import Line, Measured
from gatewise.speed.measuring import compare_times
from gatewise.speed.placing import place
from gatewise.units import create_unit, get_unit

CHANNELS, HIDDEN = 64, 16
MAPS = (16, CHANNELS, 56, 56)
TOKENS = (2048, 1024)


class _FReLU(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.funnel = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, groups=CHANNELS, bias=False)
        self.norm = nn.BatchNorm2d(CHANNELS)

    def forward(self, x: Tensor) -> Tensor:
        return torch.maximum(x, self.norm(self.funnel(x)))


class _MetaACON(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.slopes = nn.Parameter(torch.randn(2, CHANNELS, 1, 1))
        self.switch = nn.Sequential(
            nn.Linear(CHANNELS, HIDDEN),
            nn.BatchNorm1d(HIDDEN),
            nn.Linear(HIDDEN, CHANNELS),
            nn.BatchNorm1d(CHANNELS),
        )

    def forward(self, x: Tensor) -> Tensor:
        beta = torch.sigmoid(self.switch(x.mean((2, 3))))[..., None, None]
        gap = (self.slopes[0] - self.slopes[1]) * x
        return gap * torch.sigmoid(beta * gap) + self.slopes[1] * x


class _Coupler(nn.Module):
    """The inner unit, which sees few numbers, is a ReLU here."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.LayerNorm(2 * CHANNELS)
        self.reduce = nn.Linear(CHANNELS, CHANNELS // 16, bias=False)
        self.expand = nn.Linear(CHANNELS // 16, CHANNELS, bias=False)
        self.last = nn.LayerNorm(2 * CHANNELS)

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        means = self.first(torch.cat((u.mean((2, 3)), v.mean((2, 3))), 1))
        inner = torch.relu(self.reduce(means.unflatten(1, (2, CHANNELS))))
        scores = self.last(self.expand(inner).flatten(1)).unflatten(1, (2, CHANNELS))
        first, second = scores.softmax(1)[..., None, None].unbind(1)
        return first * u + second * v


def _softmax_pool(x: Tensor) -> Tensor:
    windows = x.unfold(2, 2, 2).unfold(3, 2, 2).flatten(-2)
    return (windows.softmax(-1) * windows).sum(-1)


# Name: ours, the simplest code, the shape of an input, how many inputs.
Pair = tuple[Callable[..., Tensor], Callable[..., Tensor], tuple[int, ...], int]


def _pairs() -> dict[str, Callable[[], Pair]]:
    gated: dict[str, Callable[[Tensor], Tensor]] = {
        "glu": torch.sigmoid,
        "swiglu": functional.silu,
        "geglu": functional.gelu,
        "reglu": torch.relu,
        "bilinear": lambda gate: gate,
    }
    pairs: dict[str, Callable[[], Pair]] = {
        "frelu": lambda: (create_unit("frelu", channels=CHANNELS), _FReLU(), MAPS, 1),
        "maxout": lambda: (
            create_unit("maxout"),
            lambda x: x.unflatten(1, (-1, 2)).amax(2),
            MAPS,
            1,
        ),
        "softmax_pool": lambda: (BetaPool2d(2), _softmax_pool, MAPS, 1),
        "coupler": lambda: (Coupler(CHANNELS), _Coupler(), MAPS, 2),
        "meta_acon": lambda: (
            create_unit("meta_acon", channels=CHANNELS),
            _MetaACON(),
            MAPS,
            1,
        ),
    }
    for name, function in gated.items():

        def pair(name: str = name, function: Callable[[Tensor], Tensor] = function) -> Pair:
            ours = get_unit(name).function
            return ours, lambda gate, up: function(gate) * up, TOKENS, 2

        pairs[name] = pair
    return pairs


def composed_lines() -> list[Line]:
    """Return a line for each unit or layer of several steps, and each of two responses."""
    lines = []
    for name, pair in _pairs().items():
        lines.append(
            Line(
                f"composed/{name}",
                f"{name} over its simplest torch code, forward and backward",
                1.1,
                "at most",
                lambda seconds, pair=pair: _measure(pair, seconds),
            )
        )
    return lines


def _measure(pair: Callable[[], Pair], seconds: float) -> Measured:
    torch.manual_seed(0)
    ours, theirs, shape, count = pair()
    inputs = [place(torch.randn(shape)) for _ in range(count)]
    steps = []
    for function in (ours, theirs):
        parameters: list[nn.Parameter] = []
        if isinstance(function, nn.Module):
            function = place(function)
            parameters = list(function.parameters())
        steps.append(_step(function, inputs, parameters))
    recording = start_recording()
    steps[0]()
    form = stop_recording(recording)
    return compare_times(*steps, seconds=seconds), form


def _step(
    function: Callable[..., Tensor],
    inputs: list[Tensor],
    parameters: list[nn.Parameter],
) -> Callable[[], object]:
    with torch.no_grad():
        gradient = torch.randn_like(function(*inputs))

    def step() -> object:
        leaves = [x.detach().requires_grad_() for x in inputs]
        return torch.autograd.grad(function(*leaves), [*leaves, *parameters], gradient)

    return step
