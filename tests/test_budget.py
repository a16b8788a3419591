"""Every part of the code stays within its line of the table in ARCHITECTURE.md.

Raising a line is a commit that says what it buys. ``tools/form.py`` prints the tokens of each part.
"""

import re

from form import ROOT, SOURCES, part_tokens

SLACK = 1.03
MAP = ROOT / "ARCHITECTURE.md"
PRODUCT, PAPERS = SOURCES


def lines_of_the_table(text: str) -> dict[str, int]:
    """Return the tokens that each part may have, by the name in the first column."""
    lines = {}
    for row in re.findall(r"^\| (.+?) \| ([\d,]+) \|", text, re.MULTILINE):
        for name in re.findall(r"`([\w.]+)`", row[0]):
            lines[name] = int(row[1].replace(",", ""))
    return lines


def excesses(tokens: dict[str, int], lines: dict[str, int]) -> list[str]:
    """Return the parts above their lines, and those without a line."""
    faults = [f"{part} has no line" for part in sorted(tokens.keys() - lines.keys())]
    for part in sorted(tokens.keys() & lines.keys()):
        if tokens[part] > SLACK * lines[part]:
            faults.append(f"{part} has {tokens[part]:,} tokens; its line is {lines[part]:,}")
    return faults


def tokens_by_line() -> dict[str, int]:
    """Return the tokens of both packages and of the product's parts.

    Modules beside the folders are one part.
    """
    parts = part_tokens(PRODUCT)
    tokens = {PRODUCT.name: parts.total(), PAPERS.name: part_tokens(PAPERS).total()}
    for name, count in parts.items():
        part = "modules" if name.endswith(".py") else name
        tokens[part] = tokens.get(part, 0) + count
    return tokens


def c_lines() -> int:
    return sum(len(path.read_text().splitlines()) for path in PRODUCT.rglob("*.c"))


def test_every_part_is_within_its_line():
    assert not excesses(tokens_by_line(), lines_of_the_table(MAP.read_text()))


def test_c_is_within_its_line():
    lines = re.search(r"at most ([\d,]+) lines of C", MAP.read_text())
    assert lines and c_lines() <= int(lines[1].replace(",", ""))


def test_a_part_above_its_line_and_one_without_a_line_are_named():
    lines = lines_of_the_table("| `a`, `b` | 100 | why |\n| `all` | 300 | |")
    assert lines == {"a": 100, "b": 100, "all": 300}
    assert excesses({"a": 103, "all": 310, "c": 1}, lines) == [
        "c has no line",
        "all has 310 tokens; its line is 300",
    ]
