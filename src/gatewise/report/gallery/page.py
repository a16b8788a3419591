"""The gallery of units.

One page that says what each unit is, draws it, and shows how exact it is.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gatewise.report.gallery import formula, plot
from gatewise.report.gallery.plain_formula import plain
from gatewise.report.page import render
from gatewise.report.records import Card, Gallery


@dataclass(frozen=True)
class _View:
    """A card with what the template needs to draw it."""

    card: Card
    anchor: str
    drawing: formula.Drawing | None
    plain: str
    panels: tuple[plot.Panel, ...]
    legend: tuple[plot.Legend, ...]
    thumbnail: tuple[plot.Stroke, ...]
    kept: bool
    measured: bool
    has_torch: bool
    described: str


def gallery_page(gallery: Gallery) -> str:
    """The page as one HTML text that needs no other file, no network and no script."""
    anchors = _anchors([card.name for card in gallery.cards])
    views = [_view(card, anchor) for card, anchor in zip(gallery.cards, anchors, strict=True)]
    return render(
        "gallery.html", gallery=gallery, views=views, summary=_summary(gallery.cards), geometry=plot
    )


def undrawn(gallery: Gallery) -> list[str]:
    """Names of the units whose formula could not be drawn and is shown as text."""
    return [card.name for card in gallery.cards if formula.draw(card.formula) is None]


@dataclass(frozen=True)
class _Summary:
    measured: int
    broken: tuple[str, ...]
    inputs: int
    torch_hidden: tuple[str, ...]


def _summary(cards: Sequence[Card]) -> _Summary:
    rows = [(card, row) for card in cards for row in card.errors]
    return _Summary(
        measured=sum(bool(card.errors) for card in cards),
        broken=_names(card for card, row in rows if not row.kept),
        inputs=sum(row.inputs for _, row in rows),
        torch_hidden=_names(card for card, row in rows if row.torch_hidden),
    )


def _names(cards: Iterable[Card]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(card.name for card in cards))


def _view(card: Card, anchor: str) -> _View:
    return _View(
        card=card,
        anchor=anchor,
        drawing=formula.draw(card.formula),
        plain=plain(card.formula),
        panels=plot.panels(card.plot),
        legend=plot.legend(card.plot),
        thumbnail=plot.thumbnail(card.plot),
        kept=all(row.kept for row in card.errors),
        measured=bool(card.errors),
        has_torch=any(
            row.torch_ulps is not None or row.torch_hidden is not None for row in card.errors
        ),
        described=_described(card),
    )


def _described(card: Card) -> str:
    """What the plot shows, for those who cannot see it."""
    from gatewise.report.words import number

    lines = card.plot.curves[0].lines if card.plot.curves else ()
    ends = [
        f"from {number(line.value[0][1])} to {number(line.value[-1][1])}"
        for line in lines
        if line.value
    ]
    kinks = [number(kink.x) for kink in card.plot.kinks]
    bends = f", kinks at {', '.join(kinks)}" if kinks else ", no kinks"
    return f"runs {' and '.join(ends)}{bends}" if ends else "nothing drawn"


def _anchors(names: Sequence[str]) -> list[str]:
    """One fragment name per unit.

    Its own name where that is safe and not yet taken, its number otherwise.
    """
    taken: list[str] = []
    for i, name in enumerate(names, 1):
        anchor = f"unit-{name}" if re.fullmatch(r"[a-z][a-z0-9_]{0,40}", name) else f"unit-{i}"
        taken.append(anchor if anchor not in taken else f"unit-{i}")
    return taken
