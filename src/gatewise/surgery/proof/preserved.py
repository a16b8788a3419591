"""Compare a changed model with the original, whose function it must keep."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from gatewise.surgery.calls import Coverage
from gatewise.surgery.planning import PlanData
from gatewise.surgery.proof.failures import OriginalFailedError
from gatewise.surgery.proof.limits import parts
from gatewise.surgery.proof.new_weights import (
    LIVE,
    any_nonzero,
    disturbed,
    has_new,
    liveness,
    perturb,
)
from gatewise.surgery.proof.relative_difference import difference
from gatewise.surgery.proof.running import (
    SEED,
    Arguments,
    Run,
    State,
    first_of,
    of_changed,
    of_original,
    run,
    state_of,
)
from gatewise.surgery.propagate import select
from gatewise.surgery.rewrite import negative_weight

# Relative differences. Sums in another order are rounded otherwise; these leave a wide margin.
MOST = {torch.float64: 1e-12, torch.float32: 1e-5}
FLOOR = 1e-3  # gradients below this share of the largest one are compared with the share
BOUNDS = {
    **dict.fromkeys(("output_float64", "train_output", "gradient"), MOST[torch.float64]),
    **dict.fromkeys(("output_float32", "random_input", "against_graph"), MOST[torch.float32]),
}


def exceeded_bounds(results: Mapping[str, Any]) -> dict[str, float]:
    """The differences that are larger than they may be."""
    exceeded = {}
    for name, bound in BOUNDS.items():
        value = results.get(name)
        if value is not None and not value <= bound:  # not a number exceeds it, too
            exceeded[name] = value
    return exceeded


@dataclass(frozen=True)
class Comparison:
    """Both models, their tensors in float32 if they have other types, and what they reach."""

    plan: PlanData
    original: nn.Module
    changed: nn.Module
    before: State | None
    after: State | None
    coverage: Coverage

    def compare(
        self, example: Arguments, old: State | None, new: State | None
    ) -> tuple[float, Run]:
        """The difference of their outputs, and the run of the changed model."""
        before = of_original(lambda: run(self.original, example, old))
        after = of_changed(lambda: run(self.changed, example, new))
        return difference(before.outputs, after.outputs), after


def compare_on_a_part(pair: Comparison, example: Arguments) -> dict[str, Any]:
    """All comparisons that do not need the whole example, on the smallest part that is enough.

    A larger part is taken if the original cannot be run on a part, or if the new weights change
    nothing there. A difference on a part is a difference.
    """
    results: dict[str, Any] = {}
    for part, words in parts(example, pair.plan.operations[1]):
        results = {"notes": (f"all but output float32: on {words}",) if words else ()}
        try:
            _compare_single(pair, part, results)
            _compare_double(pair, part, results)
        except OriginalFailedError as refused:
            results["notes"] += (
                f"the original cannot be run in float64, or not trained ({refused})",
            )
        else:
            if results.get("live", "live") in LIVE:
                break
        if exceeded_bounds(results):
            break
    return results


def _compare_single(pair: Comparison, example: Arguments, results: dict[str, Any]) -> None:
    """Compare on random numbers, of batch size 1 if the original takes it.

    Then measure how much random new weights change the output.
    """
    one = random_example(first_of(example))
    try:
        apart, after = pair.compare(one, pair.before, pair.after)
    except OriginalFailedError:
        one = random_example(example)
        apart, after = pair.compare(one, pair.before, pair.after)
    results["random_input"] = apart
    if has_new(pair.plan):
        with disturbed(pair.changed, pair.plan, pair.after):
            results["moved"] = difference(after.outputs, run(pair.changed, one, pair.after).outputs)


def random_example(example: Arguments) -> Arguments:
    """Random numbers with the standard deviation of the example.

    Integers stay, because they may be indices.
    """
    generator = torch.Generator().manual_seed(SEED + 1)

    def change(value: Tensor) -> Tensor:
        if not value.is_floating_point():
            return value
        spread = value.float().std() if value.numel() > 1 else torch.ones(())
        return (torch.randn(value.shape, generator=generator) * spread.cpu()).to(value)

    return tree_map_only(Tensor, change, example)


def _compare_double(pair: Comparison, example: Arguments, results: dict[str, Any]) -> None:
    """Compare in float64, then in training with gradients."""
    old = state_of(pair.original, torch.float64)
    new = state_of(pair.changed, torch.float64)
    for path, slopes in pair.plan.layers.items():
        if any(slopes):  # the stored product with the slopes is rounded to the model's type
            with torch.no_grad():
                new[f"{path}.weight_neg"].copy_(negative_weight(new[f"{path}.weight"], slopes))
    for edit in pair.plan.edits:
        if edit.fill == "scaled":  # this product is rounded, too
            value = new[edit.name].detach()
            value.copy_(edit.apply(edit.old_entries(value)))
    results["output_float64"], _ = pair.compare(example, old, new)
    perturbed = perturb(old, new, pair.plan)
    before = of_original(
        lambda: run(pair.original, example, old, training=True, inside=pair.coverage.watching())
    )
    old.clear()  # gigabytes, with large models
    results |= compare_training(
        pair.plan,
        before,
        of_changed(lambda: run(pair.changed, example, new, training=True), trained=True),
    )
    if not has_new(pair.plan):
        results["live_edits"] = None
    else:
        alive, asked = results["live_edits"]
        results["live"] = liveness(results["moved"], alive, asked, perturbed)


def compare_training(plan: PlanData, before: Run, after: Run) -> dict[str, Any]:
    """Compare training: outputs, gradients of the old entries, and whether new ones have some."""
    old_gradients, new_gradients, alive = [], [], []
    unused = {entry.path for entry in plan.swapped if entry.kind == "reused"}  # no longer called
    for name, gradient in before.gradients.items():
        if name not in after.gradients or name.rpartition(".")[0] in unused:
            continue
        edits = [edit for edit in plan.edits if edit.name == name]
        kept = after.gradients[name]
        if not edits and kept.shape != gradient.shape:
            continue  # a parameter of a unit
        for edit in edits:
            if edit.fill in ("zero", "scaled"):
                alive.append(any(any_nonzero(entries) for entries in edit.new_entries(kept)))
            places, olds = edit.old_positions()
            if edit.fill == "scaled":  # the new entries began as multiples of the old ones
                scaled = kept * edit.scales(kept)
                index = edit.index.to(kept.device)
                kept = torch.zeros_like(gradient).index_add_(edit.dim, index, scaled)
                continue
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
