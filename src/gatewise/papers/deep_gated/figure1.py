"""Figure 1: cumulative eigenvalues of the kernel of random gates at the start, ideal and at two widths."""

from collections.abc import Sequence
from dataclasses import dataclass

from gatewise.analysis import ideal_spectrum, spectrum
from gatewise.papers.common import (
    Claim,
    Experiment,
    Findings,
    Line,
    Panel,
    Row,
    Run,
    line,
    mean,
    row,
)
from gatewise.papers.deep_gated.shared import DEPTHS, inputs, kernel, published, start


@dataclass(frozen=True)
class Settings:
    """Sizes; the defaults are the paper's."""

    reduced: str = ""
    n: int = 200
    widths: tuple[int, int] = (500, 25)  # wide, narrow
    depths: tuple[int, ...] = DEPTHS
    mu: float = 0.5


def measure(run: Run) -> Findings:
    """Spectra of K_0 / d for every width and depth."""
    sizes: Settings = run.settings
    found = {
        (width, depth): run.cell(
            f"w={width} d={depth}", lambda w=width, d=depth: _spectra(sizes, w, d, run.seeds)
        )
        for width in sizes.widths
        for depth in sizes.depths
    }
    ideal = {
        depth: ideal_spectrum(sizes.n, mu=sizes.mu, depth=depth).curve().tolist()
        for depth in sizes.depths
    }
    panels = [_ideal_panel(ideal)] + [_panel(width, found, ideal) for width in sizes.widths]
    return Findings(panels, list(_rows(sizes, found, ideal)), _claims(sizes, found, ideal))


def _spectra(sizes: Settings, width: int, depth: int, seeds: Sequence[int]) -> list[dict]:
    x, _ = inputs(1, sizes.n, 0)
    kernels = [
        kernel(start("random", 1, width, depth, seed, n=sizes.n, mu=sizes.mu), x) / depth
        for seed in seeds
    ]
    return [
        {"curve": spectrum(each).curve().tolist(), "diagonal": float(each.diagonal().mean())}
        for each in kernels
    ]


def _ideal_panel(ideal: dict[int, list[float]]) -> Panel:
    lines = [
        Line(f"d={depth}", _places(curve), curve, theory=True) for depth, curve in ideal.items()
    ]
    return Panel("ideal (equation 5)", "eigenvalues, smallest first", "cumulative sum", lines)


def _panel(width: int, found: dict, ideal: dict[int, list[float]]) -> Panel:
    lines = []
    for depth, curve in ideal.items():
        lines.append(
            line(f"d={depth}", _places(curve), [each["curve"] for each in found[width, depth]])
        )
        lines.append(Line(f"d={depth}", _places(curve), curve, theory=True))
    return Panel(
        f"w={width} (dashed: ideal)", "eigenvalues, smallest first", "cumulative sum", lines
    )


def _places(curve: list[float]) -> list[int]:
    return list(range(1, len(curve) + 1))


def _rows(sizes: Settings, found: dict, ideal: dict[int, list[float]]) -> list[Row]:
    wide, rows = sizes.widths[0], []
    for (width, depth), seeds in found.items():
        # At the narrow width the kernel's few draws are too skewed for an interval from their own
        # spread.
        compared = len(sizes.depths) if width == wide else 0
        diagonal = [each["diagonal"] for each in seeds]
        name = f"w={width}, d={depth}"
        rows.append(
            row(f"mean diagonal of K_0/d, {name}", diagonal, closed_form=1.0, compared=compared)
        )
        top = [each["curve"][-1] - each["curve"][-2] for each in seeds]
        rows.append(
            row(f"largest eigenvalue, {name}", top, closed_form=ideal[depth][-1] - ideal[depth][-2])
        )
        away = [_distance(each["curve"], ideal[depth]) for each in seeds]
        rows.append(row(f"distance from the ideal curve over n, {name}", away))
    return rows


def _distance(curve: list[float], ideal: list[float]) -> float:
    """The mean distance of two cumulative curves, over n."""
    return mean([abs(a - b) for a, b in zip(curve, ideal, strict=True)]) / len(curve)


def _claims(sizes: Settings, found: dict, ideal: dict[int, list[float]]) -> list[Claim]:
    away = {
        key: mean([_distance(each["curve"], ideal[key[1]]) for each in seeds])
        for key, seeds in found.items()
    }
    wide, narrow = sizes.widths
    nearer = [away[wide, depth] < away[narrow, depth] for depth in sizes.depths]
    worst = max(sizes.depths)
    evidence = (
        f"nearer at {sum(nearer)} of {len(nearer)} depths; "
        f"d={worst}: {away[wide, worst]:.3f} n at w={wide}, {away[narrow, worst]:.3f} n at w={narrow}"
    )
    return [Claim(published.WIDER_IS_NEARER_IDEAL, all(nearer), evidence)]


EXPERIMENT = Experiment(
    name="deep_gated/figure1",
    title="cumulative eigenvalues under random gates",
    scales={
        "tiny": Settings("n=20, w=40 and 5, d=2, 4", n=20, widths=(40, 5), depths=(2, 4)),
        "cpu": Settings(),
        "full": Settings(),
    },
    measure=measure,
)
