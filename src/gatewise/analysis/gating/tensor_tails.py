"""How far the tensors at activations reach, and what it costs to clamp them."""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import SimpleNamespace
from typing import Any, cast

import torch
from torch import Tensor, nn

from gatewise.analysis.gating.activity import without_padding
from gatewise.analysis.gating.size_histogram import SizeHistogram
from gatewise.analysis.gating.stream import Readings
from gatewise.analysis.record import AnalysisResult
from gatewise.analysis.scores import scores_of, summed_loss
from gatewise.batches import ModelCall, Progress, read_batches
from gatewise.checks import check_number
from gatewise.errors import Limitation, NotApplicableError
from gatewise.graph import (
    GLUS,
    Graph,
    Node,
    Replace,
    SiteGraph,
    SiteNodes,
    call_operator,
    glu_of,
    run_graph,
    split_example,
    untouched,
)
from gatewise.units import TwoBranchUnit, split_branches

LIMITS = (7.0, 10.0)
SHARES = (0.001, 0.01, 0.5, 0.99, 0.999)  # of the quantiles
ALL = "all activations"
CLAMPED = ("gate", "up", "input")
TOKENS = "input_ids"
Change = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class BranchTail(AnalysisResult):
    """The numbers of one tensor at one activation.

    Attributes:
        site: The name of the activation.
        branch: ``"gate"``, ``"up"`` and ``"product"`` of a gated linear unit, else ``"input"`` and
            ``"output"``.
        least: The smallest number.
        most: The largest number.
        quantiles: The quantiles by their share, within 1 % of the number.
        outside: By limit, the share of numbers whose magnitude is above it.
    """

    site: str
    branch: str
    least: float
    most: float
    quantiles: Mapping[float, float]
    outside: Mapping[float, float]


@dataclass(frozen=True)
class ClampCost(AnalysisResult):
    """What a clamp costs.

    Attributes:
        site: The name of the activation, or ``"all activations"``.
        limit: The limit: the gate of a gated linear unit is clamped from above, its up branch and
            the inputs of other activations on both sides.
        loss: By how much the loss rises. ``None`` if the inputs have no loss.
        difference: Without a loss, the root mean square of the change of the outputs relative to
            the outputs.
    """

    site: str
    limit: float
    loss: float | None
    difference: float | None

    @property
    def cost(self) -> str:
        """The cost in words."""
        if self.loss is not None:
            return f"{self.loss:+.4f} in loss"
        return f"{self.difference:.2%} of the outputs"


@dataclass(frozen=True, repr=False)
class Tails(AnalysisResult):
    """The result of :func:`tails`.

    Attributes:
        branches: One entry for each tensor at each activation.
        loss: The mean loss without a clamp, if the inputs have one.
        costs: The cost of clamps that change something: for each limit at all activations, and at
            each one that reaches beyond it.
        notes: What was left out.
    """

    branches: tuple[BranchTail, ...]
    loss: float | None
    costs: tuple[ClampCost, ...]
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        limits = list(self.branches[0].outside)
        head = "".join(f"  outside {limit:g}" for limit in limits)
        lines = [f"{'site':36} branch      least    0.1 %   50 %   99.9 %       most{head}"]
        for each in self.branches:
            low, _, middle, _, high = each.quantiles.values()
            line = f"{each.site[:36]:36} {each.branch:8} {each.least:8.3g} {low:8.3g} {middle:6.2g}"
            line += f" {high:8.3g} {each.most:10.3g}"
            for limit in limits:
                line += f"  {each.outside[limit]:{len(f'outside {limit:g}')}.3%}"
            lines.append(line)
        if self.loss is not None:
            lines.append(f"loss {self.loss:.4f}")
        lines += [f"clamp at {each.limit:g}, {each.site}: {each.cost}" for each in self.costs]
        return "\n".join([*lines, *self.notes])


