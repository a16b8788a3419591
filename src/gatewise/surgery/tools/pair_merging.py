"""Find and merge pairs of filters, with a receipt, or see what each tolerance would save and cost."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gatewise.errors import ArgumentError
from gatewise.graph import Example, SiteGraph, find_sites, parameter_count, split_example
from gatewise.surgery.calls import record_sites
from gatewise.surgery.planning import Where, select
from gatewise.surgery.proof import (
    MOST,
    Arguments,
    Proof,
    SwapFailed,
    difference,
    few,
    outputs_after,
    outputs_of,
)
from gatewise.surgery.propagate import operations
from gatewise.surgery.rewrite import RECORD, SwapRecord, Transaction, check_not_swapped
from gatewise.surgery.tools.merge_receipts import (
    MergeCurve,
    MergePoint,
    MergeReceipt,
    agreement,
    relative_error,
)
from gatewise.surgery.tools.mergeable import Mergeable, find_mergeable
from gatewise.surgery.tools.merging import (
    Fit,
    convert,
    count_filters,
    fit_pairs,
    phase_biases,
    saved_parameters,
)
from gatewise.surgery.tools.opposite_pairs import nearest_mismatch

TOLERANCES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
NAME = "paired_relu"


@dataclass(frozen=True)
class _Ground:
    """A model that was read: where pairs can be merged in it, and why not elsewhere."""

    model: nn.Module
    graph: SiteGraph
    sites: Sequence[Mergeable]
    refused: dict[str, str]
    example: Arguments
    sample: Arguments  # a part of it, for what needs no more
    outputs: tuple[Tensor, ...]

    def costs(self, fit: Fit) -> tuple[tuple[int, int], tuple[int, int]]:
        """Parameters and operations, each before and after."""
        factors = saved_parameters(fit, self.sites)
        first = next(iter(self.graph.readings.values())).graph
        before = parameter_count(
            fit.model
        )  # which has the shapes of the original, also where that was changed
        after = parameter_count(fit.model, factors) + phase_biases(fit.pairs)
        return (before, after), (operations(first), operations(first, factors=factors))


def merge_pairs(
    model: nn.Module,
    example: Example,
    *,
    tolerance: float,
    where: Where = None,
    correct: bool = False,
    inplace: bool = False,
) -> nn.Module:
    r"""Replace each two filters that are nearly opposite by one filter and both of its phases.

    A copy, or in place.

    .. math:: w_i \approx \alpha d,\ w_j \approx -\beta d: \qquad
        (w_i x + b_i)^+ = \alpha\,(d x + b_i / \alpha)^+, \quad (w_j x + b_j)^+ = \beta\,(b_j / \beta - d x)^+

    with the rank-1 fit of least squared error. Filters that are exactly opposite are merged
    exactly, whatever their lengths and biases. The biases are trained on by the unit put in,
    :class:`~gatewise.surgery.PairedReLU`; order and scales go into the columns of the layers
    behind, or into the unit where one of these cannot take them.

    Args: model: a trained network; rectifiers that read a convolution or a linear layer of their
        own are looked at. example: what the model is run on: to read it, to state the error and, if
        asked for, to correct. tolerance: how far two filters may be from opposite: the sine of the
        angle between one and the negative of the
            other, from 0 to below 1. As many pairs as possible are merged, with the least total
            mismatch.
        where: which sites, as in :func:`gatewise.plan`.
        correct: fit weights and biases of the layers behind anew, by least squares on the example's
            own outputs.

    The receipt (:func:`gatewise.receipt`) has pairs, saving, error, and the proof that merging
    itself changed nothing; :func:`gatewise.undo` takes it back. Batch norms in between are refused:
    :func:`gatewise.deploy` folds them first.

    Shang et al., 2016, "Understanding and Improving Convolutional Neural Networks via Concatenated
    Rectified Linear Units", arXiv:1603.05201, section 2, is where the pairs were seen.
    """
    check_not_swapped(model)
    tolerance = _check_tolerance(tolerance)
    ground = _read(model, example, where)
    fit = fit_pairs(model, ground.sites, tolerance, ground.example if correct else None)
    if not fit.pairs:
        raise _no_pairs(ground, tolerance)
    changed = model if inplace else copy.deepcopy(model)
    work = Transaction(changed)
    try:
        convert(work, fit, ground.sites)
        receipt = _receipt(ground, fit, changed, tolerance)
        changed.__dict__[RECORD] = SwapRecord(receipt, list(work.changes))
    except BaseException:
        work.roll_back()
        raise
    return changed


def merge_curve(
    model: nn.Module,
    example: Example,
    *,
    tolerances: Sequence[float] = TOLERANCES,
    where: Where = None,
    correct: bool = False,
    measure: Callable[[nn.Module], float] | None = None,
) -> MergeCurve:
    """What :func:`merge_pairs` would save and cost at each of ``tolerances``.

    The model stays as it is.

    ``measure`` is called with a model that computes what the merged one does, to judge it by other
    data than the
    example: its number is in each point as ``measured``.
    """
    check_not_swapped(model)
    checked = [_check_tolerance(each) for each in tolerances]
    ground = _read(model, example, where)
    dtype = next(each.dtype for each in model.parameters() if each.is_floating_point())
    points = []
    for tolerance in checked:
        fit = fit_pairs(model, ground.sites, tolerance, ground.example if correct else None)
        plain = fit.model.to(dtype).train(model.training)
        points.append(_point(ground, fit, plain, tolerance, measure))
    return MergeCurve(tuple(points))


def _point(
    ground: _Ground,
    fit: Fit,
    plain: nn.Module,
    tolerance: float,
    measure: Callable[[nn.Module], float] | None,
) -> MergePoint:
    parameters, operated = ground.costs(fit)
    made = outputs_of(plain, ground.example)
    with torch.no_grad():
        measured = None if measure is None else float(measure(plain))
    return MergePoint(
        tolerance=tolerance,
        pairs=sum(len(each) for each in fit.pairs.values()),
        filters=count_filters(fit, ground.sites),
        parameters=parameters,
        operations=operated,
        error=relative_error(ground.outputs, made),
        agreement=agreement(ground.outputs, made),
        measured=measured,
    )


def _read(model: nn.Module, example: Example, where: Where) -> _Ground:
    arguments, reading = split_example(example), few(model, example)
    graph = find_sites(model, reading)
    chosen = select(graph.sites, where, dict(model.named_modules()))
    calls = record_sites(model, graph, *split_example(reading))
    sites, refused = find_mergeable(model, graph, chosen, calls)
    if not sites:
        raise ArgumentError(
            f"merge_pairs: at none of the {len(chosen)} sites can filters be merged",
            got="; ".join(f"{name}: {why}" for name, why in list(refused.items())[:3]),
        )
    return _Ground(
        model,
        graph,
        sites,
        refused,
        arguments,
        split_example(reading),
        outputs_of(model, arguments),
    )


def _receipt(ground: _Ground, fit: Fit, changed: nn.Module, tolerance: float) -> MergeReceipt:
    """The receipt of what was done to ``changed``, once it is proved that it computes what the fit does."""
    made = outputs_after(changed, ground.example, "merge_pairs")
    parameters, operated = ground.costs(fit)
    kept = [
        f"{each.site.name}: order and scales stay in the unit ({each.kept})"
        for each in ground.sites
        if each.kept
    ]
    return MergeReceipt(
        unit=NAME,
        preserve=False,
        sites=tuple(fit.pairs),
        refused=ground.refused,
        parameters=(parameters[0], parameter_count(changed)),
        operations=operated,
        proof=_prove(ground, fit, changed),
        notes=(*ground.graph.notes, *kept),
        tolerance=tolerance,
        pairs={site: tuple(pairs) for site, pairs in fit.pairs.items()},
        filters=count_filters(fit, ground.sites),
        error=relative_error(ground.outputs, made),
        agreement=agreement(ground.outputs, made),
        corrected=tuple(fit.corrected),
    )


def _prove(ground: _Ground, fit: Fit, changed: nn.Module) -> Proof:
    """Fit and result compared.

    Converted in float64, and as it was converted in the model's own type.
    """
    wanted = outputs_of(fit.model, ground.sample)
    exact = copy.deepcopy(fit.model)
    convert(Transaction(exact), fit, ground.sites)
    made = outputs_after(changed, ground.sample, "merge_pairs")
    proof = Proof(
        output_float64=difference(wanted, outputs_after(exact, ground.sample, "merge_pairs")),
        output_float32=difference(wanted, [each.double() for each in made]),
    )
    eps = torch.finfo(made[0].dtype).eps
    for name, most in (
        ("output_float64", MOST[torch.float64]),
        ("output_float32", max(MOST[torch.float32], 100 * eps)),
    ):
        if not getattr(proof, name) <= most:
            raise SwapFailed(
                f"merge_pairs: the merged model computes something else ({name.replace('_', ' ')})",
                got=f"relative difference {getattr(proof, name):.3g}",
                allowed=f"at most {most:g}",
                fix="leave out sites with where=",
            )
    return proof


def _check_tolerance(tolerance: float) -> float:
    if (
        isinstance(tolerance, bool)
        or not isinstance(tolerance, int | float)
        or not 0 <= tolerance < 1
    ):
        raise ArgumentError(
            "merge_pairs: tolerance is not a sine",
            got=tolerance,
            allowed="0 (opposite) <= tolerance < 1 (at right angles)",
        )
    return float(tolerance)


def _no_pairs(ground: _Ground, tolerance: float) -> ArgumentError:
    found = [
        nearest_mismatch(ground.model.get_parameter(f"{each.layer}.weight"))
        for each in ground.sites
    ]
    least = min((each for each in found if each is not None), default=None)
    return ArgumentError(
        "merge_pairs: no two filters are opposite within the tolerance",
        got=tolerance,
        fix="gw.merge_curve(...) shows what each tolerance gives"
        + ("" if least is None else f"; the nearest pair is {least:.3g} from opposite"),
    )
