"""What was the same for all units of a comparison, and what was not, found in the configurations and the records."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from gatewise.report.charts import Cell, Words
from gatewise.report.comparison_answer import COST_WORDS
from gatewise.report.comparison_tables import unequal_environment
from gatewise.report.findings import COSTS, Block, Findings
from gatewise.report.words import number

ALIKE = 0.02  # costs within this of the baseline's are called equal
OF_THE_UNIT = ("unit", "model_options", "seed")  # what differs by design, and is said apart


def fairness(found: Findings) -> list[Words]:
    """What was equal, and each thing that was not with its numbers."""
    lines: list[Words] = [[Cell("Equal: ", look="name"), f"{_equal(found)}."]]
    for block in found.blocks:
        lines += _unequal_costs(found, block)
    lines += _widths(found)
    lines += [
        [Cell("Not equal: ", look="name"), f"{key} of the configuration, for {units}."]
        for key, units in _unequal_keys(found)
    ]
    if changed := list(unequal_environment(found)):
        lines.append(
            [Cell("Not equal: ", look="name"), f"{', '.join(changed)} of the machines; see the environment below."]
        )
    return lines


def _equal(found: Findings) -> str:
    different = {key for key, _ in _unequal_keys(found)}
    words = {"data": "data", "recipe.epochs": "epochs", "recipe.batch": "batches and their order", "recipe.augment": "augmentation",
             "recipe.optimiser": "optimiser", "recipe.optimiser.lr": "learning rate (one for all, not tuned for each)"}  # fmt: skip
    same = [
        text for key, text in words.items() if not any(each == key or each.startswith(f"{key}.") for each in different)
    ]
    return ", ".join([*same, "initial values of the weights that units share (by seed)"])


def _unequal_costs(found: Findings, block: Block) -> Iterator[Words]:
    for what in COSTS:
        ratios = {unit: block.ratio(unit, what) for unit in block.runs if unit != found.baseline}
        known = {unit: ratio for unit, ratio in ratios.items() if math.isfinite(ratio)}
        off = {unit: ratio for unit, ratio in known.items() if abs(ratio - 1) > ALIKE}
        head = f"{COST_WORDS[what]} on {block.name}: "
        if not known:
            yield [Cell(head.capitalize() if what == "seconds" else head, look="name"), "not known."]
        elif off:
            listed = ", ".join(
                f"{unit} {number(ratio)}×" for unit, ratio in sorted(off.items(), key=lambda pair: -pair[1])
            )
            rest = " The others are within 2 %." if len(off) < len(known) else ""
            yield [Cell(f"{head[0].upper()}{head[1:]}", look="name"), f"{listed}.{rest}"]
        else:
            yield [Cell(f"{head[0].upper()}{head[1:]}", look="name"), "all within 2 %."]


def _widths(found: Findings) -> Iterator[Words]:
    """Options of the network that are not the baseline's: widths, where costs were matched."""
    for block in found.blocks:
        base = _config(block, found.baseline).get("model_options") or {}
        changed = []
        for unit in block.runs:
            ours = _config(block, unit).get("model_options") or {}
            parts = [f"{key} {_short(value)}" for key, value in ours.items() if base.get(key) != value]
            changed += [f"{unit} {' '.join(parts)}"] if parts and unit != found.baseline else []
        if changed:
            where = ", ".join(f"{key} {_short(value)}" for key, value in base.items())
            yield [
                Cell(f"Network on {block.name}: ", look="name"),
                f"{found.baseline} has {where}; {'; '.join(changed)}.",
            ]


def _unequal_keys(found: Findings) -> list[tuple[str, str]]:
    """Keys of the configurations, apart from the unit's own, that are not the baseline's in some block."""
    keys: dict[str, list[str]] = {}
    for block in found.blocks:
        base = flat(_config(block, found.baseline))
        for unit in block.runs:
            ours = flat(_config(block, unit))
            for key in sorted(base.keys() | ours.keys()):
                if key.split(".")[0] not in OF_THE_UNIT and base.get(key) != ours.get(key):
                    keys.setdefault(key, []).append(f"{unit} ({_short(ours.get(key))})")
    return [(key, ", ".join(dict.fromkeys(units))) for key, units in keys.items()]


def flat(config: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Nested tables as one, keys joined by points."""
    found: dict[str, Any] = {}
    for key, value in config.items():
        name = f"{before}{key}"
        found |= flat(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return found


def _config(block: Block, unit: str) -> Mapping[str, Any]:
    return block.runs[unit][0].config if block.runs[unit] else {}


def _short(value: Any) -> str:
    text = "-".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."
