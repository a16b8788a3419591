"""A study made up from random numbers, in the form and the folder layout that real ones have."""

import base64
import hashlib
import math
import random
from pathlib import Path
from typing import Any

import numpy as np

UNITS = ("relu", "leaky_relu", "swish", "beta_vq abs", "crelu", "psc", "iieu_b", "soft_relu")
BACKBONES = ("conv 16-32-32", "mlp 128-128")
EFFECTS = {  # points on each backbone
    "relu": (0.0, 0.0),
    "leaky_relu": (-0.05, 0.0),
    "swish": (1.1, 0.6),
    "beta_vq abs": (-0.4, -1.9),
    "crelu": (-3.6, -2.2),
    "psc": (2.5, 2.2),
    "iieu_b": (-1.9, 1.1),
    "soft_relu": (0.5, 0.5),
}
TIMES = {
    "relu": 1.0,
    "leaky_relu": 1.03,
    "swish": 1.2,
    "beta_vq abs": 1.6,
    "crelu": 0.9,
    "psc": 1.5,
    "iieu_b": 1.9,
    "soft_relu": 1.25,
}
TITLE = "Eight units on handwritten digits: who differs from ReLU?"
TESTED = 1497  # examples in the test set
EPOCHS = (15, 30, 45, 60)
ENVIRONMENT = {
    "gatewise": "0.1.0",
    "torch": "2.13.0",
    "python": "3.11.7",
    "system": "Linux x86_64",
    "threads": 1,
    "cpu_capability": "AVX2",
    "processes": 1,
}


def made_study(
    seeds: int = 10, *, seed: int = 0, units: tuple[str, ...] = UNITS, troubles: bool = True
) -> dict[str, Any]:
    """The plain result of a study.

    With ``troubles`` one run diverged, one failed and one has not been run.
    """
    chance = random.Random(seed)  # noqa: S311
    cells, records = [], []
    for number in range(seeds):
        luck = {backbone: chance.gauss(0, 0.8) for backbone in BACKBONES}
        for backbone in BACKBONES:
            for unit in units:
                cells.append(cell(unit, backbone, number))
                records.append(record(cells[-1], luck[backbone], chance))
    if troubles:
        records[3] |= {
            "status": "diverged",
            "reason": "the loss was not finite at step 12",
            "metrics": None,
        }
        records[5] |= {
            "status": "failed",
            "reason": "worker lost three times",
            "metrics": None,
            "curve": [],
            "seconds": None,
        }
        del records[-1]
    return {
        "format": 1,
        "gatewise": "0.1.0",
        "baseline": units[0],
        "metric": "test_accuracy",
        "tuned": [],
        "title": TITLE,
        "name": "demo",
        "study": study(seeds, units),
        "cells": cells,
        "records": records,
    }


GRID = (0.001, 0.00316, 0.01, 0.0316, 0.1)
# Of the tuned study: the best rate's place in the grid, accuracy there, the place that was chosen.
PEAKS = {
    "relu": (2, 93.0, 3),  # chosen wrongly: 0.5 points lower than at its best rate
    "leaky_relu": (2, 92.5, 2),
    "swish": (3, 94.6, 3),
    "crelu": (2, 93.1, 2),  # better than relu at the rate that was chosen for relu, not at others
    "psc": (1, 90.0, 1),
}
NEIGHBOURS = {"relu": (2, 4), "psc": (0, 2)}


def made_tuned_study(seeds: int = 10, *, seed: int = 0) -> dict[str, Any]:
    """The plain result of a tuned study: final runs, some neighbours, and the tuning account."""
    chance = random.Random(seed)  # noqa: S311
    images = [chance.gauss(0, 1) for _ in range(TESTED)]
    cells, records, groups = [], [], []
    backbone = BACKBONES[0]
    for number in range(seeds):
        luck = chance.gauss(0, 0.15)
        for unit, (_, _, chosen) in PEAKS.items():
            for place in (chosen, *NEIGHBOURS.get(unit, ())):
                rate, role = GRID[place], "final" if place == chosen else "neighbour"
                planned = cell(unit, backbone, number) | {"lr": rate, "role": role}
                planned["key"] = f"{planned['key'][:12]}{place:04d}"
                planned["config"]["recipe"]["optimiser"]["lr"] = rate
                cells.append(planned)
                accuracy = mean_at(unit, place) + luck + chance.gauss(0, 0.15)
                records.append(rate_record(planned, accuracy, images, chance))
    for unit, (_, _, chosen) in PEAKS.items():
        tried = []
        for place, rate in enumerate(GRID):
            runs = 5 if abs(place - chosen) < 2 else 1
            tried.append(trial(rate, mean_at(unit, place) / 100 - 0.01, runs))
        where = {"backbone": backbone, "data": "digits", "recipe": "adamw 60"}
        groups.append(
            {"unit": unit, **where, "lr": GRID[chosen], "tried": tried, "at_the_edge": False}
        )
    result = made_study(1, units=tuple(PEAKS), troubles=False)
    tuning = {"mode": "quick", "why": "", "grid": list(GRID), "widened": 0, "groups": groups}
    changes = {"cells": cells, "records": records, "tuning": tuning, "mode": "max"}
    return {key: value for key, value in result.items() if key != "tuned"} | changes


