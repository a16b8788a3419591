"""Train a swapped model in one of two processes, and compare it with training in one process.

Run as ``python swapped_in_processes.py WRAPPER UNIT FILE RANK``. Prints the largest difference of
the weights after three steps, relative to the largest weight.
"""

import copy
import sys

import torch
from torch import distributed, nn
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

import gatewise as gw

PROCESSES = 2


def swapped(unit: str) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
    return gw.swap(model, unit, torch.randn(4, 6))


def train(model: nn.Module, x: torch.Tensor) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()


def weights(model: nn.Module) -> torch.Tensor:
    """Return all weights of a model, whatever wraps it, in one tensor."""
    parts = []
    for parameter in model.parameters():
        whole = parameter.full_tensor() if isinstance(parameter, DTensor) else parameter
        parts.append(whole.detach().flatten())
    return torch.cat(parts)


def main(wrapper: str, unit: str, file: str, rank: int) -> None:
    distributed.init_process_group(
        "gloo", init_method=f"file://{file}", rank=rank, world_size=PROCESSES
    )
    alone = swapped(unit)
    together = copy.deepcopy(alone)
    x = torch.randn(8, 6, generator=torch.Generator().manual_seed(1))
    train(alone, x)
    part = x.chunk(PROCESSES)[rank]
    if wrapper == "ddp":
        train(DistributedDataParallel(together), part)
    elif wrapper == "fsdp":
        wrapped = FullyShardedDataParallel(together, device_id=torch.device("cpu"))
        train(wrapped, part)
        with FullyShardedDataParallel.summon_full_params(wrapped):
            together = copy.deepcopy(wrapped.module)
    else:
        mesh = distributed.device_mesh.init_device_mesh("cpu", (PROCESSES,))
        train(fully_shard(together, mesh=mesh), part)
    expected, got = weights(alone), weights(together)
    print(float((got - expected).abs().max() / expected.abs().max()))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
