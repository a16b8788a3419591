"""Prove a swap by running the model before and after it.

Both are run in evaluation and in training, in float32 and in float64, forwards and backwards.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn

from gatewise.errors import ArgumentError, GatewiseError
from gatewise.graph import example_tensors, run_graph, split_example, untouched
from gatewise.surgery.planning import Plan
from gatewise.surgery.proof.new_weights import (
    LIVE,
    any_nonzero,
    disturbed,
    has_new,
    liveness,
    perturb,
)
from gatewise.surgery.proof.receipts import Proof
from gatewise.surgery.proof.relative_difference import difference
from gatewise.surgery.proof.running import (
    Run,
    State,
    floating_tensors,
    run,
    single_precision,
    state_of,
)
from gatewise.surgery.proof.subsample import first_of, parts, random_example
from gatewise.surgery.propagate import select, watching_sizes
from gatewise.surgery.rewrite import negative_weight

# Relative differences. Sums in another order are rounded otherwise; these leave a wide margin.
MOST = {torch.float64: 1e-12, torch.float32: 1e-5}
FLOOR = 1e-3  # gradients below this share of the largest one are compared with the share
BOUNDS = {
    **dict.fromkeys(("output_float64", "train_output", "gradient"), MOST[torch.float64]),
    **dict.fromkeys(("output_float32", "random_input", "against_graph"), MOST[torch.float32]),
}

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class SwapFailed(GatewiseError, RuntimeError):  # noqa: N818  a public name without "Error"
    """A plan was carried out, and the changed model is not what the plan promises.

    The model is as it was before.
    """


def prove(
    plan: Plan,
    original: nn.Module,
    changed: nn.Module,
    units: Mapping[str, nn.Module],
    example: Arguments,
) -> Proof:
    """Compare ``changed`` with ``original``.

    A swap that preserves the function is compared in float32 with the weights as they are: on the
    example, on random numbers, and on these with random new weights, which must change the output.
    In float64 it is compared on the example, then in training with gradients. For the latter,
    parameters that are zero or tiny are replaced by random numbers, since they would hide what they
    multiply. If a pass is long, all but the first comparison use a part of the example (see
    :func:`~gatewise.surgery.proof.subsample.parts`).

    Any other swap is compared with what the graph computes with the units at its sites, and trained
    for one step.

    Args:
        plan: what was done.
        original: the model before.
        changed: the model after.
        units: the installed units, by site.
        example: positional and keyword arguments to run both on.

    Raises:
        SwapFailed: the changed model cannot be run or trained.
    """
    if any(module.is_meta for module in changed.parameters()):
        return Proof(notes=("the model has no values (device meta)",))
    state = single_precision(changed)
    after = _run_with_sizes(plan, changed, example, state)
    before = single_precision(original)
    pair = Comparison(plan, original, changed, before, state)
    if not plan.preserve:
        apart = _against_graph(plan, original, units, example, state, after)
        saved, notes = _saved_bytes(pair, example)
        return Proof(against_graph=apart, saved_bytes=saved, notes=(*_finite(after), *notes))
    output = difference(run(original, example, before).outputs, after.outputs)
    return Proof(output_float32=output, **_on_a_part(pair, example))


def _run_with_sizes(plan: Plan, changed: nn.Module, example: Arguments, state: State | None) -> Run:
    """Run ``changed``; on the plan's own example, layers must make the sizes that it expects."""
    wrong: list[str] = []
    same = False
    if plan.example is not None:
        planned = example_tensors(split_example(plan.example))
        same = all(a is b for a, b in zip(planned, example_tensors(example), strict=False))
    with watching_sizes(changed, plan.sizes if same and plan.sizes else {}, wrong):
        after = _try(lambda: run(changed, example, state))
    if wrong:
        raise SwapFailed(
            "swap: a layer does not make what the plan expects", got="; ".join(wrong[:3])
        )
    return after


