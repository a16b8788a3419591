"""Several processes that train one network, started by ``torchrun`` or by hand.

Note [What several processes change]

Each process takes its share of every batch and of the loss, weighted so that the averaged gradient
is that of the whole batch in one process, up to rounding. Two things differ: batch norm sees only
the share of its own process, and dropout draws from a stream of its process.
"""

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import distributed, nn

from gatewise.errors import ArgumentError, LostProcessError, MissingExtraError


@dataclass(frozen=True)
class ProcessGroup:
    """Which of how many processes this is. The first one leads: it alone evaluates and writes."""

    rank: int = 0
    processes: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process evaluates and writes."""
        return self.rank == 0

    def totals(self, values: Sequence[float]) -> list[float]:
        """Return each value summed over all processes, in float64."""
        if self.processes == 1:
            return list(values)
        shared = torch.tensor(values, dtype=torch.float64)
        distributed.all_reduce(shared)
        return shared.tolist()

    def wrap(self, model: nn.Module) -> nn.Module:
        """Return what to call instead of ``model`` in training, so that gradients are averaged."""
        has_weights = any(parameter.requires_grad for parameter in model.parameters())
        if self.processes > 1 and has_weights:
            return nn.parallel.DistributedDataParallel(model)
        return model


@contextmanager
def joined() -> Iterator[ProcessGroup]:
    """Yield the group that ``torchrun`` has set up for this process, or a group of one.

    Raises:
        LostProcessError: if another process of the group ends during the block.
    """
    processes = _number("WORLD_SIZE", 1)
    if processes == 1:
        yield ProcessGroup()
        return
    if not distributed.is_available():
        raise MissingExtraError(
            "this torch is built without distributed training", fix="install another build"
        )
    with _broken_connections_raise():
        ours = not distributed.is_initialized()
        if ours:
            distributed.init_process_group("gloo")
        try:
            yield ProcessGroup(distributed.get_rank(), distributed.get_world_size())
        except RuntimeError as problem:
            if not _is_lost(problem):
                raise
            raise LostProcessError(
                "another process of this run has ended",
                fix="rerun the same command for all of them: "
                "the run resumes from its last checkpoint",
            ) from problem
        finally:
            if ours:
                distributed.destroy_process_group()


@contextmanager
def _broken_connections_raise() -> Iterator[None]:
    """Let a write to a process that has ended raise an error.

    The command line lets the signal SIGPIPE end the process, so that ``gatewise ... | head`` stops
    quietly. Connections between processes send the same signal when the other one is killed.
    """
    if not hasattr(signal, "SIGPIPE") or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGPIPE, before)


def _is_lost(problem: RuntimeError) -> bool:
    """Return whether the connection broke. Gloo has no exception for it, only a message."""
    return isinstance(problem, distributed.DistError) or "gloo/transport" in str(problem)


def _number(name: str, default: int) -> int:
    """Return a positive number from an environment variable."""
    value = os.environ.get(name, str(default))
    if not value.isdecimal() or not int(value):
        raise ArgumentError(
            f"the environment variable {name} is not a count",
            got=value,
            fix="let torchrun set it",
        )
    return int(value)
