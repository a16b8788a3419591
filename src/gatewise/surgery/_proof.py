"""Prove a swap by running the model before and after: in both modes, both precisions, forwards and backwards."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from gatewise.errors import ArgumentError, GatewiseError, RectifiedInputWarning
from gatewise.sites._example import example_tensors, untouched
from gatewise.sites._interpret import replacing, run_graph
from gatewise.surgery._checkpoint import negative_weight
from gatewise.surgery._galu import TWIN
from gatewise.surgery._plan import Plan
from gatewise.surgery._receipt import Proof
from gatewise.surgery._units import SWAPS

MOST = {torch.float64: 1e-12, torch.float32: 1e-5}  # relative: rounding of sums in another order, with a wide margin
MOVED = 1e-9  # relative: what random weights must move the output by, to call it alive; rounding moves it by 1e-15
TINY = 1e-3  # parameters smaller than this on average hide what they multiply
FLOOR = 1e-3
LARGE = 1 << 25  # entries of a weight whose gradient is not compared: it would take gigabytes
SEED = 0

State = dict[str, Tensor]
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class WithoutDropout(TorchFunctionMode):
    """Dropout passes its input: masks of other widths would differ."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if "dropout" in name and "dropout_p" not in kwargs:
            return args[0] if args else kwargs["input"]
        if name == "scaled_dot_product_attention":
            kwargs["dropout_p"] = 0.0
        return func(*args, **kwargs)


@dataclass(frozen=True)
class Run:
    """What one run gave: outputs, gradients by parameter name, and the bytes kept for the backward pass."""

    outputs: tuple[Tensor, ...]
    gradients: dict[str, Tensor]
    saved: int


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
    after = _try(lambda: run(changed, example, state))
    if not plan.preserve:
        return Proof(against_graph=_against_graph(plan, original, units, example, state, after), notes=_finite(after))
    found: dict[str, Any] = {}
    before = single_precision(original)
    found["output_float32"] = difference(run(original, example, before).outputs, after.outputs)
    one = random_example(example)
    found["random_input"] = difference(run(original, one, before).outputs, run(changed, one, state).outputs)
    if _has_new(plan):
        with disturbed(changed, state, plan):
            found["moved"] = difference(after.outputs, run(changed, example, state).outputs)
    return Proof(**(found | _in_float64(plan, original, changed, example, found.get("moved"))))


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
    sites = [(reading.found[name], unit) for name, unit in units.items() if name in reading.found]
    args, kwargs = example
    with torch.no_grad(), untouched(original):
        try:
            outputs, _ = run_graph(reading.graph, original.eval(), args, kwargs, replace=replacing(sites))
        except ArgumentError:
            return None  # the graph holds what only the model itself can run
    return difference(_floating(outputs), after.outputs)


def _in_float64(
    plan: Plan, original: nn.Module, changed: nn.Module, example: Any, moved: float | None
) -> dict[str, Any]:
    old, new = state_of(original, torch.float64), state_of(changed, torch.float64)
    try:
        before = run(original, example, old)
        found: dict[str, Any] = {"output_float64": difference(before.outputs, run(changed, example, new).outputs)}
        woken = wake(old, new, plan)
        trained = run(original, example, old, training=True)
    except (RuntimeError, TypeError, ValueError) as problem:
        return {"notes": (f"the original cannot be run in float64, or not trained ({_first_line(problem)})",)}
    found |= _trained(plan, trained, run(changed, example, new, training=True))
    if not _has_new(plan):
        return found | {"live_edits": None}
    alive, asked = found["live_edits"]
    return found | {"live": _liveness(moved or 0.0, alive, asked, woken)}


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


def state_of(model: nn.Module, dtype: torch.dtype) -> State:
    """A copy of the parameters and buffers, floating ones in ``dtype``."""
    found: State = {}
    for name, value in (*model.named_parameters(), *model.named_buffers()):
        floating = value.is_floating_point()
        found[name] = value.detach().to(dtype if floating else value.dtype, copy=True)
        found[name].requires_grad_(floating and value.requires_grad)
    return found


def single_precision(model: nn.Module) -> State | None:
    """``None`` if the model is in float32 already."""
    types = {value.dtype for value in model.parameters() if value.is_floating_point()}
    return None if types <= {torch.float32} else state_of(model, torch.float32)


