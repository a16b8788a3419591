"""What a revival of dead units changed, and the proof that the output stayed."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from gatewise.results import Result
from gatewise.words import plural


@dataclass(frozen=True)
class RevivedSite(Result):
    """The units of one site that were revived.

    Attributes:
        site: The name of the site.
        layer: The layer that makes the units: it has new rows.
        norm: The batch norm between the layer and the site. ``None`` if there is none.
        readers: The layers that read the units: they have zero columns.
        units: The channels that were revived.
        on_rate: The mean share of inputs and positions for which they are on now.
    """

    site: str
    layer: str
    norm: str | None
    readers: tuple[str, ...]
    units: tuple[int, ...]
    on_rate: float


@dataclass(frozen=True)
class RevivalReceipt(Result):
    """What :func:`gatewise.revive` changed.

    Attributes:
        sites: What was revived, by site.
        refused: Sites with dead units that were left as they are, each with the reason.
        inputs: The number of inputs on which units were found to be dead.
        difference: The largest difference between the outputs before and after, in eval mode,
            relative to the largest output.
        train_difference: The same in train mode. ``None`` where the model cannot be run in train
            mode on the example.
        optimizer: The entries of the optimizer's state that were set to zero for changed weights.
        changed: How many numbers of each parameter and buffer were changed.
        notes: Further sentences.
    """

    _properties = ("units",)

    sites: tuple[RevivedSite, ...]
    refused: Mapping[str, str] = field(default_factory=dict)
    inputs: int = 0
    difference: float = 0.0
    train_difference: float | None = None
    optimizer: tuple[str, ...] = ()
    changed: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def units(self) -> int:
        """How many units were revived."""
        return sum(len(site.units) for site in self.sites)

    def to_json(self) -> str:
        """Return the receipt as JSON text."""
        return json.dumps(self.to_dict())

    def __str__(self) -> str:
        inputs = plural(self.inputs, "input")
        if not self.sites:
            lines = [f"No unit was revived: on {inputs} there was none to revive."]
        else:
            lines = [
                f"{plural(self.units, 'dead unit')} revived at {plural(len(self.sites), 'site')}. "
                f"The output on {inputs} is unchanged: largest relative difference "
                f"{self.difference:.3g}."
            ]
        for site in self.sites:
            norm = f" and {site.norm}" if site.norm is not None else ""
            lines.append(
                f"{site.site}: {plural(len(site.units), 'unit')}, on for {site.on_rate:.0%} now; "
                f"new rows in {site.layer}{norm}, zero columns in {', '.join(site.readers)}"
            )
        if self.train_difference is not None:
            lines.append(f"in train mode: largest relative difference {self.train_difference:.3g}")
        if self.optimizer:
            lines.append(f"optimizer state set to zero there: {', '.join(self.optimizer)}")
        lines += [f"{site} not revived: {reason}" for site, reason in self.refused.items()]
        return "\n".join([*lines, *self.notes])