def mean_at(unit: str, place: int) -> float:
    """The accuracy in per cent: two points lower for each decade squared from the best rate."""
    peak, best, _ = PEAKS[unit]
    return best - 2 * ((place - peak) / 2) ** 2


def trial(rate: float, mean: float, runs: int) -> dict[str, Any]:
    scores = {str(1000 + number): mean for number in range(runs)}
    return {"lr": rate, "runs": runs, "mean": mean, "scores": scores}


def rate_record(
    planned: dict[str, Any], accuracy: float, images: list[float], chance: random.Random
) -> dict[str, Any]:
    """The record of a run that reached about ``accuracy``, with right or wrong by image."""
    right = round(accuracy / 100 * TESTED)
    hard = [value + chance.gauss(0, 0.5) for value in images]
    limit = sorted(hard)[right - 1]
    bits = [value <= limit for value in hard]
    made = record(planned | {"unit": "relu"}, 0.0, chance)
    share = sum(bits) / TESTED
    made["metrics"] = {"test_accuracy": share, "test_loss": 3 * (1 - share)}
    packed = base64.b64encode(np.packbits(bits).tobytes()).decode()
    return made | {
        "unit": planned["unit"],
        "lr": planned["lr"],
        "role": planned["role"],
        "correct": packed,
        "examples": TESTED,
    }


def study(seeds: int, units: tuple[str, ...]) -> dict[str, Any]:
    return {
        "title": TITLE,
        "name": "demo",
        "units": [{"name": unit.split()[0], "label": unit} for unit in units],
        "baseline": units[0],
        "seeds": list(range(seeds)),
        "match": "parameters",
        "match_within": 0.02,
        "evaluate_every": 15,
        "backbones": [{"name": name, "model": name.split()[0]} for name in BACKBONES],
        "data": [{"name": "digits", "label": "digits", "options": {"train": 300}}],
        "recipe": {"epochs": 60, "batch": 100},
    }


def cell(unit: str, backbone: str, seed: int) -> dict[str, Any]:
    widths = {"psc": [11, 22, 22], "crelu": [12, 24, 22]}.get(unit, [16, 32, 32])
    config = {
        "model": backbone.split()[0],
        "unit": unit.split()[0],
        "model_options": {"widths": widths},
        "data": "digits",
        "data_options": {"train": 300},
        "seed": seed,
        "recipe": {
            "epochs": 60,
            "batch": 100,
            "optimiser": {"name": "adamw", "lr": 0.003},
            "augment": {"shift": 1},
        },
    }
    key = hashlib.sha256(repr((unit, backbone, seed)).encode()).hexdigest()[:16]
    place = {"unit": unit, "backbone": backbone, "data": "digits", "recipe": "adamw 60"}
    return {"key": key, **place, "seed": seed, "config": config}


def record(planned: dict[str, Any], luck: float, chance: random.Random) -> dict[str, Any]:
    unit, backbone = planned["unit"], planned["backbone"]
    which = BACKBONES.index(backbone)
    last = 94.5 - which + luck + EFFECTS.get(unit, (0, 0))[which] + chance.gauss(0, 0.35)
    curve = [entry(epoch, last, chance) for epoch in range(1, 61)]
    size = (14_570, 26_000)[which] * {"psc": 1.012, "crelu": 0.991}.get(unit, 1.0)
    return {
        "format": 1,
        **{key: planned[key] for key in ("key", "unit", "backbone", "data", "recipe", "seed")},
        "status": "finished",
        "reason": None,
        "metrics": curve[-1],
        "best": curve[-1],
        "curve": curve,
        "parameters": round(size),
        "flops": round(3.1e5 * (1 + which) * (1.3 if unit == "psc" else 1)),
        "saved_bytes": 40_960 * (2 if unit == "crelu" else 1),
        "seconds": round((0.9 - 0.5 * which) * TIMES.get(unit, 1.0) * chance.uniform(0.97, 1.1), 4),
        "process_seconds": 0.8,
        "environment": dict(ENVIRONMENT),
        "weights_sha256": "0" * 64,
    }


def entry(epoch: int, last: float, chance: random.Random) -> dict[str, Any]:
    found = {"epoch": epoch, "train_loss": 2.3 * math.exp(-epoch / 14) + chance.uniform(0.01, 0.03)}
    if epoch in EPOCHS:
        share = (last - 30 * math.exp(-epoch / 9)) / 100 + chance.gauss(0, 0.002) * (epoch < 60)
        share = (
            round(share * TESTED) / TESTED
        )  # so many of so many right: differences tie, as real ones do
        found |= {"test_loss": 3 * (1 - share), "test_accuracy": share}
    return found


def write_study(folder: Path, result: dict[str, Any]) -> Path:
    """The result as the files of a study."""
    from gatewise.files import write_json

    (folder / "cells").mkdir(parents=True)
    write_json(
        folder / "study.json", {key: value for key, value in result.items() if key != "records"}
    )
    for each in result["records"]:
        (folder / "cells" / each["key"]).mkdir()
        write_json(folder / "cells" / each["key"] / "cell.json", each)
    return folder