def _against_graph(
    plan: Plan,
    original: nn.Module,
    units: Mapping[str, nn.Module],
    example: Arguments,
    state: State | None,
    after: Run,
) -> float | None:
    """The difference from the graph of the original, run with the units in place.

    ``None`` if a swap cannot tell what the graph computes, for example because widths change.
    """
    reading = plan.graph.readings.get("eval") if plan.graph is not None else None
    if reading is None or state is not None:
        return None
    replace: dict[Any, Any] = {}
    for swap, entries in plan.by_swap():
        part = swap.replacements(entries, reading, original, units)
        if part is None:
            return None
        replace.update(part)
    args, kwargs = example
    with torch.no_grad(), ExitStack() as stack:
        for module in (original, *units.values()):  # a unit may have a norm of its own
            stack.enter_context(untouched(module))
            module.eval()
        try:
            outputs, _ = run_graph(reading.graph, original, args, kwargs, replace=replace)
        except ArgumentError:
            return None  # the graph holds what only the model itself can run
    return difference(floating_tensors(outputs), after.outputs)


class _RefusedError(Exception):
    """The original itself cannot be run in this way."""


@dataclass(frozen=True)
class Comparison:
    """Both models, and their tensors in float32 if they have other types."""

    plan: Plan
    original: nn.Module
    changed: nn.Module
    before: State | None
    after: State | None

    def compare(
        self, example: Arguments, old: State | None, new: State | None
    ) -> tuple[float, Run]:
        """The difference of their outputs, and the run of the changed model."""
        before = _of_original(lambda: run(self.original, example, old))
        after = _try(lambda: run(self.changed, example, new))
        return difference(before.outputs, after.outputs), after


def _saved_bytes(
    pair: Comparison, example: Arguments
) -> tuple[tuple[int, int] | None, tuple[str, ...]]:
    """Bytes kept for the backward pass, before and after, and notes.

    If the original can be trained on the example, the changed model must be, too: a unit may need
    for its gradient what an operation in place has overwritten.
    """
    problem = ""
    for part in parts(example, pair.plan.operations[1]):
        try:
            with part.quick():
                before = _of_original(
                    lambda part=part: run(pair.original, part.example, pair.before, training=True)
                )
                after = _try(
                    lambda part=part: run(pair.changed, part.example, pair.after, training=True),
                    trained=True,
                )
        except _RefusedError as refused:
            problem = f"the original cannot be trained on the example ({refused})"
            continue
        return (before.saved, after.saved), (f"saved bytes: on {part.words}",) if part.words else ()
    return None, (problem,)


def _on_a_part(pair: Comparison, example: Arguments) -> dict[str, Any]:
    """All comparisons that do not need the whole example, on the smallest part that is enough.

    A larger part is taken if the original cannot be run on a part, or if the new weights change
    nothing there. A difference on a part is a difference.
    """
    results: dict[str, Any] = {}
    for part in parts(example, pair.plan.operations[1]):
        results = {"notes": (f"all but output float32: on {part.words}",) if part.words else ()}
        try:
            with part.quick():
                _compare_single(pair, part.example, results)
                _compare_double(pair, part.example, results)
        except _RefusedError as refused:
            results["notes"] += (
                f"the original cannot be run in float64, or not trained ({refused})",
            )
        else:
            if results.get("live", "live") in LIVE:
                break
        if _exceeded(results):
            break
    return results


def _compare_single(pair: Comparison, example: Arguments, results: dict[str, Any]) -> None:
    """Compare on random numbers, of batch size 1 if the original takes it.

    Then measure how much random new weights change the output.
    """
    one = random_example(first_of(example))
    try:
        apart, after = pair.compare(one, pair.before, pair.after)
    except _RefusedError:
        one = random_example(example)
        apart, after = pair.compare(one, pair.before, pair.after)
    results["random_input"] = apart
    if has_new(pair.plan):
        with disturbed(pair.changed, pair.after, pair.plan):
            results["moved"] = difference(after.outputs, run(pair.changed, one, pair.after).outputs)


