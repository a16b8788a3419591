"""Pictures of one thing at several moments, side by side.

A script can play them one after the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gatewise.errors import ArgumentError
from gatewise.report.charts.records import Picture
from gatewise.report.charts.region_plots import Regions


@dataclass(frozen=True)
class Film:
    """Regions or pictures in the order of time, each with its moment in its title."""

    title: str
    about: str
    frames: Sequence[Regions] | Sequence[Picture]

    def __post_init__(self) -> None:
        """Refuse a film of nothing."""
        if not self.frames:
            raise ArgumentError("film: there is no picture", got=0, allowed="1 or more")


@dataclass(frozen=True)
class FilmLayout:
    """A film ready to be drawn."""

    film: Film
    kind: str = "film"


def lay_out_film(film: Film) -> FilmLayout:
    """Frames are laid out one by one, where they are drawn."""
    return FilmLayout(film)
