"""Prove a swap by running the model before and after.

In both modes, both precisions, forwards and backwards.
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
from gatewise.surgery.proof.new_weights import LIVE, any_nonzero, disturbed, has_new, liveness, wake
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

MOST = {
    torch.float64: 1e-12,
    torch.float32: 1e-5,
}  # relative: rounding of sums in another order, with a wide margin
FLOOR = 1e-3
BOUNDS = {
    **dict.fromkeys(("output_float64", "train_output", "gradient"), MOST[torch.float64]),
    **dict.fromkeys(("output_float32", "random_input", "against_graph"), MOST[torch.float32]),
}

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class SwapFailed(GatewiseError, RuntimeError):  # noqa: N818  it is said to users as what it is
    """A plan was carried out, and what came of it is not what was promised.

    The model is as it was.
    """


def prove(
    plan: Plan,
    original: nn.Module,
    changed: nn.Module,
    units: Mapping[str, nn.Module],
    example: Arguments,
) -> Proof:
    """Compare ``changed`` with ``original`` on the example; what fails to run is an error.

    In float32 on the weights as they are: the example, random numbers, and the same with the new
    weights random, which must move the output. In float64: the example, then training and
    gradients, for these with random numbers in place of zero and tiny parameters, which would hide
    what they multiply. Where a pass is long, all but the first is on a part of the example (see
    :func:`~gatewise.surgery.proof.subsample.parts`). A swap that is not to preserve anything is
    compared with what the graph computes with the units at its sites, and trained once.
    """
    if any(each.is_meta for each in changed.parameters()):
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
    """One run; on the example the plan was made with, every layer must make what the plan expects."""
    wrong: list[str] = []
    own = plan.example is not None and all(
        a is b
        for a, b in zip(
            example_tensors(split_example(plan.example)), example_tensors(example), strict=False
        )
    )
    with watching_sizes(changed, plan.sizes if own and plan.sizes else {}, wrong):
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

    Only where no width changes.
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
        for each in (original, *units.values()):  # a unit may have a norm of its own
            stack.enter_context(untouched(each))
            each.eval()
        try:
            outputs, _ = run_graph(reading.graph, original, args, kwargs, replace=replace)
        except ArgumentError:
            return None  # the graph holds what only the model itself can run
    return difference(floating_tensors(outputs), after.outputs)


class _RefusedError(Exception):
    """The original itself cannot be run so."""


@dataclass(frozen=True)
class Comparison:
    """Both models, and their tensors in float32 where they have others."""

    plan: Plan
    original: nn.Module
    changed: nn.Module
    before: State | None
    after: State | None

    def compare(
        self, example: Arguments, old: State | None, new: State | None
    ) -> tuple[float, Run]:
        """The difference of their outputs, and what the changed one gave."""
        mine = _of_original(lambda: run(self.original, example, old))
        theirs = _try(lambda: run(self.changed, example, new))
        return difference(mine.outputs, theirs.outputs), theirs


def _saved_bytes(
    pair: Comparison, example: Arguments
) -> tuple[tuple[int, int] | None, tuple[str, ...]]:
    """Bytes kept for the backward pass, before and after, and notes.

    What the original can, the changed one must, too.

    Running backwards is no formality: a unit may need what an operation in place has overwritten.
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
    """All that takes no whole example, on the least part that the original can be run on and that settles it.

    What is wrong on a part is wrong: a larger one is taken where the original refuses it, or new weights do nothing.
    """
    found: dict[str, Any] = {}
    for part in parts(example, pair.plan.operations[1]):
        found = {"notes": (f"all but output float32: on {part.words}",) if part.words else ()}
        try:
            with part.quick():
                _compare_single(pair, part.example, found)
                _compare_double(pair, part.example, found)
        except _RefusedError as refused:
            found["notes"] += (
                f"the original cannot be run in float64, or not trained ({refused})",
            )
        else:
            if found.get("live", "live") in LIVE:
                break
        if _exceeded(found):
            break
    return found


def _compare_single(pair: Comparison, example: Arguments, found: dict[str, Any]) -> None:
    """Random numbers, of another batch size if the original takes it.

    Then with the new weights random, too.
    """
    one = random_example(first_of(example))
    try:
        apart, after = pair.compare(one, pair.before, pair.after)
    except _RefusedError:
        one = random_example(example)
        apart, after = pair.compare(one, pair.before, pair.after)
    found["random_input"] = apart
    if has_new(pair.plan):
        with disturbed(pair.changed, pair.after, pair.plan):
            found["moved"] = difference(after.outputs, run(pair.changed, one, pair.after).outputs)


