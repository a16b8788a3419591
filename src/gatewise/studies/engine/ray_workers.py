"""Run cells on a Ray cluster: one that exists, or one of this machine alone.

Note [What a cluster needs]. Every machine has this library and the data sets. Records travel to the
driver, which writes them; no file is written by two processes. A machine that sees the study's
folder keeps checkpoints there, so that a cell that was interrupted goes on anywhere.

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
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from gatewise.errors import (
    ArgumentError,
    LostProcessError,
    MissingExtraError,
    install_extra,
    shorten,
)
from gatewise.studies.engine.cell import Cell, Record, Work, run_cell
from gatewise.studies.engine.workers import (
    BROKEN,
    DIED,
    ENDED,
    STOPPED,
    Outcome,
    received,
    sendable,
)
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
    """Runs cells as plain remote functions that return records; the driver counts and writes.

    Args:
        work: of the study; it is sent to the workers.
        on: ``ray``, ``ray:ADDRESS`` or ``ray://HOST:PORT``.
        most: cells at once; 0 for as many as the cluster has room for.
        threads: of torch for each cell; as many cores are reserved.
        gpus: graphics processors that are reserved for each cell; may be a fraction.
    """

    def __init__(self, work: Work, on: str, most: int, threads: int, gpus: float = 0.0) -> None:
        self.most = most
        self.running: dict[Any, Cell] = {}
        self.is_stopping = False
        self.stack = ExitStack()
        joined = self.stack.enter_context(joined_cluster(address_of(on), most * threads))
        try:
            self.cluster = Cluster(joined, threads, gpus)
            self.cluster.check()
            self.start = self.cluster.submitter(sendable(work))
        except BaseException:
            self.stack.close()
            raise

    @property
    def slots(self) -> int:
        """Cells that there is room for."""
        room = self.cluster.slots()
        return min(self.most, room) if self.most else room

    def submit(self, cell: Cell, folder: Path) -> None:
        """Start a cell."""
        self.running[self.start(cell, str(folder))] = cell

    def outcomes(self) -> Iterator[Outcome]:
        """Yield how cells ended, after waiting a moment for one."""
        for reference in self.cluster.wait(list(self.running)):
            yield self.cluster.outcome(self.running.pop(reference), reference, self.is_stopping)

    def stop(self) -> None:
        """Ask for a stop of all that runs."""
        self.is_stopping = True
        self.cluster.cancel(self.running)

    def close(self) -> None:
        """Leave the cluster."""
        self.stack.close()


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
                    fix="fewer threads or GPUs for each run, or a larger machine",
                )

    def submitter(self, payload: bytes) -> Callable[[Cell, str], Any]:
        """Return the function that submits a cell and returns a reference to its record."""
        # Ray must not retry: deaths are counted by the driver.
        remote = self.ray.remote(num_cpus=self.threads, num_gpus=self.gpus, max_retries=0)
        function = remote(on_cluster)
        with self._guarded():
            sent = self.ray.put(payload)

        def submit(cell: Cell, folder: str) -> Any:
            with self._guarded():
                return function.remote(sent, cell, folder, self.threads)

        return submit

    def slots(self) -> int:
        """Return how many cells the cluster can run at once; 1 if it is too small now."""
        now = time.monotonic()
        if now - self.looked > LOOK_SECONDS:
            self.looked = now
            self._probe()
            if self.unreachable:  # Ray would wait for a minute, and then end this process
                return self.last_slots
            with self._guarded():
                resources = self.ray.cluster_resources()
            slots = int(resources.get("CPU", 1)) // self.threads
            if self.gpus:
                slots = min(slots, int(resources.get("GPU", 0) / self.gpus))
            self.last_slots = max(1, slots)
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

    def outcome(self, cell: Cell, reference: Any, is_stopping: bool) -> Outcome:
        """Return how a cell ended; it died if its worker or machine did."""
        errors = self.ray.exceptions
        try:
            record = self.ray.get(reference)
        except errors.TaskCancelledError:
            return Outcome(cell, STOPPED)
        except (errors.LocalRayletDiedError, ConnectionError) as problem:
            raise lost_cluster(problem) from problem
        except errors.RayTaskError as problem:
            if is_stopping:
                return Outcome(cell, STOPPED)
            return Outcome(cell, BROKEN, error=shorten(str(problem.cause or problem), 300))
        except errors.RayError as problem:
            if is_stopping:
                return Outcome(cell, STOPPED)
            lines = str(problem).strip().splitlines() or [type(problem).__name__]
            return Outcome(cell, DIED, error=shorten(lines[0], 300))
        return Outcome(cell, STOPPED if record is None else ENDED, record)

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


def on_cluster(payload: bytes, cell: Cell, folder: str, threads: int) -> Record | None:
    """Run one cell; this is what a worker of the cluster is given.

    Args:
        payload: the work, as bytes.
        cell: to run.
        folder: for its checkpoints, if the machine sees the study's folder; else a temporary one.
        threads: of torch.
    """
    import torch

    torch.set_num_threads(threads)
    work = received(payload)
    if Path(folder).parent.parent.is_dir():
        return run_cell(work, cell, Path(folder), StopSignal())
    with tempfile.TemporaryDirectory("gatewise-") as temporary:
        return run_cell(work, cell, Path(temporary), StopSignal())


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
