"""What the graph of a model computes with units that see the layer before them."""

import copy
from collections.abc import Callable, Mapping, Sequence

from torch import Tensor, nn

from gatewise.graph import Node, Reading, Replace
from gatewise.surgery.binding import (
    ADDITION,
    Branch,
    branch_of,
    branches_before,
    find_additions,
    operands_of,
)
from gatewise.surgery.planning import Entry

Computation = tuple[tuple[Node, ...], Callable[..., Tensor]]  # inputs, and what is computed of them


def unit_name(entry: Entry, number: int) -> str:
    """The name of a unit in the proof: its site's, with the branch's number for one in a branch."""
    return f"{entry.site}/{number}" if entry.moved else entry.site


def bound_replacements(
    entries: Sequence[Entry],
    reading: Reading,
    model: nn.Module,
    units: Mapping[str, nn.Module],
) -> Replace:
    """What the graph of the original must compute in place of which nodes.

    Layers and branches are found in the graph anew. Nothing that was recorded of the calls is used,
    so that the proof is independent of it.
    """
    modules = dict(model.named_modules())
    units = {name: copy.deepcopy(unit).eval() for name, unit in units.items()}
    replaced: dict[Node, Computation] = {}
    ends: dict[Node, list[tuple[Branch, nn.Module]]] = {}
    couplers: dict[Node, nn.Module] = {}
    for name, node in find_additions(reading).items():
        if name in units:
            couplers[node] = units[name]
    for entry in entries:
        place = reading.site_nodes.get(entry.site)
        if place is None or entry.kind == ADDITION:
            continue
        if entry.moved:
            branches = branches_before(place, modules)
            ends[place.input] = [
                (branch, units[unit_name(entry, number)]) for number, branch in enumerate(branches)
            ]
            replaced[place.output] = ((place.input,), lambda x: x)
        else:
            branch = branch_of(place.input, modules)
            function = _bound(units[entry.site], branch, modules, inplace=place.output.inplace)
            replaced[place.output] = ((place.input, branch.source), function)
    for node in {**ends, **couplers}:
        replaced[node] = _sum(node, ends.get(node, []), couplers.get(node), modules)
    return replaced


def _bound(
    unit: nn.Module, branch: Branch, modules: Mapping[str, nn.Module], *, inplace: bool
) -> Callable[[Tensor, Tensor], Tensor]:
    def compute(response: Tensor, source: Tensor) -> Tensor:
        result = unit(response, source, conv=modules[branch.layer.scope[0]])
        # Other nodes may read the memory that the activation wrote into.
        return response.copy_(result) if inplace else result

    return compute


def _sum(
    node: Node,
    ends: list[tuple[Branch, nn.Module]],
    coupler: nn.Module | None,
    modules: Mapping[str, nn.Module],
) -> Computation:
    operands = operands_of(node)

    def add(*values: Tensor) -> Tensor:
        tensors = dict(zip(operands, values, strict=False))
        for (branch, unit), source in zip(ends, values[len(operands) :], strict=True):
            layer = modules[branch.layer.scope[0]]
            tensors[branch.end] = unit(tensors[branch.end], source, conv=layer)
        first, second = (tensors[operand] for operand in operands)
        return first + second if coupler is None else coupler(first, second)

    return (*operands, *(branch.source for branch, _ in ends)), add