def tails(
    model: nn.Module,
    batches: Iterable[Any],
    *,
    limits: Sequence[float] = LIMITS,
    seconds: float | None = None,
    progress: Progress | None = None,
) -> Tails:
    """Measure how far the tensors at each activation reach, and what clamps would cost.

    Gated linear units have a gate, an up branch and their product. Other activations have an input
    and an output. The loss is that of the labels in ``batches``; of a causal language model without
    labels it is that of the next token. Positions that an ``attention_mask`` sets to zero do not
    count.

    Args:
        model: Any module. It is run in eval mode and left unchanged.
        batches: Tensors, ``(inputs, labels)`` or dicts of keyword arguments. All are held in memory
            and run once for each clamp.
        limits: Where to clamp.
        seconds: After this time no further single activation is clamped. ``None`` for no limit.
        progress: Called with the number of runs that are done, and of how many.

    Raises:
        NotApplicableError: The model has no activations, or a number is not finite.
    """
    for limit in limits:
        check_number("tails", "limits", limit, above=0)
    started = time.monotonic()
    runs = _Runs(model, list(read_batches("tails", model, batches)))
    branches = runs.measure(limits)
    loss, _ = runs.judge(None, 0.0)
    costs: list[ClampCost] = []
    notes = ()
    asked = _clamps(branches, limits)
    for done, (site, limit) in enumerate(asked):
        if progress is not None:
            progress(done, len(asked))
        late = seconds is not None and time.monotonic() - started > seconds
        if late and site != ALL:
            notes = (f"{len(asked) - done} clamps of single activations were left out for time",)
            break
        changed, difference = runs.judge(site, limit)
        rise = None if changed is None or loss is None else changed - loss
        costs.append(ClampCost(site, limit, rise, None if rise is not None else difference))
    return Tails(branches, loss, tuple(costs), notes)


def _clamps(branches: Sequence[BranchTail], limits: Sequence[float]) -> list[tuple[str, float]]:
    """Return the clamps that change something: of all activations, then of the one most outside."""
    beyond: dict[tuple[str, float], float] = defaultdict(float)
    for each in branches:
        for limit in limits:
            if each.branch in CLAMPED and each.outside[limit]:
                beyond[each.site, limit] = max(beyond[each.site, limit], each.outside[limit])
    single = sorted(beyond, key=lambda clamp: beyond[clamp], reverse=True)
    reached = {limit for _, limit in single}
    return [(ALL, limit) for limit in limits if limit in reached] + single


@dataclass(frozen=True, eq=False)
class _Place:
    """The tensors at one activation in one graph."""

    name: str
    gate: Node
    output: Node
    up: Node | None
    product: Node
    split: tuple[str, int, str] | None  # of an input that holds both branches

    @property
    def branches(self) -> list[tuple[Node, str, Change]]:
        """The nodes, what they are called, and how their numbers are read."""
        if self.split is not None:
            unit, dim, layout = self.split
            return [
                (self.gate, "gate", lambda value: split_branches(unit, value, dim, layout)[0]),
                (self.gate, "up", lambda value: split_branches(unit, value, dim, layout)[1]),
                (self.product, "product", _same),
            ]
        if self.up is None:
            return [(self.gate, "input", _same), (self.output, "output", _same)]
        return [
            (self.gate, "gate", _same),
            (self.up, "up", _same),
            (self.product, "product", _same),
        ]

    def clamped(self, graph: Graph, limit: float) -> dict[Node, dict[Node, Change]]:
        """Return, for each node that reads a clamped tensor, how it is clamped."""

        def both_sides(value: Tensor) -> Tensor:
            return value.clamp(-limit, limit)

        def from_above(value: Tensor) -> Tensor:
            return value.clamp(max=limit)

        def both_branches(value: Tensor) -> Tensor:
            value = value.clone()
            gate, up = split_branches(unit, value, dim, layout)
            gate.clamp_(max=limit)
            up.clamp_(-limit, limit)
            return value

        unit, dim, layout = self.split or ("", 0, "")
        change = both_sides if self.up is None else from_above
        change = both_branches if self.split is not None else change
        found: dict[Node, dict[Node, Change]] = defaultdict(dict)
        for node in _between(graph, self.gate, self.output):
            if self.gate in node.inputs:
                found[node][self.gate] = change
        if self.up is not None:
            found[self.product][self.up] = both_sides
        return found


