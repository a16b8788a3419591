"""The network by its layers: one row for each activation, with all that was measured there."""

from collections.abc import Mapping
from typing import Any

from gatewise.analysis.diagnosis.context import DiagnosisContext
from gatewise.analysis.diagnosis.question import Finding
from gatewise.analysis.diagnosis.questions import alike_at
from gatewise.analysis.diagnosis.saving import parameters_read
from gatewise.analysis.gating import GateSite
from gatewise.graph import MAX_POOLS, POOLS, Node, node_operations, producers

Rows = list[dict[str, Any]]


def layer_rows(context: DiagnosisContext, findings: Mapping[str, Finding]) -> Rows:
    """Return one row for each activation, from input to output.

    A row has the layer before the activation, its size and cost, the rows that it reads, its place
    among parallel branches, and the numbers of all findings that are about it. What was not
    measured is missing.

    Args:
        context: The model.
        findings: The findings by the name of the question.
    """
    rows: Rows = []
    sites = context.gates
    total = max(1.0, sum(map(node_operations, context.reading.graph)))
    reads = _reads(context, sites)
    for place, site in enumerate(sites):
        before = [node for node in producers(site.response) if node.op not in ("input", "output")]
        operations = sum(map(node_operations, before))
        rows.append(
            {
                "site": site.name,
                "layer": " + ".join(node.scope[0] for node in before) or site.name,
                "unit": site.unit,
                "on": site.rule.on,
                "channels": (site.response.shape or (0,) * 9)[site.dim],
                "output": list(site.response.shape or ())[1:],
                "weight": _weight_shape(before),
                "operations_share": operations / total,
                "operations": operations / max(1, _batch_size(context)),
                "parameters": sum(map(parameters_read, before)),
                "reads": [sites[index].name for index in sorted(reads[place])],
                "pool": _pool_before(context, sites, place),
            }
        )
    _number_branches(rows)
    for row in rows:
        _add_findings(row, findings)
    return rows


def _batch_size(context: DiagnosisContext) -> int:
    """Return the number of inputs of the graph."""
    inputs = [node for node in context.reading.graph if node.op == "input" and node.shape]
    return inputs[0].shape[0] if inputs and inputs[0].shape else 1


def _reads(context: DiagnosisContext, sites: list[GateSite]) -> list[set[int]]:
    """Return for every site the sites whose output reaches it, with no other site between."""
    by_output = {site.output: place for place, site in enumerate(sites)}
    nearest: dict[Node, set[int]] = {}
    for node in context.reading.graph:
        reached: set[int] = set()
        for source in node.inputs:
            reached |= nearest.get(source, set())
        nearest[node] = {by_output[node]} if node in by_output else reached
    return [nearest.get(site.response, set()) for site in sites]


def _number_branches(rows: Rows) -> None:
    """Number rows that do not depend on each other: they stand side by side."""
    group: Rows = []
    above: dict[str, set[str]] = {}  # all sites that a site depends on
    for row in rows:
        above[row["site"]] = set(row["reads"]).union(*(above[name] for name in row["reads"]))
        if not group or above[row["site"]] & {other["site"] for other in group}:
            group = []
        row["branch"] = len(group)
        group.append(row)
        for other in group:
            other["branches"] = len(group)


def _pool_before(context: DiagnosisContext, sites: list[GateSite], place: int) -> str:
    """Return the pooling between the site before this one and this site, in words."""
    first = sites[place - 1].output.index if place else -1
    words = ""
    for node in context.reading.graph:
        if first < node.index < sites[place].response.index and node.op in POOLS and node.shape:
            kind = "max" if node.op in MAX_POOLS else "average"
            words = f"{kind}-pool to {' x '.join(map(str, node.shape[2:]))}"
    return words


def _weight_shape(nodes: list[Node]) -> list[int] | None:
    """Return the shape of the weight, if one layer is before the activation."""
    weight = nodes[0].tensor("weight") if len(nodes) == 1 else None
    return list(weight.shape) if weight is not None and weight.shape else None


def _add_findings(row: dict[str, Any], findings: Mapping[str, Finding]) -> None:
    """Add the numbers of all findings about one activation or the layer before it."""
    gates = _entry(findings, "gates", "sites", site=row["site"])
    if gates:
        row |= {
            "on_rate": gates["on_rate"],
            "entropy": gates["entropy"],
            "dead": len(gates["dead"]),
            "always_off": len(gates["always_off"]),
            "always_on": len(gates["always_on"]),
            "duplicates": alike_at(gates),
        }
    overlap = _entry(findings, "overlap", "sites", site=row["site"])
    if overlap:
        row |= {"overlap": overlap["overlap"], "chance": overlap["chance"]}
    cost = _entry(findings, "cost", "sites", name=row["site"])
    if cost:
        row |= {"time_share": cost["share"], "time_seconds": cost["seconds"]}
    pairing = _entry(findings, "pairing", "layers", layer=row["layer"])
    if pairing:
        row |= {
            "opposite": pairing["mean"],
            "opposite_random": pairing["chance_mean"],
            "opposite_p": pairing["p_corrected"],
        }
    if "reconstruction" in findings and findings["reconstruction"].facts["layer"] == row["layer"]:
        facts = findings["reconstruction"].facts
        row["image_error"] = facts["ratios"]["relu_pooled" if facts["pooled"] else "relu"]


def _entry(
    findings: Mapping[str, Finding], question: str, listed: str, **named: str
) -> Mapping[str, Any]:
    """Return the entry with a name in a list of a finding; empty if there is none."""
    entries = findings[question].facts[listed] if question in findings else ()
    ((key, name),) = named.items()
    return next((entry for entry in entries if entry[key] == name), {})
