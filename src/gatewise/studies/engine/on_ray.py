"""Run cells on a Ray cluster: one that exists, or one of this machine alone.

Note [What a cluster needs]. Every machine sees the study's folder under the same path, has this
library installed, and has the data sets where ``data_folder`` or GATEWISE_DATA says. Results appear
in the folder as they do without a cluster. A cell that runs twice, because its first machine was
thought lost, has the record of the first to finish.

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
from gatewise.studies.engine.cell_work import Outcome, Task, run_cell
from gatewise.studies.engine.executors import Event, OnEvent, Retries
from gatewise.studies.engine.folder import STUDY
from gatewise.train import StopSignal

POLL_SECONDS = 0.2  # between two looks whether to stop
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
# Ray's own switch for machines that are no part of a cluster: with it, the loopback address counts
# as the machine's. (An address given to ray.init does not do it: Ray replaces a loopback address by
# one that others can reach.)
ALONE = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}


class OnRay:
    """Runs tasks as Ray tasks; a lost cell is tried again.

    Args:
        on: ``ray`` or ``ray://HOST:PORT``.
        slots: cells at once; 0 for as many as the cluster has cores for.
        threads: of torch for each cell.
        tries: how often a cell is started that is lost.
    """

    def __init__(self, on: str, slots: int, threads: int, *, tries: int) -> None:
        self.address = on.partition("://")[2]
        self.slots = slots
        self.threads = threads
        self.tries = tries

    def run(self, tasks: Sequence[Task], on_event: OnEvent, stop: StopSignal) -> None:
        """Run all tasks, or stop when asked to; ``on_event`` is called with what happens."""
        with joined_cluster(self.address, self.slots * self.threads) as ray:
            self._run(ray, tasks, on_event, stop)

    def _run(self, ray: Any, tasks: Sequence[Task], on_event: OnEvent, stop: StopSignal) -> None:
        """Submit tasks as slots become free, and collect their outcomes."""
        # Ray must not retry: lost cells are counted here, so that the journal shows them.
        remote = ray.remote(num_cpus=self.threads, max_retries=0)(on_cluster)
        waiting = deque(tasks)
        running: dict[Any, Task] = {}
        retries = Retries(self.tries, on_event)
        cancelled = False
        while waiting or running:
            while waiting and not stop.asked and len(running) < self._capacity(ray):
                task = waiting.popleft()
                running[remote.remote(task.to_dict(), self.threads)] = task
                on_event(Event("started", task.key, "ray"))
            if stop.asked and not cancelled:
                cancelled = True
                waiting.clear()
                for reference in running:
                    ray.cancel(reference)
            for reference in ray.wait(list(running), timeout=POLL_SECONDS)[0]:
                task = running.pop(reference)
                outcome, worker = _outcome(ray, reference, stop)
                on_event(Event(outcome.status, task.key, worker, outcome.reason))
                if outcome.status in ("lost", "stopped") and not stop.asked:
                    if outcome.status == "stopped" or retries.again(task, outcome):
                        waiting.appendleft(task)

    def _capacity(self, ray: Any) -> int:
        """Return how many cells the cluster can run at once."""
        return self.slots or max(1, int(ray.cluster_resources().get("CPU", 1)) // self.threads)


def on_cluster(values: dict[str, Any], threads: int) -> dict[str, Any]:
    """Run one cell; this is what a worker of the cluster is given.

    Args:
        values: the task, as :meth:`Task.to_dict` returns it.
        threads: of torch.

    Returns:
        The outcome as plain values, and which worker it was.
    """
    import torch

    task = Task(**values)
    torch.set_num_threads(threads)
    if (Path(task.folder).parent / STUDY).is_file():
        outcome = run_cell(task)
    else:
        reason = (
            f"{socket.gethostname()} does not see {task.folder}: "
            "all machines must share the study's folder"
        )
        outcome = Outcome("lost", reason, disc=True)
    return asdict(outcome) | {"worker": f"{socket.gethostname()} {os.getpid()}"}


@contextmanager
def joined_cluster(address: str, cores: int) -> Iterator[Any]:
    """Yield the module ``ray``, joined to a cluster.

    Args:
        address: of the cluster; empty for the one in RAY_ADDRESS, or a new one of this machine.
        cores: of a new cluster; 0 for all.

    Raises:
        ArgumentError: if the cluster cannot be joined.
    """
    address = address or os.environ.get("RAY_ADDRESS", "")
    ray = _import_ray(QUIET if address else QUIET | ALONE)
    if ray.is_initialized():  # the program that initialised it shuts it down
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


def _import_ray(settings: Mapping[str, str]) -> Any:
    """Import ``ray``, which reads its settings from the environment."""
    for name, value in settings.items():
        os.environ.setdefault(name, value)
    try:
        return importlib.import_module("ray")
    except ImportError as problem:
        raise MissingExtraError(
            "ray is not installed", fix="pip install 'gatewise[ray]'"
        ) from problem


def _check_alone(ray: Any) -> None:
    """Refuse to run if the cluster can be reached from other machines."""
    address = ray.util.get_node_ip_address()
    if not address.startswith("127."):
        ray.shutdown()
        switches = " ".join(f"{name}={value}" for name, value in ALONE.items())
        raise ArgumentError(
            "ray: it would listen on more than the loopback address",
            got=address,
            fix=f"start Python with {switches}, or start a cluster",
        )


def _outcome(ray: Any, reference: Any, stop: StopSignal) -> tuple[Outcome, str]:
    """Return how a task ended, and where; a task is lost if its worker or machine died."""
    try:
        values = ray.get(reference)
        worker = values.pop("worker")
        return Outcome(**values), worker
    except ray.exceptions.TaskCancelledError:
        return Outcome("stopped"), "ray"
    except ray.exceptions.RayError as problem:
        if stop.asked:
            return Outcome("stopped"), "ray"
        return Outcome("lost", shorten(str(problem).strip().splitlines()[0], 300)), "ray"
