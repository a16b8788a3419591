"""The page of units lists all of them."""

from pathlib import Path

from gatewise.units import registered_units

PAGE = Path(__file__).parents[2] / "docs" / "units.md"


def test_the_page_of_units_has_a_row_for_every_unit():
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    wanted = [
        f"| `{n}` | {u.title} | {u.family} | {u.paper} |" for n, u in registered_units().items()
    ]
    assert rows[-len(wanted) :] == wanted
