"""Install units: modules by their path, other calls by rewriting the methods that make them."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from torch import nn

from gatewise.errors import ArgumentError
from gatewise.surgery.calls import CallSite, is_graph_form
from gatewise.surgery.rewrite.copies import carry_hooks, has_hooks
from gatewise.surgery.rewrite.graph_edits import edit_graph
from gatewise.surgery.rewrite.rewriting import rewrite_calls
from gatewise.surgery.rewrite.transaction import Transaction


class Placement(NamedTuple):
    """``unit`` goes to the site called ``name``.

    It replaces the module at ``path``, or ``call`` if the site is not a module that is called once.
    """

    name: str
    path: str
    call: CallSite | None
    unit: nn.Module


def place_units(work: Transaction, placements: Sequence[Placement]) -> None:
    """Install all of them; ``work`` keeps what is needed to roll back."""
    calls, units = [], []
    hooked: dict[int, str] = {}  # by unit: the module whose calls it replaces
    for name, path, call, unit in placements:
        if call is None:
            work.install(name, path, unit)
            continue
        work.units[name] = unit
        calls.append(call)
        units.append(unit.train(work.model.get_submodule(call.owner).training))
        if call.module is not None:
            old = work.model.get_submodule(call.module)
            if has_hooks(old) and hooked.setdefault(id(unit), call.module) != call.module:
                raise ArgumentError(
                    f"swap: {call.module} has hooks, and shares its unit with {hooked[id(unit)]}",
                    fix="remove the hooks, or leave the site out with where=",
                )
            carry_hooks(old, unit)
        no_fast_path(work, call.owner)
    graphs: dict[str, list[tuple[CallSite, nn.Module]]] = {}
    texts: list[tuple[CallSite, nn.Module]] = []
    for call, unit in zip(calls, units, strict=True):
        of_graph = is_graph_form(call.form)
        (graphs.setdefault(call.owner, []) if of_graph else texts).append((call, unit))
    for path, pairs in graphs.items():
        edit_graph(work, path, pairs)
    if texts:
        rewrite_calls(work.model, *map(list, zip(*texts, strict=True)))


def no_fast_paths(work: Transaction, paths: Iterable[str]) -> None:
    """Switch off what torch's transformer encoders do around the modules at ``paths``.

    Their fused kernel knows two activations. With a padding mask, they run on nested tensors, which
    layers without that kernel cannot take.
    """
    around: dict[str, None] = {}
    for path in paths:
        parts = path.split(".")
        around.update((".".join(parts[:length]), None) for length in range(len(parts) + 1))
    for path in around:
        module = work.model.get_submodule(path)
        no_fast_path(work, path)
        if isinstance(module, nn.TransformerEncoder) and getattr(module, "use_nested_tensor", 0):
            work.replace(path, "use_nested_tensor", False, "attribute")


def no_fast_path(work: Transaction, owner: str) -> None:
    """Switch off the fused kernel of torch's transformer layers, which knows two activations."""
    if getattr(work.model.get_submodule(owner), "activation_relu_or_gelu", 0):
        work.replace(owner, "activation_relu_or_gelu", 0, "attribute")
