"""Figure 10: a deep linear network on one example: kernel, convergence, growth of the weights."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

import torch

from gatewise.analysis import ntk
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
    all_better,
    all_comparable,
    column,
    depends_on,
    judged,
    line,
    row,
)
from gatewise_papers.deep_gated.experiments.shared import (
    expected_linear_kernel,
    linear_kernel_variance,
    published,
    start,
)
from gatewise_papers.deep_gated.stacked import StackedNetworks, descend_stacked

NOTE = (
    "0.81 = (1 - 0.1)^2 is of half the squared error; "
    "with the paper's squared error it would be 0.64"
)
ALIKE = 0.1  # largest difference of falls that counts as alike
FIRST_STEPS = 10  # over which the fall of the error is averaged
ByDepth = dict[int, dict[str, Any]]


@dataclass(frozen=True)
class GatedFigure10Settings:
    """Sizes; the paper's, except for the number of steps, which it does not say."""

    reduced: str = ""
    width: int = 100
    depths: tuple[int, ...] = (2, 4, 6, 8, 10)
    steps: int = 30

    def expected_kernel(self, depth: int) -> float:
        """Return the expected K_0 at one depth."""
        return expected_linear_kernel(width=self.width, depth=depth, sigma=self.width**-0.5)


def cells(settings: GatedFigure10Settings, seeds: tuple[int, ...]) -> list[FunctionCell]:
    """Return one cell per depth."""
    depends = depends_on(settings, seeds)
    found = []
    for depth in settings.depths:
        function = partial(_train, settings.width, depth, settings.steps, seeds)
        found.append(FunctionCell(f"d={depth}", function, depends))
    return found


def _train(
    width: int, depth: int, steps: int, seeds: Sequence[int], _: CellCall
) -> dict[str, list[list[float]]]:
    """Return what :func:`train_linear` returns."""
    return train_linear(width, depth, steps, seeds)


def findings(values: CellValues) -> Findings:
    """Compare gradient descent with step size 0.1 / d on (x, y) = (1, 1) over depths."""
    settings: GatedFigure10Settings = values.settings
    by_depth: ByDepth = {depth: values[f"d={depth}"] for depth in settings.depths}
    steps = list(range(settings.steps + 1))
    ideal = Line("0.81 a step", steps, [published.IDEAL_RATIO**step for step in steps], theory=True)
    growth = "length of all weights over the first"
    panels = [
        _start_panel(settings, by_depth),
        _step_panel("squared error", "e_t^2 / e_0^2", "error", by_depth, ideal),
        _step_panel("growth of the kernel", "K_t", "kernel", by_depth),
        _step_panel("growth of the weights", growth, "growth", by_depth),
    ]
    return Findings(panels, _rows(settings, by_depth), _claims(by_depth), [NOTE])


def train_linear(
    width: int, depth: int, steps: int, seeds: Sequence[int]
) -> dict[str, list[list[float]]]:
    """Train a deep linear network of each seed on one example.

    Args:
        width: of each layer.
        depth: layers.
        steps: of gradient descent.
        seeds: one network each.

    Returns:
        By seed, after each step: ``error`` e_t^2 / e_0^2, ``kernel`` K_t, and ``growth``, the norm
        of all weights over the initial norm.
    """
    networks = StackedNetworks([start("linear", 1, width, depth, seed, n=1) for seed in seeds])
    x = torch.ones(len(seeds), 1, 1, dtype=torch.float64)
    y = torch.ones(len(seeds), 1, dtype=torch.float64)
    kernels: list[list[float]] = []
    norms: list[list[float]] = []

    def watch(_: int) -> None:
        """Keep kernels and norms of the weights after a step."""
        kernels.append(
            [float(ntk(networks.network(place), x[place])) for place in range(len(seeds))]
        )
        squares = []
        for parameter in networks.trained_parameters():
            squares.append(parameter.detach().flatten(1).square().sum(1))
        norms.append(torch.stack(squares).sum(0).sqrt().tolist())

    step_sizes = [0.1 / depth] * len(seeds)
    history = descend_stacked(networks, x, y, step_sizes=step_sizes, steps=steps, watch=watch)
    return {
        "error": [_over_first(losses) for losses in history.by_seed()],
        "kernel": [list(values) for values in zip(*kernels, strict=True)],
        "growth": [_over_first(values) for values in zip(*norms, strict=True)],
    }


