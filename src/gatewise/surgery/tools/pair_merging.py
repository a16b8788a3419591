"""Merge pairs of opposite filters, or measure what each tolerance would save and cost."""

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gatewise.checks import check_kind, check_number
from gatewise.errors import ArgumentError
from gatewise.graph import Example, SiteGraph, find_sites, parameter_count, split_example
from gatewise.surgery.calls import record_sites
from gatewise.surgery.planning import Where, float_dtypes, select
from gatewise.surgery.proof import (
    MOST,
    Arguments,
    Proof,
    check_difference,
    difference,
    few,
    outputs_after,
    outputs_of,
)
from gatewise.surgery.propagate import operations
from gatewise.surgery.rewrite import Transaction, check_not_swapped
from gatewise.surgery.tools.comparing import agreement, relative_error
from gatewise.surgery.tools.filter_pairs import nearest_mismatch
from gatewise.surgery.tools.merge_receipts import MergeCurve, MergePoint, MergeReceipt
from gatewise.surgery.tools.mergeable import Mergeable, find_mergeable
from gatewise.surgery.tools.merging import (
    Fit,
    convert,
    count_filters,
    fit_pairs,
    saved_parameters,
)
from gatewise.surgery.tools.recorded_changes import change_recorded

TOLERANCES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
NAME = "paired_relu"


