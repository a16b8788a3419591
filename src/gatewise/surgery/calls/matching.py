"""Match the calls that the recorder saw with the sites of the graph.

This gives the source position of functional calls and of reused modules.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.graph import (
    Node,
    Reading,
    Scope,
    Site,
    SiteGraph,
    SiteNodes,
    example_tensors,
    run_on_copies,
    untouched,
)
from gatewise.surgery.calls.aliases import Overwritten
from gatewise.surgery.calls.call_site import REFUSALS, CallSite
from gatewise.surgery.calls.coverage import Coverage
from gatewise.surgery.calls.functions import same_activation
from gatewise.surgery.calls.reads import whole_form
from gatewise.surgery.calls.record import record_calls, record_run
from gatewise.surgery.calls.traced import graph_calls
from gatewise.surgery.reasons import Reason, Refusal

REWRITTEN = ("functional", "reused", "addition")


def record_sites(
    model: nn.Module,
    graph: SiteGraph,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    coverage: Coverage | None = None,
) -> dict[str, CallSite]:
    """Return the recorded call of each site, by name.

    See :func:`record_modes`. Where the modes make different calls under one name, it is that of the
    first mode.
    """
    calls: dict[str, CallSite] = {}
    for recorded in record_modes(model, graph, args, kwargs, coverage).values():
        calls = recorded | calls
    return calls


def record_modes(
    model: nn.Module,
    graph: SiteGraph,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    coverage: Coverage | None = None,
) -> dict[str, dict[str, CallSite]]:
    """Return the recorded call of each site, by mode and name.

    A mode in which the recorder and the graph disagree adds no calls. Nothing is recorded for a
    model whose activations are all modules that are called once: these are replaced by path. Nor is
    a mode recorded that can make no other calls than the modes before it.

    Args:
        model: The model. Its mode and its buffers are restored.
        graph: The model's graph.
        args: The positional arguments to run the model on.
        kwargs: The keyword arguments to run the model on.
        coverage: Watches the runs. The model is run once for it if nothing is recorded.
    """
    modes: dict[str, dict[str, CallSite]] = {}
    watching = coverage.watching if coverage is not None else nullcontext
    if all(site.kind not in REWRITTEN for site in graph.sites):
        if coverage is None or not _keeps_overwritten(model, graph, args, kwargs, coverage):
            return modes
    for mode, reading in graph.readings.items():
        known = {name for calls in modes.values() for name in calls}
        differs = coverage is not None and coverage.depends_on_training()
        if known.issuperset(reading.site_nodes) and not differs:
            continue
        with untouched(model):
            model.train(mode == "train")
            with watching():
                recorded = record_calls(model, args, kwargs)
            matched = match_calls(reading, recorded)
            if any(site.region for site in reading.site_nodes.values()):
                matched |= _written_calls(model, reading, args, kwargs)
            matched |= graph_calls(model, reading)
        modes[mode] = matched
    return modes


def _written_calls(
    model: nn.Module,
    reading: Reading,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> dict[str, CallSite]:
    """Return the call that a unit takes the place of, for activations written with several calls.

    It is the last of them. The form says where its text has the activation's input.
    """
    written = {name: site for name, site in reading.site_nodes.items() if site.region}
    ops = {node.op for site in written.values() for node in site.region}
    recorded = []
    for call in record_run(model, args, kwargs, ops=ops | {f"r{op}" for op in ops}).readers:
        plain = call.op[1:] if call.op not in ops else call.op
        recorded.append(replace(call, op=plain, inplace=call.op != plain))  # marks the order
    nodes = [node for node in reading.graph if node.op in ops]
    seen = match_readers(nodes, recorded)
    calls: dict[str, CallSite] = {}
    for name, site in written.items():
        last = seen.get(site.output)
        if last is None:
            continue
        form = _written_form(site, last, seen)
        refused = last.refused or (None if form else "not_recognised")
        calls[name] = replace(
            last, op=site.op, form=form or "", refused=refused, inplace=False, arguments=()
        )
    return calls


def _written_form(site: SiteNodes, last: CallSite, seen: Mapping[Node, CallSite]) -> str | None:
    """Return where the text of the call ``last`` has the input of the activation."""
    for node in reversed(site.region):
        call = seen.get(node)
        if call is None or not _is_within(call, last) or (call.refused and not call.inplace):
            continue
        for number, value in enumerate(node.arguments.values()):
            if value is site.input and number < 2:
                return whole_form(call, 1 - number if call.inplace else number)
    return None


def _is_within(call: CallSite, outer: CallSite) -> bool:
    """Whether the text of ``call`` is a part of the text of ``outer``, or all of it."""
    if (call.owner, call.call, call.code, call.file) != (
        outer.owner,
        outer.call,
        outer.code,
        outer.file,
    ):
        return False
    line, last_line, column, last_column = call.position
    first, last, left, right = outer.position
    return (first, left) <= (line, column) and (last_line, last_column) <= (last, right)


def match_readers(nodes: Sequence[Node], calls: Sequence[CallSite]) -> dict[Node, CallSite]:
    """Return the recorded call of each node, but for runs of modules where the counts disagree."""
    read: dict[tuple[Scope, str], list[Node]] = defaultdict(list)
    seen: dict[tuple[Scope, str], list[CallSite]] = defaultdict(list)
    for node in nodes:
        read[node.scope, node.op].append(node)
    for call in calls:
        seen[(call.owner, call.call), call.op].append(call)
    matched: dict[Node, CallSite] = {}
    for key in read:
        if len(read[key]) == len(seen[key]):
            matched.update(zip(read[key], seen[key], strict=True))
    return matched


def _keeps_overwritten(
    model: nn.Module,
    graph: SiteGraph,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    coverage: Coverage,
) -> bool:
    """Run the model for ``coverage``; return whether memory that activations overwrite is kept.

    See Note [Watching a tensor].
    """
    overwritten = Overwritten()
    modules = dict(model.named_modules())
    activations = [modules[site.path] for site in graph.sites if site.kind == "module"]
    watching = _copies_of_results(activations, overwritten)
    with untouched(model, buffers=True), torch.no_grad():
        model.eval()
        try:
            with watching, coverage.watching():
                run_on_copies(model, args, kwargs)
        except Exception as problem:
            if not any(parameter.is_meta for parameter in model.parameters()):
                raise
            coverage.unknown = f"the model has no values, and could not be run ({problem})"
        return bool(overwritten.references) and bool(overwritten.kept())


@contextmanager
def _copies_of_results(modules: Iterable[nn.Module], overwritten: Overwritten) -> Iterator[None]:
    """Within the context, modules that write into their input return a copy of it.

    See Note [Watching a tensor].

    Args:
        modules: Activation modules.
        overwritten: Takes the memory that they have overwritten.
    """
    changed: list[tuple[nn.Module, Any]] = []
    try:
        for module in {id(module): module for module in modules}.values():
            changed.append((module, vars(module).get("forward")))
            vars(module)["forward"] = _copying(module.forward, overwritten)
        yield
    finally:
        for module, forward in changed:
            if forward is None:
                vars(module).pop("forward", None)
            else:
                vars(module)["forward"] = forward


def _copying(forward: Any, overwritten: Overwritten) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        result = forward(*args, **kwargs)
        source = next(example_tensors((args, kwargs)), None)
        if not isinstance(result, Tensor) or source is None:
            return result
        if result.untyped_storage()._cdata != source.untyped_storage()._cdata:
            return result
        overwritten.add(source)
        return result.clone()

    return call


def match_calls(reading: Reading, calls: Sequence[CallSite]) -> dict[str, CallSite]:
    """Return the recorded call of each site of one graph, or nothing where the two disagree."""
    units = {call.module for call in calls if call.module is not None}
    expected: list[tuple[int, str, str]] = []  # order, operator, and the site if it is one call
    paths: set[str] = set()  # of activation modules
    for name, site in reading.site_nodes.items():
        for order, op, path in site.inner:
            expected.append((order, op, ""))
            paths.add(path)
        if site.region:
            continue
        if site.kind != "functional" or site.path not in units:  # else it is inside a unit
            expected.append((site.order, site.op, name))
            paths.add(site.path)
    if len(calls) != len(expected):
        # Some units, for example maxout, are recorded but are no activation operators.
        calls = [call for call in calls if call.module is None or call.module in paths]
    expected.sort()
    # The calls carry no node of the graph, so they are matched by the order of execution.
    if len(calls) != len(expected):
        return {}
    if not all(_agree(op, call) for (_, op, _), call in zip(expected, calls, strict=True)):
        return {}
    matched = zip(expected, calls, strict=True)
    return {name: call for (_, _, name), call in matched if name}


def _agree(op: str, call: CallSite) -> bool:
    """Whether a recorded call can be the operator ``op`` of the graph."""
    return call.module is not None or same_activation(op, call.op)


def check_call(site: Site, calls: Mapping[str, CallSite]) -> CallSite | None:
    """Return the call to rewrite for ``site``, or ``None`` if a module is replaced by its path.

    Raises:
        Refusal: The call cannot be rewritten.
    """
    call = calls.get(site.name)
    # Even a module that is replaced by path must not write into a tensor that is read again.
    if call is not None and call.refused in ("aliased", "kept"):
        raise Refusal(Reason.SOURCE, call.reason or "")
    if call is not None and call.aliased and site.kind not in REWRITTEN:
        raise Refusal(Reason.SOURCE, REFUSALS["aliased"])
    if site.kind not in REWRITTEN:
        return None
    if call is None:
        raise Refusal(Reason.SOURCE, "the recorded calls do not match the graph")
    if call.refused == "rewritten" and site.kind == "reused":
        return None  # a unit of an earlier swap, which is replaced for all its calls
    if call.refused:
        raise Refusal(Reason.SOURCE, call.reason or "")
    return call


def split_shared(
    sites: Sequence[Site],
    calls: Mapping[str, CallSite],
    kept: set[str],
    signatures: Mapping[str, str] | None = None,
    of_any_width: Collection[str] = (),
) -> set[str]:
    """Return the sites that must not change because they share a unit with a different site.

    Sites that share a unit must all change, and have the same unit. They must have the same
    channels, but for units that work on any number of them.

    Args:
        sites: All sites.
        calls: The recorded call of each site.
        kept: The names of the sites that are to change.
        signatures: The unit and options of each site that is to change.
        of_any_width: The sites whose unit works on any number of channels.
    """
    signatures = signatures or {}
    slots: dict[Any, list[Site]] = {}
    for site in sites:
        if site.kind not in REWRITTEN:
            # One module may be called several times, if the module around it is.
            slots.setdefault(site.path, []).append(site)
        elif site.name in calls:
            call = calls[site.name]
            slot = site.path if call.refused == "rewritten" else call.slot
            slots.setdefault(slot, []).append(site)
    torn: set[str] = set()
    for group in slots.values():
        facts = set()
        for site in group:
            unit = signatures.get(site.name)
            width = None if site.name in of_any_width else (site.channels, site.dim)
            facts.add((site.name in kept, width, unit))
        if len(facts) > 1:
            torn |= {site.name for site in group if site.name in kept}
    return torn
