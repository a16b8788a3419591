"""Repeat a study on other seeds, and say whether its verdicts repeat.

    python tools/repeat_study.py run demo --out runs/demo --records results/demo_sets.jsonl
    python tools/repeat_study.py show results/demo_sets.jsonl

Every set is a study of its own with the next seeds. One file keeps the runs of all sets, sorted.
It is written after every set and every few minutes. If interrupted, rerun the same command to
resume; in a new clone the runs in that file are taken as done.
"""

import argparse
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gatewise.studies import (
    KEY,
    ComparisonResult,
    Progress,
    Running,
    export_study,
    import_study,
    read_comparison,
    run_comparison,
)

WRITE_SECONDS = 300
CONTROL = "other seeds"  # in the label of a unit that is the baseline on another stream of seeds


def split_sets(path: Path) -> tuple[dict[str, Any], dict[int, dict[str, dict[str, Any]]]]:
    """Return the header of one set, and the records by set and key."""
    header, records = import_study(path)
    sets: dict[int, dict[str, dict[str, Any]]] = {}
    for key, record in records.items():
        sets.setdefault(record["seed"] // header["seeds"], {})[key] = record
    return header, sets


def read_sets(path: Path) -> dict[int, ComparisonResult]:
    """Return the study of every set that has ended."""
    header, sets = split_sets(path)
    results = {}
    for number, records in sorted(sets.items()):
        keyed = [{KEY: key, **record} for key, record in records.items()]
        result = ComparisonResult({**header, "first_seed": number * header["seeds"]}, keyed)
        if not result.is_preliminary:
            results[number] = result
    return results


def count_verdicts(results: Mapping[int, ComparisonResult]) -> list[dict[str, Any]]:
    """Return for every network and unit in how many sets it is better, worse or neither."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for result in results.values():
        factor = result.display.factor
        for model, answer in result.answers.items():
            for row in answer.units:
                place = (model, row.unit)
                counts = rows.setdefault(
                    place, {"better": 0, "worse": 0, "neither": 0, "differences": []}
                )
                counts[row.verdict if row.is_decided else "neither"] += 1
                counts["differences"].append(factor * row.difference)
    return [{"model": model, "unit": unit, **counts} for (model, unit), counts in rows.items()]


def contradictions(rows: list[dict[str, Any]]) -> list[str]:
    """Return in words what the sets disagree on: nothing, if the study can be trusted."""
    words = []
    for row in rows:
        name = f"{row['model']}, {row['unit']}"
        if row["better"] and row["worse"]:
            words.append(f"{name}: better in {row['better']} sets, worse in {row['worse']}")
    controls = [row for row in rows if CONTROL in row["unit"]]
    for row in controls:
        if row["better"] + row["worse"] > 1:
            words.append(f"{row['model']}, {row['unit']}: decided in more than one set")
    return words


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Return the counts as a table of Markdown."""
    lines = [
        "| network | unit | better | worse | neither | difference, lowest to highest |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        low, high = min(row["differences"]), max(row["differences"])
        lines.append(
            f"| {row['model']} | {row['unit']} | {row['better']} | {row['worse']} | "
            f"{row['neither']} | {low:+.2f} to {high:+.2f} |"
        )
    return lines


class Keeper:
    """Writes the runs of all sets to one file.

    Args:
        path: the file.
        folder: has a folder for each set.
    """

    def __init__(self, path: Path, folder: Path) -> None:
        self.path = path
        self.folder = folder
        self.last = time.monotonic()

    def restore(self) -> None:
        """Give every set that has no folder its runs from the file."""
        if not self.path.exists():
            return
        header, sets = split_sets(self.path)
        for number, records in sets.items():
            place = self.place(number)
            if not place.exists():
                place.mkdir(parents=True)
                first = number * header["seeds"]
                export_study(place / "study.jsonl", {**header, "first_seed": first}, records)

    def place(self, number: int) -> Path:
        """Return the folder of a set."""
        return self.folder / f"set-{number:02d}"

    def write(self) -> None:
        """Join the runs of all sets."""
        joined: dict[str, dict[str, Any]] = {}
        header: dict[str, Any] = {}
        for part in sorted(self.folder.glob("set-*/study.jsonl")):
            header, records = import_study(part)
            joined |= records
        self.path.parent.mkdir(parents=True, exist_ok=True)
        export_study(self.path, {**header, "first_seed": 0}, joined)
        self.last = time.monotonic()

    def __call__(self, event: Progress) -> None:
        if event.record is not None and time.monotonic() - self.last > WRITE_SECONDS:
            self.write()


def run_sets(options: argparse.Namespace) -> int:
    """Run the sets that have not ended, one after another."""
    keeper = Keeper(options.records, options.out)
    keeper.restore()
    study = read_comparison(options.study, recipe_changes=options.set, device="cpu")
    if options.seeds:
        study = replace(study, seeds=options.seeds)
    for number in range(options.sets):
        print(f"set {number + 1} of {options.sets}", file=sys.stderr, flush=True)
        part = replace(study, first_seed=number * study.seeds)
        result = run_comparison(
            part,
            keeper.place(number),
            Running(workers=options.workers),
            say=lambda line: print(line, file=sys.stderr, flush=True),
            watch=keeper,
        )
        keeper.write()
        if result is None:
            return 130
    return show_sets(options)


def show_sets(options: argparse.Namespace) -> int:
    """Print what the sets agree on; the exit code is 1 if they contradict each other."""
    results = read_sets(options.records)
    rows = count_verdicts(results)
    problems = contradictions(rows)
    print(f"{len(results)} sets of seeds have ended")
    print("\n".join([*table(rows), "", *(problems or ["no contradiction"])]))
    return 1 if problems else 0


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Repeat a study on other seeds.")
    commands = parser.add_subparsers(dest="command", required=True)
    runner = commands.add_parser("run", help="run the sets")
    runner.add_argument("study", help="a preset or FILE.toml")
    runner.add_argument("--sets", type=int, default=20)
    runner.add_argument("--seeds", type=int, default=0, help="of each set, if not the study's")
    runner.add_argument("--set", action="append", default=[], help="KEY=VALUE of the recipe")
    runner.add_argument("--out", type=Path, required=True, help="a working folder")
    runner.add_argument("--records", type=Path, required=True, help="the file that is kept")
    runner.add_argument("--workers", type=int, default=1)
    shower = commands.add_parser("show", help="count the verdicts")
    shower.add_argument("records", type=Path)
    options = parser.parse_args()
    return run_sets(options) if options.command == "run" else show_sets(options)


if __name__ == "__main__":
    sys.exit(main())
