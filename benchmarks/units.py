"""What units cost beside the simplest code in torch, and what `gw.fuse` saves.

    python benchmarks/units.py            # some minutes; writes benchmarks/results/units.csv
    python benchmarks/units.py fused/     # only lines whose name starts so

One thread. Both sides of a line run in turns, and the ratio is that of the medians of their
processor times. The lines `same/` measure one module against itself: what they are off 1 is the
machine's noise. The exit status is 1 if a line misses its target.
"""

import copy
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import torch
from kept import RESULTS, keep
from torch import Tensor, nn
from torch.nn import functional

import gatewise as gw
from gatewise.native import is_allocator_tuned

# Above 32 MiB the C library returns the memory of every tensor to the system. Below, it keeps some,
# and which side of a line profits is a matter of chance: one module against itself gave 1.6.
MAPS = (40, 64, 64, 64)
SMALL = (1, 64)
CHANNELS = 64
HALVES = (torch.float16, torch.bfloat16)
Run = Callable[[], object]


class Line(NamedTuple):
    """One line: ours against theirs, and the largest ratio."""

    name: str
    target: float
    ours: Run
    theirs: Run


class Expression(nn.Module):
    """A module that calls the simplest expression, with trained numbers per channel.

    As a unit, it computes in float32 for half types.
    """

    def __init__(self, call: Callable[..., Tensor], *starts: float, size: int = CHANNELS) -> None:
        super().__init__()
        self.call = call
        self.count = len(starts)
        for place, start in enumerate(starts):
            self.register_parameter(f"p{place}", nn.Parameter(torch.full((size,), start)))

    def forward(self, x: Tensor) -> Tensor:
        if self.count == 0:
            return self.call(x)
        if x.dtype in HALVES:
            return self.forward(x.float()).to(x.dtype)
        numbers = [getattr(self, f"p{place}") for place in range(self.count)]
        if x.dim() == 4:
            numbers = [number.view(-1, 1, 1) for number in numbers]
        return self.call(x, *numbers)


def _acon(x: Tensor, p1: Tensor, p2: Tensor, beta: Tensor) -> Tensor:
    gap = (p1 - p2) * x
    return gap * torch.sigmoid(beta * gap) + p2 * x


