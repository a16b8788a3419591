"""Run cells on a Ray cluster: one that exists, or one of this machine alone.

Note [What a cluster needs]. Every machine sees the study's folder under the same path, has this
library installed, and has the data sets where ``data_folder`` or GATEWISE_DATA says. Results appear
in the folder as they do without a cluster. A cell that runs twice, because its first machine was
thought lost, has the record of the first to finish.

Note [On one machine]. A cluster that is started here listens on the loopback address alone, sends
no usage reports, has no dashboard, and ends with the study.

Note [A lost cluster]. A cell whose worker or machine was lost is tried again. If the machine that
this process is on loses its connection to the cluster, or the cluster's control service is gone,
the study stops with a :class:`LostProcessError`. No record is written for what was running. Only
types of errors decide this, never their texts.
"""

import importlib
import logging
import math
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from gatewise.errors import (
    ArgumentError,
    LostProcessError,
    MissingExtraError,
    install_extra,
    shorten,
)
from gatewise.studies.older.cell_work import Outcome, Task, run_cell
from gatewise.studies.older.executors import Event, OnEvent, Retries
from gatewise.studies.older.folder import STUDY
from gatewise.train import StopSignal

POLL_SECONDS = 0.2  # between two looks whether to stop
LOOK_SECONDS = 2.0  # between two looks how large the cluster is
PROBE_SECONDS = 2.0  # that its control service has to accept a connection
PROBES = 5  # in a row that fail before the cluster counts as lost
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
# Ray's own switch for machines that are no part of a cluster: with it, the loopback address counts
# as the machine's. (An address given to ray.init does not do it: Ray replaces a loopback address by
# one that others can reach.)
ALONE = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}


