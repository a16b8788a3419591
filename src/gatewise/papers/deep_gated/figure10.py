"""Figure 10: a deep linear network on one example.

Kernel at the start, convergence, growth of kernel and weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from gatewise.analysis import ntk
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
from gatewise.papers.deep_gated.shared import (
    ManySeeds,
    descend,
    expected_linear_kernel,
    linear_kernel_variance,
    published,
    start,
)


@dataclass(frozen=True)
class Settings:
    """Sizes; the defaults are the paper's, but for the number of steps, which it does not say."""

    reduced: str = ""
    width: int = 100
    depths: tuple[int, ...] = (2, 4, 6, 8, 10)
    steps: int = 30


def measure(run: Run) -> Findings:
    """Gradient descent with step size 0.1 / d on (x, y) = (1, 1), for every depth."""
    sizes: Settings = run.settings
    found = {
        depth: run.cell(
            f"d={depth}", lambda d=depth: train_linear(sizes.width, d, sizes.steps, run.seeds)
        )
        for depth in sizes.depths
    }
    steps = list(range(sizes.steps + 1))
    ideal = Line("0.81 a step", steps, [published.IDEAL_RATIO**step for step in steps], theory=True)
    panels = [
        _start_panel(sizes, found),
        _by_step("squared error", "e_t^2 / e_0^2", "error", found, ideal),
        _by_step("growth of the kernel", "K_t", "kernel", found),
        _by_step("growth of the weights", "length of all weights over the first", "growth", found),
    ]
    return Findings(panels, _rows(sizes, found), _claims(found), [NOTE])


NOTE = "0.81 = (1 - 0.1)^2 is of half the squared error; with the paper's squared error it would be 0.64"


def train_linear(
    width: int, depth: int, steps: int, seeds: Sequence[int]
) -> dict[str, list[list[float]]]:
    """For each seed, after each step.

    E_t^2 / e_0^2, K_t, and the length of all weights over that at the start.
    """
    networks = [start("linear", 1, width, depth, seed, n=1) for seed in seeds]
    x, y = (
        torch.ones(len(seeds), 1, 1, dtype=torch.float64),
        torch.ones(len(seeds), 1, dtype=torch.float64),
    )
    many = ManySeeds(networks)
    kernels: list[list[float]] = []
    lengths: list[list[float]] = []

    def look(_: int) -> None:
        kernels.append([float(ntk(many.network(place), x[place])) for place in range(len(seeds))])
        squares = torch.stack(
            [each.detach().flatten(1).square().sum(1) for each in many.trained_parameters()]
        )
        lengths.append(squares.sum(0).sqrt().tolist())

    losses = descend(
        many, x, y, step_sizes=[0.1 / depth] * len(seeds), steps=steps, watch=look
    ).by_seed()
    return {
        "error": [[each / of_seed[0] for each in of_seed] for of_seed in losses],
        "kernel": [list(each) for each in zip(*kernels, strict=True)],
        "growth": [
            [each / of_seed[0] for each in of_seed] for of_seed in zip(*lengths, strict=True)
        ],
    }


def _start_panel(sizes: Settings, found: dict) -> Panel:
    depths = list(found)
    by_seed = list(
        zip(*([seed[0] for seed in found[depth]["kernel"]] for depth in depths), strict=True)
    )
    ideal = [_expected(sizes, depth) for depth in depths]
    lines = [line("K_0", depths, by_seed), Line("K_0", depths, ideal, theory=True)]
    return Panel("kernel at the start (dashed: d)", "depth d", "K_0", lines)


def _by_step(title: str, ylabel: str, key: str, found: dict, *more: Line) -> Panel:
    lines = [
        line(f"d={depth}", range(len(cell[key][0])), cell[key]) for depth, cell in found.items()
    ]
    return Panel(title, "steps", ylabel, [*lines, *more], log_y=key == "error")


def _expected(sizes: Settings, depth: int) -> float:
    return expected_linear_kernel(width=sizes.width, depth=depth, sigma=sizes.width**-0.5)


def _rows(sizes: Settings, found: dict) -> list[Row]:
    rows = []
    for depth, cell in found.items():
        first = [seed[0] for seed in cell["kernel"]]
        spread = (
            linear_kernel_variance(width=sizes.width, depth=depth, sigma=sizes.width**-0.5) ** 0.5
        )
        about = f"K_0, d={depth} (standard deviation of one draw in theory: {spread:.3g})"
        rows.append(row(about, first, closed_form=_expected(sizes, depth), compared=len(found)))
        falls = [_mean_fall(seed) for seed in cell["error"]]
        rows.append(
            row(
                f"mean fall of the squared error a step, d={depth}",
                falls,
                published=published.IDEAL_RATIO,
            )
        )
        growth = [seed[-1] / seed[0] for seed in cell["kernel"]]
        rows.append(row(f"K_t at the end over K_0, d={depth}", growth))
    return rows


def _mean_fall(errors: list[float]) -> float:
    """The geometric mean of the ratios of successive squared errors, over the first ten steps."""
    steps = min(10, len(errors) - 1)
    return (errors[steps] / errors[0]) ** (1 / steps)


def _claims(found: dict) -> list[Claim]:
    falls = {
        depth: mean([_mean_fall(seed) for seed in cell["error"]]) for depth, cell in found.items()
    }
    grown = {
        depth: mean([seed[-1] / seed[0] for seed in cell["kernel"]])
        for depth, cell in found.items()
    }
    said = ", ".join(f"d={depth} {fall:.3f}" for depth, fall in falls.items())
    growth = ", ".join(f"d={depth} {each:.2f}" for depth, each in grown.items())
    alike = max(falls.values()) - min(falls.values()) < 0.1
    faster = all(fall < published.IDEAL_RATIO for fall in falls.values()) and all(
        each > 1 for each in grown.values()
    )
    return [
        Claim(published.SAME_RATE_AT_ANY_DEPTH, alike, f"squared error falls a step by {said}"),
        Claim(published.FASTER_THAN_IDEAL, faster, f"falls by {said}; K_t over K_0 {growth}"),
    ]


EXPERIMENT = Experiment(
    name="deep_gated/figure10",
    title="a deep linear network on one example",
    scales={
        "tiny": Settings("w=20, d=2, 4", width=20, depths=(2, 4)),
        "cpu": Settings(),
        "full": Settings(),
    },
    measure=measure,
)
