"""What surgery does to each network of the zoo: one row of the table in the documentation.

PYTHONPATH=tests python -m surgery.zoo_rows docs/surgery_models.md [NETWORK ...]

With names of networks, only their rows are measured again; the others stay as they are.
"""

import re
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from zoo import FURTHER, ZOO, build

import gatewise as gw
from gatewise.errors import ArgumentError
from gatewise.files import write_text
from gatewise.graph import GATES, Site, SiteGraph, find_sites
from gatewise.surgery.proof import Proof, SwapFailed
from gatewise.surgery.propagate import POLICIES, defer, follow
from gatewise.surgery.reasons import Refusal

HEAD = """# What surgery does to {count} networks

Written by `make surgery-table`. Every network is built from its configuration, without trained
weights, and read from a batch of two. Language models are read as they are shipped.

- *sites*: ReLU / other activations / sigmoid gates.
- *alone*: sites that can be made `[act(x), act(-x)]` (CReLU where the activation is ReLU) one at
  a time with the function kept, under the policies `consumers`, `gates` and `streams`. These are
  counts of plans. `python -m surgery.single_sites` (in `tests`) carries out each of them by
  itself, compares the networks in float64 and undoes it: all 2,871 keep their functions and have
  new weights that matter.
- *together*: all at once under `gates`, with the factor of parameters and the largest relative
  differences of outputs in float64 and float32, and of the old weights' gradients in float64.
  With `-` a large model was compared in its own type alone, its gradients too. Poolers keep
  their tanh (BERT, RoBERTa).
  It is 0 where no site can change, or where the changed model fails its proof and stays as it was.
- *PSC*: ReLU sites that phase selective layers can take over, one at a time, and together.
- *units*: sites that take a unit of as many outputs as inputs (here SiLU), checked against the
  graph run with the unit in place. Poolers keep their tanh here too (ALBERT). An activation that
  is one part of a larger composite is refused by name.

How long it takes: `python benchmarks/surgery.py` measures it, network by network.

| network | sites | alone | together | float64 | float32 | gradients | PSC | units |
|---|---|---|---|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Row:
    """Counts and differences for one network."""

    name: str
    sites: tuple[int, int, int]
    alone: tuple[int, int, int]
    together: tuple[int, float]  # sites, factor of parameters
    float64: float | None
    float32: float
    gradient: float
    psc: tuple[int, int]
    units: int
    seconds: tuple[float, float]
    live: str

    def line(self) -> str:
        cells = [self.name, *("/".join(map(str, each)) for each in (self.sites, self.alone))]
        cells += [f"{self.together[0]}, x {self.together[1]:.2f}"]
        numbers = (self.float64, self.float32, self.gradient)
        cells += ["-" if each is None else f"{each:.1g}" for each in numbers]
        cells += ["/".join(map(str, self.psc)), str(self.units)]
        return "| " + " | ".join(cells) + " |"


def site_counts(sites: Sequence[Site]) -> tuple[int, int, int]:
    relu, gates = sum(site.op == "relu" for site in sites), sum(site.op in GATES for site in sites)
    return relu, len(sites) - relu - gates, gates


def in_eval(graph: SiteGraph) -> list[Site]:
    return [site for site in graph if "eval" in site.modes]


def alone(graph: SiteGraph, policy: str) -> int:
    """Sites that can be widened by themselves."""
    return sum(
        can_widen(graph, site.name, policy) for site in in_eval(graph) if site.op not in GATES
    )


def can_widen(graph: SiteGraph, name: str, policy: str) -> bool:
    for layout in ("block", "interleaved"):
        try:
            follow(graph, {name: layout}, policy)
        except Refusal:
            continue
        return True
    return False


def deferred_alone(graph: SiteGraph, modules: dict[str, nn.Module]) -> int:
    """ReLU sites that phase selective layers can take over by themselves."""
    count = 0
    for site in in_eval(graph):
        try:
            defer(graph, [site.name], modules)
            count += site.op == "relu"
        except Refusal:
            continue
    return count


def together(
    model: nn.Module, example, unit: str
) -> tuple[int, gw.surgery.Receipt | None, tuple[float, float]]:
    """Plan and carry out for all sites at once.

    The sites of the eval graph that changed, receipt and seconds.
    """
    start = time.process_time()
    try:
        plan = gw.plan(model, unit, example, preserve=unit != "silu")
    except ArgumentError as problem:
        if "nothing would change" not in str(problem):
            raise
        return 0, None, (time.process_time() - start, 0.0)
    planned = time.process_time()
    try:
        changed = plan.apply(model, inplace=False)
    except SwapFailed:  # the model is as it was
        return 0, None, (planned - start, time.process_time() - planned)
    seconds = planned - start, time.process_time() - planned
    changed.load_state_dict(model.state_dict(), strict=True)
    trained_only = {site.name for site in plan.graph if "eval" not in site.modes}
    return (
        sum(entry.site not in trained_only for entry in plan.swapped),
        gw.receipt(changed),
        seconds,
    )


def row(name: str) -> Row:
    """Everything about one network."""
    model, example = build(name)
    graph = find_sites(model, example)
    count, receipt, seconds = together(model, example, "concat_act")
    deferred, _, _ = together(model, example, "psc")
    units, checked, _ = together(model, example, "silu")
    assert checked is not None and checked.proof.against_reference is not None
    assert checked.proof.against_reference <= 1e-5
    proof = receipt.proof if receipt else None
    return Row(
        name=name,
        sites=site_counts(in_eval(graph)),
        alone=tuple(alone(graph, policy) for policy in POLICIES),
        together=(count, receipt.parameters[1] / receipt.parameters[0] if receipt else 1.0),
        float64=double_precision(proof) if proof else 0.0,
        float32=max(proof.output_float32, proof.random_input or 0.0) if proof else 0.0,
        gradient=(proof.reference_gradient if proof.gradient is None else proof.gradient)
        if proof
        else 0.0,
        psc=(deferred_alone(graph, dict(model.named_modules())), deferred),
        units=units,
        seconds=seconds,
        live=proof.live if proof else "",
    )


def double_precision(proof: Proof) -> float | None:
    """The largest difference in float64; ``None`` if a large model was compared in its own type."""
    if proof.output_float64 is None or proof.train_output is None:
        return None
    return max(proof.output_float64, proof.train_output)


def cells_of(line: str) -> list[str]:
    """The cells of a line of the table."""
    return re.split(r"\s*\|\s*", line)[1:-1]


def totals(lines: Iterable[str]) -> str:
    """The last line of the table."""
    columns = list(zip(*map(cells_of, lines), strict=True))
    cells = ["**all**"]
    for place in (1, 2, 3, 7, 8):
        parts = [cell.partition(",")[0].split("/") for cell in columns[place]]
        added = [sum(map(int, each)) for each in zip(*parts, strict=True)]
        cells.append("/".join(map(str, added)))
    worst = []
    for place in (4, 5, 6):
        numbers = [float(cell) for cell in columns[place] if cell != "-"]
        worst.append(f"{max(numbers):.1g}")
    return "| " + " | ".join([*cells[:4], *worst, *cells[4:]]) + " |"


def main(path: str, *names: str) -> None:
    """Write the table."""
    torch.set_num_threads(1)
    file = Path(path)
    known = {}
    for line in file.read_text("utf-8").splitlines() if names else ():
        if line.startswith("| "):
            known[cells_of(line)[0]] = line
    for name in names or ZOO | FURTHER:
        found = row(name)
        known[name] = found.line()
        print(found.line(), found.live, flush=True)
        lines = [known[each] for each in ZOO | FURTHER if each in known]
        head = HEAD.replace("{count}", str(len(lines)))
        write_text(file, head + "\n".join([*lines, totals(lines)]) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
