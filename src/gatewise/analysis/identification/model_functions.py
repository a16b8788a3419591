"""The function at every site of a model, and what its configuration and its copies say."""

import math
from collections.abc import Mapping
from copy import deepcopy as copy_module
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

from gatewise.analysis.identification.configurations import CONFIG_NAMES, configured_activation
from gatewise.analysis.identification.copies import compare_copy
from gatewise.analysis.identification.functions import Recognised, points, recognise
from gatewise.analysis.identification.regions_of_one_number import function_from, root_of
from gatewise.analysis.record import AnalysisResult
from gatewise.graph import GLUS, Example, Graph, Node, SiteNodes, find_sites, glu_of
from gatewise.units import TwoBranchUnit, UnitModule, registered_units

FAR = 100.0
SMALL = 2.0**-10  # below any clamp of a value


@dataclass(frozen=True)
class SiteFunction:
    """The function at one site.

    Attributes:
        site: the name of the site.
        role: its role.
        op: the operator that the site calls.
        function: the function that was recognised, with its constants in words.
        name: its name alone; empty if no candidate fits.
        constants: its constants by name.
        difference: the largest difference from it at the points.
        runner_up: the next candidate, and how far off it is.
        value: what a gated linear unit does to its value: ``"as it is"``, or clamp and offset.
        value_limit: the clamp of the value, if there is one.
        agrees: whether the configuration says the same; ``None`` if it says nothing.
        differs: how the code differs from the configuration, in words.
    """

    site: str
    role: str
    op: str
    function: str
    name: str
    constants: Mapping[str, float]
    difference: float
    runner_up: str
    value: str = ""
    value_limit: float | None = None
    agrees: bool | None = None
    differs: str = ""


@dataclass(frozen=True)
class Identification(AnalysisResult):
    """The functions of a model.

    Attributes:
        sites: one row per activation call.
        configuration: the activation that the configuration names, as ``"field=value"``.
        configured: the function that this means; empty if unknown.
        copies: sentences about the copies that were compared.
        notes: what could not be read.
    """

    sites: tuple[SiteFunction, ...]
    configuration: str
    configured: str
    copies: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def disagreements(self) -> tuple[SiteFunction, ...]:
        """The sites whose function is not the configured one."""
        return tuple(site for site in self.sites if site.agrees is False)

    def __str__(self) -> str:
        lines = [f"{'site':32} {'role':12} {'function':44} value"]
        for site in self.sites:
            mark = f"  NOT as configured: {site.differs}" if site.agrees is False else ""
            lines.append(f"{site.site:32} {site.role:12} {site.function:44} {site.value}{mark}")
        if self.configuration:
            what = f"the configuration says {self.configuration}"
            known = f", which is {self.configured}" if self.configured else ", not known here"
            found = f"{len(self.disagreements)} of {len(self.sites)} sites differ"
            lines.append(f"{what}{known}: {found}" if self.configured else what + known)
        return "\n".join([*lines, *self.copies, *self.notes])


def identify(
    model: nn.Module,
    example: Example,
    *,
    copy: str | Path | None = None,
) -> Identification:
    """Recognise the activation function at each site by its values.

    The exact and the tanh form of GELU, SiLU and its neighbours, clamps before and after the
    function, and trained constants are told apart in float64, whatever the model's dtype. The
    result is compared with the ``config`` of a Hugging Face model, and with a copy of the model.

    Args:
        model: any module that runs on ``example``.
        example: a tensor, a tuple of positional arguments or a dict of keyword arguments.
        copy: an ONNX or safetensors file of the same model. Of the former the outputs are compared,
            of the latter the tensors.
    """
    graph = find_sites(model, example, modes=("eval",), units=True)
    reading = graph.readings["eval"]
    field, value, limit = configured_activation(model)
    configured = CONFIG_NAMES.get(value, "")
    outputs = {found.output for found in reading.site_nodes.values()}
    rows = []
    seen: set[Node] = set()
    for site in graph:
        found = reading.site_nodes[site.name]
        row, end = _row(site.name, site.role, found, reading.graph, model, outputs)
        if end is not None and end in seen:
            continue  # another operator of the same function
        if end is not None:
            seen.add(end)
        rows.append(_compared(row, configured, limit))
    return Identification(
        tuple(rows),
        f"{field}={value}" if field else "",
        configured,
        () if copy is None else compare_copy(model, example, Path(copy)),
        tuple(graph.notes),
    )


def _row(
    name: str,
    role: str,
    found: SiteNodes,
    graph: Graph,
    model: nn.Module,
    outputs: set[Node],
) -> tuple[SiteFunction, Node | None]:
    """Return the row of a site and the node at which its function ends."""
    x = points()
    if found.op in GLUS and found.layout is None:
        known = recognise(torch.sigmoid(x))
        return _site_function(name, role, found.op, known, "as it is", None), found.output
    if found.layout is not None:
        gate, values = _branches(found, model, x)
        value, limit = _clamp_and_offset(values)
        row = _site_function(name, role, found.op, recognise(gate), value, limit)
        return row, found.output
    if found.input.shape != found.output.shape:  # a unit of this library, known by its class
        return SiteFunction(name, role, found.op, found.op, found.op, {}, 0.0, ""), found.output
    root = root_of(found.input, outputs - {found.output})
    region = function_from(graph, model, root, found.output, x)
    if region is None:
        values = _module_values(found, model, x)
        if values is not None:
            return _site_function(name, role, found.op, recognise(values), "", None), found.output
        return _unknown(name, role, found, model), None
    value, limit = _value_of(found, graph, model, outputs)
    row = _site_function(name, role, found.op, recognise(region.values), value, limit)
    return row, region.end


