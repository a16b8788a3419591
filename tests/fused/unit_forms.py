"""Every plain form that a unit of the catalogue hands to the generator."""

import functools

import gatewise as gw
from gatewise.testing import Case
from gatewise.units import FORMS, PlainForm, run_plain


@functools.cache
def unit_forms() -> dict[str, tuple[PlainForm, int]]:
    """Plain form and how many numbers it takes, by module and name."""
    found: dict[str, tuple[PlainForm, int]] = {}

    def note(plain, x, numbers):
        name = f"{plain.__module__.rpartition('.')[2]}.{plain.__qualname__}"
        found[name] = (plain, len(numbers))
        return run_plain(plain, x, numbers)

    before = list(FORMS)
    FORMS[:] = [note]
    try:
        for name in gw.list_units():
            for options in gw.get_unit(name).samples:
                case = Case(gw.get_unit(name), options)
                case.function(case.sample())
    finally:
        FORMS[:] = before
    return found