@dataclass
class _Tail:
    """Running counts of the numbers of one tensor."""

    site: str
    branch: str
    least: float = math.inf
    most: float = -math.inf
    sizes: SizeHistogram = field(default_factory=lambda: SizeHistogram(2))
    beyond: dict[float, int] = field(default_factory=lambda: defaultdict(int))

    def add(self, values: Tensor, limits: Sequence[float]) -> None:
        flat = values.detach().float().flatten().cpu()
        least, most = float(flat.min()), float(flat.max())
        if not math.isfinite(least + most):
            raise NotApplicableError(
                Limitation.NOT_FINITE, "tails: a number is NaN or infinite", got=f"at {self.site!r}"
            )
        self.least = min(self.least, least)
        self.most = max(self.most, most)
        self.sizes.add(torch.stack((flat.clamp(min=0), (-flat).clamp(min=0))))
        for limit in limits:
            self.beyond[limit] += int((flat.abs() > limit).sum())

    def result(self) -> BranchTail:
        quantiles = {}
        for share in SHARES:
            positive = float(self.sizes.exceeded_by(1 - share)[0])
            negative = float(self.sizes.exceeded_by(share)[1])
            quantiles[share] = min(max(positive - negative, self.least), self.most)
        outside = {limit: count / self.sizes.seen for limit, count in self.beyond.items()}
        return BranchTail(self.site, self.branch, self.least, self.most, quantiles, outside)


class _Runs:
    """Runs of the model on all batches, by its graphs."""

    def __init__(self, model: nn.Module, calls: Sequence[ModelCall]) -> None:
        self.model = model
        self.calls = calls
        self.readings = Readings("tails", model, units=True)
        self.before: list[Tensor] = []  # scores without a clamp, if there is no loss

    def measure(self, limits: Sequence[float]) -> tuple[BranchTail, ...]:
        """Return the tails of all tensors."""
        totals: dict[tuple[str, str], _Tail] = {}
        for call in self.calls:
            inputs = _inputs(call)
            graph = self.readings.of(inputs)
            by_node: dict[Node, list[tuple[_Tail, Change]]] = defaultdict(list)
            for place in _places(graph, self.model):
                for node, branch, read in place.branches:
                    tail = totals.setdefault((place.name, branch), _Tail(place.name, branch))
                    by_node[node].append((tail, read))

            def tell(
                node: Node, value: Tensor, mask: Any = call.mask, by_node: Any = by_node
            ) -> None:
                for tail, read in by_node[node]:
                    values = read(value)
                    tail.add(without_padding(values, values.dim() - 1, mask)[0], limits)

            self._run(graph, inputs, keep=by_node, tell=tell)
        if not totals:
            raise NotApplicableError(Limitation.NO_GATES, "tails: the model has no activations")
        return tuple(tail.result() for tail in totals.values())

    def judge(self, site: str | None, limit: float) -> tuple[float | None, float]:
        """Return the mean loss with a clamp, and how far the outputs move if there is no loss."""
        total = changed = size = 0.0
        count = 0
        for number, call in enumerate(self.calls):
            inputs, labels = _inputs(call), call.labels
            graph = self.readings.of(inputs)
            outputs = self._run(graph, inputs, replace=self._clamp(graph, site, limit))
            scores = scores_of(outputs)
            if labels is None and self.causal:
                labels = cast(Tensor, _tokens(inputs))[:, 1:]
                scores = scores[:, :-1]
            if labels is not None:
                single = (each for each in outputs if not each.dim() and each.is_floating_point())
                own = next(single, None) if isinstance(inputs, Mapping) else None
                add, labelled = summed_loss("tails", labels, scores, SimpleNamespace(loss=own))
                total += float(add)
                count += labelled
            elif site is None:
                self.before.append(scores)
            else:
                changed += float((scores.double() - self.before[number].double()).square().sum())
                size += float(self.before[number].double().square().sum())
        return total / count if count else None, math.sqrt(changed / size) if size else 0.0

    @cached_property
    def causal(self) -> bool:
        """Whether the model is a language model whose scores do not depend on later tokens."""
        inputs = self.calls[0].example
        tokens = _tokens(inputs)
        if self.calls[0].labels is not None or tokens is None or tokens.shape[1] < 2:
            return False
        other = tokens.clone()
        other[:, -1] = tokens[:, 0]
        changed = {**inputs, TOKENS: other} if isinstance(inputs, Mapping) else other
        graph = self.readings.of(inputs)
        scores, again = (scores_of(self._run(graph, each)) for each in (inputs, changed))
        if scores.dim() != 3 or scores.shape[:2] != tokens.shape:
            return False
        is_vocabulary = scores.shape[2] > int(tokens.max())
        return is_vocabulary and torch.allclose(scores[:, :-1], again[:, :-1], 1e-3, 1e-4)

    def _clamp(self, graph: SiteGraph, site: str | None, limit: float) -> Replace:
        """Return the nodes that read clamped tensors, and what they compute."""
        nodes = graph.readings["eval"].graph
        readers: dict[Node, dict[Node, Change]] = defaultdict(dict)
        for place in _places(graph, self.model):
            if site in (ALL, place.name):
                for node, changes in place.clamped(nodes, limit).items():
                    readers[node] |= changes
        return {
            node: (node.inputs, _on_changed(node, changes)) for node, changes in readers.items()
        }

    def _run(self, graph: SiteGraph, inputs: Any, **options: Any) -> tuple[Tensor, ...]:
        args, kwargs = split_example(inputs)
        with torch.no_grad(), untouched(self.model):
            self.model.eval()
            return run_graph(graph.readings["eval"].graph, self.model, args, kwargs, **options)[0]


