"""Contract of layers: training in two processes gives the gradients of one process."""

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
LONGEST = timedelta(seconds=60)  # after which a process that hangs is an error


def trains_in_two_processes(layer: "Layer") -> None:
    """Each process gets half of the batch; the averaged gradients are those of the whole batch."""
    if not torch.distributed.is_available():
        raise MissingExtraError(
            "this torch is built without distributed training", fix="install another build"
        )
    module = layer.build()
    x = layer.sample(shape=(2 * PROCESSES, *layer.shape[1:]))
    if not list(module.parameters()):
        return
    module(x).square().mean().backward()
    want = {}
    for name, parameter in module.named_parameters():
        if parameter.grad is not None:
            want[name] = parameter.grad
    module.zero_grad()
    with tempfile.TemporaryDirectory() as folder:
        rendezvous = (Path(folder) / "rendezvous").as_uri()
        _start(module, (rendezvous, x, want, layer.tolerance))


def _start(module: nn.Module, rest: tuple[str, Tensor, dict[str, Tensor], float]) -> None:
    # The new processes read the variable when they import torch.
    threads = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        spawn(_work, (module, *rest), nprocs=PROCESSES)
    except ProcessException as error:
        require(False, "training in two processes fails", got=str(error).strip().splitlines()[-1])
    finally:
        if threads is None:
            os.environ.pop("OMP_NUM_THREADS")
        else:
            os.environ["OMP_NUM_THREADS"] = threads


def _work(
    rank: int,
    module: nn.Module,
    rendezvous: str,
    x: Tensor,
    want: dict[str, Tensor],
    tolerance: float,
) -> None:
    """Run one process: compare gradients in evaluation mode, then take a step in training mode."""
    # The processes are on one machine, which may have no network.
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo",
        init_method=rendezvous,
        rank=rank,
        world_size=PROCESSES,
        timeout=LONGEST,
    )
    try:
        mine = x.chunk(PROCESSES)[rank]
        compared = copy.deepcopy(module)
        # In evaluation a layer may use only some of its parameters.
        evaluated = nn.parallel.DistributedDataParallel(compared, find_unused_parameters=True)
        evaluated(mine).square().mean().backward()
        _compare(compared, want, tolerance)
        wrapped = nn.parallel.DistributedDataParallel(module.train())
        # In the second forward DDP notices parameters that the first did not use.
        for _ in range(2):
            wrapped.zero_grad()
            wrapped(mine).square().mean().backward()
        # A process that ends while the other still works would abort it.
        torch.distributed.barrier()
    finally:
        torch.distributed.destroy_process_group()


def _compare(module: nn.Module, want: dict[str, Tensor], tolerance: float) -> None:
    for name, parameter in module.named_parameters():
        if name not in want:
            continue
        gradient = parameter.grad
        rtol = 10 * tolerance
        if gradient is None or not torch.allclose(gradient, want[name], rtol, tolerance):
            raise ContractError(f"the gradient to {name} in two processes differs from that in one")
