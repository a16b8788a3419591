"""Contract of layers: distributed data-parallel training in two processes gives the gradients of one."""

import copy
import os
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.multiprocessing.spawn import ProcessException, spawn

from gatewise.errors import ContractError, MissingExtraError
from gatewise.testing.case import require

if TYPE_CHECKING:
    from gatewise.testing.layer import Layer

PROCESSES = 2
LONGEST = timedelta(seconds=60)


def trains_in_two_processes(layer: "Layer") -> None:
    """Each process sees half of the batch.

    The averaged gradients are those of the whole batch in one process.
    """
    if not torch.distributed.is_available():
        raise MissingExtraError(
            "this torch is built without distributed training", fix="install another build"
        )
    module, x = layer.build(), layer.sample(shape=(2 * PROCESSES, *layer.shape[1:]))
    if not list(module.parameters()):
        return
    module(x).square().mean().backward()
    want = {name: p.grad for name, p in module.named_parameters()}
    module.zero_grad()
    with tempfile.TemporaryDirectory() as folder:
        meeting = (Path(folder) / "meeting").as_uri()
        _start(
            module, (meeting, x, {n: g for n, g in want.items() if g is not None}, layer.tolerance)
        )


def _start(module: nn.Module, rest: tuple[str, Tensor, dict[str, Tensor], float]) -> None:
    threads = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        spawn(_work, (module, *rest), nprocs=PROCESSES)
    except ProcessException as error:
        require(False, "training in two processes fails", got=str(error).strip().splitlines()[-1])
    finally:
        os.environ.pop("OMP_NUM_THREADS") if threads is None else os.environ.update(
            OMP_NUM_THREADS=threads
        )


def _work(
    rank: int, module: nn.Module, meeting: str, x: Tensor, want: dict[str, Tensor], tolerance: float
) -> None:
    """One process: gradients in evaluation mode are compared, a step in training mode is only taken."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=meeting, rank=rank, world_size=PROCESSES, timeout=LONGEST
    )
    try:
        mine = x.chunk(PROCESSES)[rank]
        compared = copy.deepcopy(
            module
        )  # in evaluation a layer may use less than all of its parameters
        evaluated = nn.parallel.DistributedDataParallel(compared, find_unused_parameters=True)
        evaluated(mine).square().mean().backward()
        _compare(compared, want, tolerance)
        wrapped = nn.parallel.DistributedDataParallel(module.train())
        for _ in range(
            2
        ):  # the second forward is where DDP notices parameters that the first did not use
            wrapped.zero_grad()
            wrapped(mine).square().mean().backward()
    finally:
        torch.distributed.destroy_process_group()


def _compare(module: nn.Module, want: dict[str, Tensor], tolerance: float) -> None:
    for name, p in module.named_parameters():
        if name not in want:
            continue
        if p.grad is None or not torch.allclose(
            p.grad, want[name], rtol=10 * tolerance, atol=tolerance
        ):
            raise ContractError(f"two processes give another gradient to {name} than one")
