"""A swap in place that keeps the function of a large model takes at most 3 times the weights."""

import gc
import os
import subprocess
import sys
import weakref

import pytest
import torch
from torch import nn

import gatewise as gw
from gatewise.surgery.proof import limits
from gatewise.surgery.proof.failures import SwapFailed
from gatewise.surgery.swaps import paired

PROGRAM = """
import resource, sys
from pathlib import Path
import torch
from torch import nn
import gatewise as gw

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.act = nn.LayerNorm(width), nn.SiLU()
        self.mix = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, 3 * width, bias=False)
        self.up = nn.Linear(width, 3 * width, bias=False)
        self.down = nn.Linear(3 * width, width, bias=False)

    def forward(self, x):
        h = self.norm(x + self.mix(x))
        return x + self.down(self.act(self.gate(h)) * self.up(h))

class Decoder(nn.Module):
    def __init__(self, width, layers, words):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)

ids = torch.arange(16)[None]
gw.swap(Decoder(16, 1, 50).eval(), "concat_act", ids, inplace=True)
before = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
torch.set_default_dtype(getattr(torch, sys.argv[1]))
model = Decoder(640, 14, 16000).eval()
torch.set_default_dtype(torch.float32)
weights = sum(parameter.nbytes for parameter in model.parameters())
gw.swap(model, "concat_act", ids, inplace=True)
assert gw.receipt(model).proved and gw.receipt(model).preserve, gw.receipt(model).details
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
print(peak / weights)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_swap_in_place_takes_at_most_three_times_the_weights(dtype: str):
    settings = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", PROGRAM, dtype]
    done = subprocess.run(command, capture_output=True, text=True, env=settings, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.splitlines()[-1]) <= 3


def network() -> nn.Sequential:
    torch.manual_seed(0)
    layers = (nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
    return nn.Sequential(*layers).eval()


@pytest.fixture
def every_model_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MANY_BYTES", 0)


@pytest.mark.usefixtures("every_model_is_large")
@pytest.mark.parametrize("unit", ["crelu", "concat_act", "psc"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_large_model_is_compared_without_copies(unit: str, dtype: torch.dtype):
    x = torch.randn(4, 8).to(dtype)
    receipt = gw.receipt(gw.swap(network().to(dtype), unit, x))
    assert receipt.proved and receipt.proof.output_float64 is None
    assert receipt.proof.output_float32 <= 1e-5 and receipt.proof.moved > 1e-3
    gradient = receipt.proof.reference_gradient
    assert gradient is None if dtype is torch.bfloat16 else gradient <= 1e-3
    assert ("weights converted one at a time" in receipt.details) == (dtype is torch.bfloat16)


@pytest.mark.usefixtures("every_model_is_large")
def test_no_output_of_a_comparison_is_kept():
    model, outputs = network().bfloat16(), []
    for layer in model:  # a ReLU keeps its output for the backward pass
        layer.register_forward_hook(lambda *call: outputs.append(weakref.ref(call[2])))
    gw.swap(model, "silu", torch.randn(4, 8).bfloat16(), where="1")
    gw.swap(model, "concat_act", torch.randn(4, 8).bfloat16())
    gc.collect()
    assert len(outputs) > 40 and not any(output() is not None for output in outputs)


class WrongValue(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 1.01 * torch.cat((x.relu(), (-x).relu()), 1)


class WrongGradient(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.cat((x.relu(), (-x).relu()), 1)
        return y.detach() + 1.01 * (y - y.detach())


@pytest.mark.usefixtures("every_model_is_large")
@pytest.mark.parametrize("unit", [WrongValue, WrongGradient])
def test_a_wrong_large_model_is_caught(unit: type, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(paired.PairedSwap, "build", lambda *args: unit())
    what = "outputs" if unit is WrongValue else "gradients"
    with pytest.raises(SwapFailed, match=rf"something else \({what}\)"):
        gw.swap(network(), "crelu", torch.randn(4, 8))
