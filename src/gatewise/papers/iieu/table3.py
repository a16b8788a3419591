"""Table 3: parameters and FLOPs of ResNets with ReLU, IIEU-B and IIEU-DC, counted."""

from collections.abc import Mapping
from dataclasses import dataclass

from gatewise.models import create_model
from gatewise.papers.common import Claim, Experiment, Findings, Line, Panel, Row, Run, row
from gatewise.papers.iieu import published
from gatewise.papers.iieu.counting import GIGA, MILLION, agrees_as_printed, count
from gatewise.papers.iieu.networks import NETWORKS

Counts = Mapping[tuple[str, int], Mapping[str, int]]  # (name, depth)


@dataclass(frozen=True)
class Settings:
    """The defaults are the paper's."""

    reduced: str = ""
    depths: tuple[int, ...] = (14, 26, 50)
    networks: tuple[str, ...] = tuple(published.SIZES)
    size: int = 224
    scale: float = 1.0


def measure(run: Run) -> Findings:
    """Count each network."""
    sizes: Settings = run.settings
    found = {
        (name, depth): run.cell(
            f"ResNet-{depth} {name}", lambda name=name, depth=depth: _count(sizes, name, depth)
        )
        for depth in sizes.depths
        for name in sizes.networks
    }
    claims = [*_printed(sizes, found), *(_added(sizes, found, *each) for each in ADDED)]
    return Findings(_panels(sizes, found), _rows(sizes, found), claims, NOTES)


NOTES = (
    "products: a multiplication with its addition, in convolutions and linear layers; operations: half of what gw.cost "
    "counts, so that a product is one, and an element of any other operator a half",
    "the printed FLOPs of ResNet-50 with IIEU-B and IIEU-DC, 4.2, are those of operations, not of products",
    "Top-1 accuracies are of ImageNet, which could not be had: they are left out",
)
ADDED = (
    (published.FEW_PARAMETERS, "parameters", 0.3),
    (published.FEW_OPERATIONS, "operations", 1.3),
)


def _count(sizes: Settings, name: str, depth: int) -> dict[str, int]:
    return count(
        create_model("resnet", depth=depth, scale=sizes.scale, **NETWORKS[name]), sizes.size
    )


def _rows(sizes: Settings, found: Counts) -> list[Row]:
    rows = []
    for (name, depth), counts in found.items():
        parameters, flops = (None, None) if sizes.reduced else published.SIZES[name][depth]
        where = f"ResNet-{depth}, {name}"
        rows += [
            row(
                f"parameters, millions, {where}",
                [counts["parameters"] / MILLION],
                published=parameters,
            ),
            row(
                f"FLOPs as operations, G, {where}",
                [counts["operations"] / 2 / GIGA],
                published=flops,
            ),
            row(f"FLOPs as products, G, {where}", [counts["products"] / GIGA], published=flops),
        ]
    return rows


def _panels(sizes: Settings, found: Counts) -> list[Panel]:
    def lines(part: str, unit: float) -> list[Line]:
        return [
            Line(name, sizes.depths, [found[name, depth][part] / unit for depth in sizes.depths])
            for name in sizes.networks
        ]

    return [
        Panel("parameters", "depth", "millions", lines("parameters", MILLION)),
        Panel("operations, halved", "depth", "G", lines("operations", 2 * GIGA)),
    ]


def _printed(sizes: Settings, found: Counts) -> list[Claim]:
    """Whether every printed number is ours, rounded; nothing is printed of smaller networks."""
    if sizes.reduced:
        return []
    wrong = []
    for (name, depth), counts in found.items():
        ours = counts["parameters"] / MILLION, counts["operations"] / 2 / GIGA
        if not all(map(agrees_as_printed, ours, published.SIZES[name][depth])):
            wrong.append(f"ResNet-{depth} {name}: {ours[0]:.2f} M, {ours[1]:.2f} G")
    evidence = (
        "; ".join(wrong) or f"all {2 * len(found)} are ours, rounded, FLOPs counted as operations"
    )
    return [Claim(published.SIZES_AS_PRINTED, not wrong, evidence)]


def _added(sizes: Settings, found: Counts, said: str, part: str, percent: float) -> Claim:
    """Whether IIEU-B adds the printed percentage, to the decimal it is printed with, at every depth."""
    added = {
        depth: 100 * (found["IIEU-B", depth][part] / found["ReLU", depth][part] - 1)
        for depth in sizes.depths
    }
    evidence = ", ".join(f"ResNet-{depth} {value:.2f} %" for depth, value in added.items())
    return Claim(
        said,
        all(agrees_as_printed(value, percent) for value in added.values()),
        f"{part}: {evidence}",
    )


EXPERIMENT = Experiment(
    name="iieu/table3",
    title="parameters and FLOPs of ResNets",
    scales={
        "tiny": Settings(
            "ResNet-14 at a quarter of the width, 64 pixels, ReLU and IIEU-B alone",
            depths=(14,),
            networks=("ReLU", "IIEU-B"),
            size=64,
            scale=0.25,
        ),
        "cpu": Settings(),
        "full": Settings(),
    },
    measure=measure,
    seeds=1,  # nothing is drawn that is counted
)