class OnRay:
    """Runs tasks as Ray tasks; a lost cell is tried again.

    The cluster stays joined for the next run until :meth:`close`.

    Args:
        on: ``ray``, ``ray:ADDRESS`` or ``ray://HOST:PORT``.
        slots: cells at once; 0 for as many as the cluster has room for.
        threads: of torch for each cell; as many cores are reserved.
        tries: how often a cell is started that is lost.
        gpus: graphics processors that are reserved for each cell; may be a fraction.
        work: what to do, if not what the task says. It is sent to the workers.
    """

    def __init__(
        self,
        on: str,
        slots: int,
        threads: int,
        *,
        tries: int,
        gpus: float = 0.0,
        work: Callable[[Task, StopSignal], Mapping[str, Any] | None] | None = None,
    ) -> None:
        self.address = address_of(on)
        self.slots = slots
        self.threads = threads
        self.tries = tries
        self.gpus = gpus
        self.work = work
        self.stack = ExitStack()
        self.cluster: Cluster | None = None

    def run(self, tasks: Iterable[Task], on_event: OnEvent, stop: StopSignal) -> None:
        """Run all tasks, or stop when asked to; ``on_event`` is called with what happens.

        Raises:
            LostProcessError: if the cluster is lost; see Note [A lost cluster].
        """
        if self.cluster is None:
            context = joined_cluster(self.address, self.slots * self.threads)
            self.cluster = Cluster(self.stack.enter_context(context), self.threads, self.gpus)
        try:
            self._run(self.cluster, iter(tasks), on_event, stop)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Leave the cluster."""
        self.cluster = None
        self.stack.close()

    def _run(
        self,
        cluster: "Cluster",
        tasks: Iterator[Task],
        on_event: OnEvent,
        stop: StopSignal,
    ) -> None:
        """Submit tasks as slots become free, and collect their outcomes."""
        cluster.check()
        submit = cluster.submitter(self.work)
        again: deque[Task] = deque()
        running: dict[Any, Task] = {}
        retries = Retries(self.tries, on_event)
        cancelled = False
        while True:
            slots = 0 if stop.asked else self.slots or cluster.slots()
            while len(running) < slots:
                # Taken only now, because taking a task may claim it.
                task = again.popleft() if again else next(tasks, None)
                if task is None:
                    break
                running[submit(task.to_dict(), self.threads)] = task
                on_event(Event("started", task.key, "ray"))
            if not running:
                break
            if stop.asked and not cancelled:
                cancelled = True
                cluster.cancel(running)
            for reference in cluster.wait(list(running)):
                task = running.pop(reference)
                outcome, worker = cluster.outcome(reference, stop)
                on_event(Event(outcome.status, task.key, worker, outcome.reason))
                if outcome.status in ("lost", "stopped") and not stop.asked:
                    if outcome.status == "stopped" or retries.again(task, outcome):
                        again.append(task)
        if not stop.asked:
            retries.check()


class Cluster:
    """What is asked of a cluster; see Note [A lost cluster].

    Args:
        ray: the module, joined to the cluster.
        threads: cores reserved for each cell.
        gpus: graphics processors reserved for each cell.
    """

    def __init__(self, ray: Any, threads: int, gpus: float) -> None:
        self.ray = ray
        self.threads = threads
        self.gpus = gpus
        self.looked = -math.inf
        self.last_slots = 1
        self.unreachable = 0
        with self._guarded():
            # The address of its control service; none for a client of the cluster.
            is_client = ray.util.client.ray.is_connected()
            self.control = "" if is_client else ray.get_runtime_context().gcs_address

    def check(self) -> None:
        """Raise unless one machine of the cluster can run a cell.

        Raises:
            ArgumentError: naming what no machine has.
        """
        for name, need in (("CPU", self.threads), ("GPU", self.gpus)):
            with self._guarded():
                machines = [node for node in self.ray.nodes() if node["Alive"]]
            most = max((node["Resources"].get(name, 0.0) for node in machines), default=0.0)
            if most < min(need, 1.0) or (need > 1 and most < need):
                raise ArgumentError(
                    f"ray: no machine of the cluster has enough {name}s for one run",
                    got=f"{need:g} asked for, {most:g} there",
                    fix="fewer --threads or --gpus-per-cell, or a larger machine",
                )

    def submitter(
        self,
        work: Callable[[Task, StopSignal], Mapping[str, Any] | None] | None,
    ) -> Callable[..., Any]:
        """Return the function that submits a task and returns a reference to its outcome."""
        # Ray must not retry: lost cells are counted here, so that the journal shows them.
        remote = self.ray.remote(num_cpus=self.threads, num_gpus=self.gpus, max_retries=0)
        function = remote(on_cluster)

        def submit(values: dict[str, Any], threads: int) -> Any:
            with self._guarded():
                return function.remote(values, threads, work)

        return submit

    def slots(self) -> int:
        """Return how many cells the cluster can run at once; 1 if it is too small now."""
        now = time.monotonic()
        if now - self.looked > LOOK_SECONDS:
            self.looked = now
            with self._guarded():
                resources = self.ray.cluster_resources()
            slots = int(resources.get("CPU", 1)) // self.threads
            if self.gpus:
                slots = min(slots, int(resources.get("GPU", 0) / self.gpus))
            self.last_slots = max(1, slots)
            self._probe()
        return self.last_slots

    def wait(self, references: list[Any]) -> list[Any]:
        """Return the references of tasks that have ended, after waiting a moment for one."""
        with self._guarded():
            ready, rest = self.ray.wait(references, timeout=POLL_SECONDS)
            if ready and rest:
                ready += self.ray.wait(rest, num_returns=len(rest), timeout=0)[0]
        if not ready:
            self.slots()  # also asks whether the cluster is there
        return ready

    def cancel(self, references: Iterable[Any]) -> None:
        """Let tasks stop."""
        with self._guarded():
            for reference in references:
                self.ray.cancel(reference)

    def outcome(self, reference: Any, stop: StopSignal) -> tuple[Outcome, str]:
        """Return how a task ended, and where; a task is lost if its worker or machine died."""
        errors = self.ray.exceptions
        try:
            values = self.ray.get(reference)
            worker = values.pop("worker")
            return Outcome(**values), worker
        except errors.TaskCancelledError:
            return Outcome("stopped"), "ray"
        except (errors.LocalRayletDiedError, ConnectionError) as problem:
            raise lost_cluster(problem) from problem
        except errors.RayError as problem:
            if stop.asked:
                return Outcome("stopped"), "ray"
            lines = str(problem).strip().splitlines() or [type(problem).__name__]
            return Outcome("lost", shorten(lines[0], 300)), "ray"

    def _probe(self) -> None:
        """Raise if the control service cannot be reached several times in a row.

        Ray ends this process without a word after a minute of that.
        """
        if not self.control:
            return
        host, _, port = self.control.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), PROBE_SECONDS).close()
        except OSError as problem:
            self.unreachable += 1
            if self.unreachable >= PROBES:
                raise lost_cluster(problem) from problem
        else:
            self.unreachable = 0

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Turn the errors with which Ray itself fails into that of a lost cluster."""
        try:
            yield
        except (self.ray.exceptions.RayError, ConnectionError) as problem:
            raise lost_cluster(problem) from problem


def lost_cluster(problem: BaseException) -> LostProcessError:
    """Return the error that stops a study whose cluster was lost."""
    lines = str(problem).strip().splitlines() or [type(problem).__name__]
    return LostProcessError(
        "ray: the cluster was lost; finished runs are kept, and no run counts as failed",
        got=shorten(lines[0], 300),
        fix="rerun the same command to resume, when the cluster is there again",
    )


def address_of(on: str) -> str:
    """Return the address that Ray is given: empty for the cluster in RAY_ADDRESS, or a new one."""
    if on.startswith("ray://"):
        return on
    return on.partition(":")[2]


def on_cluster(
    values: dict[str, Any],
    threads: int,
    work: Callable[[Task, StopSignal], Mapping[str, Any] | None] | None = None,
) -> dict[str, Any]:
    """Run one cell; this is what a worker of the cluster is given.

    Args:
        values: the task, as :meth:`Task.to_dict` returns it.
        threads: of torch.
        work: what to do, if not what the task says.

    Returns:
        The outcome as plain values, and which worker it was.
    """
    import torch

    task = Task(**values)
    torch.set_num_threads(threads)
    if (Path(task.folder).parent / STUDY).is_file():
        outcome = run_cell(task, work=partial(work, task) if work else None)
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
            check_alone(ray)
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
        raise MissingExtraError("ray is not installed", fix=install_extra("ray")) from problem


def check_alone(ray: Any) -> None:
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
