"""Table 3: parameters and FLOPs of ResNets with ReLU, IIEU-B and IIEU-DC, counted."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from gatewise.models import create_model
from gatewise.studies import CellCall, FunctionCell
from gatewise_papers.common import (
    CellValues,
    Claim,
    Experiment,
    Findings,
    Line,
    Panel,
    Row,
    counted,
    depends_on,
    not_tested,
    row,
)
from gatewise_papers.iieu.experiments import published
from gatewise_papers.iieu.experiments.counting import GIGA, MILLION, agrees_as_printed, count
from gatewise_papers.iieu.experiments.networks import NETWORKS

Counts = dict[tuple[str, int], Mapping[str, int]]  # by name and depth
NOTES = (
    "products: a multiplication with its addition, in convolutions and linear layers; "
    "operations: half of what gw.cost counts, so that a product is one, "
    "and an element of any other operator a half",
    "the printed FLOPs of ResNet-50 with IIEU-B and IIEU-DC, 4.2, "
    "are those of operations, not of products",
    "Top-1 accuracies are of ImageNet, which could not be had: they are left out",
)
FEW_PARAMETERS = 0.3  # per cent
NO_CONVENTION = (
    "the paper does not say what a FLOP is; several ways to count give other percentages"
)


@dataclass(frozen=True)
class IieuTable3Settings:
    """The defaults are the paper's."""

    reduced: str = ""
    depths: tuple[int, ...] = (14, 26, 50)
    networks: tuple[str, ...] = tuple(published.SIZES)
    size: int = 224
    scale: float = 1.0


def cells(settings: IieuTable3Settings, seeds: tuple[int, ...]) -> list[FunctionCell]:
    """Return one cell per network."""
    found = []
    for depth in settings.depths:
        for name in settings.networks:
            function = partial(_count, settings, name, depth)
            found.append(FunctionCell(_cell(name, depth), function, depends_on(settings, ())))
    return found


def findings(values: CellValues) -> Findings:
    """Compare the counts with the printed ones."""
    settings: IieuTable3Settings = values.settings
    counts: Counts = {}
    for depth in settings.depths:
        for name in settings.networks:
            counts[name, depth] = values[_cell(name, depth)]
    claims = _printed_claims(settings, counts)
    claims += _added_claims(settings, counts)
    return Findings(_panels(settings, counts), _rows(settings, counts), claims, NOTES)


def _cell(name: str, depth: int) -> str:
    """Return the name of the cell that counts a network."""
    return f"ResNet-{depth} {name}"


def _count(settings: IieuTable3Settings, name: str, depth: int, _: CellCall) -> dict[str, int]:
    """Count one network."""
    network = create_model("resnet", depth=depth, scale=settings.scale, **NETWORKS[name])
    return count(network, settings.size)


def _rows(settings: IieuTable3Settings, counts: Counts) -> list[Row]:
    """Return rows of parameters, operations and products."""
    rows = []
    for (name, depth), numbers in counts.items():
        printed = (None, None) if settings.reduced else published.SIZES[name][depth]
        network = f"ResNet-{depth}, {name}"
        parameters = numbers["parameters"] / MILLION
        operations = numbers["operations"] / 2 / GIGA
        products = numbers["products"] / GIGA
        rows += [
            row(f"parameters, millions, {network}", [parameters], published=printed[0]),
            row(f"FLOPs as operations, G, {network}", [operations], published=printed[1]),
            row(f"FLOPs as products, G, {network}", [products], published=printed[1]),
        ]
    return rows


def _panels(settings: IieuTable3Settings, counts: Counts) -> list[Panel]:
    """Return the plots of parameters and operations by depth."""

    def lines(part: str, unit: float) -> list[Line]:
        """Return one line per network."""
        drawn = []
        for name in settings.networks:
            values = [counts[name, depth][part] / unit for depth in settings.depths]
            drawn.append(Line(name, settings.depths, values))
        return drawn

    return [
        Panel("parameters", "depth", "millions", lines("parameters", MILLION)),
        Panel("operations, halved", "depth", "G", lines("operations", 2 * GIGA)),
    ]


def _printed_claims(settings: IieuTable3Settings, counts: Counts) -> list[Claim]:
    """Decide whether every printed number is ours, rounded; smaller networks are not printed."""
    if settings.reduced:
        return []
    wrong = []
    for (name, depth), numbers in counts.items():
        ours = numbers["parameters"] / MILLION, numbers["operations"] / 2 / GIGA
        if not all(map(agrees_as_printed, ours, published.SIZES[name][depth])):
            wrong.append(f"ResNet-{depth} {name}: {ours[0]:.2f} M, {ours[1]:.2f} G")
    evidence = (
        "; ".join(wrong) or f"all {2 * len(counts)} are ours, rounded, FLOPs counted as operations"
    )
    return [counted(published.SIZES_AS_PRINTED, not wrong, evidence)]


def _added_claims(settings: IieuTable3Settings, counts: Counts) -> list[Claim]:
    """Judge what IIEU-B adds: parameters, and FLOPs, for which the paper has no convention."""
    added = {}
    words = {}
    for part in ("parameters", "operations"):
        shares = []
        for depth in settings.depths:
            ratio = counts["IIEU-B", depth][part] / counts["ReLU", depth][part]
            shares.append(100 * (ratio - 1))
        texts = [
            f"ResNet-{depth} {share:.2f} %"
            for depth, share in zip(settings.depths, shares, strict=True)
        ]
        added[part] = shares
        words[part] = f"{part}: {', '.join(texts)}"
    holds = all(agrees_as_printed(share, FEW_PARAMETERS) for share in added["parameters"])
    return [
        counted(published.FEW_PARAMETERS, holds, words["parameters"]),
        not_tested(published.FEW_OPERATIONS, NO_CONVENTION, words["operations"], exact=True),
    ]


EXPERIMENT = Experiment(
    name="iieu/table3",
    title="parameters and FLOPs of ResNets",
    scales={
        "tiny": IieuTable3Settings(
            "ResNet-14 at a quarter of the width, 64 pixels, ReLU and IIEU-B alone",
            depths=(14,),
            networks=("ReLU", "IIEU-B"),
            size=64,
            scale=0.25,
        ),
        "desk": IieuTable3Settings(),
        "full": IieuTable3Settings(),
    },
    cells=cells,
    findings=findings,
    seeds=1,  # counts do not depend on random numbers
)
