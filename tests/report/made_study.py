"""Studies made up from random numbers, as the header and records that real ones have."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gatewise.studies import ComparisonResult, export_study

UNITS = ("relu", "relu_again", "silu", "elu", "gelu", "crelu", "psc", "tanh")
# The height of the top in percent, and its place in steps of the grid.
TOPS = {
    "relu": (95.0, 0.0),
    "relu_again": (95.0, 0.0),
    "silu": (97.2, 0.5),
    "elu": (96.9, 0.4),
    "gelu": (96.4, -0.3),
    "crelu": (95.7, 1.4),
    "psc": (95.2, 0.2),
    "tanh": (92.8, -0.5),
}
CENTER = 0.03
RATIO = 2.0
Study = tuple[dict[str, Any], list[dict[str, Any]]]


def made_header(
    seeds: int = 8,
    *,
    units: tuple[str, ...] = UNITS,
    models: tuple[str, ...] = ("conv",),
    rates: int = 5,
    **changes: Any,
) -> dict[str, Any]:
    """The header of a study of accuracies."""
    return {
        "format": "gatewise study",
        "numerics": 1,
        "name": "made up",
        "title": "Which units differ from relu?",
        "metric": {
            "name": "accuracy",
            "higher_is_better": True,
            "unit": "%",
            "scale": 100,
            "images": 10000,
        },
        "models": list(models),
        "baseline": units[0],
        "units": [
            {"name": unit, "label": unit, "parameters_ratio": 2.02 if unit == "psc" else 1.0}
            for unit in units
        ],
        "rates": {"center": CENTER, "ratio": RATIO, "count": rates},
        "seeds": seeds,
        "margin": None,
        "validation": False,
        "chance": 0.1,
        "settings": {"epochs": 8},
        **changes,
    }


def made_value(unit: str, model: int, step: int, seed: int) -> float:
    """The accuracy of a run: a parabola over the rate, and noise that seeds share in part."""
    place = list(TOPS).index(unit)
    alone = np.random.default_rng([model, place, step + 20, seed]).standard_normal()
    shared = np.random.default_rng([model, seed]).standard_normal()
    top, off = TOPS[unit]
    fall = -0.9 * (step / 2 - off) ** 2
    return round((top + fall + 0.3 * (0.55 * shared + 0.83 * alone)) / 100, 4)


def made_record(
    header: dict[str, Any],
    model: str,
    unit: str,
    step: int,
    seed: int,
    value_of: Callable[[str, int, int, int], float] = made_value,
) -> dict[str, Any]:
    value = value_of(unit, header["models"].index(model), step, seed)
    return {
        "model": model,
        "unit": unit,
        "step": step,
        "rate": CENTER * RATIO ** (step / 2),
        "seed": seed,
        "status": "done",
        "value": value,
        "validation": None,
        "metrics": {"accuracy": value, "loss": 0.1},
        "epochs": 8,
        "seconds": 1.5,
        "processor_seconds": 1.6,
        "parameters": 20200 if unit == "psc" else 10000,
        "machine": {"device": "cpu"},
    }


def made_study(
    seeds: int = 8,
    *,
    rounds: int = 99,
    value_of: Callable[[str, int, int, int], float] = made_value,
    **options: Any,
) -> Study:
    """The header and records of a study, run until the rule asks for no more.

    ``rounds`` stops it before: after so many answers to what is asked for.
    """
    header = made_header(seeds, **options)
    records: list[dict[str, Any]] = []
    for _ in range(rounds):
        result = ComparisonResult(header, records)
        asked = [(model, *place) for model in header["models"] for place in result.missing(model)]
        if not asked:
            break
        records += [made_record(header, *place, value_of) for place in asked]
    return header, records


def made_result(seeds: int = 8, **options: Any) -> ComparisonResult:
    return ComparisonResult(*made_study(seeds, **options))


def write_study(folder: Path, study: Study) -> Path:
    """Write a study as a folder with its export."""
    folder.mkdir(parents=True, exist_ok=True)
    keyed = {f"key {place}": record for place, record in enumerate(study[1])}
    export_study(folder / "study.jsonl", study[0], keyed)
    return folder