def _compare_double(pair: Comparison, example: Arguments, found: dict[str, Any]) -> None:
    """In float64, then in training with gradients."""
    old, new = state_of(pair.original, torch.float64), state_of(pair.changed, torch.float64)
    for (
        path,
        slopes,
    ) in pair.plan.layers.items():  # the product with a slope is rounded to the model's own type
        if any(slopes):
            with torch.no_grad():
                new[f"{path}.weight_neg"].copy_(negative_weight(new[f"{path}.weight"], slopes))
    found["output_float64"], _ = pair.compare(example, old, new)
    woken = wake(old, new, pair.plan)
    before = _of_original(lambda: run(pair.original, example, old, training=True))
    old.clear()  # gigabytes, with large models
    found |= _trained(
        pair.plan,
        before,
        _try(lambda: run(pair.changed, example, new, training=True), trained=True),
    )
    if not has_new(pair.plan):
        found["live_edits"] = None
    else:
        alive, asked = found["live_edits"]
        found["live"] = liveness(found["moved"], alive, asked, woken)


def _of_original(action: Callable[[], Run]) -> Run:
    try:
        return action()
    except (
        Exception
    ) as problem:  # whatever a model's own code raises; batch norm may not train on one
        raise _RefusedError(_first_line(problem)) from problem


def _trained(plan: Plan, before: Run, after: Run) -> dict[str, Any]:
    """Gradients of the old entries are what they were, and those of the new ones are there."""
    pairs, alive = [], []
    for name, gradient in before.gradients.items():
        if (kept := after.gradients.get(name)) is None:
            continue
        for edit in (each for each in plan.edits if each.name == name):
            places, olds = edit.old_positions()
            if edit.fill == "zero":
                alive.append(any(any_nonzero(each) for each in edit.new_entries(kept)))
            kept, gradient = select(kept, edit.dim, places), select(gradient, edit.dim, olds)
        path = name.removesuffix(".weight")
        if any(
            plan.layers.get(path, ())
        ):  # its second weight began as a multiple of the first: the old moved both
            second = after.gradients.get(f"{path}.weight_neg", torch.zeros_like(kept))
            kept = kept + negative_weight(second, plan.layers[path])
        pairs.append((gradient, kept))
    for second in (
        each
        for path in plan.layers
        if (each := after.gradients.get(f"{path}.weight_neg")) is not None
    ):
        alive.append(any_nonzero(second))
        pairs.append(
            (second.new_zeros(2), torch.stack(second.aminmax()) * 0)
        )  # not zero, if one is not finite
    return {
        "train_output": difference(before.outputs, after.outputs),
        "gradient": difference([a for a, _ in pairs], [b for _, b in pairs], floor=FLOOR),
        "live_edits": (sum(alive), len(alive)),
        "saved_bytes": (before.saved, after.saved),
    }


def check_proof(plan: Plan, proof: Proof) -> None:
    """An error, if what was to be preserved was not."""
    for name, value in _exceeded(asdict(proof)).items():
        raise SwapFailed(
            f"swap: the changed model computes something else ({name.replace('_', ' ')})",
            got=f"relative difference {value:.3g}"
            + "".join(f" ({note})" for note in proof.notes[:1]),
            allowed=f"at most {BOUNDS[name]:g}",
            fix="leave out sites with where=; plan.apply tried "
            + ", ".join(e.site for e in plan.swapped[:4]),
        )


def _exceeded(found: Mapping[str, Any]) -> dict[str, float]:
    """The differences that are larger than they may be."""
    values = {name: found.get(name) for name in BOUNDS}
    return {
        name: value
        for name, value in values.items()
        if value is not None and not value <= BOUNDS[name]
    }


def _try(action: Callable[[], Run], *, trained: bool = False) -> Run:
    try:
        return action()
    except Exception as problem:
        cause = "a size written out in the model's code does that"
        if trained:
            cause += ", or an operation in place on what a unit needs for its gradient"
        raise SwapFailed(
            f"swap: the changed model cannot be {'trained' if trained else 'run'} ({_first_line(problem)})",
            fix=f"{cause}; leave out the sites before it with where=",
        ) from problem


def _finite(after: Run) -> tuple[str, ...]:
    fine = all(bool(output.isfinite().all()) for output in after.outputs)
    return () if fine else ("the output is not finite",)


def _first_line(problem: BaseException | None) -> str:
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0]
