"""Simulated studies of units x learning rates x seeds, and how often the rule is wrong in them.

    python tests/factorial_worlds.py [STUDIES]

prints the table of docs/statistics.md.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gatewise.stats.factorial import (
    FactorialRuns,
    FactorialVerdicts,
    Progress,
    factorial_progress,
    grid_steps,
    judge_factorial,
)

Shape = Callable[[np.ndarray], np.ndarray]
COLLAPSED = -60.0


def parabola(fall: float) -> Shape:
    return lambda d: -fall * d * d


def cubic(d: np.ndarray) -> np.ndarray:
    return -0.5 * np.abs(d) ** 3


def quartic(d: np.ndarray) -> np.ndarray:
    return -0.4 * d**4


def plateau(d: np.ndarray) -> np.ndarray:
    return -(np.maximum(0, np.abs(d) - 0.7) ** 2)


def tent(d: np.ndarray) -> np.ndarray:
    return -np.abs(d)


def asymmetric(d: np.ndarray) -> np.ndarray:
    return np.where(d > 0, -2 * d * d, -0.5 * d * d)


def sigmoid_cliff(d: np.ndarray) -> np.ndarray:
    """Slow rise, then a smooth breakdown of 20 points."""
    return -0.3 * d * d - 20 / (1 + np.exp(-6 * (d - 1.2)))


def saturating(d: np.ndarray) -> np.ndarray:
    """A parabola that levels off 8 points below the top."""
    return -8 * (1 - np.exp(-(d * d) / 8))


def cliff(height: float) -> Shape:
    return lambda d: np.where(d > 1, -d * d - height, -d * d)


def two_humps(apart: float) -> Shape:
    return lambda d: -np.minimum(d**2, (d - apart) ** 2)


def unlike(baseline: Shape, others: Shape) -> Shape:
    def shape(d: np.ndarray) -> np.ndarray:
        first = np.arange(d.shape[1])[None, :, None] == 0
        return np.where(first, baseline(d), others(d))

    return shape


@dataclass(frozen=True)
class World:
    """How simulated studies are drawn. All units have the same top.

    ``false`` is the share of studies with any false verdict that docs/statistics.md promises not
    to exceed, in percent. ``found`` is the least share of true gaps of two standard deviations that
    are found, None where nothing is promised.
    """

    name: str
    shape: Shape
    sd: float | Sequence[float] = 0.5
    seeds: int = 8
    units: int = 8
    spread: float = 1.0
    correlation: float = 0.3
    heavy_tails: bool = False
    collapse: float = 0.0
    diverge: float = 0.0
    collapsing: tuple[int, int] = (0, 99)
    false: float = 3.0
    found: float | None = None

    def draw(self, studies: int, rng: np.random.Generator, gap: float = 0.0) -> FactorialRuns:
        """Draw studies in which the units without the baseline are better by ``gap``."""
        steps = grid_steps(5) / 2
        units, seeds = self.units, self.seeds
        tops = rng.uniform(-self.spread, self.spread, (studies, units))
        fall = self.shape(steps - tops[..., None])
        # A run at f points below the top has a larger spread.
        growth = 1 - 0.5 * fall / (1 - fall)
        sd = np.broadcast_to(np.asarray(self.sd, float), (units,))[:, None] * growth
        draw = rng.standard_normal
        if self.heavy_tails:
            draw = lambda size: rng.standard_t(3, size) / np.sqrt(3)  # noqa: E731
        shared = draw((studies, 1, 1, seeds))
        alone = draw((studies, units, len(steps), seeds))
        noise = np.sqrt(self.correlation) * shared + np.sqrt(1 - self.correlation) * alone
        values = fall[..., None] + sd[..., None] * noise
        values[:, 1:] += gap
        diverged = np.zeros(values.shape, bool)
        part = diverged[:, slice(*self.collapsing)]
        part[:] = rng.random(part.shape) < self.collapse
        above = np.arange(len(steps)) > fall.argmax(-1)[..., None]
        diverged |= above[..., None] & (rng.random(values.shape) < self.diverge)
        return FactorialRuns.of(values, 5, diverged=diverged, chance=COLLAPSED)

    @property
    def gap(self) -> float:
        """Two standard deviations: of the noisier of the first two units."""
        return 2 * float(np.max(np.broadcast_to(np.asarray(self.sd, float), (self.units,))[:2]))


ONE = parabola(1)


def mixed_sharpness(d: np.ndarray) -> np.ndarray:
    """Units whose curves fall .3 to 4 points per step squared."""
    falls = np.geomspace(0.3, 4, d.shape[1])
    return -falls[None, :, None] * d * d


def cliffs_on_both_sides(d: np.ndarray) -> np.ndarray:
    return np.where(np.abs(d) > 1.1, -30.0, -d * d)


# The worlds in which the rule was chosen.
CHOSEN_IN = [
    World("parabola", ONE, found=67),
    World("parabola, tops 1.5 steps off", ONE, spread=1.5, found=67),
    World("parabola, tops 2 steps off", ONE, spread=2, found=67),
    World("parabola, tops 3 steps off", ONE, spread=3, found=67),
    World("flat parabola, tops 3 steps off", parabola(0.25), spread=3, found=67),
    World("flat", parabola(0), found=67),
    World("very sharp, falls 2, sd .3", parabola(2), sd=0.3),
    World("very sharp, falls 4, sd .3", parabola(4), sd=0.3),
    World("asymmetric, tops 2 steps off", asymmetric, spread=2, found=67),
    World("asymmetric, sd .15", asymmetric, sd=0.15, false=5.0),
    World("asymmetric, sd .1", asymmetric, sd=0.1),
    World("asymmetric, sd .05", asymmetric, sd=0.05, false=7.0),
    World("cliff of 30, tops 2 steps off", cliff(30), spread=2, found=67),
    World("cliff of 5, tops 2 steps off", cliff(5), spread=2, found=67),
    World("cliff of 5, sd .15", cliff(5), sd=0.15),
    World("cliff of 5, sd .05", cliff(5), sd=0.05),
    World("cliffs on both sides", cliffs_on_both_sides),
    World("two humps 2.2 steps apart", two_humps(2.2)),
    World("two humps 3 steps apart", two_humps(3)),
    World("parabola against cubic", unlike(ONE, cubic)),
    World("parabola against cubic, sd .15", unlike(ONE, cubic), sd=0.15, false=6.0),
    World("parabola against cubic, sd .1", unlike(ONE, cubic), sd=0.1, false=6.0),
    World("parabola against cubic, sd .05", unlike(ONE, cubic), sd=0.05, false=6.0),
    World("plateau against parabola", unlike(plateau, ONE)),
    World("flat against parabola, tops 1.5 off", unlike(parabola(0), ONE), spread=1.5),
    World("parabola against flat, tops 1.5 off", unlike(ONE, parabola(0)), spread=1.5),
    World("heavy tails", ONE, heavy_tails=True, found=67),
    World("one unit 8 times as noisy", asymmetric, sd=(*[0.5] * 7, 4.0)),
    World("baseline sd .2, units .8", ONE, sd=(0.2, *[0.8] * 7)),
    World("baseline sd .8, units .2", ONE, sd=(0.8, *[0.2] * 7)),
    World("half the units 4 times as noisy", ONE, sd=(*[0.3] * 4, *[1.2] * 4)),
    World("no pairing", ONE, correlation=0.0),
    World("correlation .8", ONE, correlation=0.8),
    World(
        "correlation .8, plateau against parabola",
        unlike(plateau, ONE),
        correlation=0.8,
        false=10.0,
    ),
    World("2 units", ONE, units=2),
    World("2 units, asymmetric, tops 2 steps off", asymmetric, units=2, spread=2),
    World("5 seeds", ONE, seeds=5, found=24),
    World("5 seeds, asymmetric, sd .1", asymmetric, seeds=5, sd=0.1),
    World("20 seeds, asymmetric", asymmetric, seeds=20, found=98),
    World("20 seeds, plateau against parabola", unlike(plateau, ONE), seeds=20, false=12.0),
    World("tent against plateau", unlike(tent, plateau), false=21.0),
    World("tent against parabola", unlike(tent, ONE), false=10.0),
]
# Others, for the 12 standard deviations at which half-way rates are added.
OTHERS = [
    World("smooth breakdown of 20", sigmoid_cliff),
    World("smooth breakdown of 20, sd .15", sigmoid_cliff, sd=0.15),
    World("smooth breakdown of 20, sd .05", sigmoid_cliff, sd=0.05),
    World("quartic", quartic),
    World("quartic, sd .1", quartic, sd=0.1),
    World("quartic, sd .05", quartic, sd=0.05),
    World("levels off 8 below the top, sd .3", saturating, sd=0.3),
    World("levels off 8 below the top, sd .07", saturating, sd=0.07),
    World("falls .3 to 4, sd .4", mixed_sharpness, sd=0.4),
    World("falls .3 to 4, sd .15", mixed_sharpness, sd=0.15),
    World("falls .3 to 4, sd .05", mixed_sharpness, sd=0.05),
    World("asymmetric, sd .25", asymmetric, sd=0.25, false=7.0),
    World("asymmetric, sd .2", asymmetric, sd=0.2, false=7.0),
    World("asymmetric, sd .07, tops 2 steps off", asymmetric, sd=0.07, spread=2, false=7.0),
    World("plateau against quartic, sd .2", unlike(plateau, quartic), sd=0.2),
    World("plateau against quartic, sd .07", unlike(plateau, quartic), sd=0.07),
]
# Runs collapse or diverge. They count at chance, and decide nothing about rates.
BROKEN = [
    World("2 % of all runs collapse", ONE, collapse=0.02),
    World("5 % of all runs collapse", ONE, collapse=0.05),
    World("10 % of all runs collapse", ONE, collapse=0.1),
    World("30 % of all runs collapse", ONE, collapse=0.3),
    World("10 % above the best rate diverge", ONE, diverge=0.1),
    World("50 % above the best rate diverge", ONE, diverge=0.5),
    World("all runs above the best rate diverge", ONE, diverge=1.0),
    World("10 % above the best diverge, asymmetric, sd .1", asymmetric, sd=0.1, diverge=0.1),
    World("10 % of one unit's runs collapse", ONE, collapse=0.1, collapsing=(7, 8)),
    World("10 % of the baseline's runs collapse", ONE, collapse=0.1, collapsing=(0, 1)),
    World("5 % collapse, tops 2 steps off", ONE, collapse=0.05, spread=2),
]


@dataclass(frozen=True)
class Rates:
    """What happened in the studies of one world, in percent unless said."""

    false: float
    found: float
    undecidable: float
    refined: float
    runs: float


def judged(runs: FactorialRuns) -> tuple[Progress, FactorialVerdicts]:
    state = factorial_progress(runs)
    assert state.ended.all()
    return state, judge_factorial(runs, state)


def false_verdicts(world: World, studies: int, rng: np.random.Generator) -> float:
    """Return the share of studies with any false verdict, in percent."""
    _, verdicts = judged(world.draw(studies, rng))
    return 100 * float((verdicts.side != 0).any(-1).mean())


def found_gaps(world: World, studies: int, rng: np.random.Generator, sds: float = 2) -> float:
    """Return the share of true gaps that are found, in percent."""
    _, verdicts = judged(world.draw(studies, rng, sds / 2 * world.gap))
    return 100 * float((verdicts.side > 0).mean())


def rates(world: World, studies: int, rng: np.random.Generator) -> Rates:
    state, verdicts = judged(world.draw(studies, rng))
    return Rates(
        false=100 * float((verdicts.side != 0).any(-1).mean()),
        found=found_gaps(world, studies // 2, rng),
        undecidable=100 * float((verdicts.at_edge | verdicts.too_coarse).mean()),
        refined=100 * float((state.stride == 1).mean()),
        runs=float(state.used.sum((2, 3)).mean()),
    )


if __name__ == "__main__":
    STUDIES = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    print(
        "| world | any false verdict, % | gap of 2 sd found, % | cannot be decided, % "
        "| half-way rates, % | runs a unit |"
    )
    print("|---|---|---|---|---|---|")
    for number, world in enumerate([*CHOSEN_IN, *OTHERS, *BROKEN]):
        row = rates(world, STUDIES, np.random.default_rng(number))
        print(
            f"| {world.name} | {row.false:.1f} | {row.found:.0f} | {row.undecidable:.1f} "
            f"| {row.refined:.0f} | {row.runs:.1f} |",
            flush=True,
        )
