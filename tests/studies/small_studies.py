"""Studies of cells that take a fraction of a second."""

import copy

from gatewise.studies.older import Study

TABLE = {
    "title": "small",
    "units": ["relu", "leaky_relu", "crelu"],
    "seeds": 2,
    "backbones": [
        {"name": "conv", "model": "small_cnn", "options": {"widths": [4, 4]}},
        {"name": "mlp", "model": "mlp", "options": {"widths": [8, 8]}},
    ],
    "data": [{"name": "digits", "options": {"train": 60, "shift_test": 1}}],
    "recipe": {
        "epochs": 2,
        "batch": 20,
        "optimiser": {"name": "adamw", "lr": 3e-3},
        "augment": {"shift": 1},
    },
    "evaluate_every": 2,
    "tune": False,
}
TIMES = (
    "seconds",
    "process_seconds",
    "starts",
)  # of a record: all else is the same whenever it is run


def small_table(**changes: object) -> dict:
    return copy.deepcopy(TABLE) | changes


def small_study(**changes: object) -> Study:
    return Study.of(small_table(**changes), name="small")


def battered_study(seeds: int, epochs: int, tune: str = "none") -> Study:
    """Four cells a seed, which take as long as their epochs say.

    A study must last for the kills that it is to bear.
    """
    return small_study(
        units=["relu", "crelu"],
        seeds=seeds,
        recipe=TABLE["recipe"] | {"epochs": epochs},
        tune=tune,
    )


def without_times(records) -> dict[str, dict]:
    return {
        r["key"]: {name: value for name, value in r.items() if name not in TIMES} for r in records
    }
