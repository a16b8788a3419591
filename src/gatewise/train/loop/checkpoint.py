"""Checkpoints: everything a run needs to resume, in one file.

Note [What a checkpoint holds]

Tensors: weights and buffers, the optimiser's state, the moving average. As JSON in the file's
metadata: step, epoch, cursor (batches of the epoch that are done), sums of the epoch so far, length
of the metrics file, seconds of work, digests of configuration and data, environment, the scale of
the loss with float16. It is one file, so that no part can be older than another. There is no state
of a random generator; see Note [No position to restore]. There is no state of a schedule: it is a
function of the step. A new checkpoint replaces the old one in one step, so that a run that is
killed at any moment resumes from one of the two.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from gatewise.errors import DamagedFileError
from gatewise.files import digest, read_tensors, remove_file, write_tensors

FORMAT = 2
SCALER = ("scale", "_growth_tracker")  # what changes in the state of a loss scaler
CHECKPOINT = "checkpoint.safetensors"


@dataclass
class Progress:
    """The position of a run. ``cursor`` batches of ``epoch`` are done; the sums cover these."""

    step: int = 0
    epoch: int = 0
    cursor: int = 0
    seen: int = 0
    loss_sum: float = 0.0
    right: int = 0
    metrics_size: int = 0
    seconds: float = 0.0
    starts: int = 0  # processes that worked on the run
    reached: bool = False  # whether the rule that ends a run early was met
    best: float | None = None  # value of the metric that patience goes by
    best_epoch: int = 0
    inexact: list[str] = field(default_factory=list)  # changes of the environment that were allowed


@dataclass
class Saved:
    """A checkpoint: position, conditions and tensors of a run."""

    progress: Progress
    identity: dict[str, str]  # digests of what must be the same for the run to resume
    environment: dict[str, Any]
    scalars: dict[str, Any] = field(default_factory=dict)  # non-tensors of the optimiser's state
    tensors: dict[str, Tensor] = field(default_factory=dict)


class Checkpoints:
    """The checkpoint in the folder of a run.

    Args:
        folder: of the run.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / CHECKPOINT

    def save(self, saved: Saved) -> None:
        """Replace the checkpoint. When this returns, the new one is on the disk."""
        state = {
            "progress": asdict(saved.progress),
            "identity": saved.identity,
            "environment": saved.environment,
            "scalars": saved.scalars,
            "format": FORMAT,
        }
        metadata = {"run": json.dumps(state, allow_nan=False)}
        write_tensors(self.path, saved.tensors, metadata=metadata)

    def load(self) -> Saved | None:
        """Return the checkpoint; None if none was written.

        Raises:
            DamagedFileError: if it is not a checkpoint of this version.
        """
        if not self.path.exists():
            return None
        tensors, metadata = read_tensors(self.path)
        try:
            state = json.loads(metadata["run"])
            if state.pop("format") != FORMAT:
                raise ValueError("its format is that of another version")
            return Saved(**state | {"progress": Progress(**state["progress"]), "tensors": tensors})
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as problem:
            raise DamagedFileError(
                f"{self.path} is not a checkpoint of this version",
                got=str(problem),
                fix="delete it, and run again",
            ) from problem

    def remove(self) -> None:
        """Delete the checkpoint."""
        remove_file(self.path)


def named_state(
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    average: AveragedModel | None,
    best: Mapping[str, Tensor] | None = None,
    scaler: torch.amp.GradScaler | None = None,
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return everything that training changes: tensors by name, and numbers by name.

    Args:
        model: the network.
        optimiser: of its weights.
        average: of its weights, if there is one.
        best: the weights of the best epoch, if they are kept.
        scaler: of the loss, if it is scaled.
    """
    tensors = {f"model/{name}": tensor for name, tensor in model.state_dict().items()}
    if average is not None:
        tensors |= {f"average/{name}": tensor for name, tensor in average.state_dict().items()}
    tensors |= {f"best/{name}": tensor for name, tensor in (best or {}).items()}
    scalars: dict[str, Any] = {}
    if scaler is not None and scaler.is_enabled():
        state = scaler.state_dict()
        scalars |= {f"scaler/{name}": state[name] for name in SCALER}
    for index, state in optimiser.state_dict()["state"].items():
        for key, value in state.items():
            where = tensors if isinstance(value, Tensor) else scalars
            where[f"optimiser/{index}/{key}"] = value
    return tensors, scalars


def restore_state(
    saved: Saved,
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    average: AveragedModel | None,
    scaler: torch.amp.GradScaler | None = None,
) -> dict[str, Tensor] | None:
    """Restore everything from a checkpoint.

    Args:
        saved: the checkpoint.
        model: restored in place.
        optimiser: restored in place.
        average: restored in place, if there is one.
        scaler: restored in place, if there is one.

    Returns:
        The weights of the best epoch, if they were kept.

    Raises:
        DamagedFileError: if the checkpoint is of another network.
    """
    try:
        model.load_state_dict(part(saved.tensors, "model"))
        if average is not None:
            average.load_state_dict(part(saved.tensors, "average"))
        state: dict[int, dict[str, Any]] = {}
        for place, value in part({**saved.tensors, **saved.scalars}, "optimiser").items():
            index, key = place.split("/", 1)
            state.setdefault(int(index), {})[key] = value
        _match_layout(state, optimiser)
        optimiser.load_state_dict(
            {"state": state, "param_groups": optimiser.state_dict()["param_groups"]}
        )
        if scaler is not None and scaler.is_enabled():
            scaler.load_state_dict(scaler.state_dict() | part(saved.scalars, "scaler"))
    except (RuntimeError, LookupError, ValueError) as problem:
        raise DamagedFileError(
            "the checkpoint is not one of this network",
            got=str(problem),
            fix="choose another folder for this run",
        ) from problem
    return part(saved.tensors, "best") or None


def _match_layout(state: dict[int, dict[str, Any]], optimiser: torch.optim.Optimizer) -> None:
    """Give state of a parameter's shape the layout of the parameter, as fused kernels expect."""
    parameters = [p for group in optimiser.param_groups for p in group["params"]]
    for index, values in state.items():
        parameter = parameters[index]
        for key, value in values.items():
            if isinstance(value, Tensor) and value.shape == parameter.shape and value.dim() > 1:
                values[key] = torch.empty_like(parameter, dtype=value.dtype).copy_(value)


def part(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the values whose names begin with ``name/``, without that prefix."""
    prefix = f"{name}/"
    return {k.removeprefix(prefix): v for k, v in values.items() if k.startswith(prefix)}


def tensors_digest(tensors: Mapping[str, Tensor]) -> str:
    """Return a sha256 over names, types, shapes and numbers."""
    words = []
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        raw = tensor.reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
        words.append(f"{name} {tensor.dtype} {tuple(tensor.shape)} {digest(raw)}")
    return digest("\n".join(words).encode())
