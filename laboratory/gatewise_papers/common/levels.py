"""How well networks must be trained before a claim about them is judged.

Note [Levels]. What holds for networks that fit their training data badly says little about those of
the paper, which fit it well. So an experiment declares levels: rows of its own findings, with the
paper's number and the value from which on claims are judged. If the mean over seeds has not reached
it, each claim that depends on it is not tested, and the reason says what was reached. The measured
differences are kept. A level without a limit only states our number beside the paper's.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gatewise_papers.common.judgements import Judgement
from gatewise_papers.common.records import Claim, Findings, LevelReached, Row


@dataclass(frozen=True)
class Level:
    """A number that says how well networks are trained; see Note [Levels].

    Attributes:
        row: the name of its row in the findings.
        published: the paper's number, None if it prints none.
        at_most: the largest value at which claims are judged; None for no such limit.
        at_least: the smallest one; None for no such limit.
        claims: beginnings of the claims that depend on it; none: all that are not exact.
    """

    row: str
    published: float | None = None
    at_most: float | None = None
    at_least: float | None = None
    claims: tuple[str, ...] = ()

    def is_reached(self, ours: float | None) -> bool:
        """Return whether a number is within the limits; a run that diverged is not.

        Args:
            ours: the mean over seeds, None if all diverged.
        """
        if self.at_most is None and self.at_least is None:
            return True
        if ours is None:
            return False
        low = self.at_least is None or ours >= self.at_least
        return low and (self.at_most is None or ours <= self.at_most)

    def decides(self, claim: Claim) -> bool:
        """Return whether a claim depends on this level.

        Args:
            claim: of the same findings.
        """
        if self.claims:
            return claim.published.startswith(self.claims)
        return not claim.exact


def held_to_levels(levels: Sequence[Level], findings: Findings) -> Findings:
    """Return the findings with their levels, and the claims that depend on a missed one untested.

    Args:
        levels: those whose row is not in the findings are left out.
        findings: as they were judged.
    """
    rows = {row.what: row for row in findings.rows}
    known = [level for level in levels if level.row in rows]
    claims = [_held(claim, known, rows) for claim in findings.claims]
    reached = [_reached(level, rows[level.row]) for level in known]
    return replace(findings, claims=claims, levels=reached)


def _held(claim: Claim, levels: Sequence[Level], rows: dict[str, Row]) -> Claim:
    """Return the claim, or that it is not tested if a level that it depends on is missed."""
    if claim.verdict is Judgement.NOT_TESTED:
        return claim
    for level in levels:
        ours = rows[level.row].ours
        if level.decides(claim) and not level.is_reached(ours):
            reached = _reached(level, rows[level.row])
            return replace(
                claim,
                verdict=Judgement.NOT_TESTED,
                detectable=None,
                reason=f"the networks are underfitted: {reached.words}, asked for {reached.limit}",
            )
    return claim


def _reached(level: Level, row: Row) -> LevelReached:
    """Return our number and the paper's, with the limit in words."""
    limits = []
    for words, limit in (("at most", level.at_most), ("at least", level.at_least)):
        if limit is not None:
            limits.append(f"{words} {in_words(level.row, limit)}")
    return LevelReached(
        what=level.row,
        ours=row.ours,
        published=level.published,
        limit=" and ".join(limits),
        is_reached=level.is_reached(row.ours),
        words=(
            f"{level.row.removesuffix(', %')} {in_words(level.row, row.ours)} "
            f"(paper {in_words(level.row, level.published)})"
        ),
        claims=tuple(level.claims),
    )


def in_words(what: str, value: float | None) -> str:
    """Return an error or accuracy in per cent, and any other number with three digits.

    Args:
        what: the name of the row; errors are in per cent, accuracies are shares.
        value: None for a number that is not known.
    """
    if value is None:
        return "-"
    if what.endswith(", %"):
        return f"{value:.3g} %"
    return f"{100 * value:.3g} %" if "accuracy" in what else f"{value:.3g}"
