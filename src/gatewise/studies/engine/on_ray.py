"""The same cells on a Ray cluster: one that runs already, or one of this machine alone.

Note [What a cluster must have]. Every machine sees the study's folder under the same path, has this
library, and the data sets where ``data_folder`` or GATEWISE_DATA says. Results appear in the folder
as they do without a cluster: a cell that runs twice, because its first machine was thought lost,
has the record of whoever was first.

Note [On one machine]. A cluster that is started here listens on the loopback address alone, sends
no usage reports, has no dashboard, and ends with the study.
"""

import importlib
import logging
import os
import socket
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gatewise.errors import ArgumentError, MissingExtraError, shorten
from gatewise.studies.engine.events import Event, Retries, Tell
from gatewise.studies.engine.folder import STUDY
from gatewise.studies.engine.run_cell import Outcome, Task, carry_out
from gatewise.train import StopSignal

PATIENCE = 0.2  # seconds between two looks whether to stop
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
# Ray's own switch for machines that are no part of a cluster: with it, the loopback address counts
# as the machine's. (An address given to ray.init does not do it: Ray replaces a loopback address by
# one that others can reach.)
ALONE = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}


class OnRay:
    """Runs tasks as Ray tasks, as many at once as there are cores, or ``slots``.

    A lost cell is tried again.
    """

    def __init__(self, on: str, slots: int, threads: int, *, tries: int) -> None:
        self.address = on.partition("://")[2]
        self.slots, self.threads, self.tries = slots, threads, tries

    def run(self, tasks: Sequence[Task], tell: Tell, stop: StopSignal) -> None:
        """Carry out all tasks, or stop when asked to; ``tell`` is told what happens."""
        with joined_cluster(self.address, self.slots * self.threads) as ray:
            self._run(ray, tasks, tell, stop)

    def _run(self, ray: Any, tasks: Sequence[Task], tell: Tell, stop: StopSignal) -> None:
        # We count lost cells ourselves, so that the journal shows them.
        remote = ray.remote(num_cpus=self.threads, max_retries=0)(on_cluster)
        waiting, running, retries = deque(tasks), {}, Retries(self.tries, tell)
        cancelled = False
        while waiting or running:
            while waiting and not stop.asked and len(running) < self._room(ray):
                task = waiting.popleft()
                running[remote.remote(task.to_dict(), self.threads)] = task
                tell(Event("started", task.key, "ray"))
            if stop.asked and not cancelled:
                cancelled = True
                waiting.clear()
                for reference in running:
                    ray.cancel(reference)
            for reference in ray.wait(list(running), timeout=PATIENCE)[0]:
                task = running.pop(reference)
                outcome, where = _outcome(ray, reference, stop)
                tell(Event(outcome.status, task.key, where, outcome.reason))
                if outcome.status in ("lost", "stopped") and not stop.asked:
                    if outcome.status == "stopped" or retries.again(task, outcome):
                        waiting.appendleft(task)

    def _room(self, ray: Any) -> int:
        return self.slots or max(1, int(ray.cluster_resources().get("CPU", 1)) // self.threads)


def on_cluster(task: dict[str, Any], threads: int) -> dict[str, Any]:
    """What a worker of the cluster does: carry out one cell."""
    import torch

    made = Task(**task)
    torch.set_num_threads(threads)
    if not (Path(made.folder).parent / STUDY).is_file():
        reason = f"{socket.gethostname()} does not see {made.folder}: all machines must share the study's folder"
        outcome = Outcome("lost", reason, disc=True)
    else:
        outcome = carry_out(made)
    return asdict(outcome) | {"worker": f"{socket.gethostname()} {os.getpid()}"}


@contextmanager
def joined_cluster(address: str, cores: int) -> Iterator[Any]:
    """The module ``ray``, joined to the cluster at ``address``.

    Without one, to a cluster of this machine.
    """
    address = address or os.environ.get("RAY_ADDRESS", "")
    ray = _imported(QUIET if address else QUIET | ALONE)
    if ray.is_initialized():  # whoever did that ends it
        yield ray
        return
    try:
        if address:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        else:
            ray.init(
                address="local",
                num_cpus=cores or None,
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
            _check_alone(ray)
    except (ConnectionError, RuntimeError, ValueError) as problem:
        raise ArgumentError(
            "ray: the cluster cannot be joined",
            got=f"{address or 'local'}: {shorten(str(problem))}",
            fix="give the address that `ray start --head` prints, on a machine of that cluster",
        ) from problem
    try:
        yield ray
    finally:
        ray.shutdown()


def _imported(settings: Mapping[str, str]) -> Any:
    """The module ``ray``, which reads its settings from the environment when it is imported and when it starts."""
    for name, value in settings.items():
        os.environ.setdefault(name, value)
    try:
        return importlib.import_module("ray")
    except ImportError as problem:
        raise MissingExtraError(
            "ray is not installed", fix="pip install 'gatewise[ray]'"
        ) from problem


def _check_alone(ray: Any) -> None:
    """Refuse to run where the cluster can be reached from outside."""
    found = ray.util.get_node_ip_address()
    if not found.startswith("127."):
        ray.shutdown()
        raise ArgumentError(
            "ray: it would listen on more than the loopback address",
            got=found,
            fix=f"start Python with {' '.join(f'{name}={value}' for name, value in ALONE.items())}, or start a cluster",
        )


def _outcome(ray: Any, reference: Any, stop: StopSignal) -> tuple[Outcome, str]:
    """How a task ended, and where; one whose worker or machine died is lost."""
    try:
        found = ray.get(reference)
        worker = found.pop("worker")
        return Outcome(**found), worker
    except ray.exceptions.TaskCancelledError:
        return Outcome("stopped"), "ray"
    except ray.exceptions.RayError as problem:
        if stop.asked:
            return Outcome("stopped"), "ray"
        return Outcome("lost", shorten(str(problem).strip().splitlines()[0], 300)), "ray"
