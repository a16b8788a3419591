"""Every site of the zoo by itself.

Doubled with the function kept, run in float64, compared, and undone.

A network is read once. Each site is then carried out by the real installer, compared with the
untouched network (outputs in eval and in train mode, gradients of the old weights), and taken back
with ``gw.undo``.

PYTHONPATH=tests python -m surgery.single_sites FILE.csv     a row for each site and policy; what is
there is kept
"""

import csv
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only
from zoo import ZOO, build

import gatewise as gw
from gatewise.errors import ArgumentError
from gatewise.graph import GATES, Site, SiteGraph, find_sites
from gatewise.graph.trace import split_example
from gatewise.surgery.applying import apply_plan
from gatewise.surgery.calls import CallSite, record_sites
from gatewise.surgery.planning import PlanData, PlanningContext, Request
from gatewise.surgery.planning.planner import draft_sites, entry_of, finish
from gatewise.surgery.proof.running import Run, run, state_of
from gatewise.surgery.propagate import POLICIES

MOST = 1e-12  # relative: rounding of sums in another order, with a wide margin
SMALL = 1e-3  # parameters smaller than this on average would hide what they multiply


@dataclass(frozen=True)
class Row:
    """What came of one site under one policy.

    The differences are relative to the largest number compared.
    """

    network: str
    site: str
    policy: str
    layout: str = ""
    outcome: str = ""  # "preserved", "refused" or "wrong"
    live: bool = False
    eval_output: float = 0.0
    train_output: float = 0.0
    gradient: float = 0.0
    seconds: float = 0.0
    detail: str = ""


@dataclass
class Bench:
    """One network in float64, read once, and what it computes untouched."""

    name: str
    model: nn.Module
    example: tuple
    graph: SiteGraph
    calls: Mapping[str, CallSite]
    before: tuple[Run, Run]
    rounding: float  # how far the gradients move when the example is rounded in its last digit

    @property
    def sites(self) -> list[Site]:
        return [site for site in self.graph if "eval" in site.modes and site.op not in GATES]


def set_up(name: str) -> Bench:
    """The network ``name``, with random numbers where zeros would let every proof pass."""
    model, example = build(name)
    wake(model.double())
    example = tree_map_only(
        Tensor, lambda x: x.double() if x.is_floating_point() else x, split_example(example)
    )
    given = example[0] or example[1]
    graph = find_sites(model, given)
    before = both(model, example)
    calls = record_sites(model, graph, *example)
    return Bench(name, model, example, graph, calls, before, rounding(model, example, before[1]))


def rounding(model: nn.Module, example: tuple, before: Run) -> float:
    """What rounding alone does to the gradients.

    Batch norm over a few values makes it hundreds of times larger.
    """
    torch.manual_seed(2)
    last = torch.finfo(torch.float64).eps
    moved = tree_map_only(
        Tensor,
        lambda x: x * (1 + last * torch.randn_like(x)) if x.is_floating_point() else x,
        example,
    )
    after = run(model, moved, state_of(model, torch.float64), training=True)
    return relative((value, after.gradients[name]) for name, value in before.gradients.items())


@torch.no_grad()
def wake(model: nn.Module) -> None:
    generator = torch.Generator().manual_seed(1)
    for value in model.parameters():
        if value.abs().mean() < SMALL:
            spread = 1.0 if value.dim() < 2 else value[0].numel() ** -0.5
            value.copy_(torch.randn(value.shape, generator=generator) * spread)


def both(model: nn.Module, example: tuple) -> tuple[Run, Run]:
    """In eval mode, and in train mode with gradients."""
    state = state_of(model, torch.float64)
    return run(model, example, state), run(model, example, state, training=True)


def plan_alone(bench: Bench, site: Site, policy: str) -> PlanData:
    """As ``gw.plan(where=site.name, preserve=True)`` makes it, from the graph that is there."""
    unit = "crelu" if site.op == "relu" else "concat_act"
    request = Request(unit, width="same", preserve=True, policy=policy)
    context = PlanningContext(bench.model, (), bench.graph, bench.calls, True, policy)
    families = [(request.swap, [(request, [site])])]
    draft = draft_sites(context, families, bench.graph.sites, {})
    entries = tuple(entry_of(each, each is site, draft) for each in bench.graph.sites)
    plan = finish(context, entries, draft, [request])
    return replace(plan, graph=None)


