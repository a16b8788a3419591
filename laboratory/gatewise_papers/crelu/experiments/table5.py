"""Parameter counts of Tables 1 and 5: our networks, the printed layers, and the printed numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from gatewise.graph import parameter_count
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
)
from gatewise_papers.crelu.experiments.shared import (
    CONVPOOL,
    Layers,
    parameters,
    published,
    with_third_layer,
)
from gatewise_papers.crelu.experiments.shared import layer_tables as tables

MILLION = 1e6
ROUNDING = 1e-9  # of counts in millions
NOTES = (
    "Closed form: what the printed layers add up to, weights and biases, mended where they cannot "
    "be built (S11) or where the count needs it (S2, half).",
    "The errors of Tables 4 and 5 are of ImageNet, which is not to be had here.",
)


@dataclass(frozen=True)
class CountedNetwork:
    """A network, its printed layers, and the layers with their misprints corrected."""

    table: str
    network: str
    options: Mapping[str, Any]
    printed: Layers
    mended: Layers | None = None
    published: float | None = None

    @property
    def layers(self) -> Layers:
        """The layers that can be, and are, built."""
        return self.mended or self.printed


@dataclass(frozen=True)
class CreluTable5Settings:
    """Nothing is smaller: counts need no training."""

    reduced: str = ""


def counted_networks() -> dict[str, CountedNetwork]:
    """Return the networks by name."""
    printed = {
        "ReLU": tables.S1,
        "ReLU, double": tables.S1_DOUBLE,
        "CReLU": tables.S2,
        "CReLU, half": tables.S2_HALF,
    }
    networks: dict[str, CountedNetwork] = {}
    for name, layers in printed.items():
        form = CONVPOOL[name]
        networks[f"ConvPool-CNN-C, {name}"] = CountedNetwork(
            table="S1" if form.unit == "relu" else "S2",
            network="convpool_cnn",
            options={"unit": form.unit, **form.options, "scale": form.widths},
            printed=layers,
            mended=tables.S2_HALF_MENDED if name == "CReLU, half" else None,
            published=published.MILLIONS[name],
        )
    for name, network in _all_cnn().items():
        networks[f"All-CNN-B, {name}"] = network
    return networks


def _all_cnn() -> dict[str, CountedNetwork]:
    """Return the forms of All-CNN-B, which reads ImageNet."""
    millions = published.MILLIONS

    def same(table: str, layers: Layers, last: int, printed: float | None) -> CountedNetwork:
        """Return All-CNN-B with CReLU after the first convolutions and as many filters."""
        options = {"unit": "crelu", "filters": "same", "at": range(1, last + 1)}
        return CountedNetwork(table, "all_cnn", options, layers, published=printed)

    half = {"unit": "crelu", "filters": "half", "at": (1, 4, 7)}
    return {
        "ReLU": CountedNetwork("S7", "all_cnn", {}, tables.S7, published=millions["AllConvB"]),
        "CReLU (all)": CountedNetwork(
            "S11",
            "all_cnn_crelu",
            {},
            tables.S11,
            tables.S11_MENDED,
            millions["CReLU (all)"],
        ),
        "CReLU (conv1,4,7)": CountedNetwork(
            "S12",
            "all_cnn",
            half,
            tables.S12,
            published=millions["CReLU (conv1,4,7)"],
        ),
        "CReLU (conv1-4)": same("S8", tables.S8, 4, millions["CReLU (conv1-4)"]),
        "CReLU (conv1-7)": same("S9", tables.S9, 7, None),
        "CReLU (conv1-9)": same("S10", tables.S10, 9, None),
    }


def built(network: CountedNetwork) -> int:
    """Return the parameters of our network."""
    with torch.device("meta"):
        return parameter_count(create_model(network.network, **network.options))


def cells(settings: CreluTable5Settings, seeds: tuple[int, ...]) -> list[FunctionCell]:
    """Return one cell per network."""
    return [FunctionCell(name, count_network, {"network": name}) for name in counted_networks()]


def count_network(cell: CellCall) -> int:
    """Count the parameters of the network in the cell's settings."""
    return built(counted_networks()[cell.settings["network"]])


def findings(values: CellValues) -> Findings:
    """Compare our counts with the printed layers and numbers."""
    networks = counted_networks()
    rows = []
    claims = []
    for name, network in networks.items():
        rows.append(_row(name, network, values[name]))
        if network.published is not None:
            claims.append(_claim(name, network, values[name]))
    claims.append(_text_claim(values["All-CNN-B, CReLU (all)"]))
    return Findings([_panel(networks, values)], rows, claims, NOTES)


def _row(name: str, network: CountedNetwork, count: int) -> Row:
    """Compare our count with the printed layers."""
    return Row(
        what=f"{name} ({network.table}): million parameters",
        ours=count / MILLION,
        spread=None,
        seeds=1,
        published=network.published,
        closed_form=parameters(network.layers) / MILLION,
        within=ROUNDING,
    )


def _claim(name: str, network: CountedNetwork, count: int) -> Claim:
    """Decide whether our count rounds to the printed one."""
    texts = [f"{count:,} parameters in our network"]
    if network.mended:
        texts.append(f"as printed the layers have {parameters(network.printed):,}")
    if network.network == "convpool_cnn":
        third = parameters(with_third_layer(network.layers))
        texts.append(f"with a third layer before the first pool, as its authors have, {third:,}")
    holds = _rounds_to(count, network.published)
    return counted(f"{name} has {network.published}M parameters", holds, "; ".join(texts))


def _rounds_to(count: int, millions: float | None) -> bool:
    """Return whether a count is the printed number of millions, rounded."""
    return millions is not None and round(count / MILLION, 1) == millions


def _text_claim(count: int) -> Claim:
    """Decide whether the count rounds to the number in the text, which differs from the table."""
    millions = published.MILLIONS_IN_TEXT
    return counted(
        f"CReLU (all) has only {millions}M parameters (section 3.2)",
        _rounds_to(count, millions),
        f"{count:,}",
    )


def _panel(networks: Mapping[str, CountedNetwork], counts: CellValues) -> Panel:
    """Return the plot of our counts and the printed ones."""
    places = list(range(1, len(networks) + 1))
    ours = [counts[name] / MILLION for name in networks]
    printed = [network.published for network in networks.values()]
    lines = [
        Line("our networks", places, ours),
        Line("printed in Tables 1 and 5", places, printed),
    ]
    return Panel("parameters, in the order of the rows", "network", "millions", lines)


EXPERIMENT = Experiment(
    name="crelu/table5",
    title="parameter counts of Tables 1 and 5",
    scales={
        "tiny": CreluTable5Settings("nothing: only counted"),
        "desk": CreluTable5Settings(),
        "full": CreluTable5Settings(),
    },
    cells=cells,
    findings=findings,
    seeds=1,
)
