"""Prove a swap by running the model before and after: in both modes, both precisions, forwards and backwards."""

import copy
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from gatewise.errors import GatewiseError, RectifiedInputWarning
from gatewise.sites._example import example_tensors, untouched
from gatewise.surgery._plan import Plan
from gatewise.surgery._receipt import Proof

MOST = {torch.float64: 1e-12, torch.float32: 1e-5}  # relative: rounding of sums in another order, with a wide margin
MOVED = 1e-9  # relative: what random weights must move the output by, to call it alive; rounding moves it by 1e-15
TINY = 1e-3  # parameters smaller than this on average hide what they multiply
SEED = 0


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


def prove(plan: Plan, original: nn.Module, changed: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Proof:
    """Compare ``changed`` with ``original`` on the example; what fails to run is an error."""
    example = (args, kwargs)
    if any(each.is_meta for each in changed.parameters()):
        return Proof(notes=("the model has no values (device meta)",))
    after = _try(lambda: run(changed, example, torch.float32))
    if not plan.preserve:
        return Proof(notes=_finite(after))
    before = run(original, example, torch.float32)
    found: dict[str, Any] = {"output_float32": difference(before.outputs, after.outputs)}
    one = random_example(example)
    found["random_input"] = difference(run(original, one).outputs, _try(lambda: run(changed, one)).outputs)
    found |= _in_float64(plan, original, changed, example)
    return Proof(**found)


def _in_float64(plan: Plan, original: nn.Module, changed: nn.Module, example: Any) -> dict[str, Any]:
    """Outputs, gradients and liveness. Where nothing depends on the new weights, again with zero weights woken up."""
    old, new = copy.deepcopy(original).double(), copy.deepcopy(changed).double()
    found: dict[str, Any] = {}
    for woken in (False, True):
        if woken:
            wake(old, new, plan)
        try:
            before, trained = run(old, example, torch.float64), run(old, example, torch.float64, training=True)
        except (RuntimeError, TypeError, ValueError) as problem:
            return found | {"notes": (f"the original cannot be run in float64 ({_first_line(problem)})",)}
        after = run(new, example, torch.float64)
        made = _trained(plan, trained, run(new, example, torch.float64, training=True))
        made["output_float64"] = difference(before.outputs, after.outputs)
        found |= {name: _worse(found.get(name), value) for name, value in made.items()}
        found["moved"] = difference(after.outputs, run(disturbed(new, plan), example, torch.float64).outputs)
        alive, asked = made["live_edits"]
        if not asked:
            return found | {"moved": None, "live_edits": None}
        if found["moved"] > MOVED and alive == asked:
            return found | {"live": "live, once zero weights are random" if woken else "live"}
    return found | {"live": "live in part" if found["moved"] > MOVED else "vacuous"}


def _worse(first: Any, second: Any) -> Any:
    """The larger of two differences; of other facts, the later."""
    return max(first, second) if isinstance(first, float) and isinstance(second, float) else second


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
        pairs.append((gradient, kept))
    alive += [bool(after.gradients[f"{path}.weight_neg"].any()) for path in plan.layers]
    return {
        "train_output": difference(before.outputs, after.outputs),
        "gradient": difference(*zip(*pairs, strict=True)) if pairs else None,
        "live_edits": (sum(alive), len(alive)),
        "saved_bytes": (before.saved * 4, after.saved * 4),
    }


@torch.no_grad()
def disturbed(model: nn.Module, plan: Plan) -> nn.Module:
    """A copy with random numbers in the new entries of the readers' weights. A constant could be normed away."""
    made = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(SEED)
    for edit in plan.edits:
        if edit.fill == "zero":
            weight = made.get_parameter(edit.name)
            added = edit.new.nonzero().flatten()
            part = weight.index_select(edit.dim, added)
            scale = weight.abs().mean().clamp(min=TINY)
            weight.index_copy_(edit.dim, added, torch.randn(part.shape, generator=generator).to(part) * scale)
    for path in plan.layers:
        weight = made.get_parameter(f"{path}.weight_neg")
        weight += torch.randn(weight.shape, generator=generator).to(weight) * weight.abs().mean().clamp(min=TINY)
    return made


@torch.no_grad()
def wake(old: nn.Module, new: nn.Module, plan: Plan) -> None:
    """Random numbers, the same in both, in place of parameters that are zero or so small that they hide the rest."""
    edited = {edit.name for edit in plan.edits} | {f"{path}.weight_neg" for path in plan.layers}
    generator = torch.Generator().manual_seed(SEED)
    theirs = dict(new.named_parameters())
    for name, value in old.named_parameters():
        if name not in edited and name in theirs and value.is_floating_point() and value.abs().mean() < TINY:
            spread = 1.0 if value.dim() < 2 else value[0].numel() ** -0.5
            drawn = torch.randn(value.shape, generator=generator).to(value) * spread
            value.copy_(drawn)
            theirs[name].copy_(drawn)


def run(model: nn.Module, example: Any, dtype: torch.dtype | None = None, *, training: bool = False) -> Run:
    """One run, the model and torch's random state left as they were; in training with gradients and no dropout."""
    args, kwargs = cast(example, dtype)
    with untouched(model, buffers=training), warnings.catch_warnings():
        warnings.simplefilter("ignore", RectifiedInputWarning)  # said to those who train the model, not here
        torch.manual_seed(SEED)
        model.train(training)
        if not training:
            with torch.no_grad():
                return Run(_floating(model(*args, **kwargs)), {}, 0)
        return _run_backwards(model, args, kwargs)


def _run_backwards(model: nn.Module, args: Any, kwargs: Any) -> Run:
    saved: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        if not isinstance(tensor, nn.Parameter):
            saved[tensor.untyped_storage().data_ptr()] = tensor.numel()
        return tensor

    with torch.enable_grad(), WithoutDropout(), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        outputs = _floating(model(*args, **kwargs))
        total = sum((weighted(output) for output in outputs if output.requires_grad), torch.zeros(()))
    named = {name: value for name, value in model.named_parameters() if value.requires_grad}
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


def difference(one: Iterable[Tensor], other: Iterable[Tensor]) -> float:
    """Largest difference, relative to the largest number; infinite where shapes or finiteness differ."""
    worst = 0.0
    for a, b in zip(tuple(one), tuple(other), strict=True):
        if a.shape != b.shape or bool((a.isfinite() != b.isfinite()).any()):
            return float("inf")
        a, b = a.double().nan_to_num(0, 0, 0), b.double().nan_to_num(0, 0, 0)
        if a.numel():
            worst = max(worst, float((a - b).abs().max()) / max(float(a.abs().max()), 1e-30))
    return worst


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


