"""Prove a swap by running the model before and after: in both modes, both precisions, forwards and backwards."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.errors import ArgumentError, GatewiseError
from gatewise.sites._example import example_tensors, split_example, untouched
from gatewise.sites._interpret import replacing, run_graph
from gatewise.surgery._binding import BOUND
from gatewise.surgery._bound_install import bound_replacements
from gatewise.surgery._checkpoint import negative_weight
from gatewise.surgery._difference import difference
from gatewise.surgery._galu import TWIN
from gatewise.surgery._plan import Plan
from gatewise.surgery._receipt import Proof
from gatewise.surgery._run import SEED, Run, State, each_tensor, floating_tensors, run, single_precision, state_of
from gatewise.surgery._sizes import watching_sizes
from gatewise.surgery._units import SWAPS

MOST = {torch.float64: 1e-12, torch.float32: 1e-5}  # relative: rounding of sums in another order, with a wide margin
MOVED = 1e-9  # relative: what random weights must move the output by, to call it alive; rounding moves it by 1e-15
TINY = 1e-3  # parameters smaller than this on average hide what they multiply
FLOOR = 1e-3
MUCH = 1e9  # operations of a pass; beyond, float64 and gradients are for the first of the batch alone

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class SwapFailed(GatewiseError, RuntimeError):  # noqa: N818  it is said to users as what it is
    """A plan was carried out, and what came of it is not what was promised. The model is as it was."""


def prove(
    plan: Plan, original: nn.Module, changed: nn.Module, units: Mapping[str, nn.Module], example: Arguments
) -> Proof:
    """Compare ``changed`` with ``original`` on the example; what fails to run is an error.

    In float32 on the weights as they are: the example, random numbers, and the same with the new weights random, which
    must move the output. In float64: the example, then training and gradients, for these with random numbers in place
    of zero and tiny parameters, which would hide what they multiply. A swap that is not to preserve anything is
    compared with what the graph computes with the units at its sites.
    """
    if any(each.is_meta for each in changed.parameters()):
        return Proof(notes=("the model has no values (device meta)",))
    state = single_precision(changed)
    after = _run_with_sizes(plan, changed, example, state)
    if not plan.preserve:
        return Proof(against_graph=_against_graph(plan, original, units, example, state, after), notes=_finite(after))
    found: dict[str, Any] = {}
    before = single_precision(original)
    found["output_float32"] = difference(run(original, example, before).outputs, after.outputs)
    one = random_example(_fewer(original, example, before))
    found["random_input"] = difference(run(original, one, before).outputs, run(changed, one, state).outputs)
    if _has_new(plan):
        with disturbed(changed, state, plan):
            found["moved"] = difference(after.outputs, run(changed, example, state).outputs)
    return Proof(**(found | _in_float64(plan, original, changed, example, found.get("moved"))))


def _run_with_sizes(plan: Plan, changed: nn.Module, example: Arguments, state: State | None) -> Run:
    """One run; on the example the plan was made with, every layer must make what the plan expects."""
    wrong: list[str] = []
    own = plan.example is not None and all(
        a is b for a, b in zip(example_tensors(split_example(plan.example)), example_tensors(example), strict=False)
    )
    with watching_sizes(changed, plan.sizes if own and plan.sizes else {}, wrong):
        after = _try(lambda: run(changed, example, state))
    if wrong:
        raise SwapFailed("swap: a layer does not make what the plan expects", got="; ".join(wrong[:3]))
    return after


def _against_graph(
    plan: Plan,
    original: nn.Module,
    units: Mapping[str, nn.Module],
    example: Arguments,
    state: State | None,
    after: Run,
) -> float | None:
    """The difference from the graph of the original, run with the units in place. Only where no width changes."""
    reading = plan.graph.readings.get("eval") if plan.graph is not None else None
    if plan.unit in SWAPS or reading is None or state is not None:
        return None
    if plan.unit in BOUND:
        replace = bound_replacements(plan, reading, original, units)
    else:
        replace = replacing((reading.found[name], unit) for name, unit in units.items() if name in reading.found)
    args, kwargs = example
    with torch.no_grad(), untouched(original):
        try:
            outputs, _ = run_graph(reading.graph, original.eval(), args, kwargs, replace=replace)
        except ArgumentError:
            return None  # the graph holds what only the model itself can run
    return difference(floating_tensors(outputs), after.outputs)


def _in_float64(
    plan: Plan, original: nn.Module, changed: nn.Module, example: Any, moved: float | None
) -> dict[str, Any]:
    old, new = state_of(original, torch.float64), state_of(changed, torch.float64)
    for path, slopes in plan.layers.items():  # the product with a slope is rounded to the model's own type
        with torch.no_grad():
            new[f"{path}.weight_neg"].copy_(negative_weight(new[f"{path}.weight"], slopes))
    problem: Exception | None = None
    for part in [_first(example), example] if plan.operations[1] > MUCH else [example]:
        try:
            before = run(original, part, old)
            found: dict[str, Any] = {"output_float64": difference(before.outputs, run(changed, part, new).outputs)}
            woken = wake(old, new, plan)
            trained = run(original, part, old, training=True)
        except (RuntimeError, TypeError, ValueError) as refused:  # batch norm may not train on one
            problem = refused
            continue
        found |= _trained(plan, trained, run(changed, part, new, training=True))
        if not _has_new(plan):
            return found | {"live_edits": None}
        alive, asked = found["live_edits"]
        return found | {"live": _liveness(moved or 0.0, alive, asked, woken)}
    return {"notes": (f"the original cannot be run in float64, or not trained ({_first_line(problem)})",)}


def _liveness(moved: float, alive: int, asked: int, woken: int) -> str:
    if alive == asked:
        return "live" if moved > MOVED or not woken else "live, once zero weights are random"
    return "live in part" if alive or moved > MOVED else "vacuous"


def _has_new(plan: Plan) -> bool:
    return bool(plan.layers) or any(edit.fill == "zero" for edit in plan.edits)


def _trained(plan: Plan, before: Run, after: Run) -> dict[str, Any]:
    """Gradients of the old entries are what they were, and those of the new ones are there."""
    pairs, alive = [], []
    for name, gradient in before.gradients.items():
        if (kept := after.gradients.get(name)) is None:
            continue
        for edit in (each for each in plan.edits if each.name == name):
            places, olds = edit.old_positions()
            if edit.fill == "zero":
                alive.append(bool(kept.index_select(edit.dim, edit.new.nonzero().flatten()).any()))
            kept, gradient = kept.index_select(edit.dim, places), gradient.index_select(edit.dim, olds)
        path = name.removesuffix(".weight")
        if path in plan.layers:  # its second weight began as a multiple of the first, so the old one moved both
            second = after.gradients.get(f"{path}.weight_neg", torch.zeros_like(kept))
            kept = kept + negative_weight(second, plan.layers[path])
        pairs.append((gradient, kept))
    second = [after.gradients.get(f"{path}.weight_neg") for path in plan.layers]
    alive += [bool(gradient.any()) for gradient in second if gradient is not None]
    return {
        "train_output": difference(before.outputs, after.outputs),
        "gradient": difference([a for a, _ in pairs], [b for _, b in pairs], floor=FLOOR),
        "live_edits": (sum(alive), len(alive)),
        "saved_bytes": (before.saved * 4, after.saved * 4),
    }


@contextmanager
def disturbed(model: nn.Module, state: State | None, plan: Plan) -> Iterator[None]:
    """Random numbers in the new entries of the readers' weights, for a while. A constant could be normed away."""
    generator = torch.Generator().manual_seed(SEED)
    weights = dict(model.named_parameters()) if state is None else state
    touched: list[tuple[Tensor, int, Tensor, Tensor]] = []
    for edit in (each for each in plan.edits if each.fill == "zero"):
        places = edit.new.nonzero().flatten()
        touched.append(
            (weights[edit.name], edit.dim, places, weights[edit.name].detach().index_select(edit.dim, places))
        )
    for path in plan.layers:
        weight = weights[f"{path}.weight_neg"]
        touched.append((weight, 0, torch.arange(len(weight)), weight.detach().clone()))
    with torch.no_grad():
        try:
            for weight, dim, places, old in touched:
                spread = max(_mean_size(weight), TINY)
                weight.index_copy_(dim, places, _drawn(old, generator) * spread)
            yield
        finally:
            for weight, dim, places, old in touched:
                weight.index_copy_(dim, places, old)


