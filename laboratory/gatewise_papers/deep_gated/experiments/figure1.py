"""Figure 1: cumulative eigenvalues of the initial kernel of random gates, ideal and measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from gatewise.analysis import spectrum
from gatewise.stats import mean
from gatewise.studies import CellCall, FunctionCell
from gatewise_papers.common import (
    CellValues,
    Claim,
    Experiment,
    Findings,
    Line,
    Panel,
    Row,
    all_lower,
    column,
    depends_on,
    line,
    row,
)
from gatewise_papers.deep_gated.experiments.shared import DEPTHS, inputs, kernel, published, start
from gatewise_papers.deep_gated.kernel_measures import ideal_spectrum

XLABEL = "eigenvalues, smallest first"
YLABEL = "cumulative sum"
Spectra = dict[tuple[int, int], list[dict[str, Any]]]  # by width and depth, one per seed
IdealCurves = dict[int, list[float]]  # by depth


@dataclass(frozen=True)
class GatedFigure1Settings:
    """Sizes; the defaults are the paper's."""

    reduced: str = ""
    n: int = 200
    widths: tuple[int, int] = (500, 25)  # wide, narrow
    depths: tuple[int, ...] = DEPTHS
    mu: float = 0.5


def cells(settings: GatedFigure1Settings, seeds: tuple[int, ...]) -> list[FunctionCell]:
    """Return one cell for every width and depth."""
    found = []
    for width in settings.widths:
        for depth in settings.depths:
            function = partial(_spectra, settings, width, depth, seeds)
            found.append(FunctionCell(_cell(width, depth), function, depends_on(settings, seeds)))
    return found


def _cell(width: int, depth: int) -> str:
    """Return the name of the cell of a width and depth."""
    return f"w={width} d={depth}"


def findings(values: CellValues) -> Findings:
    """Compare the spectra of K_0 / d for every width and depth with the ideal ones."""
    settings: GatedFigure1Settings = values.settings
    spectra: Spectra = {}
    for width in settings.widths:
        for depth in settings.depths:
            spectra[width, depth] = values[_cell(width, depth)]
    ideal: IdealCurves = {}
    for depth in settings.depths:
        ideal[depth] = ideal_spectrum(settings.n, mu=settings.mu, depth=depth).curve().tolist()
    panels = [_ideal_panel(ideal)]
    panels += [_panel(width, spectra, ideal) for width in settings.widths]
    claims = _claims(settings, spectra, ideal)
    return Findings(panels, _rows(settings, spectra, ideal), claims)


def _spectra(
    settings: GatedFigure1Settings,
    width: int,
    depth: int,
    seeds: Sequence[int],
    _: CellCall,
) -> list[dict[str, Any]]:
    """Measure cumulative eigenvalues and mean diagonal of K_0 / d for every seed."""
    x = inputs(1, settings.n, 0)[0]
    measured = []
    for seed in seeds:
        network = start("random", 1, width, depth, seed, n=settings.n, mu=settings.mu)
        matrix = kernel(network, x) / depth
        curve = spectrum(matrix).curve().tolist()
        measured.append({"curve": curve, "diagonal": float(matrix.diagonal().mean())})
    return measured


def _ideal_panel(ideal: IdealCurves) -> Panel:
    """Return the plot of the ideal curves."""
    lines = [_ideal_line(depth, curve) for depth, curve in ideal.items()]
    return Panel("ideal (equation 5)", XLABEL, YLABEL, lines)


def _panel(width: int, spectra: Spectra, ideal: IdealCurves) -> Panel:
    """Return the plot of the measured curves of one width, beside the ideal ones."""
    lines = []
    for depth, curve in ideal.items():
        curves = column(spectra[width, depth], "curve")
        lines.append(line(f"d={depth}", range(1, len(curve) + 1), curves))
        lines.append(_ideal_line(depth, curve))
    return Panel(f"w={width} (dashed: ideal)", XLABEL, YLABEL, lines)


def _ideal_line(depth: int, curve: list[float]) -> Line:
    """Return the ideal curve of one depth."""
    return Line(f"d={depth}", list(range(1, len(curve) + 1)), curve, theory=True)


def _rows(settings: GatedFigure1Settings, spectra: Spectra, ideal: IdealCurves) -> list[Row]:
    """Return rows of diagonal, largest eigenvalue and distance from the ideal curve."""
    wide = settings.widths[0]
    rows = []
    for (width, depth), seeds in spectra.items():
        # At the narrow width the few draws of the kernel are too skewed for an interval from
        # their own spread.
        compared = len(settings.depths) if width == wide else 0
        name = f"w={width}, d={depth}"
        diagonals = column(seeds, "diagonal")
        largest = [seed["curve"][-1] - seed["curve"][-2] for seed in seeds]
        ideal_largest = ideal[depth][-1] - ideal[depth][-2]
        distances = [_distance(seed["curve"], ideal[depth]) for seed in seeds]
        rows.append(
            row(f"mean diagonal of K_0/d, {name}", diagonals, closed_form=1.0, compared=compared)
        )
        rows.append(row(f"largest eigenvalue, {name}", largest, closed_form=ideal_largest))
        rows.append(row(f"distance from the ideal curve over n, {name}", distances))
    return rows


def _distance(curve: list[float], ideal: list[float]) -> float:
    """Return the mean distance of two cumulative curves, over n."""
    return mean([abs(a - b) for a, b in zip(curve, ideal, strict=True)]) / len(curve)


def _claims(settings: GatedFigure1Settings, spectra: Spectra, ideal: IdealCurves) -> list[Claim]:
    """Judge that the wide network is nearer to the ideal curve at every depth."""
    distance = {}
    for (width, depth), seeds in spectra.items():
        distance[width, depth] = [_distance(seed["curve"], ideal[depth]) for seed in seeds]
    wide, narrow = settings.widths
    pairs = {}
    for depth in settings.depths:
        pairs[f"d={depth}, distance over n"] = (distance[wide, depth], distance[narrow, depth])
    return [all_lower(published.WIDER_IS_NEARER_IDEAL, pairs)]


EXPERIMENT = Experiment(
    name="deep_gated/figure1",
    title="cumulative eigenvalues under random gates",
    scales={
        "tiny": GatedFigure1Settings(
            "n=20, w=40 and 5, d=2, 4",
            n=20,
            widths=(40, 5),
            depths=(2, 4),
        ),
        "desk": GatedFigure1Settings(),
        "full": GatedFigure1Settings(),
    },
    cells=cells,
    findings=findings,
    seeds=8,  # the paper does not say how many
)
