"""Swapped models train in several processes and in mixed precision."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import gatewise as gw

PROGRAM = Path(__file__).with_name("swapped_in_processes.py")
PATIENCE = 300  # seconds, for a machine with other things to do
SLOW = pytest.mark.slow


@pytest.mark.skipif(
    not torch.distributed.is_available(), reason="torch is built without distributed training"
)
@pytest.mark.parametrize(
    ("wrapper", "unit"),
    [
        ("ddp", "swish"),
        pytest.param("ddp", "psc", marks=SLOW),
        pytest.param("ddp", "crelu", marks=SLOW),
        pytest.param("fsdp", "swish", marks=SLOW),
        pytest.param("fsdp", "psc", marks=SLOW),
        pytest.param("fully_shard", "swish", marks=SLOW),
        pytest.param("fully_shard", "psc", marks=SLOW),
    ],
)
def test_two_processes_train_a_swapped_model_as_one_does(wrapper, unit, tmp_path):
    source = str(Path(gw.__file__).parents[1])
    settings = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "PYTHONPATH": source}
    command = [sys.executable, "-W", "ignore", str(PROGRAM), wrapper, unit, str(tmp_path / "store")]
    both = [
        subprocess.Popen(
            [*command, str(rank)],
            env=os.environ | settings,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        for output, errors in [process.communicate(timeout=PATIENCE) for process in both]:
            assert output, errors
            assert float(output) <= 1e-6
    finally:
        for process in both:
            process.kill()
            process.communicate()


@pytest.mark.parametrize("unit", ["crelu", "psc", "swish", "prelu", "iieu_b", "concat_act"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_swapped_model_trains_under_autocast_with_a_scaler(unit, dtype):
    torch.manual_seed(0)
    layers = (nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 3), nn.ReLU())
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(64, 3))
    x, y = torch.randn(16, 3, 8, 8), torch.arange(16) % 3
    model = gw.swap(model, unit, x).train()
    start = {name: value.detach().clone() for name, value in model.named_parameters()}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    scaler = torch.amp.GradScaler("cpu", enabled=dtype is torch.float16)
    losses = []
    for _ in range(8):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=dtype):
            scores = model(x)
            loss = nn.functional.cross_entropy(scores, y)
        assert scores.dtype is dtype
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0]
    for name, value in model.named_parameters():
        assert value.dtype is torch.float32
        assert torch.isfinite(value).all()
        assert value.grad is not None
        assert torch.equal(value, start[name]) != bool(value.grad.any()), name
