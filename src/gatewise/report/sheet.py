"""A whole page as a record: a heading, the answer, and sections of text, charts and tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gatewise.report.charts import Words
from gatewise.report.page import render


@dataclass(frozen=True)
class Text:
    """Paragraphs or, with ``points``, a list."""

    lines: Sequence[Words]
    points: bool = False


@dataclass(frozen=True)
class Code:
    """Text to be copied as it is."""

    text: str


@dataclass(frozen=True)
class Folded:
    """Details below a summary line that opens them. It opens without a script.

    Args:
        summary: The line that is always visible.
        items: What is inside, as in a section.
        open: Whether it is open at first.
    """

    summary: str
    items: Sequence[Any]
    open: bool = False


@dataclass(frozen=True)
class Section:
    """A heading and what is below it.

    The items are :class:`Text`, :class:`Code`, :class:`Folded` or records of the chart model.
    """

    title: str
    items: Sequence[Any]


@dataclass(frozen=True)
class Sheet:
    """The page.

    Args:
        title: The heading.
        about: A line below the heading.
        answer: What a reader in a hurry should know.
        sections: Everything else.
        kind: The word after "gatewise" in the title of the window.
        contents: Whether the page links to its sections, if there are more than three.
        lead: The picture that comes first, above the answer.
    """

    title: str
    about: Words
    answer: Sequence[Words]
    sections: Sequence[Section]
    kind: str = "report"
    contents: bool = True
    lead: Sequence[Any] = ()


def sheet_page(
    sheet: Sheet,
    *,
    template: str = "sheet.html",
    style: str = "",
    **records: Any,
) -> str:
    """Return the page as one HTML text that needs no other file and no network.

    Args:
        sheet: The page.
        template: A template that extends that of sheets.
        style: One more style sheet.
        **records: What the template shows besides.
    """
    return render(template, interactive=True, style=style, sheet=sheet, **records)
