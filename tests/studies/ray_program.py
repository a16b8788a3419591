"""A study on Ray, in a process of its own.

``ray_program.py alone|cluster|raylet|gcs_server FOLDER ANSWER``, where ANSWER is a file.

``alone``: a cluster of this machine that the study starts itself; one worker process is killed on
the way. ``cluster``: three nodes, joined by their address; one node's raylet and all its workers
are killed on the way. ``raylet``, ``gcs_server``: that process of the one machine is killed on the
way, and the study is run again. ``client``: by Ray's client protocol.
"""

import json
import os
import signal
import socket
import sys
import time
from functools import partial
from pathlib import Path

from small_studies import small_study

from gatewise.errors import LostProcessError
from gatewise.studies.older import RunOptions, run_study, status


def children(process: int) -> list[int]:
    """Processes below ``process``, all of them."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        parents[int(path.parent.name)] = int(words[1])
    found = [process]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found[1:]


def listening(processes: list[int]) -> list[str]:
    """Addresses that the processes accept connections at, over IPv4 and IPv6."""
    sockets = set()
    for process in processes:
        for link in Path(f"/proc/{process}/fd").glob("*"):
            try:
                sockets.add(str(link.readlink()))
            except OSError:
                continue
    found = set()
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in sockets:  # 0A: it listens
                raw = bytes.fromhex(words[1].partition(":")[0])
                found.add(
                    socket.inet_ntop(
                        family, b"".join(raw[at : at + 4][::-1] for at in range(0, len(raw), 4))
                    )
                )
    return sorted(found)


def workers(process: int) -> list[int]:
    """Ray's workers below ``process`` that carry out a task of ours."""
    found = []
    for child in children(process):
        try:
            if b"ray::on_cluster" in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(child)
        except OSError:
            continue
    return found


def kill(*processes: int) -> None:
    for process in processes:
        os.kill(process, signal.SIGKILL)


class Watch:
    """Strikes once, when some cells are done and ``strike`` finds something to kill."""

    def __init__(self, strike) -> None:
        self.strike, self.events, self.struck, self.seen = strike, [], 0, []

    def __call__(self, tally, event) -> None:
        if event is None:
            return
        self.events.append([event.kind, event.key, event.reason])
        if event.kind == "started" and tally.done >= 3 and not self.struck:
            until = time.monotonic() + 10
            while not self.struck and time.monotonic() < until:
                self.struck = self.strike()


def alone(folder: str) -> dict:
    heard: list[str] = []

    def strike() -> int:
        heard[:] = listening([os.getpid(), *children(os.getpid())])
        found = workers(os.getpid())[:1]
        kill(*found)
        return len(found)

    watch = Watch(strike)
    result = run_study(study(), folder, RunOptions(on="ray", workers=2, threads=1), watch=watch)
    import ray
    from ray._common.usage import usage_lib

    return told(result, watch) | {
        "listening": heard,
        "usage": usage_lib.usage_stats_enabled(),
        "left": ray.is_initialized(),
    }


def cluster(folder: str) -> dict:
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    nodes = [made.add_node(num_cpus=1, wait=True) for _ in range(2)]

    def strike() -> int:
        for node in nodes:
            raylet = node.all_processes["raylet"][0].process.pid
            if workers(raylet):
                below = children(raylet)
                kill(raylet, *below)
                return len(below)
        return 0

    watch = Watch(strike)
    result = run_study(
        study(), folder, RunOptions(on=f"ray:{made.address}", threads=1), watch=watch
    )
    made.shutdown()
    return told(result, watch)


def lost(process: str, folder: str) -> dict:
    """Lose the cluster in the middle, and give the same command again."""

    def strike() -> int:
        from ray._private.worker import _global_node

        kill(_global_node.all_processes[process][0].process.pid)
        return 1

    watch = Watch(strike)
    options = RunOptions(on="ray", workers=2, threads=1)
    try:
        run_study(study(), folder, options, watch=watch)
        problem = None
    except LostProcessError as error:
        problem = error
    between = status(folder)
    again = Watch(lambda: 0)
    result = run_study(study(), folder, options, watch=again)
    return told(result, again) | {
        "struck": watch.struck,
        "first": watch.events,
        "problem": str(problem),
        "between": between.to_dict(),
    }


def client(folder: str) -> dict:
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
    from ray.cluster_utils import Cluster

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    head = {"num_cpus": 2, "include_dashboard": False, "ray_client_server_port": port}
    made = Cluster(initialize_head=True, head_node_args=head)
    watch = Watch(lambda: 1)
    result = run_study(
        study(), folder, RunOptions(on=f"ray://127.0.0.1:{port}", threads=1), watch=watch
    )
    made.shutdown()
    return told(result, watch)


def study():
    return small_study(seeds=3, recipe={"epochs": 10, "batch": 20}, evaluate_every=10)


def told(result, watch) -> dict:
    return {"records": list(result.records), "events": watch.events, "struck": watch.struck}


if __name__ == "__main__":
    ways = {"alone": alone, "cluster": cluster, "client": client}
    way = ways.get(sys.argv[1]) or partial(lost, sys.argv[1])
    answer = way(sys.argv[2])
    Path(sys.argv[3]).write_text(json.dumps(answer))
