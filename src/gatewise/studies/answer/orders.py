"""Statements about two units or two blocks, each at the level of all that could be made.

Note [Between two units]. Whether one unit is ahead of another is tested on their own differences,
seed by seed. Two intervals against the baseline do not answer that: they can be apart by chance,
and they can overlap although the two units differ. All pairs of a block share the error rate of the
block. A statement about several blocks shares it among all of them.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gatewise.stats import PairComparison, compare_pairs

if TYPE_CHECKING:
    from gatewise.studies.older import Block, StudyResult

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
    both = {"better", "worse"}
    return {unit: verdicts for unit, verdicts in places.items() if both <= verdicts.keys()}


def reversed_pairs(result: "StudyResult") -> list[tuple[str, str, "Block", "Block"]]:
    """Return units a and b and two blocks: a is ahead of b on the first, behind on the second.

    The baseline is not one of the two. Each pair is named once. Nothing is tested for more than 20
    units or 12 blocks.

    Args:
        result: Of the study.
    """
    if len(result.units) > MOST_UNITS or not 2 <= len(result.blocks) <= MOST_BLOCKS:
        return []
    pairs: dict[tuple[str, str], tuple[str, str, Block, Block]] = {}
    for one, other in _pair_tests(result).reversals():
        names = one.first, one.second
        if result.baseline in names:
            continue
        ahead, behind = (one, other) if one.better == one.first else (other, one)
        pairs.setdefault(names, (*names, _as_block(ahead.block), _as_block(behind.block)))
    return list(pairs.values())


def beaten_by(result: "StudyResult", block: "Block") -> dict[str, list[str]] | None:
    """Return for each unit the units that are shown to be better.

    Args:
        result: Of the study.
        block: Backbone, data set and recipe.

    Returns:
        None if there are too many units to test all pairs.
    """
    units = result.by_block[block]
    if len(units) > MOST_UNITS:
        return None
    beaten: dict[str, list[str]] = {unit: [] for unit in units}
    for pair in _pair_tests(result, [block]).pairs:
        if pair.better is not None:
            loser = pair.second if pair.better == pair.first else pair.first
            beaten[loser].append(pair.better)
    return beaten


def _pair_tests(result: "StudyResult", blocks: Sequence["Block"] | None = None) -> PairComparison:
    """Test every pair of units in some blocks, at one level for all of these tests."""
    results, chosen, grid = result.all_results(blocks)
    return compare_pairs(
        results,
        chosen=chosen,
        grid=grid,
        higher_is_better=result.higher_is_better,
        resolution=max((result.resolution(block) for block in results), default=0.0),
    )


def _as_block(block: Any) -> "Block":
    """Return a block of a pair test."""
    return block
