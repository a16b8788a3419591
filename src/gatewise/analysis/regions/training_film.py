"""How does a network's partition of a plane change over its training? A film, one picture a checkpoint."""

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from gatewise.analysis.checkpoint_weights import Checkpoint, filled
from gatewise.analysis.gating import Progress
from gatewise.analysis.planes import Extent
from gatewise.analysis.regions.drawing import animation
from gatewise.analysis.regions.exact_partition import Partition, SoftPartition, partition
from gatewise.errors import ArgumentError
from gatewise.files import write_bytes


@dataclass(frozen=True, eq=False)
class Film:
    """The answer of :func:`film`.

    The partition at each checkpoint, and the moving picture of them.
    """

    frames: tuple[Partition | SoftPartition, ...]
    seconds: float  # a picture

    @property
    def counts(self) -> tuple[int | None, ...]:
        """How many regions there were; None for a network with soft gates, which has none."""
        return tuple(each.count if isinstance(each, Partition) else None for each in self.frames)

    @cached_property
    def gif(self) -> bytes:
        """The film as an animated GIF."""
        return animation([each.plot for each in self.frames], self.seconds)

    def save(self, path: str | Path) -> Path:
        """Write the film to a file; returns its path."""
        write_bytes(Path(path), self.gif)
        return Path(path)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for a file; the pictures are not among them."""
        entropy = [
            float(each.entropy.mean()) if isinstance(each, SoftPartition) else None
            for each in self.frames
        ]
        return {"counts": list(self.counts), "entropy": entropy, "seconds": self.seconds}

    def plot(self, axes: Any = None) -> Any:
        """The number of regions over the checkpoints, or the mean entropy of soft gates.

        Returns the axes.
        """
        if axes is None:
            from matplotlib.figure import Figure

            axes = Figure(figsize=(4.2, 2.8), layout="constrained").subplots()
        given = self.to_dict()
        hard = any(count is not None for count in self.counts)
        axes.plot(
            range(1, len(self.frames) + 1), given["counts"] if hard else given["entropy"], "o-"
        )
        axes.set(xlabel="checkpoint", ylabel="regions" if hard else "mean entropy of the gates")
        return axes

    def __repr__(self) -> str:
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
    """The partition of a plane through three inputs at each of a run's checkpoints, as a film in one window.

    Args:
        checkpoints: models, or weights of ``model``, which is not changed: state dicts, or safetensors files. They are
            taken one after the other, so that they may be made on the way. three_points, extent, options: as in
            :func:`partition`. seconds: that a picture is shown. progress: called after each checkpoint.
    """
    if (
        not isinstance(seconds, int | float)
        or isinstance(seconds, bool)
        or not 0.02 <= seconds <= 60
    ):
        raise ArgumentError("film: seconds a picture", got=seconds, allowed="0.02 to 60")
    total: int | None = len(checkpoints) if isinstance(checkpoints, Sequence) else None
    frames = []
    for number, checkpoint in enumerate(checkpoints, 1):
        frames.append(
            partition(_at(model, checkpoint, number), three_points, extent=extent, **options)
        )
        if progress is not None:
            progress(number, total)
    if not frames:
        raise ArgumentError("film: there is no checkpoint")
    return Film(tuple(frames), float(seconds))


def _at(model: nn.Module | None, checkpoint: Any, number: int) -> nn.Module:
    """The model at a checkpoint, a copy where weights are put into it."""
    if isinstance(checkpoint, nn.Module):
        return checkpoint
    if model is None:
        raise ArgumentError(
            "film: checkpoints are weights, and need a model to be put into", fix="pass model="
        )
    return filled("film", model, checkpoint, number)
