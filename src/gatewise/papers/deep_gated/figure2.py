"""Figure 2: one diagonal and one other entry of the kernel of random gates, by depth, against equation 5."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gatewise.papers.common import Claim, Experiment, Findings, Line, Panel, Row, Run, line, row
from gatewise.papers.deep_gated.shared import DEPTHS, inputs, kernel, published, start


@dataclass(frozen=True)
class Settings:
    """Sizes; the defaults are the paper's."""

    reduced: str = ""
    width: int = 500
    depths: tuple[int, ...] = DEPTHS
    mu: float = 0.5


def measure(run: Run) -> Findings:
    """The two entries of K_0 / d for every depth and seed.

    Other inputs do not touch them, so two are enough.
    """
    sizes: Settings = run.settings
    found = {
        depth: run.cell(
            f"d={depth}", lambda d=depth: [_entries(sizes, d, seed) for seed in run.seeds]
        )
        for depth in sizes.depths
    }
    kinds: tuple[tuple[str, Callable[[int], float]], ...] = (
        ("diagonal", lambda depth: 1.0),
        ("other", lambda depth: sizes.mu ** (depth - 1)),
    )
    panels = [_panel(place, name, form, found) for place, (name, form) in enumerate(kinds)]
    rows = [
        row(
            f"{name} entry of K_0/d, d={depth}",
            [seed[place] for seed in found[depth]],
            closed_form=form(depth),
            compared=2 * len(sizes.depths),
        )
        for place, (name, form) in enumerate(kinds)
        for depth in sizes.depths
    ]
    return Findings(panels, rows, [_claim(rows)])


def _entries(sizes: Settings, depth: int, seed: int) -> tuple[float, float]:
    x, _ = inputs(1, 2, seed)
    found = kernel(start("random", 1, sizes.width, depth, seed, n=2, mu=sizes.mu), x) / depth
    return float(found[0, 0]), float(found[0, 1])


def _panel(
    place: int, name: str, form: Callable[[int], float], found: dict[int, Sequence]
) -> Panel:
    depths = list(found)
    by_seed = list(zip(*([seed[place] for seed in found[depth]] for depth in depths), strict=True))
    ideal = Line("K_0 / d", depths, [form(depth) for depth in depths], theory=True)
    return Panel(
        f"{name} entry (dashed: equation 5)",
        "depth d",
        "K_0 / d",
        [line("K_0 / d", depths, by_seed), ideal],
    )


def _claim(rows: list[Row]) -> Claim:
    inside = sum(row.agrees is True for row in rows)
    evidence = (
        f"{inside} of {len(rows)} means have equation 5 in their interval (99.9 % for all together)"
    )
    return Claim(published.ENTRIES_FOLLOW_IDEAL, inside == len(rows), evidence)


EXPERIMENT = Experiment(
    name="deep_gated/figure2",
    title="entries of the kernel under random gates",
    scales={
        "tiny": Settings("w=60, d=2, 4, 6", width=60, depths=(2, 4, 6)),
        "cpu": Settings(),
        "full": Settings(),
    },
    measure=measure,
    seeds=20,
)