def _same(value: Tensor) -> Tensor:
    return value


def _inputs(call: ModelCall) -> Any:
    """Return the arguments of a call, with labels if the model computes its loss from them."""
    return call.keywords if call.kwargs else call.example


def _tokens(inputs: Any) -> Tensor | None:
    """Return the tokens (inputs, positions) of a language model."""
    tokens = inputs.get(TOKENS) if isinstance(inputs, Mapping) else inputs
    if not isinstance(tokens, Tensor) or tokens.dim() != 2 or tokens.is_floating_point():
        return None
    return tokens


def _on_changed(node: Node, changes: Mapping[Node, Change]) -> Callable[..., Any]:
    """Return the operator of a node as a function of its inputs, some of them changed."""

    def call(*values: Any) -> Any:
        known = dict(zip(node.inputs, values, strict=True))
        for source, change in changes.items():
            known[source] = change(known[source])
        return call_operator(node, known)

    return call


def _between(graph: Graph, entry: Node, output: Node) -> list[Node]:
    """Return the nodes through which ``entry`` leads to ``output``, with ``output``."""
    nodes = [node for node in graph if entry.index < node.index <= output.index]
    reached = {entry}
    for node in nodes:
        if not reached.isdisjoint(node.inputs):
            reached.add(node)
    needed = {output}
    for node in reversed(nodes):
        if node in needed:
            needed.update(node.inputs)
    return [node for node in nodes if node in reached and node in needed]


def _places(graph: SiteGraph, model: nn.Module) -> list[_Place]:
    """Return the tensors at all activations."""
    found = []
    for name, site in graph.readings["eval"].site_nodes.items():
        glu = glu_of(site.input, site.output, site.layout)
        up = None if glu is None else glu.value_node
        product = site.output if glu is None else glu.product
        found.append(_Place(name, site.input, site.output, up, product, _split(site, model)))
    return found


def _split(site: SiteNodes, model: nn.Module) -> tuple[str, int, str] | None:
    """Return how the input of a site holds a gate and a value."""
    if site.op in GLUS:
        return site.op, int(site.output.arguments.get("dim", -1)), "gate_last"
    if site.layout is None:
        return None
    return site.op, cast(TwoBranchUnit, model.get_submodule(site.path)).dim, site.layout
