"""Put bound units into a model, and know what the graph computes with them."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from gatewise.graph import Node, Reading, Replace
from gatewise.surgery.binding.additions import ADDITION, find_additions
from gatewise.surgery.binding.bind import bind_calls
from gatewise.surgery.binding.bindings import Binding
from gatewise.surgery.binding.bound_units import bound_unit
from gatewise.surgery.binding.branches import Branch, branch_of, branches_before, operands_of
from gatewise.surgery.planning.plans import Entry, Plan
from gatewise.surgery.rewrite.rewriting import Undo
from gatewise.surgery.rewrite.sequential import HOLDER
from gatewise.surgery.rewrite.transaction import Change, Transaction


def install_bound(plan: Plan, work: Transaction, like: Tensor | None) -> None:
    """Every unit of ``plan`` that sees the layer before it."""
    place = {} if like is None else {"device": like.device, "dtype": like.dtype}
    bindings: list[Binding] = []
    units: list[nn.Module] = []
    slots: dict[Any, nn.Module] = {}
    for entry in plan.swapped:
        for number, each in enumerate(Binding.from_dict(each) for each in entry.bindings):
            if each.slot not in slots:
                slots[each.slot] = bound_unit(entry, **place)
            work.units[unit_name(entry, number)] = slots[each.slot]
            bindings.append(each)
            units.append(slots[each.slot])
    if bindings:
        silenced = [each.silenced for each in bindings if each.silenced]
        sources, calls = [each.source for each in bindings], [each.call for each in bindings]
        undo = bind_calls(work.model, sources, calls, units, silenced=silenced)
        work.others.append(undo)
        _remember_children(work, undo)


def unit_name(entry: Entry, number: int) -> str:
    """Under which a unit is known to the proof: its site's name.

    In a branch, with the branch's number.
    """
    return f"{entry.site}/{number}" if entry.moved else entry.site


def _remember_children(work: Transaction, undo: Undo) -> None:
    """Children that were replaced, by path, so that copies of the model can be given theirs back too."""
    paths = {id(module): path for path, module in work.model.named_modules()}
    for change in undo.changes:
        for name, old in change.old_children.items():
            if name != HOLDER:
                work.changes.append(Change(paths[id(change.owner)], name, old, "module"))


def bound_replacements(
    plan: Plan, reading: Reading, model: nn.Module, units: Mapping[str, nn.Module]
) -> Replace:
    """What the graph of the original has to compute in place of which nodes, to be the changed model.

    Layers and branches are found in the graph anew: what was recorded of the calls plays no part.
    """
    modules = dict(model.named_modules())
    units = {name: copy.deepcopy(unit).eval() for name, unit in units.items()}
    made: dict[Node, tuple[tuple[Node, ...], Callable[..., Tensor]]] = {}
    sums: dict[Node, list[tuple[Branch, nn.Module]]] = {}
    joins = {node: units[name] for name, node in find_additions(reading).items() if name in units}
    for entry in plan.swapped:
        found = reading.found.get(entry.site)
        if found is None or entry.kind == ADDITION:
            continue
        if entry.moved:
            branches = branches_before(found, modules)
            sums[found.input] = [
                (each, units[unit_name(entry, number)]) for number, each in enumerate(branches)
            ]
            made[found.output] = ((found.input,), lambda x: x)
        else:
            branch = branch_of(found.input, modules)
            made[found.output] = (
                (found.input, branch.source),
                _bound(units[entry.site], branch, modules),
            )
    for node in {**sums, **joins}:
        made[node] = _sum(node, sums.get(node, []), joins.get(node), modules)
    return made


def _bound(
    unit: nn.Module, branch: Branch, modules: Mapping[str, nn.Module]
) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda response, source: unit(response, source, conv=modules[branch.layer.scope[0]])


def _sum(
    node: Node,
    ends: list[tuple[Branch, nn.Module]],
    join: nn.Module | None,
    modules: Mapping[str, nn.Module],
) -> tuple[tuple[Node, ...], Callable[..., Tensor]]:
    operands = operands_of(node)

    def add(*values: Tensor) -> Tensor:
        given = dict(zip(operands, values, strict=False))
        for (branch, unit), source in zip(ends, values[len(operands) :], strict=True):
            given[branch.end] = unit(given[branch.end], source, conv=modules[branch.layer.scope[0]])
        first, second = (given[each] for each in operands)
        return first + second if join is None else join(first, second)

    return (*operands, *(branch.source for branch, _ in ends)), add
