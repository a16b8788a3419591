"""Write ``docs/reference.md``: one entry for every public name of gatewise.

python tools/reference_page.py docs/reference.md
"""

import sys
from pathlib import Path

import gatewise

# Parts whose names users call as gw.nn.X and gw.functional.x.
GATHERED = ("nn", "functional")


def public_names() -> list[str]:
    """Return the dotted names of everything public that is not a part."""
    parts = gatewise._PART_OF
    names = [f"gatewise.{parts[name]}.{name}" for name in sorted(parts)]
    for part in GATHERED:
        face = getattr(gatewise, part)
        for name in sorted(face.__all__):
            value = getattr(face, name)  # where it is defined: the site reads sources only
            names.append(f"{value.__module__}.{value.__qualname__}")
    return names


def reference() -> str:
    """Return the page."""
    text = ["# Reference", "", "Every public name, from its docstring.", ""]
    for name in public_names():
        text += [f"::: {name}", ""]
    text += ["## Parts", "", "| part | |", "|---|---|"]
    for name in sorted(gatewise._PARTS):
        line = (getattr(gatewise, name).__doc__ or "").strip().splitlines()[0]
        text.append(f"| `gatewise.{name}` | {line} |")
    return "\n".join([*text, ""])


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(reference(), encoding="utf-8")
