"""Check that new weights are used: random numbers in their place must change the output."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from gatewise.surgery.planning import PlanData
from gatewise.surgery.proof.running import SEED, State

TINY = 1e-3  # parameters smaller than this on average hide what they multiply
# The relative change of the output from which new weights count as used. Rounding is about 1e-15.
MOVED = 1e-9
NEW = ("zero", "fresh", "scaled")  # fills of the entries with which layers read new channels
LIVE = ("live", "live, once zero weights are random")


def has_new(plan: PlanData) -> bool:
    """Whether the plan adds weights with which layers read new channels."""
    return bool(plan.layers) or any(edit.fill in NEW for edit in plan.edits)


def liveness(moved: float, alive: int, asked: int, perturbed: int) -> str:
    """Say in words whether the new weights are used.

    Args:
        moved: how much random new weights change the output.
        alive: how many weights have gradients at their new entries.
        asked: of how many.
        perturbed: how many other parameters were replaced by random numbers for this.
    """
    if not asked:  # the weights are too large to compute their gradients
        return LIVE[0] if moved > MOVED else "vacuous"
    if alive == asked:
        return LIVE[0] if moved > MOVED or not perturbed else LIVE[1]
    return "live in part" if alive or moved > MOVED else "vacuous"


def any_nonzero(entries: Tensor) -> bool:
    """Whether one of them is not zero. Mostly the first row is enough to tell."""
    return bool(entries[:1].any()) or bool(entries.any())


@contextmanager
def disturbed(model: nn.Module, plan: PlanData, state: State | None = None) -> Iterator[None]:
    """Within the context, the new entries of the readers' weights are random numbers.

    A norm could remove a constant.

    Args:
        model: the changed model.
        plan: the plan that was carried out.
        state: the tensors that the model will run with, if not its own.
    """
    with _kept_entries(_new_entries(model, plan, state)) as entries:
        for number, (weight, view) in enumerate(entries):
            generator = torch.Generator(view.device).manual_seed(SEED + number)
            with torch.no_grad():
                _draw(view, max(_mean_size(weight), TINY), generator)
        yield


@contextmanager
def neutral(model: nn.Module, plan: PlanData) -> Iterator[None]:
    """Within the context, weights that were drawn at random are zero, so that nothing uses them."""
    fresh = [edit for edit in plan.edits if edit.fill == "fresh"]
    parameters = dict(model.named_parameters())
    views: list[tuple[Tensor, Tensor]] = []
    for edit in fresh:
        weight = parameters[edit.name].detach()
        views += [(weight, view) for view in edit.new_entries(weight)]
    with _kept_entries(views) as entries:
        for _, view in entries:
            view.zero_()
        yield


def _new_entries(
    model: nn.Module, plan: PlanData, state: State | None
) -> list[tuple[Tensor, Tensor]]:
    """The readers' weights with new entries, each with a view of some of these entries."""
    weights = dict(model.named_parameters()) if state is None else state
    entries = []
    for edit in plan.edits:
        if edit.fill in NEW:
            weight = weights[edit.name].detach()
            entries += [(weight, view) for view in edit.new_entries(weight)]
    for path in plan.layers:
        weight = weights[f"{path}.weight_neg"].detach()
        entries.append((weight, weight))
    return entries


@contextmanager
def _kept_entries(
    entries: list[tuple[Tensor, Tensor]],
) -> Iterator[list[tuple[Tensor, Tensor]]]:
    """Restore the entries on exit."""
    with torch.no_grad():
        before = [view.clone() for _, view in entries]
    try:
        yield entries
    finally:
        with torch.no_grad():
            for (_, view), old in zip(entries, before, strict=True):
                view.copy_(old)


@torch.no_grad()
def perturb(old: State, new: State, plan: PlanData) -> int:
    """Replace parameters that are zero or tiny by random numbers, the same in both states.

    Returns:
        How many parameters were replaced.
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
    """The mean absolute value of up to 4096 entries, evenly spread."""
    flat = value.detach().flatten()
    return float(flat[:: max(1, len(flat) // 4096)].abs().mean())


def _draw(entries: Tensor, spread: float, generator: torch.Generator) -> None:
    """Write random numbers: products of one for each row and one for each column, which is fast."""
    numbers = torch.empty_like(entries[:1]).normal_(0, spread, generator=generator)
    factors = entries.new_empty(len(entries), *[1] * (entries.dim() - 1))
    torch.mul(factors.normal_(generator=generator), numbers, out=entries)
