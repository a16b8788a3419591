"""Figure 3: convergence of random gates by depth at two widths, and their normalised spectra."""

from dataclasses import dataclass
from functools import partial

from gatewise.studies import FunctionCell
from gatewise_papers.common import (
    CellValues,
    Claim,
    ClaimResult,
    Experiment,
    Findings,
    Judgement,
    Line,
    Panel,
    Row,
    by_seed,
    depends_on,
    judge_better,
    judged,
)
from gatewise_papers.deep_gated.experiments.shared import (
    DEPTHS,
    STEP,
    DepthCells,
    depth_rows,
    depth_trend,
    descend,
    final_ratios,
    in_words,
    published,
    ratio_panel,
    spectrum_panel,
    steps_until,
)
from gatewise_papers.deep_gated.kernel_measures import ideal_spectrum

LEVEL = 0.05
LEFT = 0.01  # the share of the error until which steps are counted
RANKED = (
    Judgement.NOT_TESTED,
    Judgement.CONTRADICTED,
    Judgement.UNDECIDED,
    Judgement.SUPPORTED,
)
NOTES = (
    "full gradient descent on half the sum of squares; "
    "the text of the paper has w=100 where its figure has 25 and 500",
    "the paper says that depth helps till a point and does not name it, so that the slope alone is "
    "judged: between single depths the number of steps may rise again",
)


@dataclass(frozen=True)
class GatedFigure3Settings:
    """Sizes; the paper's, except for the number of steps, which it does not say."""

    reduced: str = ""
    n: int = 200
    widths: tuple[int, int] = (500, 25)  # wide, narrow
    depths: tuple[int, ...] = DEPTHS
    steps: int = 1000
    mu: float = 0.5


def cells(settings: GatedFigure3Settings, seeds: tuple[int, ...]) -> list[FunctionCell]:
    """Return one descent for every width and depth."""
    depends = depends_on(settings, seeds)
    found = []
    for width in settings.widths:
        for depth in settings.depths:
            function = partial(
                descend, "random", width, depth, 1, settings.n, settings.steps, seeds
            )
            found.append(FunctionCell(_cell(width, depth), function, depends))
    return found


def _cell(width: int, depth: int) -> str:
    """Return the name of the cell of a width and depth."""
    return f"w={width} d={depth}"


def findings(values: CellValues) -> Findings:
    """Compare gradient descent over widths and depths."""
    settings: GatedFigure3Settings = values.settings
    by_width: dict[int, DepthCells] = {}
    for width in reversed(settings.widths):
        by_width[width] = {depth: values[_cell(width, depth)] for depth in settings.depths}
    theory = {}
    for depth in settings.depths:
        theory[depth] = ideal_ratio(settings.n, settings.mu, depth, settings.steps)
    panels: list[Panel] = []
    rows: list[Row] = []
    for width, cells in by_width.items():
        panels.append(_with_theory(ratio_panel(f"w={width}", cells), theory))
    for width, cells in by_width.items():
        panels.append(spectrum_panel(f"w={width}", cells))
        rows += depth_rows(f"w={width}", cells)
    return Findings(panels, rows, _claims(settings, by_width), NOTES)


def ideal_ratio(n: int, mu: float, depth: int, steps: int) -> list[float]:
    """Return |e_t| / |e_0| if the kernel were that of equation 5 and the targets random.

    Args:
        n: number of examples.
        mu: the probability that a gate is open.
        depth: layers.
        steps: of gradient descent.
    """
    eigenvalues = ideal_spectrum(n, mu=mu, depth=depth).eigenvalues.tolist()
    smallest = 1 - STEP * eigenvalues[0] / eigenvalues[-1]
    largest = 1 - STEP
    ratios = []
    for step in range(steps + 1):
        power = 2 * step
        ratios.append(((n - 1) / n * smallest**power + 1 / n * largest**power) ** 0.5)
    return ratios


def _with_theory(panel: Panel, theory: dict[int, list[float]]) -> Panel:
    """Return the plot with the ideal curves added."""
    lines = list(panel.lines)
    for depth, ratios in theory.items():
        lines.append(Line(f"d={depth}", list(range(len(ratios))), ratios, theory=True))
    title = f"{panel.title} (dashed: kernel of equation 5)"
    return Panel(title, panel.xlabel, panel.ylabel, lines, log_y=panel.log_y)


def _claims(settings: GatedFigure3Settings, by_width: dict[int, DepthCells]) -> list[Claim]:
    """Judge whether depth helps the wide network and hurts the narrow one."""
    wide, narrow = settings.widths
    left = final_ratios(by_width[narrow])
    deepest = max(settings.depths)
    pairs = {}
    for depth in settings.depths:
        if depth != deepest:
            pairs[depth] = judge_better(
                by_seed(left[depth]),
                by_seed(left[deepest]),
                higher_is_better=False,
                level=LEVEL / (len(settings.depths) - 1),  # one of them is enough
            )
    return [
        depth_trend(
            published.DEPTH_HELPS_RANDOM,
            steps_until(by_width[wide], LEFT),
            f"steps until {LEFT:.0%} of the error is left, at most {settings.steps}, w={wide}",
            rises=False,
            monotone=False,
        ),
        judged(
            published.DEPTH_HURTS_NARROW,
            _any_of(pairs),
            before=f"error left, w={narrow}, less d={deepest}'s: {in_words(left)}",
        ),
    ]


def _any_of(results: dict[int, ClaimResult]) -> ClaimResult:
    """Judge that one of several claims holds; contradicted if each of them is."""
    chosen = max(results.values(), key=lambda result: RANKED.index(result.judgement))
    for result in results.values():
        best = chosen.evidence and result.evidence
        if result.judgement is chosen.judgement and best:
            if result.evidence[0].difference > chosen.evidence[0].difference:
                chosen = result
    return chosen


EXPERIMENT = Experiment(
    name="deep_gated/figure3",
    title="convergence and normalised spectra under random gates",
    scales={
        "tiny": GatedFigure3Settings(
            "n=10, w=30 and 6, d=2, 4, 20 steps",
            n=10,
            widths=(30, 6),
            depths=(2, 4),
            steps=20,
        ),
        "desk": GatedFigure3Settings(),
        "full": GatedFigure3Settings(),
    },
    cells=cells,
    findings=findings,
    seeds=8,  # the paper has 5
    own_loop=True,
)
