"""Two processes at one run, as ``torchrun`` starts them, by loopback alone."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import gatewise

PATIENCE = 300  # seconds, for a machine with other things to do
COMMAND = [
    "small_cnn",
    "--unit",
    "crelu",
    "--set",
    "widths=[4, 8]",
    "--set",
    "norm=false",
    "--data-option",
    "train=96",
    "--recipe",
    "sgd",
    "--recipe-option",
    "batch=16",
    "--recipe-option",
    "optimiser.lr=0.05",
    "--recipe-option",
    "schedule.warmup=0",
    "--recipe-option",
    "weight_decay.value=0.0",
]


def start_pair(out: Path, *options: str) -> list[subprocess.Popen]:
    """Both processes of a run in the folder ``out``."""
    port = _free_port()
    return [_start(rank, port, [*options, "--out", str(out), "--json"]) for rank in range(2)]


def last_words(both: list[subprocess.Popen]) -> list[tuple[str, str]]:
    """What each process printed, and what it said on the error channel, once all have ended."""
    try:
        return [process.communicate(timeout=PATIENCE) for process in both]
    finally:
        for process in (
            both
        ):  # one that has not ended by now would keep its pipes, and the next test its processor
            process.kill()
            process.communicate()


def _free_port() -> str:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


def _start(rank: int, port: str, options: list[str]) -> subprocess.Popen:
    source = str(Path(gatewise.__file__).parents[1])
    environment = os.environ | {
        "RANK": str(rank),
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": source,
    }
    command = [sys.executable, "-m", "gatewise.cli", "train", *COMMAND, *options]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
