"""Revive dead units: new weights in front of them, zero weights behind them.

Note [What stays]. A dead unit adds nothing to the layers that read it. With zero weights in these
layers it adds nothing either, whatever it computes. So it can get new weights in front, and the
output of the network stays. The zero weights have a gradient as soon as the unit is on, and with
them the new weights.

The new rows are random, as large as those of the other units, and set such that a unit is on for
about half of the inputs: by its bias, by the statistics of the batch norm, or, where there is
neither, by their sign. On other inputs than those given the output can change, if a unit was on
for them before.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from gatewise.checks import check_kind
from gatewise.errors import ArgumentError
from gatewise.graph import Node, Site, SiteNodes, check_not_lazy, split_example, untouched
from gatewise.surgery.planning import Where, read_examples, select
from gatewise.surgery.proof import MOST, SwapFailed, difference, outputs_after, outputs_before
from gatewise.surgery.propagate import columns_of
from gatewise.surgery.revival.dead_units import (
    DeadUnits,
    Graphs,
    dead_units,
    pass_on_rows,
    read_all,
)
from gatewise.surgery.revival.edits import TensorEdits
from gatewise.surgery.revival.receipts import RevivalReceipt, RevivedSite
from gatewise.surgery.rewrite import names_of_tensors


def revive(
    model: nn.Module,
    example: Any,
    *,
    where: Where = None,
    optimizer: Optimizer | None = None,
    seed: int = 0,
) -> RevivalReceipt:
    """Give the dead units of a model new weights, in place, without changing its output.

    A unit is dead if its output is constant over all inputs of ``example`` in eval mode and its
    slope is zero there: nothing passes, forward or backward. It is revived if that output is zero,
    as for a ReLU whose input is always negative. Its row in the
    layer in front gets new random weights, a batch norm between them new statistics, and its
    columns in the layers behind become zero. What an optimizer keeps for these numbers, and their
    gradients, become zero, too. If the output changes by more than rounding, everything is put
    back. See Note [What stays].

    Args:
        model: the model, which is changed.
        example: a tensor, a tuple of positional arguments or a dict of keyword arguments, or a list
            of these: the more inputs, the surer is it that a unit is dead.
        where: the sites to check, as for :func:`gatewise.swap`. All by default.
        optimizer: the optimizer that trains the model.
        seed: of the new weights.

    Returns:
        What was changed, and the largest difference of the outputs.

    Raises:
        ArgumentError: the model does not run on the example, or ``where`` matches no site.
        SwapFailed: the output would have changed. The model is as it was.
    """
    _check(model, optimizer, seed)
    examples = read_examples(example, None)
    if not all(_count_inputs(one) for one in examples):
        raise ArgumentError("revive: the example holds no inputs", fix="pass a batch of real data")
    graphs = read_all(model, examples)
    graph = graphs[0][1]
    chosen = select(graph.sites, where, dict(model.named_modules()))
    sites = [site for site in chosen if site.dim is not None and "eval" in site.modes]
    dead, refused = dead_units(model, graphs, sites)
    inputs = sum(_count_inputs(one) for one in examples)
    if not dead:
        return RevivalReceipt((), refused, inputs)
    before = [outputs_before(model, split_example(one)) for one in examples]
    before_in_training = _training_outputs(model, examples[0])
    edits = TensorEdits(names_of_tensors(model))
    try:
        _draw(model, dead, edits, seed)
        _silence(model, dead, edits)
        _calibrate(model, dead, edits, graphs)
        largest = _largest_difference(model, examples, before)
    except BaseException:
        edits.take_back()
        raise
    changed = edits.counts()
    in_training = None
    if before_in_training is not None:
        after_in_training = _training_outputs(model, examples[0])
        in_training = difference(before_in_training, after_in_training or ())
    return RevivalReceipt(
        tuple(_revived(one, rate) for one, rate in _on_rates(model, dead, graphs)),
        refused,
        inputs,
        largest,
        in_training,
        edits.reset_training(optimizer),
        changed,
        _notes(in_training, largest),
    )


def _check(model: Any, optimizer: Any, seed: Any) -> None:
    check_not_lazy(check_kind("revive", "model", model, nn.Module))
    if optimizer is not None:
        check_kind("revive", "optimizer", optimizer, Optimizer)
    if type(seed) is not int:
        raise ArgumentError("revive: seed must be a whole number", got=seed)


def _draw(
    model: nn.Module,
    dead: Sequence[DeadUnits],
    edits: TensorEdits,
    seed: int,
) -> None:
    """Write random rows for the dead units, as large as the rows of the others."""
    generator = torch.Generator().manual_seed(seed)
    for one in dead:
        weight = model.get_parameter(f"{one.layer}.weight")
        rows = weight.detach()
        if one.alive:
            spread = float(rows[list(one.alive)].double().square().mean().sqrt())
        else:
            spread = (2 / rows[0].numel()) ** 0.5
        shape = (len(one.units), *weight.shape[1:])
        new = torch.randn(shape, generator=generator, dtype=torch.float64) * spread
        edits.write(weight, 0, one.units, new)


def _silence(model: nn.Module, dead: Sequence[DeadUnits], edits: TensorEdits) -> None:
    """Write zeros into the columns of the layers behind the dead units."""
    for one in dead:
        for path, labels in one.readers.items():
            places = columns_of(labels, one.units)
            edits.write(model.get_parameter(f"{path}.weight"), 1, places, 0.0)


def _calibrate(
    model: nn.Module, dead: Sequence[DeadUnits], edits: TensorEdits, graphs: Graphs
) -> None:
    """Set biases, statistics of batch norms or signs such that the units are on for about half."""
    moments = _moments(model, dead, graphs)
    for one in dead:
        mean, deviation = moments[one.site.name]
        units = list(one.units)
        module = model.get_submodule(one.layer)
        bias = module._parameters.get("bias")
        if one.norm is not None:
            norm: Any = model.get_submodule(one.norm)
            edits.write(norm.running_mean, 0, units, mean[units])
            edits.write(norm.running_var, 0, units, deviation[units].square())
            if norm.affine:
                edits.write(norm.weight, 0, units, 1.0)
                edits.write(norm.bias, 0, units, 0.0)
        elif bias is not None:
            old = bias.detach()[units].to(mean)
            edits.write(bias, 0, units, old - mean[units])
        else:
            weight = model.get_parameter(f"{one.layer}.weight")
            sign = torch.where(mean[units] < 0, -1.0, 1.0)
            rows = weight.detach()[units]
            signs = sign.reshape(-1, *(1,) * (rows.dim() - 1)).to(rows)
            edits.write(weight, 0, units, rows * signs)


def _moments(
    model: nn.Module, dead: Sequence[DeadUnits], graphs: Graphs
) -> dict[str, tuple[Tensor, Tensor]]:
    """Return mean and standard deviation of what the layer of each site computes, by channel."""
    sums: dict[str, list[Tensor]] = {}
    norms = {one.site.name: one.norm for one in dead}

    def in_front(site: Site, found: SiteNodes) -> Node:
        return found.input if norms[site.name] is None else found.input.inputs[0]

    def add(site: Site, rows: Tensor) -> None:
        parts = [torch.full((1,), rows.shape[1]).double(), rows.sum(1), rows.square().sum(1)]
        before = sums.get(site.name)
        sums[site.name] = parts if before is None else [*map(torch.add, before, parts)]

    pass_on_rows(model, graphs, [one.site for one in dead], in_front, add)
    result = {}
    for name, (count, total, squares) in sums.items():
        mean = total / count
        variance = (squares / count - mean.square()).clamp(min=0)
        result[name] = (mean, variance.sqrt().clamp(min=1e-5))
    return result


def _on_rates(
    model: nn.Module, dead: Sequence[DeadUnits], graphs: Graphs
) -> list[tuple[DeadUnits, float]]:
    """Return the share of outputs of the revived units that are not zero."""
    counts: dict[str, list[int]] = {one.site.name: [0, 0] for one in dead}
    units = {one.site.name: list(one.units) for one in dead}

    def add(site: Site, rows: Tensor) -> None:
        chosen = rows[units[site.name]]
        counts[site.name][0] += int((chosen != 0).sum())
        counts[site.name][1] += chosen.numel()

    pass_on_rows(model, graphs, [one.site for one in dead], lambda _, found: found.output, add)
    return [(one, counts[one.site.name][0] / counts[one.site.name][1]) for one in dead]


def _largest_difference(
    model: nn.Module, examples: Sequence[Any], before: Sequence[tuple[Tensor, ...]]
) -> float:
    """Return the largest difference of the outputs; raise if it is more than rounding."""
    largest = 0.0
    for example, outputs in zip(examples, before, strict=True):
        after = outputs_after(model, split_example(example), "revive")
        value = difference(outputs, after)
        allowed = max((_allowed(output) for output in outputs), default=0.0)
        if not value <= allowed:
            raise SwapFailed(
                "revive: the output would change",
                got=f"relative difference {value:.3g}",
                allowed=f"at most {allowed:g}",
                fix="choose sites with where; the model is as it was",
            )
        largest = max(largest, value)
    return largest


def _allowed(output: Tensor) -> float:
    return MOST.get(output.dtype, 2 * torch.finfo(output.dtype).eps)


def _training_outputs(model: nn.Module, example: Any) -> tuple[Tensor, ...] | None:
    """Return the outputs in train mode with the present random numbers, ``None`` if it fails."""
    args, kwargs = split_example(example)
    with torch.no_grad(), untouched(model):
        model.train()
        try:
            result = model(*args, **kwargs)
        except Exception:  # a model's code may raise anything, e.g. batch norm on one input
            return None
    return (result,) if isinstance(result, Tensor) else None


def _notes(in_training: float | None, in_eval: float) -> tuple[str, ...]:
    if in_training is None or in_training <= max(in_eval, MOST[torch.float32]):
        return ()
    return (
        "The output in train mode changed: with the statistics of the batch, units that are dead "
        "in eval mode were on.",
    )


def _revived(one: DeadUnits, on_rate: float) -> RevivedSite:
    readers = tuple(one.readers)
    return RevivedSite(one.site.name, one.layer, one.norm, readers, one.units, on_rate)


def _count_inputs(example: Any) -> int:
    """Return the length of the first tensor of an example."""
    args, kwargs = split_example(example)
    for value in (*args, *kwargs.values()):
        if isinstance(value, Tensor):
            return len(value) if value.dim() else 1
    return 1
