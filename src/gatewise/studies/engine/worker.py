"""A worker: a process that carries out one cell after another, told by lines of JSON, and ends with its driver.

Note [How driver and worker talk]. The worker says ``{"ready": true}`` and after each task ``{"key", "status", ...}``.
It is told ``{"task": {...}}`` and ``{"stop": true}``. When its input ends, because the driver has ended in whatever
way, it ends at once: what it was at goes on from its last checkpoint some other time.
"""

import json
import os
import queue
import sys
import threading
from dataclasses import asdict
from typing import IO, Any

START = "import sys; sys.path[:] = [p for p in sys.path if p]; from gatewise.studies.engine.worker import main; main()"


def main() -> None:
    """Work until the input ends. The first argument is how many threads torch may use."""
    # What a network prints must not come between the lines.
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    import torch

    from gatewise.studies.engine.run_cell import Task, carry_out
    from gatewise.train import StopSignal

    torch.set_num_threads(int(sys.argv[1]))
    stop = StopSignal()
    tasks: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_listen, args=(sys.stdin, tasks, stop), daemon=True).start()
    _say(out, ready=True)
    while True:
        task = Task(**tasks.get())
        _say(out, key=task.key, **asdict(carry_out(task, stop)))


def _listen(lines: IO[str], tasks: "queue.Queue[dict[str, Any]]", stop: Any) -> None:
    for line in lines:
        message = json.loads(line)
        if "task" in message:
            tasks.put(message["task"])
        else:
            stop.asked = True
    os._exit(0)


def _say(out: IO[str], **what: object) -> None:
    out.write(json.dumps(what) + "\n")
    out.flush()
