"""Figure 4: spectra and convergence of GaLU and ReLU networks by depth, on inputs from a square."""

from collections.abc import Mapping
from dataclasses import dataclass

from gatewise.papers.common import Claim, Experiment, Findings, Run
from gatewise.papers.deep_gated.shared import (
    DEPTHS,
    Cells,
    convergence,
    curves,
    falls,
    final_ratios,
    listed,
    published,
    ratios,
    rows,
)
from gatewise.papers.deep_gated.shared import whiteness as whiteness_of

GATES = {"GaLU": "galu", "ReLU": "relu"}


@dataclass(frozen=True)
class Settings:
    """Sizes; the defaults are the paper's, but for the number of steps, which it does not say."""

    reduced: str = ""
    n: int = 100
    width: int = 100
    depths: tuple[int, ...] = DEPTHS
    steps: int = 5000


def measure(run: Run) -> Findings:
    """Gradient descent for both networks and every depth."""
    sizes: Settings = run.settings

    def cell(name: str, depth: int) -> dict:
        return convergence(
            GATES[name], sizes.width, depth, d_in=2, n=sizes.n, steps=sizes.steps, seeds=run.seeds
        )

    found = {
        name: {
            depth: run.cell(f"{name} d={depth}", lambda n=name, d=depth: cell(n, d))
            for depth in sizes.depths
        }
        for name in GATES
    }
    panels = [
        panel
        for name, cells in found.items()
        for panel in (curves(name, cells), ratios(name, cells))
    ]
    numbers = [each for name, cells in found.items() for each in rows(name, cells)]
    return Findings(
        panels, numbers, _claims(sizes, found), ["full gradient descent on half the sum of squares"]
    )


def _claims(sizes: Settings, found: Mapping[str, Cells]) -> list[Claim]:
    left = {name: final_ratios(cells) for name, cells in found.items()}
    white = {name: whiteness_of(cells) for name, cells in found.items()}
    galu, relu = found
    rising = falls({depth: -value for depth, value in white[galu].items()})
    faster = [left[galu][depth] < left[relu][depth] for depth in sizes.depths]
    whiter = [white[galu][depth] > white[relu][depth] for depth in sizes.depths]
    both = "; ".join(f"{name}: {listed(each)}" for name, each in left.items())
    spectra = "; ".join(f"{name}: {listed(each)}" for name, each in white.items())
    depths = f"error left after {sizes.steps} steps: {listed(left[galu])}"
    return [
        Claim(published.DEPTH_HELPS_GALU, falls(left[galu]), depths),
        Claim(
            published.DEPTH_WHITENS_GALU,
            rising,
            f"trace over largest eigenvalue: {listed(white[galu])}",
        ),
        Claim(
            published.GALU_OPTIMISES_BETTER,
            all(faster),
            f"at {sum(faster)} of {len(faster)} depths; {both}",
        ),
        Claim(
            published.GALU_SPECTRUM_BETTER,
            all(whiter),
            f"at {sum(whiter)} of {len(whiter)} depths; {spectra}",
        ),
    ]


EXPERIMENT = Experiment(
    name="deep_gated/figure4",
    title="spectra and convergence of GaLU and ReLU",
    scales={
        "tiny": Settings("n=10, w=12, d=2, 4, 20 steps", n=10, width=12, depths=(2, 4), steps=20),
        "cpu": Settings("500 steps", steps=500),
        "full": Settings(),
    },
    measure=measure,
)
