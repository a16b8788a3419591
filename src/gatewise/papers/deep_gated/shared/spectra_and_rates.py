"""Panels and rows that Figures 3 and 4 share.

Cells are :func:`frozen_start.convergence`, by depth.
"""

from collections.abc import Mapping
from itertools import accumulate, pairwise
from typing import Any

from gatewise.papers.common import Panel, Row, finite, line, mean, row

Cells = Mapping[int, Mapping[str, Any]]


def ratios(title: str, cells: Cells) -> Panel:
    """The error's length over its first one, by step, one line for each depth."""
    lines = [
        line(f"d={depth}", range(len(cell["ratio"][0])), cell["ratio"])
        for depth, cell in cells.items()
    ]
    return Panel(f"convergence, {title}", "steps", "|e_t| / |e_0|", lines, log_y=True)


def curves(title: str, cells: Cells) -> Panel:
    """The cumulative eigenvalues of the kernel over its largest, one line for each depth."""
    lines = []
    for depth, cell in cells.items():
        cumulative = [list(accumulate(each)) for each in cell["eigenvalues"]]
        lines.append(line(f"d={depth}", range(1, len(cumulative[0]) + 1), cumulative))
    return Panel(
        f"spectrum, {title}",
        "eigenvalues, smallest first",
        "cumulative sum over the largest",
        lines,
    )


def rows(title: str, cells: Cells) -> list[Row]:
    """What is left of the error, and the sum of the normalised eigenvalues, for each depth."""
    return [
        each
        for depth, cell in cells.items()
        for each in (
            row(f"error left, {title}, d={depth}", [seed[-1] for seed in cell["ratio"]]),
            row(
                f"trace over largest eigenvalue, {title}, d={depth}",
                [sum(seed) for seed in cell["eigenvalues"]],
            ),
        )
    ]


def final_ratios(cells: Cells) -> dict[int, float]:
    """The mean over seeds of what is left of the error, by depth."""
    return {
        depth: mean(finite([seed[-1] for seed in cell["ratio"]])) for depth, cell in cells.items()
    }


def whiteness(cells: Cells) -> dict[int, float]:
    """The mean over seeds of the trace over the largest eigenvalue.

    N for a white kernel, 1 for one of rank 1.
    """
    return {
        depth: mean([sum(seed) for seed in cell["eigenvalues"]]) for depth, cell in cells.items()
    }


def falls(values: Mapping[int, float]) -> bool:
    """Whether each value is below the one before."""
    listed = list(values.values())
    return all(after < before for before, after in pairwise(listed))


def listed(values: Mapping[int, float]) -> str:
    """The values by depth, for a sentence."""
    return ", ".join(f"d={depth} {value:.3g}" for depth, value in values.items())
