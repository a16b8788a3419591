"""The mean difference of a unit over several blocks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gatewise.stats import Pooled, pool_blocks

if TYPE_CHECKING:
    from gatewise.studies.engine.result import StudyResult

THESE_FROM = 3  # blocks
LIKE_THESE_FROM = 5


@dataclass(frozen=True)
class PooledRow:
    """One unit over all blocks.

    Args:
        unit: Its label.
        these: The mean over exactly these blocks.
        like_these: The mean over blocks like these; None for fewer than five.
    """

    unit: str
    these: Pooled
    like_these: Pooled | None


def pooled_rows(result: "StudyResult") -> list[PooledRow]:
    """Return the mean difference of every unit that has results in all blocks.

    Args:
        result: Of the study.

    Returns:
        Nothing for fewer than three blocks, and nothing for a tuned study, whose differences must
        hold at the neighbouring learning rates too.
    """
    if len(result.blocks) < THESE_FROM or result.tuned:
        return []
    others = [unit for unit in result.units if unit != result.baseline]
    rows = []
    for unit in others:
        pairs = _pairs(result, unit)
        if pairs is None:
            continue
        options = {
            "comparisons": len(others),
            "higher_is_better": result.higher_is_better,
            "resolutions": [result.resolution(block) for block in result.blocks],
        }
        these = pool_blocks(pairs, **options)
        like_these = None
        if len(pairs) >= LIKE_THESE_FROM:
            like_these = pool_blocks(pairs, new_blocks=True, **options)
        rows.append(PooledRow(unit, these, like_these))
    return rows


def _pairs(
    result: "StudyResult", unit: str
) -> Sequence[tuple[Mapping[int, float], Mapping[int, float]]] | None:
    """Return the results of a unit and of the baseline on every block; None if one has none."""
    pairs = []
    for block in result.blocks:
        values = result.values(block)
        if unit not in values or result.baseline not in values:
            return None
        pairs.append((values[unit], values[result.baseline]))
    return pairs