def _xielu(x: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
    above = functional.softplus(positive)
    below = 0.5 + functional.softplus(negative)
    low = torch.expm1(torch.clamp(x, max=0.0)) - x
    return torch.where(x > 0, above * x * x + 0.5 * x, below * low + 0.5 * x)


def _pau(x: Tensor, *c: Tensor) -> Tensor:
    top = c[0] + x * (c[1] + x * (c[2] + x * (c[3] + x * (c[4] + x * c[5]))))
    size = x.abs()
    bottom = size * (c[6].abs() + size * (c[7].abs() + size * (c[8].abs() + size * c[9].abs())))
    return top / (1.0 + bottom)


def _smu(x: Tensor, mu: Tensor) -> Tensor:
    return 0.5 * (1.25 * x + 0.75 * x * torch.erf(mu * 0.75 * x))


def _glu(x: Tensor) -> Tensor:
    value, gate = x.chunk(2, 1)
    return functional.silu(gate) * value


PAU = (0.02996348, 0.61690165, 2.37539147, 3.06608078, 1.52474449, 0.25281987)
PAU_BELOW = (1.19160814, 4.40811795, 0.91111034, 0.34885983)
# The simplest expression of a unit, the start values of its numbers, and the unit's options.
SIMPLEST: dict[str, tuple[Callable[..., Tensor], tuple[float, ...], dict[str, object]]] = {
    "relu": (torch.relu, (), {}),
    "silu": (functional.silu, (), {}),
    "gelu": (functional.gelu, (), {}),
    "elu": (functional.elu, (), {}),
    "softplus": (lambda x: functional.softplus(x, 1.0, 40.0), (), {}),
    "sigmoid": (torch.sigmoid, (), {}),
    "tanh": (torch.tanh, (), {}),
    "leaky_relu": (functional.leaky_relu, (), {}),
    "mish": (functional.mish, (), {}),
    "selu": (functional.selu, (), {}),
    "hardswish": (functional.hardswish, (), {}),
    "relu2": (lambda x: torch.relu(x) ** 2, (), {}),
    "telu": (lambda x: x * torch.tanh(torch.exp(torch.clamp(x, max=10.0))), (), {}),
    "swish": (lambda x, b: x * torch.sigmoid(b * x), (1.0,), {}),
    "prelu": (lambda x, s: torch.where(x > 0, x, s * x), (0.25,), {}),
    "pserf": (lambda x, g, d: x * torch.erf(g * functional.softplus(d * x)), (1.25, 0.85), {}),
    "smu": (_smu, (1.0,), {"mu": 1.0}),
    "acon_c": (_acon, (1.2, -0.3, 1.0), {}),
    "dyt": (lambda x, a, w, b: w * torch.tanh(a * x) + b, (0.5, 1.0, 0.0), {"dim": 1}),
    "xielu": (_xielu, (0.2, -1.05), {}),
    "pau": (_pau, (*PAU, *PAU_BELOW), {}),
    "swiglu": (_glu, (), {"dim": 1}),
    "maxout": (lambda x: torch.maximum(x[:, ::2], x[:, 1::2]), (), {}),
    "crelu": (lambda x: torch.cat((torch.relu(x), torch.relu(-x)), 1), (), {}),
}
# Of these, swish misses its target: torch.compile writes the sigmoid that the gradients to x and to
# beta share to memory, so that three tensors are made where two would do.
FUSED = {
    "swish": 0.35,
    "acon_c": 0.35,
    "smu": 0.35,
    "pserf": 0.6,
    "crelu": 0.6,
    "xielu": 0.2,
    "pau": 0.2,
}


# A call of half a microsecond more: it finds the two halves of its input and checks their sizes.
SMALL_TARGETS = {"swiglu": 1.2}


def both(name: str) -> tuple[nn.Module, nn.Module]:
    """Return our module and the simplest one."""
    expression, starts, options = SIMPLEST[name]
    size = 1 if name == "pau" else CHANNELS  # its coefficients are those of the whole layer
    known = gw.get_unit(name).options
    given = {"channels": CHANNELS} if "channels" in known and name != "pau" else {}
    return gw.create_unit(name, **given, **options), Expression(expression, *starts, size=size)


def steps(*modules: nn.Module, x: Tensor) -> list[Run]:
    """Return a forward and a backward pass of each module, with the same tensors."""
    leaf = x.clone().requires_grad_()
    above = torch.ones_like(modules[0](leaf))

    def run(module: nn.Module, wanted: list[Tensor]) -> None:
        torch.autograd.grad(module(leaf), wanted, above)

    return [partial(run, module, [leaf, *module.parameters()]) for module in modules]


def eager_lines() -> Iterator[Line]:
    """Yield units against the simplest module, at 1 x 64 and on maps."""
    for name in SIMPLEST:
        ours, theirs = both(name)
        x = torch.randn(SMALL)
        target = SMALL_TARGETS.get(name, 1.1)
        yield Line(f"small/{name}", target, lambda m=ours, x=x: m(x), lambda m=theirs, x=x: m(x))
    x = torch.randn(MAPS)
    for name in SIMPLEST:
        ours, theirs = both(name)
        yield Line(f"eager/{name}", 1.1, *steps(ours, theirs, x=x))


def compiled_lines() -> Iterator[Line]:
    """Yield units inside torch.compile against the compiled expression."""
    x = torch.randn(MAPS)
    for name in ("silu", "gelu", "elu", "swish", "acon_c", "smu", "pserf", "mish", "prelu"):
        torch._dynamo.reset()
        ours, theirs = both(name)
        ours.compile()
        theirs.compile()
        yield Line(f"compiled/{name}", 1.1, *steps(ours, theirs, x=x))
    torch._dynamo.reset()
    ours, theirs = both("crelu")
    ours.compile()
    yield Line("compiled/crelu", 1.25, *steps(ours, theirs, x=x))


def fused_lines() -> Iterator[Line]:
    """Yield fused units against the simplest module in eager."""
    x = torch.randn(MAPS)
    for name, target in FUSED.items():
        ours, theirs = both(name)
        gw.fuse(ours)
        yield Line(f"fused/{name}", target, *steps(ours, theirs, x=x))


def block_lines() -> Iterator[Line]:
    """Yield ResNet-14 with IIEU-B against ReLU, and the halves of phase selection."""
    x = torch.randn(8, 3, 112, 112).contiguous(memory_format=torch.channels_last)
    models = []
    for unit in ("iieu_b", "relu"):
        torch.manual_seed(0)
        model = gw.models.create_model("resnet", depth=14, unit=unit)
        models.append(model.to(memory_format=torch.channels_last))  # pyright: ignore[reportCallIssue]
    quiet = [copy.deepcopy(model).eval() for model in models]

    def forward(model: nn.Module) -> Run:
        def run() -> None:
            with torch.no_grad():
                model(x)

        return run

    yield Line("iieu/inference", 1 / 0.85, *map(forward, quiet))
    yield Line(
        "iieu/training", 1 / 0.81, *(lambda m=model: m(x).sum().backward() for model in models)
    )
    layer = gw.nn.PSConv2d(64, 64, 3, padding=1)
    conv = nn.Conv2d(128, 64, 3, padding=1)
    maps = torch.randn(16, 64, 56, 56)
    plain = nn.Sequential(Expression(SIMPLEST["crelu"][0]), conv)
    yield Line("psc/training", 1.1, *steps(layer, plain, x=maps))


def same_lines() -> Iterator[Line]:
    """Yield one module against itself."""
    for shape in (SMALL, MAPS):
        module = both("swish")[1]
        x = torch.randn(shape)
        yield Line(f"same/{shape[0]}x{shape[1]}", 1.1, *steps(module, module, x=x))


def measure(line: Line, seconds: float = 0.7) -> tuple[float, float]:
    """Return the medians of both sides, in seconds."""
    sides = (line.ours, line.theirs)
    for side in sides:
        side()
    begin = time.process_time()
    line.theirs()
    often = max(1, round(0.002 / (time.process_time() - begin)))
    times: tuple[list[float], list[float]] = ([], [])
    end = time.process_time() + seconds
    while len(times[0]) < 9 or (time.process_time() < end and len(times[0]) < 400):
        for side, found in zip(sides, times, strict=True):
            begin = time.process_time()
            for _ in range(often):
                side()
            found.append((time.process_time() - begin) / often)
    return statistics.median(times[0]), statistics.median(times[1])


def main() -> int:
    """Measure the lines that the arguments name, and return the exit status."""
    torch.set_num_threads(1)
    only = tuple(sys.argv[1:])
    allocator = "tuned" if is_allocator_tuned() else "as the C library has it"
    print(f"one thread, allocator {allocator}, {platform.machine()}, torch {torch.__version__}")
    (RESULTS / "units.csv").unlink(missing_ok=True) if not only else None
    missed = 0
    for lines in (same_lines, eager_lines, fused_lines, block_lines, compiled_lines):
        for line in lines():
            if only and not line.name.startswith(only):
                continue
            ours, theirs = measure(line)
            ratio = ours / theirs
            missed += ratio > line.target
            verdict = "missed" if ratio > line.target else "met"
            print(
                f"{line.name:20} {1e3 * ours:9.4f} ms {1e3 * theirs:9.4f} ms {ratio:6.2f} "
                f"target {line.target:.2f} {verdict}",
                flush=True,
            )
            row = {"line": line.name, "ms": f"{1e3 * ours:.4f}", "other_ms": f"{1e3 * theirs:.4f}"}
            row |= {"ratio": f"{ratio:.3f}", "target": f"{line.target:.3f}", "verdict": verdict}
            keep("units", row | {"allocator": allocator})
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
