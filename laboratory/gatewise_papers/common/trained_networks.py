"""What the record of one experiment keeps of its trained networks, for another one to read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gatewise.errors import ArgumentError
from gatewise.files import read_json
from gatewise.studies import plain
from gatewise_papers.common.writing import RESULT


@dataclass(frozen=True)
class TrainedNetworks:
    """What a record keeps of trained networks.

    Attributes:
        values: measurements by the name of the network.
        notes: where they come from, and the notes of their training.
        data: digests of the data that they were trained on, by name.
    """

    values: Mapping[str, Any]
    notes: tuple[str, ...]
    data: Mapping[str, str]


NO_NETWORKS = TrainedNetworks({}, (), {})


def read_networks(
    out: str | Path,
    experiment: str,
    scale: str,
    seeds: Sequence[int],
    trained_with: Mapping[str, Any],
) -> TrainedNetworks:
    """Return what the record of another experiment keeps of its trained networks.

    Args:
        out: the folder of all experiments.
        experiment: its name.
        scale: of the record.
        seeds: that it must have.
        trained_with: settings that it must have, by name.

    Raises:
        ArgumentError: if there is no such record, or if it has fewer seeds, another scale or other
            settings.
    """
    path = Path(out, experiment, RESULT)
    record = read_json(path) if path.exists() else None
    if record is None:
        found = "no such file"
    elif record["scale"] != scale:
        found = f"scale {record['scale']}"
    elif not set(seeds) <= set(record["seeds"]):
        found = f"seeds {record['seeds']}"
    elif not record["findings"].get("networks"):
        found = "a record that keeps nothing of its networks"
    else:
        found = _other_training(record["settings"], trained_with)
    if record is None or found:
        is_other_scale = record is not None and record["scale"] != scale
        folder = f"{out}_{scale}" if is_other_scale else str(out)
        raise ArgumentError(
            f"this experiment reads the networks of {experiment}, which must be run first",
            got=f"{path}: {found}",
            allowed=f"a record of the scale {scale} with the seeds {list(seeds)}",
            fix=f"gatewise reproduce {experiment} --scale {scale} --seeds {len(seeds)} "
            f"--out {folder}",
        )
    return TrainedNetworks(
        values=record["findings"]["networks"],
        notes=(
            f"The networks are those of {experiment} ({record['date']}; "
            f"{record['reduced'] or 'as in the paper'}), which were not trained again.",
            *record["findings"]["notes"],
        ),
        data=record["data_sha256"],
    )


def _other_training(settings: Mapping[str, Any], expected: Mapping[str, Any]) -> str:
    """Return the settings that are not as expected; empty if all are."""
    other = []
    for name, value in plain(dict(expected)).items():
        if settings.get(name) != value:
            other.append(f"{name} {settings.get(name)} in place of {value}")
    return ", ".join(other)
