"""The result of a run: the file ``result.json``, written last."""

import base64
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy
from torch import Tensor

from gatewise.errors import DamagedFileError
from gatewise.files import find_json, write_json

FILE = "result.json"
FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Result:
    """A run that has ended.

    ``status`` is ``"finished"``, or ``"diverged"`` with the step and the reason. ``metrics`` are
    those of the last epoch, or of the best one with patience; ``best`` are those of the epoch with
    the lowest test loss. ``weights_sha256`` is the digest of ``weights.safetensors``, which
    holds what was evaluated: the moving average if there is one. ``state_sha256`` covers weights,
    optimiser and average together. ``correct`` says which of the ``examples`` test examples the
    trained network classifies correctly, one bit each: see :func:`pack_bits`.
    """

    status: str
    reason: str | None
    steps: int
    epochs: int
    metrics: dict[str, Any] | None
    best: dict[str, Any] | None
    weights_sha256: str
    state_sha256: str
    metrics_sha256: str
    config_sha256: str
    data_sha256: str
    config: dict[str, Any]
    environment: dict[str, Any]
    seconds: float
    starts: int  # how many processes it took, one if it was never interrupted
    # Changes of the environment that were allowed on the way.
    inexact: list[str] = field(default_factory=list)
    correct: str | None = None  # None if labels are not classes, or nothing was evaluated
    examples: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``result.json``."""
        return {"format": FORMAT, **asdict(self)}


def pack_bits(bits: Tensor) -> str:
    """Return booleans (n,) as text: eight to a byte, the first one highest, in base64."""
    return base64.b64encode(numpy.packbits(bits.numpy()).tobytes()).decode("ascii")


def write_result(folder: Path, result: Result) -> None:
    """Write ``result.json``, which ends the run."""
    write_json(folder / FILE, result.to_dict())


def read_result(folder: Path) -> Result | None:
    """Return the result in the folder of a run; None if the run has not ended.

    Raises:
        DamagedFileError: if the file was changed.
    """
    content = find_json(folder / FILE)
    if content is None:
        return None
    try:
        if content.pop("format") != FORMAT:
            raise ValueError("its format is that of another version")
        return Result(**content)
    except (AttributeError, KeyError, TypeError, ValueError) as problem:
        raise DamagedFileError(
            f"{folder / FILE} is not a result of this version",
            got=str(problem),
            fix="delete it, and run again",
        ) from problem
