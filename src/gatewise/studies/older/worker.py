"""A worker process: runs one cell after another and ends with its driver.

Note [How driver and worker talk]. Both send lines of JSON. The worker sends ``{"ready": true}``,
and after each task ``{"key", "status", ...}``. The driver sends ``{"task": {...}}`` and
``{"stop": true}``. The worker ends as soon as its input ends, because the driver has then ended.
A later run resumes the cell from its last checkpoint.
"""

import json
import os
import queue
import sys
import threading
from dataclasses import asdict
from typing import IO, Any

START = (
    "import sys; sys.path[:] = [p for p in sys.path if p]; "
    "from gatewise.studies.older.worker import main; main()"
)


def main() -> None:
    """Work until the input ends. The first argument is the number of torch threads."""
    # The messages get a copy of stdout. What a network prints goes to stderr instead.
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    import torch

    from gatewise.native import tune_allocator
    from gatewise.studies.older.cell_work import Task, run_cell
    from gatewise.train import StopSignal

    torch.set_num_threads(int(sys.argv[1]))
    tune_allocator()
    stop = StopSignal()
    tasks: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_listen, args=(sys.stdin, tasks, stop), daemon=True).start()
    _send(out, ready=True)
    while True:
        task = Task(**tasks.get())
        _send(out, key=task.key, **asdict(run_cell(task, stop)))


def _listen(lines: IO[str], tasks: "queue.Queue[dict[str, Any]]", stop: Any) -> None:
    """Read messages of the driver; end the process when the input ends."""
    for line in lines:
        message = json.loads(line)
        if "task" in message:
            tasks.put(message["task"])
        else:
            stop.asked = True
    os._exit(0)


def _send(out: IO[str], **message: object) -> None:
    """Send a line of JSON to the driver."""
    out.write(json.dumps(message) + "\n")
    out.flush()
