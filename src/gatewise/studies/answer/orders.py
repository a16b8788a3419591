"""Statements about two units or two blocks, each at the level of all that could be made.

Note [Between two units]. Whether one unit is ahead of another is tested on their own differences,
seed by seed. Two intervals against the baseline do not answer that: they can be apart by chance,
and they can overlap although the two units differ. All pairs of a block share the error rate of the
block. A statement about several blocks shares it among all of them.
"""

from collections.abc import Mapping
from itertools import combinations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gatewise.studies.engine.result import Block, StudyResult

MOST_UNITS = 20  # units of which all pairs are tested: 190 pairs in each block
MOST_BLOCKS = 12


def reversed_units(result: "StudyResult") -> dict[str, dict[str, list["Block"]]]:
    """Return the units that are better than the baseline on one block and worse on another.

    Args:
        result: Of the study.

    Returns:
        By unit, the blocks of each verdict. The level is shared by all comparisons of the study.
    """
    if len(result.blocks) < 2:
        return {}
    total = sum(len(units) - 1 for units in result.by_block.values())
    places: dict[str, dict[str, list[Block]]] = {}
    for block in result.blocks:
        comparison = result.compare_units(block, result.baseline, comparisons=total)
        for difference in comparison.differences if comparison else ():
            verdicts = places.setdefault(difference.name, {})
            verdicts.setdefault(difference.verdict, []).append(block)
    return {unit: found for unit, found in places.items() if {"better", "worse"} <= found.keys()}


def reversed_pairs(result: "StudyResult") -> list[tuple[str, str, "Block", "Block"]]:
    """Return units a and b and two blocks: a is ahead of b on the first, behind on the second.

    The baseline is not one of the two. Each pair is named once. Nothing is tested for more than 20
    units or 12 blocks.

    Args:
        result: Of the study.
    """
    units = [unit for unit in result.units if unit != result.baseline]
    if not 2 <= len(units) < MOST_UNITS or not 2 <= len(result.blocks) <= MOST_BLOCKS:
        return []
    total = len(result.blocks) * _pairs(len(result.units))
    orders = {block: ahead_of(result, block, total) for block in result.blocks}
    pairs = []
    for a, b in combinations(units, 2):
        ahead = [block for block in result.blocks if b in orders[block].get(a, ())]
        behind = [block for block in result.blocks if a in orders[block].get(b, ())]
        if ahead and behind:
            pairs.append((a, b, ahead[0], behind[0]))
    return pairs


def beaten_by(
    result: "StudyResult", block: "Block", costs: Mapping[str, float]
) -> dict[str, list[str]] | None:
    """Return for each unit the units of the same or a lower cost that are shown to be better.

    Args:
        result: Of the study.
        block: Backbone, data set and recipe.
        costs: The cost of each unit.

    Returns:
        None if there are too many units to test all pairs.
    """
    if len(costs) > MOST_UNITS:
        return None
    orders = ahead_of(result, block, _pairs(len(result.by_block[block])))
    beaten: dict[str, list[str]] = {unit: [] for unit in costs}
    for unit, behind in orders.items():
        for other in behind:
            if unit in costs and other in costs and costs[unit] <= costs[other]:
                beaten[other].append(unit)
    return beaten


def ahead_of(result: "StudyResult", block: "Block", comparisons: int) -> dict[str, set[str]]:
    """Return for each unit the units that it is shown to be better than.

    Args:
        result: Of the study.
        block: Backbone, data set and recipe.
        comparisons: How many comparisons share the level.
    """
    units = list(result.values(block))
    ahead: dict[str, set[str]] = {unit: set() for unit in units}
    for place, unit in enumerate(units[:-1]):
        others = units[place + 1 :]
        comparison = result.compare_units(block, unit, comparisons=comparisons, units=others)
        for difference in comparison.differences if comparison else ():
            if difference.verdict == "better":
                ahead[difference.name].add(unit)
            elif difference.verdict == "worse":
                ahead[unit].add(difference.name)
    return ahead


def _pairs(units: int) -> int:
    """Return how many pairs there are."""
    return units * (units - 1) // 2
