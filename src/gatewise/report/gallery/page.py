"""The gallery of units: what each unit computes, its curve, its facts and its error."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gatewise.report.charts import Chart, Panels
from gatewise.report.gallery.plain_formula import plain
from gatewise.report.gallery.records import Card, Fact, Gallery
from gatewise.report.gallery.unit_charts import tile, unit_panels
from gatewise.report.page import render


@dataclass(frozen=True)
class _View:
    """A card with what the template needs to draw it."""

    card: Card
    anchor: str
    plain: str
    panels: Panels
    tile: Chart | None
    family: int

    @property
    def words(self) -> str:
        """What the search looks at."""
        return f"{self.card.name} {self.card.title} {self.card.family}"

    @property
    def kept(self) -> bool:
        """Whether every measured error is within its bound."""
        return all(row.kept for row in self.card.errors)

    @property
    def has_torch(self) -> bool:
        """Whether PyTorch has the same function."""
        return any(row.torch_ulps is not None for row in self.card.errors)


@dataclass(frozen=True)
class _Summary:
    """What the first lines of the page say about all units."""

    measured: int
    broken: list[str]
    inputs: int


def gallery_page(gallery: Gallery) -> str:
    """Return the page as one HTML text that needs no other file and no network.

    The curves come first, by family. Without scripts the search and the sliders are missing.

    Args:
        gallery: The units.
    """
    families = [family.label for family in gallery.families]
    anchors = _anchors([card.name for card in gallery.cards])
    views = []
    for card, anchor in zip(gallery.cards, anchors, strict=True):
        views.append(
            _View(
                card=card,
                anchor=anchor,
                plain=plain(card.formula),
                panels=unit_panels(card.plot, card.name),
                tile=tile(card.plot),
                family=families.index(card.family) if card.family in families else 0,
            )
        )
    groups = []
    for place, family in enumerate(gallery.families or (Fact("units", ""),)):
        shown = [view for view in views if view.family == place]
        if shown:
            groups.append((family, shown))
    return render(
        "gallery.html",
        style="gallery.css",
        script="gallery.js",
        gallery=gallery,
        views=views,
        groups=groups,
        summary=_summary(gallery.cards),
    )


def _summary(cards: Sequence[Card]) -> _Summary:
    """How many units were measured, and which exceed their bound."""
    measured = 0
    inputs = 0
    broken: dict[str, None] = {}  # names in order, each once
    for card in cards:
        measured += bool(card.errors)
        for row in card.errors:
            inputs += row.inputs
            if not row.kept:
                broken[card.name] = None
    return _Summary(measured, list(broken), inputs)


def _anchors(names: Sequence[str]) -> list[str]:
    """Return one fragment name per unit: its name if that is safe and free, else its number."""
    anchors: list[str] = []
    for place, name in enumerate(names, 1):
        safe = re.fullmatch(r"[a-z][a-z0-9_]{0,40}", name)
        anchor = f"unit-{name}" if safe else f"unit-{place}"
        anchors.append(anchor if anchor not in anchors else f"unit-{place}")
    return anchors
