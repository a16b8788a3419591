"""Figure 6: nu of the normalised Gram matrix of the path features of a ReLU network in training."""

from functools import partial

from gatewise.studies import CellCall, FunctionCell
from gatewise_papers.common import (
    CellValues,
    Claim,
    Experiment,
    Findings,
    Level,
    Numbers,
    Panel,
    all_lower,
    column,
    depends_on,
    row,
)
from gatewise_papers.deep_gated.experiments.shared import (
    LEAST_TEST,
    BinaryMnistSettings,
    fit_and_track,
    network,
    nu_line,
    published,
    read_mnist,
)

KERNEL = "M_hat"
SHARE = "tracking took {:.1%} of the processor time of the training it watched"


def cells(settings: BinaryMnistSettings, seeds: tuple[int, ...]) -> list[FunctionCell]:
    """Return the one cell: networks of depth 5, as in the paper's text, of all seeds."""
    return [FunctionCell("ReLU", partial(track, settings, seeds), depends_on(settings, seeds))]


def track(settings: BinaryMnistSettings, seeds: tuple[int, ...], _: CellCall) -> dict:
    """Train all seeds and track nu."""
    networks = [network("relu", settings, seed) for seed in seeds]
    return fit_and_track(networks, settings, seeds, (KERNEL,))[1]


def findings(values: CellValues) -> Findings:
    """Judge nu over the training."""
    curves = values["ReLU"]
    nu = curves["nu"][KERNEL]
    lines = [nu_line("ReLU", curves, KERNEL)]
    panel = Panel("y' M^-1 y, M over its trace", "epochs", "nu", lines, log_y=True)
    rows = [
        row("nu at the start", column(nu, 0)),
        row("nu at the end", column(nu, -1)),
        row("test accuracy at the end", column(curves["test"], -1)),
    ]
    return Findings([panel], rows, [_claim(nu)], [SHARE.format(curves["share"])])


def _claim(nu: list[Numbers]) -> Claim:
    """Judge that nu is lower at the end than at the start."""
    return all_lower(published.NU_FALLS, {"from start to end": (column(nu, -1), column(nu, 0))})


FULL = BinaryMnistSettings(depth=5)
EXPERIMENT = Experiment(
    name="deep_gated/figure6",
    title="alignment of the path features with the labels, Binary-MNIST",
    scales={
        "tiny": FULL.tiny(),
        "desk": FULL,
        "full": FULL,
    },
    cells=cells,
    findings=findings,
    read_data=read_mnist,
    seeds=8,  # the paper does not say how many
    own_loop=True,
    levels=(Level("test accuracy at the end", at_least=LEAST_TEST),),
    needs=("MNIST",),
)
