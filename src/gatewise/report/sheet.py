"""A whole page as a record: a heading, the answer, and sections of text, charts and tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gatewise.report.charts import Words
from gatewise.report.page import render


@dataclass(frozen=True)
class Text:
    """A paragraph, or points under each other."""

    lines: Sequence[Words]
    points: bool = False


@dataclass(frozen=True)
class Code:
    """Text to be copied as it is."""

    text: str


@dataclass(frozen=True)
class Folded:
    """What is shown only when asked for; it opens without a script."""

    summary: str
    items: Sequence[Any]  # as in a section
    open: bool = False


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it.

    :class:`Text`, :class:`Code`, :class:`Folded` or a record of `charts`.
    """

    title: str
    items: Sequence[Any]


@dataclass(frozen=True)
class Sheet:
    """The page. ``answer`` is what a reader in a hurry takes away."""

    title: str
    about: Words
    answer: Sequence[Words]
    sections: Sequence[Section]
    kind: str = "report"  # after "gatewise" in the title of the window
    contents: bool = True  # links to the sections, where they are many


def sheet_page(sheet: Sheet) -> str:
    """The page as one HTML text that needs no other file and no network, and is complete without its script."""
    return render("sheet.html", kit=True, sheet=sheet)
