"""A program that forks drivers of studies on request, seen from the tests."""

import queue
import subprocess
import threading
from pathlib import Path


class Server:
    """The program that forks drivers, and what it has said."""

    def __init__(self, process: subprocess.Popen) -> None:
        self.process, self.said = process, queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in self.process.stdout:
            self.said.put(line.rstrip("\n"))

    def start(self, folder: Path, on: str, seeds: int, epochs: int = 2, tune: str = "none") -> None:
        self.process.stdin.write(f"{folder}\t{on}\t{seeds}\t{epochs}\t{tune}\n")
        self.process.stdin.flush()

    def hear(self, word: str) -> list[str]:
        """The rest of the next line that begins with ``word``; other lines are put back."""
        other = []
        while not (line := self.said.get(timeout=300)).startswith(f"{word} "):
            other.append(line)
        for each in other:
            self.said.put(each)
        return line.split(" ")[1:]
