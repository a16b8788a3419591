"""The reference of the site: every public name of gatewise, and the names of its parts.

``reference.md`` has an entry, from its docstring, for every name of ``gatewise``, ``gatewise.nn``
and ``gatewise.functional``. ``reference_parts.md`` has one line for every name of the parts. The
pages are made when the site is built, so that they are never out of date.
"""

import inspect
import re
from types import ModuleType
from typing import Any

import gatewise
from gatewise.units import registered_units

# Parts whose names users call as gw.nn.X and gw.functional.x.
GATHERED = {"nn": "Modules: gw.nn", "functional": "Functions: gw.functional"}
# These are called by another path than that of their file.
SHORT = ("    options:", "      show_root_full_path: false")
SECTIONS = {
    "studies": "Compare",
    "surgery": "Swap",
    "analysis": "Diagnose and measure",
    "sparsity": "Sparsify",
    "graph": "Read a model",
    "units": "Activation functions",
    "models": "Networks",
    "report": "Pages",
    "errors": "Errors",
}


def sections() -> dict[str, list[str]]:
    """Return the dotted names of everything public that is not a part, by the title of a section.

    Names are where they are defined, because the site reads sources only.
    """
    found: dict[str, list[str]] = {title: [] for title in SECTIONS.values()}
    for name, part in sorted(gatewise._PART_OF.items()):
        found[SECTIONS[part]].append(f"gatewise.{name}")
    for part, title in GATHERED.items():
        face = getattr(gatewise, part)
        values = [getattr(face, name) for name in sorted(face.__all__)]
        found[title] = [f"{value.__module__}.{value.__qualname__}" for value in values]
    return found


def reference() -> str:
    """Return the page of the names that users call most."""
    formulas = _formulas()
    text = ["# Reference", ""]
    text += [
        "Every name of `gatewise`, from its docstring. [Names of the parts](reference_parts.md).",
        "",
    ]
    for title, names in sections().items():
        text += [f"## {title}", ""]
        for name in names:
            text += [f"::: {name}", *(SHORT if title in GATHERED.values() else ()), ""]
            if name in formulas:
                text += [f"$$ y = {formulas[name]} $$", ""]
    return "\n".join(text)


def _formulas() -> dict[str, str]:
    """Return the formula of each module and function of a unit, by its dotted name."""
    formulas: dict[str, str] = {}
    for unit in registered_units().values():
        for value in (unit.module, unit.function):
            if value is not None:
                formulas[f"{value.__module__}.{value.__qualname__}"] = unit.formula
    return formulas


def part_names(part: str) -> list[str]:
    """Return the public names of a part: what its face offers, without modules and typing.

    Args:
        part: For example ``"studies"``.
    """
    face = getattr(gatewise, part)
    names = []
    for name in sorted(getattr(face, "__all__", None) or dir(face)):
        value = getattr(face, name)
        ours = str(getattr(value, "__module__", "")).startswith("gatewise")
        constant = name.isupper() and not callable(value)
        if not name.startswith("_") and not isinstance(value, ModuleType) and (ours or constant):
            names.append(name)
    return names


def parts() -> str:
    """Return the page of the names of all parts."""
    text = ["# Names of the parts", ""]
    text += [
        "What each part offers. Names in the [reference](reference.md) have an entry there.",
        "",
    ]
    for part in sorted(gatewise._PARTS):
        face = getattr(gatewise, part)
        text += [f"## gatewise.{part}", "", _first_line(face), "", "| name | |", "|---|---|"]
        for name in part_names(part):
            text.append(f"| `{name}` | {_about(getattr(face, name))} |")
        text.append("")
    return "\n".join(text)


def _first_line(value: Any) -> str:
    """The first line of a docstring."""
    line = (inspect.getdoc(value) or "").strip().partition("\n")[0]
    return re.sub(r":\w+:`~?", "`", line).replace("|", "\\|")


def _about(value: Any) -> str:
    """What a name is, in one line."""
    if inspect.isclass(value) or inspect.isroutine(value):
        return _first_line(value)
    size = f" of {len(value)}" if isinstance(value, dict | list | tuple | set | frozenset) else ""
    return f"constant: {type(value).__name__}{size}"


PAGES = {"reference.md": reference, "reference_parts.md": parts}
