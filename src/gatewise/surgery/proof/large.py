"""Compare a large changed model with the original, whose function it keeps, without copies.

Copies of all weights in float64, and gradients of all of them, would take many times the memory of
the model. Here the weights are used as they are, 16-bit ones converted one at a time, and gradients
are computed for the smaller weights, at most a quarter of all entries.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

from torch import nn

from gatewise.surgery.calls import Coverage
from gatewise.surgery.planning import PlanData
from gatewise.surgery.proof.failures import OriginalFailedError
from gatewise.surgery.proof.float32 import HALF, InFloat32
from gatewise.surgery.proof.module_outputs import Samples, checking_sizes, sampling_outputs
from gatewise.surgery.proof.new_weights import disturbed, has_new, liveness
from gatewise.surgery.proof.preserved import compare_training, random_example
from gatewise.surgery.proof.relative_difference import difference
from gatewise.surgery.proof.running import Arguments, Run, first_of, of_changed, of_original, run
from gatewise.surgery.proof.subsample import MUCH, Part, parts

MANY_BYTES = 1 << 27  # of weights, from which a model is large
SHARE = 4  # gradients of at most one in so many entries are computed


def is_large(model: nn.Module) -> bool:
    """Whether copies of all weights would take gigabytes."""
    return sum(parameter.nbytes for parameter in model.parameters()) > MANY_BYTES


def compare_large(
    plan: PlanData,
    original: nn.Module,
    changed: nn.Module,
    example: Arguments,
    coverage: Coverage,
    sizes: Mapping[str, tuple[int, ...]],
) -> tuple[dict[str, Any], Samples, Samples]:
    """Return the results for the proof, and samples of what modules return before and after.

    Args:
        plan: what was done.
        original: the model before.
        changed: the model after.
        example: positional and keyword arguments.
        coverage: watches the runs of the original.
        sizes: the shapes that layers of the changed model must make.

    Raises:
        OriginalFailedError: the original cannot be run so.
    """
    half = any(parameter.dtype in HALF for parameter in original.parameters())
    before: Samples = {}
    after: Samples = {}

    def evaluated(model: nn.Module, arguments: Arguments, *contexts: Any) -> Run:
        inside = _all_of(*contexts, InFloat32() if half else nullcontext())
        return run(model, arguments, inside=inside)

    expected = of_original(
        lambda: evaluated(
            original, example, sampling_outputs(original, before), coverage.watching()
        )
    )
    with checking_sizes(changed, sizes):
        actual = of_changed(lambda: evaluated(changed, example, sampling_outputs(changed, after)))
    results: dict[str, Any] = {
        "output_float32": difference(expected.outputs, actual.outputs),
        "notes": ("a large model: compared without copies of its weights",),
    }
    one = random_example(first_of(example))
    try:
        expected = of_original(lambda: evaluated(original, one))
    except OriginalFailedError:
        one = random_example(example)
        expected = of_original(lambda: evaluated(original, one))
    actual = of_changed(lambda: evaluated(changed, one))
    results["random_input"] = difference(expected.outputs, actual.outputs)
    if has_new(plan):
        with disturbed(changed, plan):
            moved = difference(actual.outputs, of_changed(lambda: evaluated(changed, one)).outputs)
        results["moved"] = moved
    results |= _trained(plan, original, changed, example, coverage, half=half)
    alive, asked = results.pop("live_edits")
    if has_new(plan):
        results["live"] = liveness(results["moved"], alive, asked, 0)
    return results, before, after


def _trained(
    plan: PlanData,
    original: nn.Module,
    changed: nn.Module,
    example: Arguments,
    coverage: Coverage,
    *,
    half: bool,
) -> dict[str, Any]:
    """Compare a step of training, in the model's own type."""
    largest = 0 if half else _largest(original)
    part = next(iter(parts(example, plan.operations[1]))) if plan.operations[1] > MUCH else None
    arguments = (part or Part(example)).example

    def step(model: nn.Module, inside: Any = None) -> Run:
        return run(model, arguments, training=True, dtype=None, inside=inside, largest=largest)

    before = of_original(lambda: step(original, coverage.watching()))
    after = of_changed(lambda: step(changed), trained=True)
    found = compare_training(plan, before, after)
    return {
        "reference_train": found["train_output"],
        "reference_gradient": found["gradient"] if before.gradients else None,
        "live_edits": found["live_edits"],
        "saved_bytes": found["saved_bytes"],
    }


def _largest(model: nn.Module) -> int:
    """The most entries of a weight, so that weights up to it are a quarter of all."""
    sizes = sorted(parameter.numel() for parameter in model.parameters())
    total = largest = 0
    for size in sizes:
        total += size
        if total > sum(sizes) / SHARE:
            break
        largest = size
    below = [size for size in sizes if size < largest]
    equal = sizes.count(largest)
    fits = sum(below) + equal * largest <= sum(sizes) / SHARE
    return largest if fits else max(below, default=1)


@contextmanager
def _all_of(*contexts: Any) -> Iterator[None]:
    with ExitStack() as stack:
        for context in contexts:
            stack.enter_context(context)
        yield
