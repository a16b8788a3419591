"""The weights of a run after some of its epochs, kept beside its result.

For films, and to go back to.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gatewise.errors import ArgumentError
from gatewise.files import write_tensors
from gatewise.train.loop import Start, Watcher

if TYPE_CHECKING:
    from torch import nn

PATTERN = "weights-[0-9][0-9][0-9][0-9][0-9].safetensors"


class KeepWeights(Watcher):
    """Write ``weights-00007.safetensors`` and so on into ``folder``.

    At the start, and after every ``every`` epochs.

    They are the weights that are trained, not their average. A run that is killed and given again
    writes the same bits.
    """

    def __init__(self, folder: str | Path, every: int = 1) -> None:
        if isinstance(every, bool) or not isinstance(every, int) or every < 1:
            raise ArgumentError(
                "keep weights: every so many epochs", got=every, allowed="1 or more"
            )
        self.folder, self.every = Path(folder), every
        self._model: nn.Module | None = None

    def start(self, start: Start) -> None:
        """Keep the weights that the run starts from."""
        self._model = start.model
        if start.step == 0:
            self._keep(0)

    def epoch(self, record: Mapping[str, Any]) -> None:
        """Keep those of the epoch, if it is one of them."""
        if record["epoch"] % self.every == 0:
            self._keep(record["epoch"])

    def _keep(self, epoch: int) -> None:
        assert self._model is not None  # noqa: S101 - a run starts before it ends an epoch
        write_tensors(self.folder / f"weights-{epoch:05}.safetensors", self._model.state_dict())


def kept_weights(folder: str | Path) -> list[Path]:
    """The files in the order of the epochs.

    Where there are some, the run's last weights come after them.
    """
    found = sorted(Path(folder).glob(PATTERN))
    last = Path(folder) / "weights.safetensors"
    return [*found, last] if found and last.exists() else found