def _over_first(values: Sequence[float]) -> list[float]:
    """Divide all values by the first."""
    return [value / values[0] for value in values]


def _start_panel(settings: GatedFigure10Settings, by_depth: ByDepth) -> Panel:
    """Return the plot of the initial kernel by depth."""
    depths = list(by_depth)
    starts = [column(cell["kernel"], 0) for cell in by_depth.values()]
    ideal = [settings.expected_kernel(depth) for depth in depths]
    lines = [
        line("K_0", depths, list(zip(*starts, strict=True))),
        Line("K_0", depths, ideal, theory=True),
    ]
    return Panel("kernel at the start (dashed: d)", "depth d", "K_0", lines)


def _step_panel(title: str, ylabel: str, key: str, by_depth: ByDepth, *more: Line) -> Panel:
    """Return the plot of one quantity by step, one line per depth."""
    lines = []
    for depth, cell in by_depth.items():
        lines.append(line(f"d={depth}", range(len(cell[key][0])), cell[key]))
    return Panel(title, "steps", ylabel, [*lines, *more], log_y=key == "error")


def _rows(settings: GatedFigure10Settings, by_depth: ByDepth) -> list[Row]:
    """Return rows of initial kernel, fall of the error and growth of the kernel."""
    width = settings.width
    rows = []
    for depth, cell in by_depth.items():
        first = column(cell["kernel"], 0)
        spread = linear_kernel_variance(width=width, depth=depth, sigma=width**-0.5) ** 0.5
        about = f"K_0, d={depth} (standard deviation of one draw in theory: {spread:.3g})"
        expected = settings.expected_kernel(depth)
        rows.append(row(about, first, closed_form=expected, compared=len(by_depth)))
        falls = row(
            f"mean fall of the squared error a step, d={depth}",
            [_mean_fall(errors) for errors in cell["error"]],
            published=published.IDEAL_RATIO,
        )
        rows.append(falls)
        rows.append(row(f"K_t at the end over K_0, d={depth}", _growth(cell)))
    return rows


def _mean_fall(errors: list[float]) -> float:
    """Return the geometric mean of the ratios of successive squared errors, first ten steps."""
    steps = min(FIRST_STEPS, len(errors) - 1)
    return (errors[steps] / errors[0]) ** (1 / steps)


def _growth(cell: dict[str, Any]) -> list[float]:
    """Return the last kernel over the first, by seed."""
    return [kernels[-1] / kernels[0] for kernels in cell["kernel"]]


def _claims(by_depth: ByDepth) -> list[Claim]:
    """Judge whether depths fall alike, and faster than the ideal."""
    falls = {}
    faster = {}
    for depth, cell in by_depth.items():
        falls[depth] = [_mean_fall(errors) for errors in cell["error"]]
        seeds = len(falls[depth])
        faster[f"fall a step below {published.IDEAL_RATIO}, d={depth}"] = (
            [published.IDEAL_RATIO] * seeds,
            falls[depth],
        )
        faster[f"K_t over K_0 above 1, d={depth}"] = (_growth(cell), [1.0] * seeds)
    alike = {}
    for one, other in combinations(falls, 2):
        alike[f"d={one} less d={other}"] = (falls[one], falls[other])
    words = ", ".join(f"d={depth} {mean(values):.3f}" for depth, values in falls.items())
    before = f"squared error falls a step by {words}; margin {ALIKE}"
    return [
        judged(published.SAME_RATE_AT_ANY_DEPTH, all_comparable(alike, ALIKE), before=before),
        judged(published.FASTER_THAN_IDEAL, all_better(faster)),
    ]


EXPERIMENT = Experiment(
    name="deep_gated/figure10",
    title="a deep linear network on one example",
    scales={
        "tiny": GatedFigure10Settings("w=20, d=2, 4", width=20, depths=(2, 4)),
        "desk": GatedFigure10Settings(),
        "full": GatedFigure10Settings(),
    },
    cells=cells,
    findings=findings,
    seeds=8,  # the paper has 5
    own_loop=True,
)
