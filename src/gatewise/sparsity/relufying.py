"""ReLU in place of smooth activations, fine-tuned until many numbers are zero."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gatewise.analysis import scores_of
from gatewise.batches import ModelCall
from gatewise.checks import (
    NameWhere,
    check_count,
    check_flag,
    check_number,
    is_sequence,
    selects,
)
from gatewise.errors import ArgumentError, Limitation, NotApplicableError, unknown_name
from gatewise.graph import Site, check_runs, copied, find_sites, holds_both_branches
from gatewise.sparsity.calibration import divided, first_calls
from gatewise.sparsity.fine_tuning import fine_tune
from gatewise.sparsity.placing import GATED_ROLES, Placed
from gatewise.sparsity.quality import Judge, Quality
from gatewise.sparsity.rectified_norms import RectifiedNorm, rectify_norms
from gatewise.sparsity.results import FineTuning, Sparsified
from gatewise.sparsity.sparsifying import (
    LEVELS,
    Evaluate,
    Progress,
    Work,
    checked_targets,
    place_in_eval,
    result_of,
)
from gatewise.sparsity.thresholds import set_thresholds
from gatewise.surgery import plan
from gatewise.train import evaluating

UNITS = ("relu", "shifted_relu", "relu2")
PENALTIES = (0.0, 10.0, 30.0)
MOST_BATCHES = 10**9
ZERO = ("relu", "relu2", "relu6", "jump_relu", "reglu", "shifted_relu")  # these stay as they are


class ShiftedReLU(nn.Module):
    """``max(x - shift, 0)``: zero for more inputs than ReLU (arXiv:2310.04564).

    Args:
        shift: how far it is moved to the right.
    """

    def __init__(self, shift: float = 1.0) -> None:
        super().__init__()
        self.shift = shift

    def forward(self, x: Tensor) -> Tensor:
        """Return the values."""
        return torch.relu(x - self.shift)

    def extra_repr(self) -> str:
        """Return the shift."""
        return f"shift={self.shift}"


def relufy(
    model: nn.Module,
    train: Any,
    data: Any,
    *,
    unit: str = "relu",
    shift: float = 1.0,
    norms: bool = False,
    where: NameWhere = None,
    epochs: int = 1,
    lr: float = 1e-4,
    penalties: Sequence[float] = PENALTIES,
    target: float = 0.0,
    levels: Sequence[float] = LEVELS,
    per_layer: bool | None = None,
    evaluate: Evaluate | None = None,
    batches: int = 32,
    repeats: int = 5,
    seed: int = 0,
    progress: Progress | None = None,
) -> Sparsified:
    """Put ReLU in place of smooth activations, train the model, and skip the work for zeros.

    The activations of gated linear units and feed-forward parts are replaced, such as SiLU and
    GELU. Then a copy of the model is trained on ``train``: its own loss, and a penalty on numbers
    that are not zero, which rises in stages. Curves, receipt and page are those of
    :func:`gatewise.sparsify`, compared with the model as it was.

    Args:
        model: any module with activations before linear layers. It is not changed.
        train: the training data: batches ``(inputs, labels)``, or dicts with ``labels``.
        data: other batches of the same form. Half of them calibrates thresholds for ``levels``
            and ``target``. The other half measures everything that is reported.
        unit: ``"relu"``, ``"shifted_relu"`` (``max(x - shift, 0)``) or ``"relu2"`` (its square).
        shift: of ``"shifted_relu"``.
        norms: whether to put ReLU after norms too, where linear layers alone read them. Then the
            layers before attention and the first layers of feed-forward parts also skip zeros
            (arXiv:2310.04564).
        where: which activations and norms: patterns of their names such as ``"*.act_fn"``, or a
            function of a name.
        epochs: over the training data.
        lr: the learning rate of AdamW at the start. It falls to 0 as half a cosine wave.
        penalties: weights of the penalty: for each token the squared mean magnitude over the mean
            square of the numbers that a layer reads, between 0 and 1. There is one stage for each
            weight. The first is constant, later ones rise from the weight before (ProSparse,
            arXiv:2402.13516). Larger weights give more zeros and a higher loss.
        target: the share of numbers that should become zero, by thresholds where the zeros of
            the activation are fewer.
        levels: further targets, for the curve.
        per_layer: whether to measure every layer by itself at all levels, as in
            :func:`gatewise.sparsify`.
        evaluate: a function of the model that returns its quality as a number.
        batches: how many batches of ``data`` are read at most.
        repeats: how often each single input is timed.
        seed: of the order of the training data and of dropout.
        progress: as in :func:`gatewise.sparsify`.

    Returns:
        The trained model, the curves, and the receipt.

    Raises:
        ArgumentError: an argument is not allowed, or the model has no such activation.
    """
    targets = checked_targets("relufy", model, target, levels, evaluate, repeats)
    _check(unit, shift, epochs, lr, penalties)
    selects(where, "")  # raises unless it can select
    check_flag("relufy", "norms", norms)
    examples = first_calls("relufy", model, train, MOST_BATCHES)
    parts = divided(first_calls("relufy", model, data, batches))
    check_runs(model, parts[0][0].args, parts[0][0].kwargs)
    replaced = _replaced(model, parts[0][0], unit, shift, where, needed=not norms)
    changed, readers, left = replaced.model, replaced.readers, replaced.left
    rectified: list[str] = []
    if norms:
        rectified, more, others = _rectified(changed, parts[0][0], where)
        readers |= more
        left |= others
    with torch.no_grad():
        placed = place_in_eval(changed, parts[0][0], "input", lambda path: path in readers)
        placed.left = {path: why for path, why in placed.left.items() if path in readers} | left
        untrained = _quality(placed, model, parts[1])
    stages, seconds = fine_tune(
        placed.model,
        placed.places,
        examples,
        epochs=epochs,
        lr=float(lr),
        penalties=[float(each) for each in penalties],
        seed=seed,
    )
    with torch.no_grad():
        work = Work(placed, parts[0], parts[1], evaluate, model, progress)
        measured = work.measure(target, targets, per_layer)
        set_thresholds(placed.places, measured.thresholds)
        times, timing = work.time(model, measured.thresholds, repeats)
    moved = float(shift) if unit == "shifted_relu" else 0.0
    training = FineTuning(
        unit=unit,
        shift=moved,
        epochs=epochs,
        lr=float(lr),
        stages=stages,
        untrained=untrained,
        seconds=seconds,
        activations=replaced.activations,
        norms=len(rectified),
    )
    return result_of(placed, measured, times, timing, "relu", target, parts[2:], training)


def _check(unit: Any, shift: Any, epochs: Any, lr: Any, penalties: Any) -> None:
    """Raise unless the arguments of the training are allowed."""
    if unit not in UNITS:
        raise unknown_name("unit of relufy", unit, UNITS)
    check_count("relufy", "epochs", epochs)
    check_number("relufy", "shift", shift, least=0)
    check_number("relufy", "lr", lr, above=0)
    if not is_sequence(penalties) or not penalties:
        raise ArgumentError(
            "relufy: penalties must be one weight or more",
            got=penalties,
            allowed="(0.0, 10.0, 30.0)",
        )
    for each in penalties:
        check_number("relufy", "a penalty", each, least=0)


def _rectified(
    model: nn.Module, batch: ModelCall, where: NameWhere
) -> tuple[list[str], set[str], dict[str, str]]:
    """Put ReLU after norms of a model, in whatever mode it is."""
    with evaluating(model):
        changed, readers, left = rectify_norms(model, batch, where)
    for module in model.modules():
        if isinstance(module, RectifiedNorm):
            module.training = module.norm.training
    if not changed:
        raise NotApplicableError(
            Limitation.NO_LAYER,
            "relufy: the model has no norm that linear layers alone read",
            got="; ".join(f"{path}: {why}" for path, why in left.items()) or "no norm",
            fix="norms=False",
        )
    return changed, readers, left


class _Replaced(NamedTuple):
    """A copy of a model with other activations.

    Attributes:
        model: the copy.
        activations: how many were replaced.
        readers: the linear layers that read them, by path.
        left: activations that stay as they are, with the reason.
    """

    model: nn.Module
    activations: int
    readers: set[str]
    left: dict[str, str]


def _replaced(
    model: nn.Module, batch: ModelCall, unit: str, shift: float, where: NameWhere, *, needed: bool
) -> _Replaced:
    """Return a copy with other activations; an error if there are none and some are needed."""
    graph = find_sites(model, batch.example, modes=("eval",), units=True)
    left: dict[str, str] = {}
    chosen: dict[str, Site] = {}
    for site in graph:
        if site.role not in GATED_ROLES or not selects(where, site.name):
            continue
        if site.op in ZERO:
            left[site.name] = f"it is {site.op} already"
        elif holds_both_branches(site.op) and unit != "relu":
            left[site.name] = f"{site.op} holds gate and value: only relu can take its place"
        else:
            chosen[site.name] = site
    if not chosen and not needed:
        return _Replaced(copied(model), 0, set(), left)
    if not chosen:
        raise NotApplicableError(
            Limitation.NO_GATES,
            "relufy: the model has no smooth activation between linear layers",
            got="; ".join(f"{name}: {why}" for name, why in left.items())
            or ", ".join(f"{site.name} ({site.role})" for site in graph)
            or "no activation",
        )
    new = ShiftedReLU(shift) if unit == "shifted_relu" else unit
    requests: dict[Any, Any] = {}
    packed = {name for name, site in chosen.items() if holds_both_branches(site.op)}
    if packed:
        requests[lambda site: site.name in packed] = "reglu"
    if chosen.keys() - packed:
        requests[lambda site: site.name in chosen] = new
    planned = plan(model, requests, batch.example, gates=True)
    changed = planned.apply(copied(model))
    readers: set[str] = set()
    for entry in planned.swapped:
        readers.update(chosen[entry.site].consumers)
    left |= {entry.site: entry.why for entry in planned.refused}
    return _Replaced(changed, len(planned.swapped), readers, left)


def _quality(placed: Placed, original: nn.Module, held_out: Sequence[ModelCall]) -> Quality:
    """Return the quality of a model without thresholds, compared with the original."""
    judge = Judge()
    with evaluating(placed.model), evaluating(original):
        for batch in held_out:
            dense = scores_of(batch.run(original)).clone()
            judge.add(batch, batch.run(placed.model), dense)
    return judge.quality()