def _unknown(name: str, role: str, found: SiteNodes, model: nn.Module) -> SiteFunction:
    """Return the row of a site that is not one function of one number: PReLU with its slopes."""
    text, known, constants = "not a function of one number", "", {}
    slopes = _slopes(found, model) if found.op == "prelu" else None
    if slopes is not None:
        known, constants = "prelu", {"least": float(slopes.min()), "largest": float(slopes.max())}
        least, largest = (f"{each:.3g}" for each in constants.values())
        text = f"prelu, {len(slopes)} slopes from {least} to {largest}"
    return SiteFunction(name, role, found.op, text, known, constants, float("nan"), "")


def _slopes(found: SiteNodes, model: nn.Module) -> Tensor | None:
    """Return the slopes of PReLU, a module or a call with a parameter of the model."""
    weight = found.output.tensor("weight")
    if weight is not None and weight.op == "parameter":
        return model.get_parameter(weight.name).detach().double()
    if found.kind == "functional":
        return None
    return next(model.get_submodule(found.path).parameters()).detach().double()


def _branches(found: SiteNodes, model: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the functions of gate and value of a gated linear unit of this library.

    The unit is a function of its gate times one of its value, whose slope is 1 near 0.
    """
    function = registered_units()[found.op].function
    options = cast(TwoBranchUnit, model.get_submodule(found.path)).options

    def product(gate: Tensor, value: Tensor) -> Tensor:
        return function(gate, value, **options)

    def slope(gate: Tensor) -> Tensor:
        small = torch.full_like(gate, SMALL)
        return (product(gate, small) - product(gate, torch.zeros_like(gate))) / SMALL

    one = torch.ones_like(x)
    return slope(x), product(one, x) / slope(one)


def _module_values(found: SiteNodes, model: nn.Module, x: Tensor) -> Tensor | None:
    """Return the values of a unit of this library that the graph holds as one operator."""
    module = model.get_submodule(found.path) if found.kind != "functional" else None
    if not isinstance(module, UnitModule) or isinstance(module, TwoBranchUnit):
        return None
    if any(parameter.numel() != 1 for parameter in module.parameters()):
        return None
    with torch.no_grad():
        values = copy_module(module).double().eval()(x)
    return values if values.shape == x.shape else None


def _site_function(
    name: str,
    role: str,
    op: str,
    known: Recognised,
    value: str,
    limit: float | None,
) -> SiteFunction:
    runner_up = f"{known.runner_up}, off by {known.runner_up_difference:.2g}"
    return SiteFunction(
        name,
        role,
        op,
        str(known),
        known.name,
        known.constants,
        known.difference,
        runner_up,
        value,
        limit,
    )


def _value_of(
    found: SiteNodes,
    graph: Graph,
    model: nn.Module,
    outputs: set[Node],
) -> tuple[str, float | None]:
    """Return in words what a gated linear unit does to its value, and the limit of its clamp."""
    glu = glu_of(found.input, found.output, found.layout)
    if glu is None or glu.value_node is None:
        return "", None
    root = root_of(glu.value_node, outputs)
    region = function_from(graph, model, root, glu.value_node, points())
    if root is glu.value_node:
        return "as it is", None
    if region is None:
        return "not a function of one number", None
    return _clamp_and_offset(region.values)


def _clamp_and_offset(values: Tensor) -> tuple[str, float | None]:
    x = points()
    offset = float(values[x == 0])
    limit = float(values[x == FAR]) - offset
    limit = FAR if math.isclose(limit, FAR, rel_tol=1e-9) else limit
    bounded = x.clamp(-limit, limit) if limit > 0 else x
    if not torch.allclose(values, bounded + offset, rtol=1e-6, atol=1e-6):
        return f"{recognise(values)}", None
    words = []
    if limit < FAR:
        words.append(f"clamped at {limit:.6g}")
    if offset:
        words.append(f"plus {offset:.6g}")
    return ", then ".join(words) or "as it is", limit if limit < FAR else None


def _compared(
    row: SiteFunction,
    configured: str,
    limit: float | None,
) -> SiteFunction:
    """Return the row with what the configuration says about it.

    Only the functions of layers are configured: a sigmoid of a gate is not.
    """
    if not configured or row.role not in ("mlp", "glu"):
        return row
    base = row.name.partition(",")[0]
    differences = []
    # Configurations with a limit (gpt-oss) call their clamped swish of 1.702 "silu".
    if base != configured and not (configured == "silu" and base == "quick_gelu" and limit):
        name = base or "a function that is not known here"
        differences.append(f"the code computes {name}, the configuration says {configured}")
    if limit is not None:
        for branch, found in (("gate", row.constants.get("limit")), ("value", row.value_limit)):
            if found is None or abs(found - limit) >= 1e-3:
                has = "not clamped" if found is None else f"clamped at {found:.6g}"
                differences.append(f"the {branch} is {has}, the configuration says {limit:.6g}")
    words = "; ".join(differences)
    return SiteFunction(**{**vars(row), "agrees": not differences, "differs": words})
