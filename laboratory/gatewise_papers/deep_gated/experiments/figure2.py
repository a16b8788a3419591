"""Figure 2: one diagonal and one other entry of the kernel of random gates, by depth."""

from collections.abc import Callable
from dataclasses import dataclass

from gatewise.studies import CellCall, FunctionCell
from gatewise_papers.common import (
    CellValues,
    Claim,
    Experiment,
    Findings,
    Line,
    Panel,
    Row,
    column,
    counted,
    line,
    row,
)
from gatewise_papers.deep_gated.experiments.shared import DEPTHS, inputs, kernel, published, start

ENTRIES = ("diagonal", "other")


@dataclass(frozen=True)
class GatedFigure2Settings:
    """Sizes; the defaults are the paper's."""

    reduced: str = ""
    width: int = 500
    depths: tuple[int, ...] = DEPTHS
    mu: float = 0.5


def cells(settings: GatedFigure2Settings, seeds: tuple[int, ...]) -> list[FunctionCell]:
    """Return one cell per depth."""
    declared = []
    for depth in settings.depths:
        values = {
            "width": settings.width,
            "depth": depth,
            "mu": settings.mu,
            "seeds": list(seeds),
        }
        declared.append(FunctionCell(_name(depth), measure_entries, values))
    return declared


def measure_entries(cell: CellCall) -> list[list[float]]:
    """Return the two entries of K_0 / d for every seed.

    Other inputs do not change these entries, so two inputs are enough.
    """
    depth = cell.settings["depth"]
    entries = []
    for seed in cell.settings["seeds"]:
        x, _ = inputs(1, 2, seed)
        width = cell.settings["width"]
        network = start("random", 1, width, depth, seed, n=2, mu=cell.settings["mu"])
        matrix = kernel(network, x) / depth
        entries.append([float(matrix[0, 0]), float(matrix[0, 1])])
    return entries


def findings(values: CellValues) -> Findings:
    """Compare both entries with equation 5."""
    settings: GatedFigure2Settings = values.settings
    panels = []
    rows = []
    for place, name in enumerate(ENTRIES):
        by_depth = {}
        for depth in settings.depths:
            by_depth[depth] = column(values[_name(depth)], place)

        def ideal(depth: int, name: str = name) -> float:
            """Return the entry by equation 5."""
            if name == "diagonal":
                return 1.0
            return settings.mu ** (depth - 1)

        panels.append(_panel(name, by_depth, ideal))
        for depth, entries in by_depth.items():
            measured = row(
                f"{name} entry of K_0/d, d={depth}",
                entries,
                closed_form=ideal(depth),
                compared=len(ENTRIES) * len(settings.depths),
            )
            rows.append(measured)
    return Findings(panels, rows, [_claim(rows)])


def _name(depth: int) -> str:
    """Return the name of the cell of one depth."""
    return f"d={depth}"


def _panel(name: str, by_depth: dict[int, list[float]], ideal: Callable[[int], float]) -> Panel:
    """Return the plot of one entry by depth, beside equation 5."""
    depths = list(by_depth)
    by_seed = list(zip(*by_depth.values(), strict=True))
    theory = Line("K_0 / d", depths, [ideal(depth) for depth in depths], theory=True)
    lines = [line("K_0 / d", depths, by_seed), theory]
    return Panel(f"{name} entry (dashed: equation 5)", "depth d", "K_0 / d", lines)


def _claim(rows: list[Row]) -> Claim:
    """Decide whether equation 5 lies in the interval of every mean."""
    inside = sum(row.agrees is True for row in rows)
    evidence = (
        f"{inside} of {len(rows)} means have equation 5 in their interval (99.9 % for all together)"
    )
    return counted(published.ENTRIES_FOLLOW_IDEAL, inside == len(rows), evidence)


EXPERIMENT = Experiment(
    name="deep_gated/figure2",
    title="entries of the kernel under random gates",
    scales={
        "tiny": GatedFigure2Settings("w=60, d=2, 4, 6", width=60, depths=(2, 4, 6)),
        "desk": GatedFigure2Settings(),
        "full": GatedFigure2Settings(),
    },
    seeds=20,
    cells=cells,
    findings=findings,
)