def run(model: nn.Module, example: Any, state: State | None = None, *, training: bool = False) -> Run:
    """One run, with the tensors of ``state`` in place of the model's own; all is left as it was.

    In training with gradients, and without dropout.
    """
    dtype = next((value.dtype for value in (state or {}).values() if value.requires_grad), torch.float32)
    args, kwargs = cast(example, dtype)

    def call() -> tuple[Tensor, ...]:
        if state is None:
            return _floating(model(*args, **kwargs))
        return _floating(torch.func.functional_call(model, state, args, kwargs))

    with untouched(model, buffers=training and state is None), warnings.catch_warnings():
        warnings.simplefilter("ignore", RectifiedInputWarning)  # said to those who train the model, not here
        torch.manual_seed(SEED)
        model.train(training)
        if training:
            return _run_backwards(call, state or dict(model.named_parameters()))
        with torch.no_grad():
            return Run(call(), {}, 0)


def _run_backwards(call: Callable[[], tuple[Tensor, ...]], state: State) -> Run:
    saved: dict[int, int] = {}
    own = {value.untyped_storage().data_ptr() for value in state.values()}

    def keep(tensor: Tensor) -> Tensor:
        if (place := tensor.untyped_storage().data_ptr()) not in own:
            saved[place] = tensor.numel()
        return tensor

    with torch.enable_grad(), WithoutDropout(), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        outputs = call()
        total = sum((weighted(output) for output in outputs if output.requires_grad), torch.zeros(()))
    named = {name: value for name, value in state.items() if value.requires_grad and value.numel() <= LARGE}
    gradients = torch.autograd.grad(total, list(named.values()), allow_unused=True) if total.requires_grad else ()
    found = {name: value for name, value in zip(named, gradients, strict=False) if value is not None}
    return Run(tuple(output.detach() for output in outputs), found, sum(saved.values()))


def weighted(output: Tensor) -> Tensor:
    """A number that depends on every element differently, so that no gradient cancels by symmetry."""
    generator = torch.Generator().manual_seed(SEED)
    return (output * torch.randn(output.shape, generator=generator).to(output)).sum()


def cast(value: Any, dtype: torch.dtype | None) -> Any:
    """Every floating tensor in ``value`` in ``dtype``."""
    if isinstance(value, Tensor):
        return value.to(dtype) if dtype is not None and value.is_floating_point() else value
    if isinstance(value, dict):
        return {key: cast(each, dtype) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(cast(each, dtype) for each in value)
    return value


def random_example(example: Any) -> Any:
    """Random numbers of the spread of the example's; numbers that are not floating stay, for they may be indices."""
    generator = torch.Generator().manual_seed(SEED + 1)

    def change(value: Any) -> Any:
        if isinstance(value, Tensor):
            if not value.is_floating_point():
                return value
            spread = value.float().std() if value.numel() > 1 else torch.ones(())
            return (torch.randn(value.shape, generator=generator) * spread).to(value)
        if isinstance(value, dict):
            return {key: change(each) for key, each in value.items()}
        return type(value)(change(each) for each in value) if isinstance(value, tuple | list) else value

    return change(example)


def difference(one: Iterable[Tensor], other: Iterable[Tensor], *, floor: float = 0.0) -> float:
    """Largest difference, relative to the largest number of each tensor; infinite where shapes or finiteness differ.

    With ``floor``, relative to no less than that part of the largest number of all: a gradient that is zero but for
    rounding has no relative error.
    """
    pairs = list(zip(one, other, strict=True))
    sizes = [_largest(a) for a, _ in pairs]
    least = max([1e-30, floor * max(sizes, default=0.0)])
    return max((_apart(a, b) / max(size, least) for (a, b), size in zip(pairs, sizes, strict=True)), default=0.0)


def _largest(value: Tensor) -> float:
    if not value.numel():
        return 0.0
    low, high = (float(each) for each in value.aminmax())
    largest = max(0.0, -low, high)
    return largest if isfinite(largest) else float(value.nan_to_num(0, 0, 0).abs().max())


def _apart(a: Tensor, b: Tensor) -> float:
    if a.shape != b.shape:
        return float("inf")
    if not a.numel():
        return 0.0
    apart = _largest_plain(a - b)
    if isfinite(apart):
        return apart
    same = (a == b) | (a.isnan() & b.isnan())
    return _largest_plain((a - b).masked_fill(same, 0)) if bool(same.any()) else float("inf")


def _largest_plain(value: Tensor) -> float:
    low, high = (float(each) for each in value.aminmax())
    return max(0.0, -low, high) if low == low else float("inf")


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


def _floating(value: Any) -> tuple[Tensor, ...]:
    return tuple(each for each in example_tensors(value) if each.is_floating_point())


def _first_line(problem: BaseException) -> str:
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0]