@dataclass(frozen=True)
class _MergeTask:
    """A model and where its pairs can be merged.

    Attributes:
        model: The original model.
        graph: Its graph.
        sites: The sites where filters can be merged.
        refused: The reason for every other site.
        example: The arguments of the model.
        sample: A part of the example, which is enough to read and to prove.
        outputs: The outputs of the original model on the example.
    """

    model: nn.Module
    graph: SiteGraph
    sites: Sequence[Mergeable]
    refused: dict[str, str]
    example: Arguments
    sample: Arguments
    outputs: tuple[Tensor, ...]

    def costs(self, fit: Fit) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return parameters before and after, and operations before and after."""
        factors = saved_parameters(fit, self.sites)
        graph = next(iter(self.graph.readings.values())).graph
        # The fit has the shapes of the original, even if the original was changed in place.
        before = parameter_count(fit.model)
        biases = 2 * sum(map(len, fit.pairs.values()))  # of the units
        after = parameter_count(fit.model, factors) + biases
        return (before, after), (operations(graph), operations(graph, factors=factors))


def merge_pairs(
    model: nn.Module,
    example: Example,
    *,
    tolerance: float,
    where: Where = None,
    correct: bool = False,
    inplace: bool = False,
) -> nn.Module:
    r"""Replace every two filters that are nearly opposite by one filter with both signs.

    .. math:: w_i \approx \alpha d,\ w_j \approx -\beta d: \qquad
        (w_i x + b_i)^+ = \alpha\,(d x + b_i / \alpha)^+, \quad
        (w_j x + b_j)^+ = \beta\,(b_j / \beta - d x)^+

    with the rank-1 fit of least squares. Filters that are exactly opposite are merged exactly,
    whatever their lengths and biases. The biases become parameters of the unit
    :class:`~gatewise.surgery.PairedReLU`. The order of the channels and the scales go into the
    columns of the layers after it, or into the unit if one of these layers cannot absorb them.

    The receipt (:func:`gatewise.receipt`) has the pairs, the saving, the error, and the proof that
    merging itself changed nothing. :func:`gatewise.undo` restores the model. A batch norm between
    layer and ReLU prevents merging: fold it with :func:`gatewise.surgery.deploy` first.

    Shang et al., 2016, "Understanding and Improving Convolutional Neural Networks via Concatenated
    Rectified Linear Units", arXiv:1603.05201, section 2, observed such pairs.

    Args:
        model: A trained network. ReLUs directly after a convolution or linear layer are changed.
        example: An input, used to read the model, to measure the error and to correct layers.
        tolerance: The largest sine of the angle between one filter and the negative of the other,
            from 0 to below 1. As many pairs as possible are merged, with the smallest total
            mismatch.
        where: The sites to change, as in :func:`gatewise.plan`.
        correct: Fit weights and biases of the layers after the pairs again, by least squares on the
            original outputs for the example.
        inplace: Change ``model`` itself instead of a copy.

    Returns:
        The changed model.
    """
    check_not_swapped(model)
    tolerance = check_number("merge_pairs", "tolerance", tolerance, least=0, below=1)
    task = _read(model, example, where)
    fit = fit_pairs(model, task.sites, tolerance, task.example if correct else None)
    if not fit.pairs:
        raise _no_pairs(task, tolerance)

    def merge(work: Transaction) -> MergeReceipt:
        convert(work, fit, task.sites)
        return _receipt(task, fit, work.model, tolerance)

    return change_recorded(model, merge, inplace=inplace)


def merge_curve(
    model: nn.Module,
    example: Example,
    *,
    tolerances: Sequence[float] = TOLERANCES,
    where: Where = None,
    correct: bool = False,
    measure: Callable[[nn.Module], float] | None = None,
) -> MergeCurve:
    """Measure what :func:`merge_pairs` would save and cost at each tolerance.

    The model is not changed.

    Args:
        model: A trained network.
        example: An input, used to read the model, to measure the error and to correct layers.
        tolerances: The tolerances to try.
        where: The sites to change, as in :func:`gatewise.plan`.
        correct: Fit the layers after the pairs again.
        measure: A function of a model that computes the same as the merged one, for example its
            accuracy on other data. Each point has the result as ``measured``.
    """
    check_not_swapped(model)
    check_kind("merge_curve", "tolerances", tolerances, Iterable)
    checked = [
        check_number("merge_pairs", "tolerance", tolerance, least=0, below=1)
        for tolerance in tolerances
    ]
    task = _read(model, example, where)
    dtype = float_dtypes(model)[0]
    points = []
    for tolerance in checked:
        fit = fit_pairs(model, task.sites, tolerance, task.example if correct else None)
        # The fit computes the same as the merged model, so merging itself is not needed.
        plain = fit.model.to(dtype).train(model.training)
        points.append(_point(task, fit, plain, tolerance, measure))
    return MergeCurve(tuple(points))


def _point(
    task: _MergeTask,
    fit: Fit,
    plain: nn.Module,
    tolerance: float,
    measure: Callable[[nn.Module], float] | None,
) -> MergePoint:
    """Return one point of the curve."""
    parameters, operations_before_and_after = task.costs(fit)
    outputs = outputs_of(plain, task.example)
    with torch.no_grad():
        measured = None if measure is None else float(measure(plain))
    return MergePoint(
        tolerance=tolerance,
        pairs=sum(map(len, fit.pairs.values())),
        filters=count_filters(fit, task.sites),
        parameters=parameters,
        operations=operations_before_and_after,
        error=relative_error(task.outputs, outputs),
        agreement=agreement(task.outputs, outputs),
        measured=measured,
    )


def _read(model: nn.Module, example: Example, where: Where) -> _MergeTask:
    """Read the model and find where filters can be merged."""
    arguments = split_example(example)
    part = few(model, example)
    sample = split_example(part)
    graph = find_sites(model, part)
    chosen = select(graph.sites, where, dict(model.named_modules()))
    calls = record_sites(model, graph, *sample)
    sites, refused = find_mergeable(model, graph, chosen, calls)
    if not sites:
        raise ArgumentError(
            f"merge_pairs: filters can be merged at none of the {len(chosen)} sites",
            got="; ".join(f"{name}: {reason}" for name, reason in list(refused.items())[:3]),
        )
    # Measured now, because an in-place merge changes the model.
    outputs = outputs_of(model, arguments)
    return _MergeTask(model, graph, sites, refused, arguments, sample, outputs)


def _receipt(task: _MergeTask, fit: Fit, changed: nn.Module, tolerance: float) -> MergeReceipt:
    """Prove that ``changed`` computes the same as the fit, and return the receipt."""
    outputs = outputs_after(changed, task.example, "merge_pairs")
    parameters, operations_before_and_after = task.costs(fit)
    kept = []
    for mergeable in task.sites:
        if mergeable.kept:
            name = mergeable.site.name
            kept.append(f"{name}: order and scales stay in the unit ({mergeable.kept})")
    return MergeReceipt(
        unit=NAME,
        preserve=False,
        sites=tuple(fit.pairs),
        refused=task.refused,
        parameters=(parameters[0], parameter_count(changed)),
        operations=operations_before_and_after,
        proof=_prove(task, fit, changed),
        notes=(*task.graph.notes, *kept),
        tolerance=tolerance,
        pairs={site: tuple(pairs) for site, pairs in fit.pairs.items()},
        filters=count_filters(fit, task.sites),
        error=relative_error(task.outputs, outputs),
        agreement=agreement(task.outputs, outputs),
        corrected=tuple(fit.corrected),
    )


def _prove(task: _MergeTask, fit: Fit, changed: nn.Module) -> Proof:
    """Compare the fit with the result, converted in float64 and in the model's type."""
    wanted = outputs_of(fit.model, task.sample)
    exact = copy.deepcopy(fit.model)
    convert(Transaction(exact), fit, task.sites)
    outputs = outputs_after(changed, task.sample, "merge_pairs")
    float64 = difference(wanted, outputs_after(exact, task.sample, "merge_pairs"))
    float32 = difference(wanted, [output.double() for output in outputs])
    eps = torch.finfo(outputs[0].dtype).eps
    bound = max(MOST[torch.float32], 100 * eps)
    fix = "leave out sites with where="
    check_difference("merge_pairs", "output float64", float64, MOST[torch.float64], fix)
    check_difference("merge_pairs", "output float32", float32, bound, fix)
    return Proof(output_float64=float64, output_float32=float32)


def _no_pairs(task: _MergeTask, tolerance: float) -> ArgumentError:
    """Return the error for a tolerance at which there are no pairs."""
    mismatches = []
    for mergeable in task.sites:
        weight = task.model.get_parameter(f"{mergeable.layer}.weight")
        mismatch = nearest_mismatch(weight)
        if mismatch is not None:
            mismatches.append(mismatch)
    fix = "gw.surgery.merge_curve(...) shows the result of each tolerance"
    if mismatches:
        fix += f"; the closest pair has a mismatch of {min(mismatches):.3g}"
    return ArgumentError(
        "merge_pairs: no two filters are opposite within the tolerance", got=tolerance, fix=fix
    )
