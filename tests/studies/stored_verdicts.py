"""Stores the results of the demo with its own epochs and with twice as many, for a test.

``python tests/studies/stored_verdicts.py STUDY DOUBLED`` reads two finished study folders, the
second one of :func:`doubled`, and writes ``demo_epochs.json`` next to this file. To make the second
study: ``python tests/studies/stored_verdicts.py run FOLDER``.
"""

import json
import sys
from pathlib import Path

from gatewise.stats import compare_tuned_runs
from gatewise.studies.older import Study, StudyResult, read_study, run_study

FILE = Path(__file__).with_name("demo_epochs.json")


def doubled() -> Study:
    """The demo with twice the epochs."""
    plain = Study.load("demo").plain
    plain["name"] = "double"
    plain["recipe"]["epochs"] *= 2
    for backbone in plain["backbones"]:
        if "recipe" in backbone:
            backbone["recipe"]["epochs"] *= 2
    return Study.of(plain)


def stored(result: StudyResult) -> list[dict]:
    """The final values of every block, by unit, learning rate and seed."""
    blocks = []
    for block in result.blocks:
        [recipe] = {run.config["recipe"]["epochs"] for run in result.runs if run.block == block}
        by_rate = result.rate_values(block)
        values = {
            unit: {
                f"{lr:g}": {str(seed): v for seed, v in by_seed.items()}
                for lr, by_seed in rates.items()
            }
            for unit, rates in by_rate.items()
        }
        [grid] = [
            table["rates"]
            for table in result.tuning["grids"]
            if (table["backbone"], table["data"], table["recipe"]) == block
        ]
        blocks.append(
            {
                "backbone": block[0],
                "epochs": recipe,
                "chosen": result.chosen_rates(block),
                "rates": grid,
                "resolution": result.resolution(block),
                "values": values,
            }
        )
    return blocks


def verdicts(block: dict) -> dict[str, str]:
    """The verdict on every unit of a stored block."""
    values = {
        unit: {
            float(lr): {int(seed): float("nan") if v is None else v for seed, v in by_seed.items()}
            for lr, by_seed in rates.items()
        }
        for unit, rates in block["values"].items()
    }
    compared = compare_tuned_runs(
        values,
        block["chosen"],
        "relu",
        grid=block["rates"],
        resolution=block["resolution"],
    )
    return {difference.name: difference.verdict for difference in compared.differences}


if __name__ == "__main__":
    if sys.argv[1] == "run":
        run_study(doubled(), sys.argv[2])
    else:
        once, twice = (stored(read_study(folder)) for folder in sys.argv[1:3])
        text = json.dumps({"once": once, "twice": twice}, indent=None, separators=(",", ":"))
        FILE.write_text(text.replace("NaN", "null") + "\n")
