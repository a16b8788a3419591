"""What was the same for all units of a comparison, and what was not, found in the configurations and the records."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from gatewise.report.charts import Cell, Words
from gatewise.report.comparison.answer import COST_WORDS
from gatewise.report.comparison.findings import COSTS, Block, Findings
from gatewise.report.comparison.runs import environments

ALIKE = 0.02  # costs within this of the baseline's are called equal
IDENTITY = ("model_sha256", "plan_sha256", "drawn")  # tell runs apart, and nothing to people
OF_THE_UNIT = ("unit", "model_options", "seed")  # what differs by design, and is said apart
SAID_EQUAL = {  # what is said to be equal if no key of the configuration below it differs
    "data": "data",
    "data_options": "choice of examples",
    "recipe.epochs": "epochs",
    "recipe.batch": "batches and their order",
    "recipe.augment": "augmentation",
    "recipe.optimiser.name": "optimiser",
    "recipe.optimiser.lr": "learning rate (one for all units, not tuned for each)",
}


def fairness(found: Findings) -> list[Words]:
    """What was equal, and each thing that was not with its numbers."""
    different = unequal_keys(found)
    known = "not known: the runs were recorded from other training loops"
    lines = [_named("Equal", known if found.origin == "recorder" else _equal(different))]
    lines += [_named(f"Not equal, {key}", units) for key, units in different.items()]
    lines += [
        _named(
            COST_WORDS[what].capitalize() if what == "seconds" else COST_WORDS[what],
            _costs(found, what),
        )
        for what in COSTS
    ]
    lines += [_named(f"Network on {name}", words) for name, words in _networks(found)]
    changed = [name for name, values in environments(found).items() if len(values) > 1]
    return (
        [*lines, _named("Not equal, machines", f"{', '.join(changed)} (see the environment)")]
        if changed
        else lines
    )


def _named(name: str, words: str) -> Words:
    return [Cell(f"{name[0].upper()}{name[1:]}: ", look="name"), f"{words}."]


def _equal(different: Mapping[str, str]) -> str:
    def same(key: str) -> bool:
        return not any(each == key or each.startswith(f"{key}.") for each in different)

    said = [words for key, words in SAID_EQUAL.items() if same(key)]
    return ", ".join([*said, "initial values of the weights that units share"])


def _costs(found: Findings, what: str) -> str:
    """The ratios to the baseline that are not one, block by block."""
    said = {block.name: _unequal_costs(found, block, what) for block in found.blocks}
    if len(set(said.values())) == 1:
        return next(iter(said.values()))
    return "; ".join(f"on {name} {words}" for name, words in said.items())


def _unequal_costs(found: Findings, block: Block, what: str) -> str:
    ratios = {unit: block.ratio(unit, what) for unit in block.runs if unit != found.baseline}
    known = {unit: ratio for unit, ratio in ratios.items() if math.isfinite(ratio)}
    off = {unit: ratio for unit, ratio in known.items() if abs(ratio - 1) > ALIKE}
    listed = ", ".join(
        f"{unit} {ratio:.2f}×" for unit, ratio in sorted(off.items(), key=lambda pair: -pair[1])
    )
    if not known:
        return "not known"
    if not off:
        return f"all within {100 * ALIKE:g} % of {found.baseline}’s"
    return listed + (f", the others within {100 * ALIKE:g} %" if len(off) < len(known) else "")


def _networks(found: Findings) -> Iterator[tuple[str, str]]:
    """Options of the network that are not the baseline's: widths, where costs were matched."""
    for block in found.blocks:
        base = config_of(block, found.baseline).get("model_options") or {}
        changed = [words for unit in block.runs if (words := _changed_options(block, unit, base))]
        if changed:
            own = ", ".join(f"{key} {_short(value)}" for key, value in base.items())
            yield block.name, f"{found.baseline} has {own}; {'; '.join(changed)}"


def _changed_options(block: Block, unit: str, base: Mapping[str, Any]) -> str:
    ours = config_of(block, unit).get("model_options") or {}
    changed = [
        f"{key} {_short(value)}"
        for key, value in ours.items()
        if base.get(key) != value and key not in IDENTITY
    ]
    return f"{unit} has {', '.join(changed)}" if changed else ""


def unequal_keys(found: Findings) -> dict[str, str]:
    """Keys of the configurations, apart from the unit's own, that are not the baseline's in some block: for whom."""
    keys: dict[str, list[str]] = {}
    for block in found.blocks:
        base = flat(config_of(block, found.baseline))
        for unit in block.runs:
            ours = flat(config_of(block, unit))
            for key in sorted(base.keys() | ours.keys()):
                if key.split(".")[0] not in OF_THE_UNIT and base.get(key) != ours.get(key):
                    where = f" on {block.name}" if len(found.blocks) > 1 else ""
                    keys.setdefault(key, []).append(f"{unit}{where} {_short(ours.get(key))}")
    return {key: ", ".join(units) for key, units in keys.items()}


def flat(config: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Nested tables as one, keys joined by points."""
    found: dict[str, Any] = {}
    for key, value in config.items():
        name = f"{before}{key}"
        found |= flat(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return found


def config_of(block: Block, unit: str) -> Mapping[str, Any]:
    """The configuration of the unit's first run in the block."""
    return block.runs[unit][0].config if block.runs[unit] else {}


def _short(value: Any) -> str:
    text = "-".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."