@torch.no_grad()
def wake(old: State, new: State, plan: Plan) -> int:
    """Random numbers, the same in both, in place of parameters that are zero or so small that they hide the rest.

    Returns how many such parameters there were.
    """
    edited = {edit.name for edit in plan.edits} | {f"{path}.weight_neg" for path in plan.layers}
    generator = torch.Generator().manual_seed(SEED)
    count = 0
    for name, value in old.items():
        if name in edited or name not in new or not value.requires_grad or _mean_size(value) >= TINY:
            continue
        spread = 1.0 if value.dim() < 2 else value[0].numel() ** -0.5
        value.copy_(torch.randn(value.shape, generator=generator).to(value) * spread)
        for other in (each for each in new if each == name or each.endswith(f".{TWIN}.{name}")):
            new[other].copy_(value)
        count += 1
    return count


def _mean_size(value: Tensor) -> float:
    """Mean size of up to some thousand entries, evenly spread: enough to tell zero from not."""
    flat = value.detach().flatten()
    return float(flat[:: max(1, len(flat) // 4096)].abs().mean())


def _drawn(old: Tensor, generator: torch.Generator) -> Tensor:
    """Random numbers of the shape of ``old``: those of each dimension multiplied, which is quick for large weights."""
    made = torch.ones((1,) * old.dim(), dtype=old.dtype)
    for each, size in enumerate(old.shape):
        shape = [1] * old.dim()
        shape[each] = size
        made = made * torch.randn(shape, generator=generator, dtype=old.dtype)
    return made.to(old.device)


def _fewer(model: nn.Module, example: Any, state: State | None) -> Any:
    """The first of the batch, if the model takes it by itself; else the example."""
    first = _first(example)
    try:
        run(model, first, state)
    except (RuntimeError, TypeError, ValueError):
        return example
    return first


def _first(example: Any) -> Any:
    """The first of the batch by itself: another batch size, and less to compute."""
    sizes = {each.shape[0] for each in example_tensors(example) if each.dim()}
    if len(sizes) != 1:
        return example
    return each_tensor(example, lambda value: value[:1] if value.dim() else value)


def random_example(example: Any) -> Any:
    """Random numbers of the spread of the example's; numbers that are not floating stay, for they may be indices."""
    generator = torch.Generator().manual_seed(SEED + 1)

    def change(value: Tensor) -> Tensor:
        if not value.is_floating_point():
            return value
        spread = value.float().std() if value.numel() > 1 else torch.ones(())
        return (torch.randn(value.shape, generator=generator) * spread.cpu()).to(value)

    return each_tensor(example, change)


def check_proof(plan: Plan, proof: Proof) -> None:
    """An error, if what was to be preserved was not."""
    bounds = {
        "output_float64": MOST[torch.float64],
        "train_output": MOST[torch.float64],
        "gradient": MOST[torch.float64],
        "output_float32": MOST[torch.float32],
        "random_input": MOST[torch.float32],
        "against_graph": MOST[torch.float32],
    }
    for name, most in bounds.items():
        value = getattr(proof, name)
        if value is not None and not value <= most:
            raise SwapFailed(
                f"swap: the changed model computes something else ({name.replace('_', ' ')})",
                got=f"relative difference {value:.3g}",
                allowed=f"at most {most:g}",
                fix="leave out sites with where=; plan.apply tried " + ", ".join(e.site for e in plan.swapped[:4]),
            )


def _try(action: Callable[[], Run]) -> Run:
    try:
        return action()
    except Exception as problem:
        raise SwapFailed(
            f"swap: the changed model cannot be run ({_first_line(problem)})",
            fix="a size written out in the model's code does that; leave out the sites before it with where=",
        ) from problem


def _finite(after: Run) -> tuple[str, ...]:
    fine = all(bool(output.isfinite().all()) for output in after.outputs)
    return () if fine else ("the output is not finite",)


def _first_line(problem: BaseException | None) -> str:
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0]
