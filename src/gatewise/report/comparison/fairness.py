"""What was the same for all units of a comparison and what was not, from the configurations."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from gatewise.report.charts import Cell, Words
from gatewise.report.comparison.findings import COSTS, Block, Findings
from gatewise.report.comparison.limits import MOST_BLOCKS
from gatewise.report.comparison.runs import environments
from gatewise.studies import COST_WORDS, unpaired_batches
from gatewise.words import joined

ALIKE = 0.02  # costs within this fraction of the baseline's count as equal
IDENTITY = ("model_sha256", "plan_sha256", "drawn")  # hashes that tell a reader nothing
OF_THE_UNIT = ("unit", "model_options", "seed")  # keys that differ by design
# What counts as equal if no key of the configuration at or below the given one differs.
EQUAL_WORDS = {
    "data": "data",
    "data_options": "choice of examples",
    "recipe.epochs": "epochs",
    "recipe.batch": "batches and their order",
    "recipe.augment": "augmentation",
    "recipe.optimiser.name": "optimiser",
    "recipe.optimiser.lr": "learning rate",
}
OF_BATCHES = ("recipe.batch", "recipe.augment")  # not equal if batches are not paired
MOST_NAMES = 24  # units that a line names
UNKNOWN = "not known: the runs were recorded from other training loops"
FROM_TABLE = "not known: the runs were made elsewhere, and a table has only their results"


def fairness_lines(findings: Findings) -> list[Words]:
    """Return what was equal, and everything that was not with its numbers."""
    if findings.origin == "table":
        return [_named("Equal", FROM_TABLE)]
    different = unequal_keys(findings)
    unpaired = unpaired_batches(findings.result)
    equal = UNKNOWN if findings.origin == "recorder" else _equal(different, bool(unpaired))
    lines = [_named("Equal", equal)]
    if unpaired:
        lines.append(_named("Not equal, batches", unpaired))
    for key, units in different.items():
        lines.append(_named(f"Not equal, {key}", units))
    for cost in COSTS:
        name = COST_WORDS[cost]
        lines.append(
            _named(name.capitalize() if cost == "seconds" else name, _costs(findings, cost))
        )
    for name, words in _networks(findings):
        lines.append(_named(f"Network on {name}", words))
    changed = [name for name, values in environments(findings).items() if len(values) > 1]
    if changed:
        lines.append(_named("Not equal, machines", f"{', '.join(changed)} (see the environment)"))
    return lines


def _named(name: str, words: str) -> Words:
    """A line that begins with a name in bold."""
    return [Cell(f"{name[0].upper()}{name[1:]}: ", look="name"), f"{words}."]


def _equal(different: Mapping[str, str], unpaired: bool) -> str:
    """The parts of the configuration in which no key differs, as far as batches were equal."""
    names = []
    for key, words in EQUAL_WORDS.items():
        if unpaired and key in OF_BATCHES:
            continue
        if not any(name == key or name.startswith(f"{key}.") for name in different):
            names.append(words)
    return ", ".join([*names, "initial values of shared weights"])


def _costs(findings: Findings, cost: str) -> str:
    """The ratios to the baseline that are not one, block by block if the blocks differ."""
    by_block = {}
    for block in findings.blocks[:MOST_BLOCKS]:
        by_block[block.name] = _unequal_costs(findings, block, cost)
    if len(set(by_block.values())) == 1:
        return next(iter(by_block.values()))
    return "; ".join(f"on {name} {words}" for name, words in by_block.items())


def _unequal_costs(findings: Findings, block: Block, cost: str) -> str:
    """The units of one block whose cost is not the baseline’s, the largest first."""
    known: dict[str, float] = {}
    for unit in block.runs:
        ratio = block.ratio(unit, cost)
        if unit != findings.baseline and math.isfinite(ratio):
            known[unit] = ratio
    if not known:
        return "not known"
    unequal = [unit for unit, ratio in known.items() if abs(ratio - 1) > ALIKE]
    if not unequal:
        return f"all within {100 * ALIKE:g} % of {findings.baseline}’s"
    unequal.sort(key=lambda unit: -known[unit])
    words = joined([f"{unit} {known[unit]:.2f}×" for unit in unequal], most=MOST_NAMES)
    if len(unequal) < len(known):
        words += f", the others within {100 * ALIKE:g} %"
    return words


def _networks(findings: Findings) -> Iterator[tuple[str, str]]:
    """Options of the network that are not the baseline's, for example widths at equal cost."""
    for block in findings.blocks[:MOST_BLOCKS]:
        base = config_of(block, findings.baseline).get("model_options") or {}
        changed = []
        for unit in block.runs:
            options = config_of(block, unit).get("model_options") or {}
            different = {key: value for key, value in options.items() if base.get(key) != value}
            words = _options(different)
            if words:
                changed.append(f"{unit} has {words}")
        if changed:
            names = "; ".join(changed[:MOST_NAMES])
            hidden = len(changed) - MOST_NAMES
            more = f"; and {hidden:,} more units" if hidden > 0 else ""
            yield block.name, f"{findings.baseline} has {_options(base)}; {names}{more}"


def _options(options: Mapping[str, Any]) -> str:
    """Options of a network in words."""
    shown = [f"{key} {_short(value)}" for key, value in options.items() if key not in IDENTITY]
    return ", ".join(shown)


def unequal_keys(findings: Findings) -> dict[str, str]:
    """Return the keys of the configurations that are not the baseline's in some block.

    Keys that differ by design are left out. The value names the units and what they have.
    """
    keys: dict[str, list[str]] = {}
    for block in findings.blocks:
        where = f" on {block.name}" if len(findings.blocks) > 1 else ""
        base = flat(config_of(block, findings.baseline))
        for unit in block.runs:
            config = flat(config_of(block, unit))
            for key in sorted(base.keys() | config.keys()):
                if key.split(".")[0] not in OF_THE_UNIT and base.get(key) != config.get(key):
                    keys.setdefault(key, []).append(f"{unit}{where} {_short(config.get(key))}")
    return {key: joined(units, most=MOST_NAMES) for key, units in keys.items()}


def flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested tables as one table whose keys are joined by dots."""
    values: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            values |= flat(value, f"{prefix}{key}.")
        else:
            values[f"{prefix}{key}"] = value
    return values


def config_of(block: Block, unit: str) -> Mapping[str, Any]:
    """Return the configuration of the unit's first run in the block."""
    if block.runs[unit]:
        return block.runs[unit][0].config
    return {}


def _short(value: Any) -> str:
    """A value of a configuration in at most 60 letters."""
    text = "-".join(map(str, value)) if isinstance(value, list) else str(value)
    if len(text) <= 60:
        return text
    return text[:57] + "..."
