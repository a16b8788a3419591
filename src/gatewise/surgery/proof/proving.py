"""Prove a swap by running the model before and after it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import torch
from torch import nn

from gatewise.errors import NotApplicableError
from gatewise.graph import Reading, example_tensors, find_sites, run_graph, split_example, untouched
from gatewise.surgery.calls import Coverage
from gatewise.surgery.planning import PlanData, paths_of, readings_of_example
from gatewise.surgery.proof.against_reference import (
    MOST_INSIDE,
    Compared,
    ReferenceComparison,
    exceeded,
    reference_functions,
)
from gatewise.surgery.proof.failures import OriginalFailedError, SwapFailed, check_difference
from gatewise.surgery.proof.limits import is_large
from gatewise.surgery.proof.module_outputs import (
    Samples,
    changed_modules,
    checking_sizes,
    sampling_outputs,
)
from gatewise.surgery.proof.new_weights import has_new, neutral
from gatewise.surgery.proof.preserved import (
    BOUNDS,
    MOST,
    Comparison,
    compare_on_a_part,
    exceeded_bounds,
)
from gatewise.surgery.proof.receipts import NOT_PROVED, PROVED, WIRING, Proof
from gatewise.surgery.proof.relative_difference import difference, movement
from gatewise.surgery.proof.running import (
    Arguments,
    ModelCall,
    Run,
    State,
    floating_tensors,
    of_changed,
    of_original,
    run,
    single_precision,
)


def prove(
    plan: PlanData,
    original: nn.Module,
    changed: nn.Module,
    units: Mapping[str, nn.Module],
    examples: Sequence[Arguments],
    calls: Sequence[ModelCall] = (),
) -> Proof:
    """Compare ``changed`` with ``original``.

    A swap that keeps the function is compared in float32 with the weights as they are: on the
    example, on random numbers, and on these with random new weights, which must change the output.
    In float64 it is compared on the example, then in training with gradients. For the latter,
    parameters that are zero or tiny are replaced by random numbers, since they would hide what they
    multiply. If a pass is long, all but the first comparison use a part of the example (see
    :func:`~gatewise.surgery.proof.subsample.parts`).

    Any other swap is compared with the reference: the original, run with the units' values in place
    of its activations' values. New random weights are zero for that, and must then change what
    the model computes. Units that are bound to a layer are compared with the graph of the original.

    Args:
        plan: what was done.
        original: the model before.
        changed: the model after.
        units: the installed units, by site.
        examples: positional and keyword arguments to run both on.
        calls: functions of a model that call it in other ways, such as ``model.encode(x)``.

    Raises:
        SwapFailed: the changed model cannot be run or trained, or differs.
    """
    if any(parameter.is_meta for parameter in changed.parameters()):
        return Proof(reason="the model has no values (device meta)")
    if plan.scaled:
        _run_with_sizes(plan, changed, examples[0], single_precision(changed), 0)
        saved, notes = _saved_bytes(original, changed, examples[0], Coverage(original))
        reason = "widths were scaled, so that there is nothing to compare with"
        return Proof(reason=reason, saved_bytes=saved, notes=notes)
    coverage = Coverage(original)
    with _without_nested_tensors(original, changed) as padded:
        proof = _compared(plan, original, changed, units, examples, coverage)
    if padded:
        note = f"{', '.join(padded)}: rows of padding are computed now, and were zero in eval mode"
        proof = replace(proof, notes=(*proof.notes, note))
    notes = [_compare_call(plan, original, changed, call, coverage) for call in calls]
    proof = replace(proof, notes=(*proof.notes, *notes))
    reached = paths_of(plan.graph.readings.values()) if plan.graph is not None else ()
    unreached = coverage.unreached(reached).parts
    return replace(proof, unreached=unreached, examples=len(examples))


def _compare_call(
    plan: PlanData, original: nn.Module, changed: nn.Module, call: ModelCall, coverage: Coverage
) -> str:
    """Compare what ``call`` returns for both models, and return a remark about it.

    Raises:
        SwapFailed: the swap keeps the function, and this call returns something else.
    """
    outputs = []
    for model, watching in ((original, coverage.watching()), (changed, nullcontext())):
        with untouched(model), torch.no_grad(), watching:
            outputs.append(floating_tensors(call(model.eval())))
    name = getattr(call, "__name__", type(call).__name__)
    apart = difference(*outputs)
    if plan.preserve and not apart <= MOST[torch.float32]:
        raise SwapFailed(
            "swap: a call of the model returns something else",
            got=f"{name}: relative difference {apart:.3g}",
            fix="leave out the sites that it reaches with where=, or leave it out of calls=",
        )
    return f"{name}: differs from the original by {apart:.3g}, relative"


@contextmanager
def _without_nested_tensors(original: nn.Module, changed: nn.Module) -> Iterator[list[str]]:
    """Within the context, the original computes rows of padding where the changed model does.

    The value is the paths of torch's encoders that would leave them out.
    """
    encoders: dict[str, Any] = {}
    for path, module in original.named_modules():
        if isinstance(module, nn.TransformerEncoder) and getattr(module, "use_nested_tensor", 0):
            if not getattr(changed.get_submodule(path), "use_nested_tensor", 0):
                encoders[path or "the model"] = module
    try:
        for module in encoders.values():
            module.use_nested_tensor = False
        yield list(encoders)
    finally:
        for module in encoders.values():
            module.use_nested_tensor = True


def _compared(
    plan: PlanData,
    original: nn.Module,
    changed: nn.Module,
    units: Mapping[str, nn.Module],
    examples: Sequence[Arguments],
    coverage: Coverage,
) -> Proof:
    """Compare by the method that fits the plan; ``coverage`` sees the runs of the original."""
    functions = reference_functions(plan, units)
    if functions is None:
        return _prove_by_graph(plan, original, changed, units, examples, coverage)
    comparison = ReferenceComparison(plan, original, changed, units, functions, coverage)
    if comparison.keeps_function and not is_large(original):
        return _prove_preserved(plan, original, changed, examples, coverage)
    return _prove_by_reference(comparison, examples)


def _prove_preserved(
    plan: PlanData,
    original: nn.Module,
    changed: nn.Module,
    examples: Sequence[Arguments],
    coverage: Coverage,
) -> Proof:
    after = single_precision(changed)
    before = single_precision(original)
    pair = Comparison(plan, original, changed, before, after, coverage)
    results: dict[str, Any] = {}
    inside: list[str] = []
    for number, example in enumerate(examples):
        old_samples: Samples = {}
        new_samples: Samples = {}
        try:
            with sampling_outputs(original, old_samples):
                watching = coverage.watching()
                expected = of_original(partial(run, original, example, before, inside=watching))
        except OriginalFailedError as refused:  # such as code that names the type of its numbers
            return Proof(reason=f"the original cannot be run in float32 ({refused})")
        with sampling_outputs(changed, new_samples):
            actual = _run_with_sizes(plan, changed, example, after, number)
        inside += changed_modules(old_samples, new_samples, MOST_INSIDE)
        output = difference(expected.outputs, actual.outputs)
        part = {"output_float32": output, **compare_on_a_part(pair, example)}
        results = _merged(results, part)
        if not any(bool(value.isfinite().any()) for value in expected.outputs):
            return Proof(**results, reason="the outputs hold no finite floating-point numbers")
    return Proof(**results, changed_inside=_outside_sites(plan, inside), verdict=PROVED)


def _outside_sites(plan: PlanData, paths: Sequence[str]) -> tuple[str, ...]:
    """Return those of ``paths`` at which the plan changes no site, each once."""
    sites = {entry.path for entry in plan.swapped}
    return tuple(path for path in dict.fromkeys(paths) if path not in sites)


def _merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """The results of two examples: the larger difference of each kind, and all notes."""
    merged = dict(one)
    for name, value in other.items():
        if name not in merged or merged[name] is None:
            merged[name] = value
        elif name == "notes":
            merged[name] += tuple(note for note in value if note not in merged[name])
        elif name in BOUNDS and value is not None and not value <= merged[name]:
            merged[name] = value
    return merged


def _prove_by_reference(comparison: ReferenceComparison, examples: Sequence[Arguments]) -> Proof:
    plan = comparison.plan
    original = comparison.original
    changed = comparison.changed
    compared = Compared()
    with neutral(changed, plan):
        for number, example in enumerate(examples):
            readings = _readings(plan, original, example, number) if comparison.functions else {}
            try:
                sizes = _expected_sizes(plan, example, number)
                comparison.compare(example, readings, sizes, compared)
            except OriginalFailedError as refused:
                compared.problems.append(f"the original cannot be run ({refused})")
    if has_new(plan):
        comparison.measure_movement(examples[0], compared)
    missed = [site for site in comparison.functions if site not in compared.seen]
    if missed:
        compared.problems.append(f"no call of {', '.join(missed[:4])} was seen")
    if not compared.problems:
        _check(plan, compared)
    if compared.output is None and compared.train_output is None:
        compared.problems.append("the model could not be run for a comparison")
    keeps = comparison.keeps_function
    widens = bool(plan.edits) and not keeps
    return Proof(
        output_float32=compared.output if keeps else None,
        against_reference=None if keeps else compared.output,
        reference_train=compared.train_output,
        reference_gradient=compared.gradient,
        compared_weights=compared.weights,
        outputs_moved=compared.outputs_moved,
        moved=compared.moved,
        saved_bytes=compared.saved_bytes,
        notes=tuple(dict.fromkeys(compared.notes)),
        changed_inside=_outside_sites(plan, compared.changed_inside),
        verdict=NOT_PROVED if compared.problems else WIRING if widens else PROVED,
        reason="; ".join(compared.problems[:3]),
    )


def _check(plan: PlanData, compared: Compared) -> None:
    over = exceeded(compared)
    if over is not None:
        name, value, bound = over
        fix = _tried(plan) + (
            "; an activation that writes into a tensor which is read under another name cannot be "
            "replaced"
        )
        note = "" if plan.preserve else " from the original with other activations"
        check_difference("swap", name, value, bound, fix, note)


def _tried(plan: PlanData) -> str:
    names = ", ".join(entry.site for entry in plan.swapped[:4])
    return f"leave out sites with where=; plan.apply tried {names}"


def _prove_by_graph(
    plan: PlanData,
    original: nn.Module,
    changed: nn.Module,
    units: Mapping[str, nn.Module],
    examples: Sequence[Arguments],
    coverage: Coverage,
) -> Proof:
    """Compare with the graph of the original, run with the units in place, in eval mode."""
    apart: float | None = None
    moved: float | None = None
    reason = ""
    for number, example in enumerate(examples):
        state = single_precision(changed)
        after = _run_with_sizes(plan, changed, example, state, number)
        if state is not None:
            reason = "what takes the place of several calls is compared in float32 models only"
            continue
        reading = _readings(plan, original, example, number).get("eval")
        found, why = _against_graph(plan, original, units, example, reading, after)
        reason = reason or why
        if found is not None:
            apart = max(found, apart or 0.0)
        if number == 0 and not plan.edits:
            before = of_original(partial(run, original, example))
            moved = movement(before.outputs, after.outputs)
    saved, notes = _saved_bytes(original, changed, examples[0], coverage)
    reason = reason or ("" if apart is not None else "nothing was compared")
    return Proof(
        against_graph=apart,
        outputs_moved=moved,
        saved_bytes=saved,
        notes=(*notes, "compared in eval mode, with the graph of the original"),
        verdict=NOT_PROVED if reason else WIRING if plan.edits else PROVED,
        reason=reason,
    )


def _against_graph(
    plan: PlanData,
    original: nn.Module,
    units: Mapping[str, nn.Module],
    example: Arguments,
    reading: Reading | None,
    after: Run,
) -> tuple[float | None, str]:
    """The difference from the graph with the units in place, or why there is none."""
    if reading is None:
        return None, "the model could not be read in eval mode"
    replacements: dict[Any, Any] = {}
    for swap, entries in plan.by_swap():
        part = swap.replacements(entries, reading, original, units)
        if part is None:
            return None, f"{swap.name}: what it computes cannot be told from the original"
        replacements.update(part)
    args, kwargs = example
    with torch.no_grad(), ExitStack() as stack:
        for module in (original, *units.values()):  # a unit may have a norm of its own
            stack.enter_context(untouched(module))
            module.eval()
        try:
            outputs, _ = run_graph(reading.graph, original, args, kwargs, replace=replacements)
        except NotApplicableError as limitation:
            return None, str(limitation)  # the graph holds what only the model itself can run
    return difference(floating_tensors(outputs), after.outputs), ""


def _saved_bytes(
    original: nn.Module, changed: nn.Module, example: Arguments, coverage: Coverage
) -> tuple[tuple[int, int] | None, tuple[str, ...]]:
    """Bytes kept for the backward pass, before and after, and notes.

    If the original can be trained on the example, the changed model must be, too: a unit may need
    for its gradient what an operation in place has overwritten.
    """
    try:
        before = of_original(
            lambda: run(original, example, training=True, dtype=None, inside=coverage.watching())
        )
    except OriginalFailedError as refused:
        return None, (f"the original cannot be trained on the example ({refused})",)
    after = of_changed(lambda: run(changed, example, training=True, dtype=None), trained=True)
    return (before.saved, after.saved), ()


def _readings(
    plan: PlanData, original: nn.Module, example: Arguments, number: int
) -> Mapping[str, Reading]:
    """The graphs of the original on an example, by mode."""
    if plan.graph is not None and _is_planned(plan, example, number):
        return readings_of_example(plan.graph, number)
    args, kwargs = example
    graph = find_sites(original, kwargs if not args else args, units=True)
    return graph.readings


def _is_planned(plan: PlanData, example: Arguments, number: int) -> bool:
    """Whether the plan was made on this example, so that its graphs and sizes are those of it."""
    if number >= len(plan.examples):
        return False
    planned = list(example_tensors(split_example(plan.examples[number])))
    tensors = list(example_tensors(example))
    return len(planned) == len(tensors) and all(
        one is other for one, other in zip(planned, tensors, strict=True)
    )


def _run_with_sizes(
    plan: PlanData, changed: nn.Module, example: Arguments, state: State | None, number: int
) -> Run:
    """Run ``changed``; on the plan's own example, layers must make the sizes that it expects."""
    with checking_sizes(changed, _expected_sizes(plan, example, number)):
        return of_changed(lambda: run(changed, example, state))


def _expected_sizes(
    plan: PlanData, example: Arguments, number: int
) -> Mapping[str, tuple[int, ...]]:
    """The sizes that layers must make; on another example than the plan's, none are known."""
    return plan.sizes or {} if number == 0 and _is_planned(plan, example, number) else {}


def check_proof(plan: PlanData, proof: Proof) -> None:
    """An error, if a difference is larger than it may be."""
    note = "".join(f" ({note})" for note in proof.notes[:1])
    for name, value in exceeded_bounds(asdict(proof)).items():
        words = name.replace("_", " ")
        check_difference("swap", words, value, BOUNDS[name], _tried(plan), note)
