"""Parameter counts of Tables 1 and 5.

Of our networks, of the printed layers, and as printed in millions.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from gatewise.models import create_model
from gatewise.papers.common import Claim, Experiment, Findings, Line, Panel, Row, Run
from gatewise.papers.crelu.shared import CONVPOOL, Layers, parameters, published, with_third_layer
from gatewise.papers.crelu.shared import layer_tables as tables

MILLION = 1e6
ROUNDING = 1e-9  # of counts in millions


@dataclass(frozen=True)
class Counted:
    """A network, its printed layers, and what had to be mended in them."""

    table: str
    network: str
    options: Mapping[str, Any]
    printed: Layers
    mended: Layers | None = None
    published: float | None = None

    @property
    def layers(self) -> Layers:
        """Those that can be, and are, built."""
        return self.mended or self.printed


@dataclass(frozen=True)
class Settings:
    """Nothing is smaller: counts need no training."""

    reduced: str = ""


def counted() -> dict[str, Counted]:
    """The networks by name."""
    found: dict[str, Counted] = {}
    printed = {
        "ReLU": tables.S1,
        "ReLU, double": tables.S1_DOUBLE,
        "CReLU": tables.S2,
        "CReLU, half": tables.S2_HALF,
    }
    for name, layers in printed.items():
        form = CONVPOOL[name]
        options = {"unit": form.unit, **form.options, "scale": form.widths}
        mended = tables.S2_HALF_MENDED if name == "CReLU, half" else None
        place = "S1" if form.unit == "relu" else "S2"
        found[f"ConvPool-CNN-C, {name}"] = Counted(
            place, "convpool_cnn", options, layers, mended, published.MILLIONS[name]
        )
    return found | _all_cnn()


def _all_cnn() -> dict[str, Counted]:
    millions, net = published.MILLIONS, "all_cnn"
    same, half = ({"unit": "crelu", "filters": filters} for filters in ("same", "half"))
    everywhere, three, four = "CReLU (all)", "CReLU (conv1,4,7)", "CReLU (conv1-4)"
    forms = {
        "ReLU": Counted("S7", net, {}, tables.S7, published=millions["AllConvB"]),
        everywhere: Counted(
            "S11", "all_cnn_crelu", {}, tables.S11, tables.S11_MENDED, millions[everywhere]
        ),
        three: Counted(
            "S12", net, {**half, "at": (1, 4, 7)}, tables.S12, published=millions[three]
        ),
        four: Counted("S8", net, {**same, "at": range(1, 5)}, tables.S8, published=millions[four]),
        "CReLU (conv1-7)": Counted("S9", net, {**same, "at": range(1, 8)}, tables.S9),
        "CReLU (conv1-9)": Counted("S10", net, {**same, "at": range(1, 10)}, tables.S10),
    }
    return {f"All-CNN-B, {name}": one for name, one in forms.items()}


def built(one: Counted) -> int:
    """Parameters of our network."""
    with torch.device("meta"):
        return sum(each.numel() for each in create_model(one.network, **one.options).parameters())


def measure(run: Run) -> Findings:
    """Count."""
    networks = counted()
    ours = run.cell("count", lambda: {name: built(one) for name, one in networks.items()})
    rows = [_row(name, one, ours[name]) for name, one in networks.items()]
    claims = [
        _claim(name, one, ours[name]) for name, one in networks.items() if one.published is not None
    ]
    notes = (
        "Closed form: what the printed layers add up to, weights and biases, mended where they cannot be built (S11) "
        "or where the count needs it (S2, half).",
        "The errors of Tables 4 and 5 are of ImageNet, which is not to be had here.",
    )
    return Findings([_panel(networks, ours)], rows, [*claims, _text_claim(ours)], notes)


def _row(name: str, one: Counted, ours: int) -> Row:
    return Row(
        what=f"{name} ({one.table}): million parameters",
        ours=ours / MILLION,
        spread=None,
        seeds=1,
        published=one.published,
        closed_form=parameters(one.layers) / MILLION,
        within=ROUNDING,
    )


def _claim(name: str, one: Counted, ours: int) -> Claim:
    said = [f"{ours:,} parameters in our network"]
    if one.mended:
        said.append(f"as printed the layers have {parameters(one.printed):,}")
    if one.network == "convpool_cnn":
        said.append(
            f"with a third layer before the first pool, as its authors have, {_with_third(one):,}"
        )
    return Claim(
        f"{name} has {one.published}M parameters", _rounds_to(ours, one.published), "; ".join(said)
    )


def _with_third(one: Counted) -> int:
    return parameters(with_third_layer(one.layers))


def _rounds_to(count: int, millions: float | None) -> bool:
    return millions is not None and round(count / MILLION, 1) == millions


def _text_claim(ours: Mapping[str, int]) -> Claim:
    count = ours["All-CNN-B, CReLU (all)"]
    said = published.MILLIONS_IN_TEXT
    return Claim(
        f"CReLU (all) has only {said}M parameters (section 3.2)",
        _rounds_to(count, said),
        f"{count:,}",
    )


def _panel(networks: Mapping[str, Counted], ours: Mapping[str, int]) -> Panel:
    places = list(range(1, len(networks) + 1))
    lines = [
        Line("our networks", places, [ours[name] / MILLION for name in networks]),
        Line("printed in Tables 1 and 5", places, [one.published for one in networks.values()]),
    ]
    return Panel("parameters, in the order of the rows", "network", "millions", lines)


EXPERIMENT = Experiment(
    name="crelu/table5",
    title="parameter counts of Tables 1 and 5",
    scales={"tiny": Settings("nothing: only counted"), "cpu": Settings(), "full": Settings()},
    measure=measure,
    seeds=1,
)