def tried(bench: Bench, site: Site, policy: str, known: dict[tuple, Row]) -> Row:
    """The row of one site. A plan that another policy has made too is not run again."""
    row = Row(bench.name, site.name, policy)
    plan = plan_alone(bench, site, policy)
    if not plan.swapped:
        return replace(row, outcome="refused", detail=plan.refused[0].why)
    key = (site.name, *((e.name, e.dim, e.fill, *e.index.tolist()) for e in plan.edits))
    if key not in known:
        known[key] = carried_out(
            bench, plan, replace(row, layout=plan.swapped[0].options["layout"])
        )
    return replace(known[key], policy=policy)


def carried_out(bench: Bench, plan: PlanData, row: Row) -> Row:
    start, held = time.process_time(), objects(bench.model)
    try:
        apply_plan(plan, bench.model, inplace=True, examples=())  # what is proved is proved here
    except (RuntimeError, ArgumentError) as problem:
        return replace(row, outcome="wrong", detail=f"{type(problem).__name__}: {problem}"[:300])
    try:
        evaluated, trained = both(bench.model, bench.example)
        row = compared(bench, evaluated, trained, plan, row)
    except RuntimeError as problem:
        row = replace(row, outcome="wrong", detail=f"{type(problem).__name__}: {problem}"[:300])
    finally:
        gw.undo(bench.model)
    after = objects(bench.model)
    if held.keys() != after.keys() or any(after[name] is not value for name, value in held.items()):
        row = replace(row, outcome="wrong", detail="not undone")
    return replace(row, seconds=round(time.process_time() - start, 3))


def objects(model: nn.Module) -> dict[str, object]:
    return {
        **dict(model.named_parameters()),
        **dict(model.named_buffers()),
        **dict(model.named_modules()),
    }


def compared(bench: Bench, evaluated: Run, trained: Run, plan: PlanData, row: Row) -> Row:
    before = bench.before
    found = {
        "eval_output": relative(zip(before[0].outputs, evaluated.outputs, strict=True)),
        "train_output": relative(zip(before[1].outputs, trained.outputs, strict=True)),
        "gradient": relative(gradients(before[1], trained, plan)),
    }
    live = all(
        bool(
            trained.gradients[edit.name].index_select(edit.dim, edit.new.nonzero().flatten()).any()
        )
        for edit in plan.edits
        if edit.fill == "zero" and edit.name in trained.gradients
    )
    allowed = {"gradient": max(MOST, 4 * bench.rounding)}
    good = all(value <= allowed.get(name, MOST) for name, value in found.items())
    return replace(row, outcome="preserved" if good else "wrong", live=live, **found)


def gradients(before: Run, after: Run, plan: PlanData) -> Iterator[tuple[Tensor, Tensor]]:
    """Those of every old entry of every weight, before and after."""
    for name, old in before.gradients.items():
        new = after.gradients[name]
        for edit in (each for each in plan.edits if each.name == name):
            kept = (~edit.new).nonzero().flatten()
            new, old = (
                new.index_select(edit.dim, kept),
                old.index_select(edit.dim, edit.index[kept]),
            )
        yield old, new


def relative(pairs: Iterable[tuple[Tensor, Tensor]]) -> float:
    """The largest difference, relative to the tensor's largest entry or 1/1000 of all."""
    sizes = [
        (float((a - b).abs().nan_to_num(torch.inf).max()), float(a.abs().max()))
        for a, b in pairs
        if a.numel()
    ]
    most = max((size for _, size in sizes), default=0.0)
    return max((apart / max(size, 1e-3 * most) for apart, size in sizes if apart), default=0.0)


def rows_of(name: str, choose: Callable[[list[Site]], list[Site]] = list) -> Iterator[Row]:
    """The rows of the sites of one network that ``choose`` takes, under every policy."""
    bench, known = set_up(name), {}
    for site in choose(bench.sites):
        for policy in POLICIES:
            yield tried(bench, site, policy, known)


def preserved(rows: list[Row]) -> tuple[int, ...]:
    count = Counter(row.policy for row in rows if row.outcome == "preserved")
    return tuple(count[policy] for policy in POLICIES)


def main(path: str) -> None:
    """Every network that is not in the file yet; a network is written when it is done."""
    torch.set_num_threads(1)
    target = Path(path)
    done = {line["network"] for line in csv.DictReader(target.open())} if target.exists() else set()
    with target.open("a", newline="") as file:
        writer = csv.DictWriter(file, [each.name for each in fields(Row)])
        if not done:
            writer.writeheader()
        for name in ZOO:
            if name not in done:
                rows = list(rows_of(name))
                writer.writerows(asdict(row) for row in rows)
                file.flush()
                print(
                    name,
                    preserved(rows),
                    Counter((row.outcome, row.live) for row in rows),
                    flush=True,
                )


if __name__ == "__main__":
    main(sys.argv[1])
