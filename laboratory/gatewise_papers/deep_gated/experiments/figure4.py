"""Figure 4: spectra and convergence of GaLU and ReLU networks by depth, on inputs from a square."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from gatewise.studies import CellCall, FunctionCell
from gatewise_papers.common import (
    CellValues,
    Claim,
    Experiment,
    Findings,
    Panel,
    Row,
    all_better,
    depends_on,
    judged,
    row,
)
from gatewise_papers.deep_gated.experiments.shared import (
    DEPTHS,
    DepthCells,
    depth_rows,
    depth_trend,
    descend,
    final_ratios,
    inputs,
    largest_gate_overlap,
    published,
    ratio_panel,
    spectrum_panel,
    start,
    whiteness,
)

GATES = {"GaLU": "galu", "ReLU": "relu"}
NOTE = (
    "full gradient descent on half the sum of squares; eta is the largest overlap of the gates of "
    "two inputs in a layer: lambda(s, s') is at most eta^(d-1) times lambda(s, s)"
)


@dataclass(frozen=True)
class GatedFigure4Settings:
    """Sizes; the paper's, except for the number of steps, which it does not say."""

    reduced: str = ""
    n: int = 100
    width: int = 100
    depths: tuple[int, ...] = DEPTHS
    steps: int = 5000


def cells(settings: GatedFigure4Settings, seeds: tuple[int, ...]) -> list[FunctionCell]:
    """Return one descent for both networks and every depth, and the overlaps of gates."""
    depends = depends_on(settings, seeds)
    found = []
    for name, gate in GATES.items():
        for depth in settings.depths:
            function = partial(
                descend, gate, settings.width, depth, 2, settings.n, settings.steps, seeds
            )
            found.append(FunctionCell(f"{name} d={depth}", function, depends))
    for depth in settings.depths:
        function = partial(_overlaps, settings, depth, seeds)
        found.append(FunctionCell(f"overlap d={depth}", function, depends))
    return found


def findings(values: CellValues) -> Findings:
    """Compare gradient descent of both networks over depths."""
    settings: GatedFigure4Settings = values.settings
    by_gate: dict[str, DepthCells] = {}
    panels: list[Panel] = []
    rows: list[Row] = []
    for name in GATES:
        by_gate[name] = {depth: values[f"{name} d={depth}"] for depth in settings.depths}
        panels += [spectrum_panel(name, by_gate[name]), ratio_panel(name, by_gate[name])]
        rows += depth_rows(name, by_gate[name])
    for depth in settings.depths:
        overlaps = values[f"overlap d={depth}"]
        rows.append(row(f"largest overlap of gates (eta), GaLU, d={depth}", overlaps))
    return Findings(panels, rows, _claims(settings, by_gate), [NOTE])


def _overlaps(
    settings: GatedFigure4Settings, depth: int, seeds: Sequence[int], _: CellCall
) -> list[float]:
    """Return the largest overlap of the gates of two inputs in a layer, by seed."""
    found = []
    for seed in seeds:
        network = start("galu", 2, settings.width, depth, seed, n=settings.n)
        x = inputs(2, settings.n, seed)[0]
        found.append(largest_gate_overlap(network.gates(x)))
    return found


def _claims(settings: GatedFigure4Settings, by_gate: Mapping[str, DepthCells]) -> list[Claim]:
    """Judge how depth changes GaLU, and whether it beats ReLU."""
    left = {name: final_ratios(cells) for name, cells in by_gate.items()}
    white = {name: whiteness(cells) for name, cells in by_gate.items()}
    galu, relu = by_gate
    faster = {}
    whiter = {}
    for depth in settings.depths:
        faster[f"d={depth}"] = (left[galu][depth], left[relu][depth])
        whiter[f"d={depth}"] = (white[galu][depth], white[relu][depth])
    errors = f"error left after {settings.steps} steps"
    spectra = "trace over largest eigenvalue"
    better = all_better(faster, lower=True)
    return [
        depth_trend(published.DEPTH_HELPS_GALU, left[galu], errors, rises=False),
        depth_trend(published.DEPTH_WHITENS_GALU, white[galu], spectra),
        judged(published.GALU_OPTIMISES_BETTER, better, before=errors),
        judged(published.GALU_SPECTRUM_BETTER, all_better(whiter), before=spectra),
    ]


EXPERIMENT = Experiment(
    name="deep_gated/figure4",
    title="spectra and convergence of GaLU and ReLU",
    scales={
        "tiny": GatedFigure4Settings(
            "n=10, w=12, d=2, 4, 20 steps",
            n=10,
            width=12,
            depths=(2, 4),
            steps=20,
        ),
        "desk": GatedFigure4Settings(),
        "full": GatedFigure4Settings(),
    },
    cells=cells,
    findings=findings,
    seeds=8,  # the paper has 5
    own_loop=True,
)