def _compare_double(pair: Comparison, example: Arguments, results: dict[str, Any]) -> None:
    """Compare in float64, then in training with gradients."""
    old = state_of(pair.original, torch.float64)
    new = state_of(pair.changed, torch.float64)
    for path, slopes in pair.plan.layers.items():
        if any(slopes):  # the stored product with the slopes is rounded to the model's type
            with torch.no_grad():
                new[f"{path}.weight_neg"].copy_(negative_weight(new[f"{path}.weight"], slopes))
    results["output_float64"], _ = pair.compare(example, old, new)
    perturbed = perturb(old, new, pair.plan)
    before = _of_original(lambda: run(pair.original, example, old, training=True))
    old.clear()  # gigabytes, with large models
    results |= _trained(
        pair.plan,
        before,
        _try(lambda: run(pair.changed, example, new, training=True), trained=True),
    )
    if not has_new(pair.plan):
        results["live_edits"] = None
    else:
        alive, asked = results["live_edits"]
        results["live"] = liveness(results["moved"], alive, asked, perturbed)


def _of_original(action: Callable[[], Run]) -> Run:
    try:
        return action()
    except Exception as problem:  # the model's own code may raise anything
        raise _RefusedError(_first_line(problem)) from problem


def _trained(plan: Plan, before: Run, after: Run) -> dict[str, Any]:
    """Compare training: outputs, gradients of the old entries, and whether new ones have some."""
    old_gradients, new_gradients, alive = [], [], []
    for name, gradient in before.gradients.items():
        if name not in after.gradients:
            continue
        edits = [edit for edit in plan.edits if edit.name == name]
        kept = after.gradients[name]
        for edit in edits:
            if edit.fill == "zero":
                alive.append(any(any_nonzero(entries) for entries in edit.new_entries(kept)))
            places, olds = edit.old_positions()
            kept = select(kept, edit.dim, places)
            gradient = select(gradient, edit.dim, olds)
        path = name.removesuffix(".weight")
        slopes = plan.layers.get(path, ())
        if any(slopes):  # the second weight began as a multiple of the first: both are the old one
            second = after.gradients.get(f"{path}.weight_neg")
            if second is not None:
                second = negative_weight(second, slopes)
                for edit in edits:
                    second = select(second, edit.dim, edit.old_positions()[0])
                kept = kept + second
        old_gradients.append(gradient)
        new_gradients.append(kept)
    for path in plan.layers:
        second = after.gradients.get(f"{path}.weight_neg")
        if second is not None:
            alive.append(any_nonzero(second))
            old_gradients.append(second.new_zeros(2))
            # zero, unless an entry is not finite
            new_gradients.append(torch.stack(second.aminmax()) * 0)
    return {
        "train_output": difference(before.outputs, after.outputs),
        "gradient": difference(old_gradients, new_gradients, floor=FLOOR),
        "live_edits": (sum(alive), len(alive)),
        "saved_bytes": (before.saved, after.saved),
    }


def check_proof(plan: Plan, proof: Proof) -> None:
    """An error, if a difference is larger than it may be."""
    for name, value in _exceeded(asdict(proof)).items():
        raise SwapFailed(
            f"swap: the changed model computes something else ({name.replace('_', ' ')})",
            got=f"relative difference {value:.3g}"
            + "".join(f" ({note})" for note in proof.notes[:1]),
            allowed=f"at most {BOUNDS[name]:g}",
            fix="leave out sites with where=; plan.apply tried "
            + ", ".join(entry.site for entry in plan.swapped[:4]),
        )


def _exceeded(results: Mapping[str, Any]) -> dict[str, float]:
    """The differences that are larger than they may be."""
    exceeded = {}
    for name, bound in BOUNDS.items():
        value = results.get(name)
        if value is not None and not value <= bound:  # not a number exceeds it, too
            exceeded[name] = value
    return exceeded


def _try(action: Callable[[], Run], *, trained: bool = False) -> Run:
    try:
        return action()
    except Exception as problem:
        cause = "the model's code may contain a fixed size"
        if trained:
            cause += ", or an operation in place on what a unit needs for its gradient"
        done = "trained" if trained else "run"
        raise SwapFailed(
            f"swap: the changed model cannot be {done} ({_first_line(problem)})",
            fix=f"{cause}; leave out the sites before it with where=",
        ) from problem


def _finite(after: Run) -> tuple[str, ...]:
    fine = all(bool(output.isfinite().all()) for output in after.outputs)
    return () if fine else ("the output is not finite",)


def _first_line(problem: BaseException | None) -> str:
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0]
