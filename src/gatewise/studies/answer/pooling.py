"""The mean difference of every unit over several blocks."""

from typing import TYPE_CHECKING

from gatewise.stats import PooledDifference, pool_blocks

if TYPE_CHECKING:
    from gatewise.studies.older import StudyResult

POOLED_FROM = 3  # blocks


def pooled_rows(result: "StudyResult") -> list[PooledDifference]:
    """Return the mean difference over these blocks and, from five, over blocks like these.

    Args:
        result: Of the study.

    Returns:
        Nothing for fewer than three blocks.
    """
    if len(result.blocks) < POOLED_FROM:
        return []
    blocks, chosen, grid = result.all_results()
    return pool_blocks(
        blocks,
        result.baseline,
        chosen=chosen,
        grid=grid,
        higher_is_better=result.higher_is_better,
        margin=result.margin,
        resolution=max(result.resolution(block) for block in result.blocks),
    )
