"""The answer of a study as lines of the page: the words of the terminal, with colours."""

from gatewise.report.charts import Cell, Look, Words, colour_of
from gatewise.report.comparison.findings import Findings
from gatewise.studies import Line

LOOKS: dict[str, Look] = {"up": "up", "down": "down", "flat": ""}
KINDS: dict[str, Look] = {"": "", "name": "name", "warning": "warn"}


def answer_words(findings: Findings) -> list[Words]:
    """Return the lines of the answer.

    Args:
        findings: The comparison.
    """
    return [_words(line, findings) for line in findings.result.answer]


def further_words(findings: Findings) -> list[Words]:
    """Return the lines that stand after the charts.

    Args:
        findings: The comparison.
    """
    return [_words(line, findings) for line in findings.result.further]


def look_of(interval: tuple[float, float], findings: Findings) -> Look:
    """Return the colour of a difference, by the ends of its interval.

    Args:
        interval: Of the difference.
        findings: The comparison.
    """
    return LOOKS[colour_of(interval, higher_is_better=findings.display.higher_is_better)]


def _words(line: Line, findings: Findings) -> Words:
    """The parts of a line with their looks."""
    cells = []
    for part in line:
        look = KINDS[part.kind]
        if part.interval is not None:
            look = look_of(part.interval, findings)
        cells.append(Cell(part.text, look=look))
    return cells
