"""``gatewise list units --page``: write a page with all units."""

from pathlib import Path
from typing import TYPE_CHECKING

from gatewise.cli.output import check_target, print_note, progress

if TYPE_CHECKING:
    from gatewise.report import Card, Gallery


def gallery(out: Path) -> None:
    """Write an HTML page with formula, curve, properties and measured error of every unit.

    Args:
        out: The page to write. It is one file and needs no network.
    """
    from gatewise.files import write_text
    from gatewise.report import gallery_page

    target = check_target(out)
    content = build()
    page = gallery_page(content)
    write_text(target, page)
    print_note(f"wrote {target}: {len(content.cards)} units, {len(page.encode()) / 1e6:.1f} MB")


def build(errors: bool = True) -> "Gallery":
    """Plot every unit, and measure its errors.

    Args:
        errors: Whether to measure.
    """
    from gatewise.cli.commands.doctor import machine, own_version
    from gatewise.cli.output import one_thread
    from gatewise.report import Fact, Gallery
    from gatewise.units import FAMILIES, PAPERS, registered_units

    with one_thread(), progress(list(registered_units()), "measuring") as names:
        cards = tuple(card(name, errors) for name in names)
    families = tuple(Fact(name, text) for name, text in FAMILIES.items())
    papers = tuple(Fact(name, text) for name, text in PAPERS.items())
    return Gallery(own_version(), machine(), cards, families, papers)


def card(name: str, errors: bool = True) -> "Card":
    """Return the gallery's card of one unit.

    Args:
        name: The name of the unit.
        errors: Whether to measure its errors.
    """
    from gatewise.cli.output import measured_errors, sweep, unit_facts
    from gatewise.report import Card, join
    from gatewise.testing import measure
    from gatewise.units import get_unit

    unit = get_unit(name)
    return Card(
        name=unit.name,
        title=unit.title,
        family=unit.family,
        formula=unit.formula,
        call=unit_facts.call(unit),
        channels=unit_facts.channels(unit),
        parameters=join(list(unit.parameters), "nothing"),
        note=unit.note,
        facts=unit_facts.facts(unit),
        plot=sweep(unit),
        errors=measured_errors.rows(measure(unit)) if errors else (),
    )
