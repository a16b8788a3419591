"""How a network's partition of a plane changes during training: one picture per checkpoint."""

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from gatewise.analysis.checkpoint_weights import Checkpoint, filled
from gatewise.analysis.planes import Extent
from gatewise.analysis.record import AnalysisResult, new_axes
from gatewise.analysis.regions.drawing import animation, check_seconds
from gatewise.analysis.regions.exact_partition import Partition, SoftPartition, partition
from gatewise.batches import Progress
from gatewise.checks import check_kind
from gatewise.errors import ArgumentError
from gatewise.files import write_bytes


@dataclass(frozen=True, eq=False)
class Film(AnalysisResult):
    """The result of :func:`film`: the partition at each checkpoint, and an animation of them.

    Attributes:
        frames: the partitions.
        seconds: how long each picture is shown.
    """

    frames: tuple[Partition | SoftPartition, ...]
    seconds: float

    @property
    def counts(self) -> tuple[int | None, ...]:
        """The number of regions; None for a network with soft gates, which has none."""
        return tuple(getattr(frame, "count", None) for frame in self.frames)

    @cached_property
    def gif(self) -> bytes:
        """The film as an animated GIF."""
        return animation([frame.plot for frame in self.frames], self.seconds)

    def save(self, path: str | Path) -> Path:
        """Write the film to a file; returns its path."""
        write_bytes(Path(path), self.gif)
        return Path(path)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for a file; without the pictures."""
        entropy: list[float | None] = []
        for frame in self.frames:
            soft = isinstance(frame, SoftPartition)
            entropy.append(float(frame.entropy.mean()) if soft else None)
        return {"counts": list(self.counts), "entropy": entropy, "seconds": self.seconds}

    def plot(self, axes: Any = None) -> Any:
        """Draw the number of regions by checkpoint, or the mean entropy of soft gates.

        Returns the axes.
        """
        axes = new_axes((4.2, 2.8)) if axes is None else axes
        hard = any(count is not None for count in self.counts)
        values = self.to_dict()["counts" if hard else "entropy"]
        axes.plot(range(1, len(self.frames) + 1), values, "o-")
        axes.set(xlabel="checkpoint", ylabel="regions" if hard else "mean entropy of the gates")
        return axes

    def __str__(self) -> str:
        shown = ", ".join("soft" if count is None else str(count) for count in self.counts)
        return f"Film({len(self.frames)} pictures; regions: {shown})"

    def _repr_html_(self) -> str:
        data = base64.b64encode(self.gif).decode()
        return f'<img alt="{escape(repr(self))}" src="data:image/gif;base64,{data}">'


def film(
    checkpoints: Iterable[Checkpoint],
    three_points: Tensor | Sequence[Tensor],
    *,
    model: nn.Module | None = None,
    extent: Extent = 1.5,
    seconds: float = 0.4,
    progress: Progress | None = None,
    **options: Any,
) -> Film:
    """Compute the partition of one window at each checkpoint of a training run.

    Args:
        checkpoints: models, or weights of ``model``: state dicts or safetensors files. They are
            read one at a time, so an iterator may create them on the way.
        three_points: three inputs in the plane, as for :func:`partition`.
        model: the model that weights are loaded into; a copy is used.
        extent: the size of the window, as for :func:`partition`.
        seconds: how long each picture is shown, 0.02 to 60.
        progress: called after each checkpoint with its number and, if known, their total number.
        **options: other options of :func:`partition`.
    """
    seconds = check_seconds(seconds)
    check_kind("film", "checkpoints", checkpoints, Iterable)
    total: int | None = len(checkpoints) if isinstance(checkpoints, Sequence) else None
    frames = []
    for number, checkpoint in enumerate(checkpoints, 1):
        model_there = _model_at(model, checkpoint, number)
        frames.append(partition(model_there, three_points, extent=extent, **options))
        if progress is not None:
            progress(number, total)
    if not frames:
        raise ArgumentError("film: there is no checkpoint", fix="pass at least one checkpoint")
    return Film(tuple(frames), seconds)


def _model_at(model: nn.Module | None, checkpoint: Any, number: int) -> nn.Module:
    """The model at a checkpoint; a copy of ``model`` if the checkpoint holds weights."""
    if isinstance(checkpoint, nn.Module):
        return checkpoint
    if model is None:
        raise ArgumentError(
            "film: checkpoints that are weights need a model to load them into", fix="pass model="
        )
    return filled("film", model, checkpoint, number)
