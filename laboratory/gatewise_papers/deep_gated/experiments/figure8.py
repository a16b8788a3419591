"""Figure 8: nu of the tangent kernel and of its gates' part in training (Experiments 3 and 5)."""

from functools import partial
from typing import Any

from gatewise.studies import CellCall, FunctionCell
from gatewise_papers.common import (
    CellValues,
    Claim,
    Experiment,
    Findings,
    Level,
    Panel,
    Row,
    column,
    depends_on,
    finite_mean,
    judge,
    not_tested,
    number,
    row,
)
from gatewise_papers.deep_gated.experiments.shared import (
    LEAST_TEST,
    TRAINING_CURVES,
    BinaryMnistSettings,
    fit_and_track,
    network,
    nu_line,
    published,
    read_mnist,
    with_gates_of,
)

Curves = dict[str, Any]  # what fit_and_track returns
WHOLE = ("K", "K_hat")
NAMED = "K_hat"  # the paper names it, K_a and K_a_hat; of K there are numbers, and no claim
GATES = ("K_a", "K_a_hat")
ADAPTING = ("soft-GaLU", "soft-ReLU", "ReLU")
FROZEN = "GaLU"
NO_GATE_KERNEL = (
    "frozen gates have no such kernel, and the paper does not say what it is compared with"
)
LEARNED = "GaLU, learned gates"
TITLES = {
    "K": "y' K^-1 y",
    "K_hat": "y' K^-1 y, K over its trace",
    "K_a": "y' K_a^-1 y, soft-GaLU",
    "K_a_hat": "y' K_a^-1 y, K_a over its trace, soft-GaLU",
}


def cells(settings: BinaryMnistSettings, seeds: tuple[int, ...]) -> list[FunctionCell]:
    """Return one cell for each kind of network; GaLU with learned gates needs ReLU's."""
    depends = depends_on(settings, seeds)
    return [
        FunctionCell(name, partial(function, settings, seeds), depends)
        for name, function in (
            ("soft-GaLU", partial(track, "soft-GaLU", "soft_galu", WHOLE + GATES, 4.0)),
            ("soft-ReLU", partial(track, "soft-ReLU", "soft_relu", WHOLE, 4.0)),
            ("ReLU, then a GaLU with its gates", relu_then_its_gates),
            (FROZEN, partial(track, FROZEN, "galu", WHOLE, None)),
        )
    ]


def track(
    name: str,
    gate: str,
    kernels: tuple[str, ...],
    beta: float | None,
    settings: BinaryMnistSettings,
    seeds: tuple[int, ...],
    _: CellCall,
) -> dict[str, Curves]:
    """Train one kind of network and track nu of its kernels.

    Args:
        name: of the networks.
        gate: the kind of gates.
        kernels: whose nu is tracked.
        beta: of soft gates.
        settings: sizes.
        seeds: of the networks.
    """
    options: dict[str, Any] = {} if beta is None else {"beta": beta}
    networks = [network(gate, settings, seed, **options) for seed in seeds]
    return {name: fit_and_track(networks, settings, seeds, kernels)[1]}


def relu_then_its_gates(
    settings: BinaryMnistSettings, seeds: tuple[int, ...], _: CellCall
) -> dict[str, Curves]:
    """Track ReLU networks, then GaLU networks with their gates.

    Args:
        settings: sizes.
        seeds: of the networks.
    """
    networks = [network("relu", settings, seed) for seed in seeds]
    trained, relu = fit_and_track(networks, settings, seeds, WHOLE)
    gated = with_gates_of(trained, settings, seeds)
    _trained, learned = fit_and_track(gated, settings, seeds, WHOLE)
    return {"ReLU": relu, LEARNED: learned}


def findings(values: CellValues) -> Findings:
    """Judge nu of the kernels after every epoch."""
    curves: dict[str, Curves] = values.networks
    panels = []
    for kernel, title in TITLES.items():
        lines = []
        for name, cell in curves.items():
            if kernel in cell["nu"]:
                lines.append(nu_line(name, cell, kernel))
        panels.append(Panel(title, "epochs", "nu", lines, log_y=True))
    shares = ", ".join(f"{name} {cell['share']:.0%}" for name, cell in curves.items())
    note = f"tracking's share of processor time: {shares}"
    return Findings(panels, _rows(curves), _claims(curves), [note], networks=_for_figure7(curves))


def _for_figure7(curves: dict[str, Curves]) -> dict[str, Any]:
    """Return what Figure 7 shows of these networks: losses and test accuracies by seed."""
    return {name: {part: cell[part] for part in TRAINING_CURVES} for name, cell in curves.items()}


def _rows(curves: dict[str, Curves]) -> list[Row]:
    """Return rows of nu at the start and at the end."""
    rows = []
    for name, cell in curves.items():
        rows.append(row(f"test accuracy at the end, {name}", column(cell["test"], -1)))
        for kernel, seeds in cell["nu"].items():
            starts = column(seeds, 0)
            ends = column(seeds, -1)
            rows.append(row(f"nu of {kernel} at the start, {name}", starts))
            rows.append(row(f"nu of {kernel} at the end, {name}", ends))
    return rows


def _claims(curves: dict[str, Curves]) -> list[Claim]:
    """Judge whether nu of the named kernels is smaller where gates adapt or are learned."""
    ends = {name: column(cell["nu"][NAMED], -1) for name, cell in curves.items()}
    claims = []
    for claim, better in (
        (published.NU_SMALLER_ADAPTING, ADAPTING),
        (published.NU_SMALLER_LEARNED, [LEARNED]),
    ):
        words = f"{claim}: {NAMED}"
        claims.append(judge(words, ends, better, [FROZEN], lower=True, show=number))
    for kernel in GATES:
        by_seed = curves["soft-GaLU"]["nu"][kernel]
        start, end = (number(finite_mean(column(by_seed, place))) for place in (0, -1))
        words = f"{published.NU_SMALLER_ADAPTING}: {kernel}"
        evidence = f"soft-GaLU, from start to end: {start} to {end}"
        claims.append(not_tested(words, NO_GATE_KERNEL, evidence))
    return claims


FULL = BinaryMnistSettings()
EXPERIMENT = Experiment(
    name="deep_gated/figure8",
    title="alignment of the tangent kernel with the labels, Binary-MNIST",
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
    levels=(Level("test accuracy at the end, ReLU", at_least=LEAST_TEST),),
    needs=("MNIST",),
)
