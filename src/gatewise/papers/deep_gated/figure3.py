"""Figure 3: convergence of random gates by depth at two widths, and their normalised spectra."""

from dataclasses import dataclass
from typing import Any

from gatewise.analysis import ideal_spectrum
from gatewise.papers.common import Claim, Experiment, Findings, Line, Panel, Run
from gatewise.papers.deep_gated.shared import (
    DEPTHS,
    STEP,
    convergence,
    curves,
    falls,
    final_ratios,
    listed,
    published,
    ratios,
    rows,
)


@dataclass(frozen=True)
class Settings:
    """Sizes; the defaults are the paper's, but for the number of steps, which it does not say."""

    reduced: str = ""
    n: int = 200
    widths: tuple[int, int] = (500, 25)  # wide, narrow
    depths: tuple[int, ...] = DEPTHS
    steps: int = 1000
    mu: float = 0.5


def measure(run: Run) -> Findings:
    """Gradient descent for every width and depth."""
    sizes: Settings = run.settings
    found = {
        (width, depth): run.cell(
            f"w={width} d={depth}",
            lambda w=width, d=depth: convergence(
                "random", w, d, d_in=1, n=sizes.n, steps=sizes.steps, seeds=run.seeds
            ),
        )
        for width in sizes.widths
        for depth in sizes.depths
    }
    by_width = {
        width: {depth: found[width, depth] for depth in sizes.depths}
        for width in reversed(sizes.widths)
    }
    theory = {depth: ideal_ratio(sizes.n, sizes.mu, depth, sizes.steps) for depth in sizes.depths}
    panels = [
        _with_theory(ratios(f"w={width}", cells), theory) for width, cells in by_width.items()
    ]
    panels += [curves(f"w={width}", cells) for width, cells in by_width.items()]
    numbers = [each for width, cells in by_width.items() for each in rows(f"w={width}", cells)]
    return Findings(panels, numbers, _claims(sizes, by_width), [NOTE])


NOTE = "full gradient descent on half the sum of squares; the text of the paper has w=100 where its figure has 25 and 500"


def ideal_ratio(n: int, mu: float, depth: int, steps: int) -> list[float]:
    """The error's length over its first one, were the kernel always that of equation 5 and the targets random."""
    ideal = ideal_spectrum(n, mu=mu, depth=depth).eigenvalues.tolist()
    falls = [1 - STEP * each / ideal[-1] for each in (ideal[0], ideal[-1])]
    shares = ((n - 1) / n, 1 / n)
    return [
        sum(share * fall ** (2 * step) for share, fall in zip(shares, falls, strict=True)) ** 0.5
        for step in range(steps + 1)
    ]


def _with_theory(panel: Panel, theory: dict[int, list[float]]) -> Panel:
    ideal = [
        Line(f"d={depth}", list(range(len(each))), each, theory=True)
        for depth, each in theory.items()
    ]
    title = f"{panel.title} (dashed: kernel of equation 5)"
    return Panel(title, panel.xlabel, panel.ylabel, [*panel.lines, *ideal], log_y=panel.log_y)


def _claims(sizes: Settings, by_width: dict[int, dict[int, Any]]) -> list[Claim]:
    last = {width: final_ratios(cells) for width, cells in by_width.items()}
    wide, narrow = sizes.widths
    said = "; ".join(f"w={width}: {listed(each)}" for width, each in last.items())
    falling = falls(last[wide])
    best = min(last[narrow], key=lambda depth: last[narrow][depth])
    return [
        Claim(
            published.DEPTH_HELPS_RANDOM, falling, f"error left after {sizes.steps} steps, {said}"
        ),
        Claim(
            published.DEPTH_HURTS_NARROW,
            best < max(sizes.depths),
            f"w={narrow}: least error left at d={best}",
        ),
    ]


EXPERIMENT = Experiment(
    name="deep_gated/figure3",
    title="convergence and normalised spectra under random gates",
    scales={
        "tiny": Settings(
            "n=10, w=30 and 6, d=2, 4, 20 steps", n=10, widths=(30, 6), depths=(2, 4), steps=20
        ),
        "cpu": Settings("50 steps", steps=50),
        "full": Settings(),
    },
    measure=measure,
)
