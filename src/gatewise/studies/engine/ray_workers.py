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
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from gatewise.errors import (
    ArgumentError,
    LostProcessError,
    MissingExtraError,
    first_line,
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
    """

    def __init__(self, work: Work, on: str, most: int, threads: int) -> None:
        self.most = most
        self.threads = threads
        self.running: dict[Any, Cell] = {}
        self.is_stopping = False
        self.looked = -math.inf
        self.last_slots = 1
        self.unreachable = 0
        self.stack = ExitStack()
        self.ray = self.stack.enter_context(joined_cluster(address_of(on), most * threads))
        try:
            with self._guarded():
                self._join(work)
        except BaseException:
            self.stack.close()
            raise

    def _join(self, work: Work) -> None:
        """Check the cluster, and send the work."""
        # The address of its control service; none for a client of the cluster.
        is_client = self.ray.util.client.ray.is_connected()
        self.control = "" if is_client else self.ray.get_runtime_context().gcs_address
        machines = [node for node in self.ray.nodes() if node["Alive"]]
        most = max((node["Resources"].get("CPU", 0.0) for node in machines), default=0.0)
        if most < self.threads:
            raise ArgumentError(
                "ray: no machine of the cluster has enough CPUs for one run",
                got=f"{self.threads} asked for, {most:g} there",
                fix="fewer threads for each run, or a larger machine",
            )
        # Ray must not retry: deaths are counted by the driver.
        self.function = self.ray.remote(num_cpus=self.threads, max_retries=0)(on_cluster)
        self.payload = self.ray.put(sendable(work))

    @property
    def slots(self) -> int:
        """Cells that there is room for; 1 if the cluster is too small now."""
        now = time.monotonic()
        if now - self.looked > LOOK_SECONDS:
            self.looked = now
            self._probe()
            if not self.unreachable:  # else Ray would wait for a minute, and then end this process
                with self._guarded():
                    cores = int(self.ray.cluster_resources().get("CPU", 1))
                self.last_slots = max(1, cores // self.threads)
        return min(self.most, self.last_slots) if self.most else self.last_slots

    def submit(self, cell: Cell, folder: Path) -> None:
        """Start a cell."""
        with self._guarded():
            reference = self.function.remote(self.payload, cell, str(folder), self.threads)
        self.running[reference] = cell

    def outcomes(self) -> Iterator[Outcome]:
        """Yield how cells ended, after waiting a moment for one."""
        with self._guarded():
            ready, _ = self.ray.wait(list(self.running), timeout=POLL_SECONDS)
        if not ready:
            _ = self.slots  # also asks whether the cluster is there
        for reference in ready:
            yield self._outcome(self.running.pop(reference), reference)

    def stop(self) -> None:
        """Ask for a stop of all that runs."""
        self.is_stopping = True
        with self._guarded():
            for reference in self.running:
                self.ray.cancel(reference)

    def close(self) -> None:
        """Leave the cluster."""
        self.stack.close()

    def _outcome(self, cell: Cell, reference: Any) -> Outcome:
        """Return how a cell ended; it died if its worker or machine did."""
        errors = self.ray.exceptions
        try:
            record = self.ray.get(reference)
        except errors.TaskCancelledError:
            return Outcome(cell, STOPPED)
        except (errors.LocalRayletDiedError, ConnectionError) as problem:
            raise lost_cluster(problem) from problem
        except errors.RayError as problem:
            if self.is_stopping:
                return Outcome(cell, STOPPED)
            if isinstance(problem, errors.RayTaskError):
                return Outcome(cell, BROKEN, error=shorten(str(problem.cause or problem), 300))
            return Outcome(cell, DIED, error=shorten(first_line(problem), 300))
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
    return LostProcessError(
        "ray: the cluster was lost; finished runs are kept, and no run counts as failed",
        got=shorten(first_line(problem), 300),
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
