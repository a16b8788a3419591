"""Whether new weights are alive.

Random numbers in their place must reach the output, and nothing may hide them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod

import torch
from torch import Tensor, nn

from gatewise.surgery.planning import Plan
from gatewise.surgery.proof.running import SEED, State
from gatewise.surgery.propagate import Edit

TINY = 1e-3  # parameters smaller than this on average hide what they multiply
# relative: what random weights must move the output by, to call it alive; rounding moves it by
# 1e-15
MOVED = 1e-9
LIVE = ("live", "live, once zero weights are random")


def has_new(plan: Plan) -> bool:
    """Whether weights are added that the function of before does not use."""
    return bool(plan.layers) or any(edit.fill == "zero" for edit in plan.edits)


def liveness(moved: float, alive: int, asked: int, woken: int) -> str:
    """In words: ``alive`` of ``asked`` new weights have gradients, with ``woken`` parameters random for it."""
    if not asked:  # weights too large for gradients
        return LIVE[0] if moved > MOVED else "vacuous"
    if alive == asked:
        return LIVE[0] if moved > MOVED or not woken else LIVE[1]
    return "live in part" if alive or moved > MOVED else "vacuous"


def any_nonzero(entries: Tensor) -> bool:
    """Whether one of them is not zero: the first row mostly says so."""
    return bool(entries[:1].any()) or bool(entries.any())


@contextmanager
def disturbed(model: nn.Module, state: State | None, plan: Plan) -> Iterator[None]:
    """Random numbers in the new entries of the readers' weights, for a while.

    A constant could be normed away.
    """
    generator = torch.Generator().manual_seed(SEED)
    weights = dict(model.named_parameters()) if state is None else state
    chosen: list[tuple[Tensor, Edit | None]] = [
        (weights[edit.name], edit) for edit in plan.edits if edit.fill == "zero"
    ]
    chosen += [(weights[f"{path}.weight_neg"], None) for path in plan.layers]
    with torch.no_grad():
        kept = [weight.clone() if edit is None else None for weight, edit in chosen]
        try:
            for weight, edit in chosen:
                spread = max(_mean_size(weight), TINY)
                for entries in [weight] if edit is None else edit.new_entries(weight):
                    _draw(entries, generator, spread)
            yield
        finally:
            for (weight, edit), old in zip(chosen, kept, strict=True):
                if old is not None:
                    weight.copy_(old)
                else:
                    for entries in edit.new_entries(weight) if edit else ():
                        entries.zero_()


@torch.no_grad()
def wake(old: State, new: State, plan: Plan) -> int:
    """Random numbers, the same in both, in place of parameters that are zero or so small that they hide the rest.

    Returns how many such parameters there were.
    """
    edited = {edit.name for edit in plan.edits} | {f"{path}.weight_neg" for path in plan.layers}
    swaps = [swap for swap, _ in plan.by_swap()]
    generator = torch.Generator().manual_seed(SEED)
    count = 0
    for name, value in old.items():
        if name in edited or name not in new or not value.requires_grad or not value.numel():
            continue
        if _mean_size(value) >= TINY:
            continue
        spread = 1.0 if value.dim() < 2 else value[0].numel() ** -0.5
        value.copy_(torch.randn(value.shape, generator=generator).to(value) * spread)
        for copied in [name, *(other for swap in swaps for other in swap.copies_of(name, new))]:
            new[copied].copy_(value)
        count += 1
    return count


def _mean_size(value: Tensor) -> float:
    """Mean size of up to some thousand entries, evenly spread: enough to tell zero from not."""
    flat = value.detach().flatten()
    return float(flat[:: max(1, len(flat) // 4096)].abs().mean())


def _draw(entries: Tensor, generator: torch.Generator, spread: float) -> None:
    """Random numbers into ``entries``.

    Those of each dimension multiplied, which is quick for large weights.
    """
    factors = []
    for each, size in enumerate(entries.shape):
        shape = [1] * entries.dim()
        shape[each] = size
        factors.append(
            torch.randn(shape, generator=generator, dtype=entries.dtype).to(entries.device)
        )
    rest = prod(
        factors[1:], start=torch.full_like(factors[0][:1], spread)
    )  # a row: small, so that one pass is long
    torch.mul(factors[0], rest, out=entries)
