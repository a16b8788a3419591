"""Keep the weights of a run after some of its epochs, beside its result."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gatewise.checks import check_count
from gatewise.files import write_tensors
from gatewise.train.loop import Start, Watcher

if TYPE_CHECKING:
    from torch import nn

PATTERN = "weights-[0-9][0-9][0-9][0-9][0-9].safetensors"


class KeepWeights(Watcher):
    """Writes ``weights-00007.safetensors`` and so on at the start and after every few epochs.

    They are the weights that are trained, not their average. A run that is killed and resumed
    writes the same bits.

    Args:
        folder: of the run.
        every: epochs between two files.
    """

    def __init__(self, folder: str | Path, every: int = 1) -> None:
        self.folder = Path(folder)
        self.every = check_count("keep weights", "every", every)
        self._model: nn.Module | None = None

    def start(self, start: Start) -> None:
        """Keep the weights that the run starts from."""
        self._model = start.model
        if start.step == 0:
            self._keep(0)

    def epoch(self, record: Mapping[str, Any]) -> None:
        """Keep the weights of the epoch, if it is one of them."""
        if record["epoch"] % self.every == 0:
            self._keep(record["epoch"])

    def _keep(self, epoch: int) -> None:
        """Write the weights of an epoch."""
        assert self._model is not None  # noqa: S101 - a run starts before it ends an epoch
        write_tensors(self.folder / f"weights-{epoch:05}.safetensors", self._model.state_dict())


def kept_weights(folder: str | Path) -> list[Path]:
    """Return the kept files in the order of the epochs, then the run's last weights."""
    files = sorted(Path(folder).glob(PATTERN))
    last = Path(folder) / "weights.safetensors"
    if files and last.exists():
        return [*files, last]
    return files
