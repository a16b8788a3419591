"""``gw.sparsify``: thresholds for a target, what they cost, and a model that skips the work."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis import is_untrained, scores_of
from gatewise.batches import ModelCall
from gatewise.checks import NameWhere, check_count, check_number
from gatewise.errors import ArgumentError, unknown_name
from gatewise.graph import check_readable, check_runs, copied, untouched
from gatewise.sparsity.calibration import divided, first_calls
from gatewise.sparsity.placing import METHODS, Placed, place
from gatewise.sparsity.quality import Judge, Quality, checked_score
from gatewise.sparsity.results import (
    CurvePoint,
    FineTuning,
    LayerSparsity,
    LayerTime,
    Sparsified,
    layer_rows,
)
from gatewise.sparsity.saving import check_saving
from gatewise.sparsity.single_inputs import SingleInput, single_inputs
from gatewise.sparsity.thresholds import (
    CLOSE,
    Counts,
    Magnitudes,
    Place,
    Thresholds,
    linear_layers,
    mean_share,
    set_thresholds,
    threshold_for,
    watched,
)
from gatewise.sparsity.timing import (
    ROWS,
    Timing,
    layer_seconds,
    model_seconds,
    numbers_to_displace,
)
from gatewise.train import clock, evaluating

LEVELS = (0.25, 0.5, 0.75, 0.9)
UNTRAINED = (
    "the model is untrained: its weights are those of an initialisation. A trained one may have "
    "other zeros, and lose more or less"
)
QUICK = 120.0  # seconds that single layers may take unless they are asked for
Progress = Callable[[str, int, int | None], None]
Evaluate = Callable[[nn.Module], float]


@dataclass(frozen=True)
class _Setting:
    """Thresholds that are measured together.

    Attributes:
        target: of the thresholds.
        thresholds: by place.
        places: where numbers are counted.
    """

    target: float
    thresholds: Thresholds
    places: Sequence[Place]


def sparsify(
    model: nn.Module,
    data: Any,
    *,
    target: float = 0.5,
    method: str = "input",
    where: NameWhere = None,
    levels: Sequence[float] = LEVELS,
    per_layer: bool | None = None,
    evaluate: Evaluate | None = None,
    batches: int = 32,
    repeats: int = 5,
    inplace: bool = False,
    progress: Progress | None = None,
) -> Sparsified:
    """Set small numbers inside a model to zero, without training, and skip the work for them.

    Half of the data calibrates one threshold for each place. The other half measures how many
    numbers become zero and what that costs, for several targets and, one at a time, for each
    place. With one row of inputs, as when a language model writes a text token by token, the
    layers of the result do not read the weights of inputs that are zero. Where that is not faster,
    a layer multiplies by its whole matrix. With more rows all layers do.

    Args:
        model: any module with linear layers.
        data: a tensor, a list of batches or a data loader. A batch is a tensor, a tuple
            ``(inputs, labels)``, or a dict of keyword arguments, with ``labels`` if there are some.
        target: the share of numbers that should become zero, from 0 to below 1.
        method: ``"input"``: the inputs of linear layers (TEAL, arXiv:2408.14690). ``"gate"``: the
            activations of gated linear units and feed-forward parts (CATS, arXiv:2404.08763).
        where: which layers or gates: patterns of their paths such as ``"*.down"``, or a function of
            a path.
        levels: further targets, for the curve.
        per_layer: whether to measure every place by itself at all levels. By default if that takes
            less than two minutes; otherwise a note of the result says how long it takes. An
            interruption from the keyboard keeps the places that are done.
        evaluate: a function of the model that returns its quality as a number.
        batches: how many batches are read at most.
        repeats: how often each single input is timed.
        inplace: whether to change ``model`` itself. It then takes little more than the memory of
            the model, else twice as much.
        progress: called with what is done next and how long it takes, the number of steps that are
            done, and of how many.

    Returns:
        The sparse model, the curves, and the receipt.

    Raises:
        ArgumentError: an argument is not allowed, or the model has no place for a threshold.
    """
    if not isinstance(method, str) or method not in METHODS:
        raise unknown_name("method", method, METHODS)
    targets = checked_targets("sparsify", model, target, levels, evaluate, repeats)
    parts = divided(first_calls("sparsify", model, data, batches))
    check_runs(model, parts[0][0].args, parts[0][0].kwargs)
    fresh = UNTRAINED if is_untrained(model) else ""
    changed = model if inplace else copied(model)
    with torch.no_grad():
        placed = place_in_eval(changed, parts[0][0], method, where)
        try:
            work = Work(placed, parts[0], parts[1], evaluate, progress=progress)
            measured = work.measure(target, targets, per_layer)
        except BaseException:
            placed.put_back()
            raise
        set_thresholds(placed.places, measured.thresholds)
        times, timing = work.time(None if inplace else model, measured.thresholds, repeats)
    notes = (fresh, parts[2])
    return result_of(placed, measured, times, timing, method, target, notes)


def checked_targets(
    what: str,
    model: nn.Module,
    target: Any,
    levels: Sequence[Any],
    evaluate: object,
    repeats: object,
) -> list[float]:
    """Check arguments and return all targets in order.

    Args:
        what: the name of the function, for messages.
        model: a module.
        target: a share.
        levels: further shares.
        evaluate: a function, or ``None``.
        repeats: a number.
    """
    check_readable(model)
    check_has_values(what, model)
    if isinstance(levels, str) or not isinstance(levels, Sequence):
        raise ArgumentError(
            f"{what}: levels must be a list of shares", got=levels, allowed="such as (0.25, 0.5)"
        )
    if evaluate is not None and not callable(evaluate):
        raise ArgumentError(
            f"{what}: evaluate must be a function of the model", got=type(evaluate).__name__
        )
    check_count(what, "repeats", repeats)
    for each in (target, *levels):
        check_number(what, "a target", each, least=0, below=1)
    return sorted({0.0, *map(float, levels), float(target)})


def check_has_values(what: str, model: nn.Module) -> None:
    """Refuse a model on the meta device, whose weights have no values."""
    for name, weight in model.named_parameters():
        if weight.is_meta:
            raise ArgumentError(
                f"{what}: the weights of the model have no values",
                got=f"{name} on the meta device",
                fix="load the weights first",
            )


def place_in_eval(model: nn.Module, batch: ModelCall, method: str, where: NameWhere) -> Placed:
    """Put places for thresholds into the model, whose modes stay as they are."""
    with evaluating(model):
        placed = place(model, batch, method, where)
    for path, layer in placed.replaced.items():
        placed.model.get_submodule(path).training = layer.training
    return placed


@dataclass(frozen=True)
class Measurement:
    """What was measured of a model with places for thresholds."""

    thresholds: Thresholds
    before: Quality
    after: Quality
    zeros: Counts
    counts: Counts
    curve: tuple[CurvePoint, ...]
    layer_curves: dict[str, tuple[CurvePoint, ...]]
    note: str = ""


class Work:
    """The runs of the model.

    Args:
        placed: the model with places for thresholds.
        calibration: batches that thresholds come from.
        held_out: batches that they are measured on.
        evaluate: the user's function.
        original: what the model is compared with; itself without thresholds if ``None``. Zeros
            are skipped without a target, too, if there is one.
        progress: the user's function.
    """

    def __init__(
        self,
        placed: Placed,
        calibration: Sequence[ModelCall],
        held_out: Sequence[ModelCall],
        evaluate: Evaluate | None,
        original: nn.Module | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.placed = placed
        self.original = original
        self.model = placed.model
        self.calibration = calibration
        self.held_out = held_out
        self.evaluate = evaluate
        self.progress = progress or (lambda *_: None)

    def measure(
        self,
        target: float,
        targets: Sequence[float],
        per_layer: bool | None,
    ) -> Measurement:
        """Calibrate thresholds and measure all settings. The model is left without thresholds."""
        with untouched(self.model):
            self.model.eval()
            self.progress("thresholds for all places", 0, None)
            samples = self._samples()
            places = [each for each in self.placed.places if each.name in samples]
            settings = [_Setting(0.0, {}, places)]
            for level in targets:
                found = {name: threshold_for(each, level) for name, each in samples.items()}
                is_used = level or self.original is not None
                settings.append(_Setting(level, found if is_used else {}, places))
            start = time.perf_counter()
            before, zeros, found = self._run(settings)
            seconds = (time.perf_counter() - start) / len(settings)
            layer_curves, note = self._layers(places, samples, targets[1:], seconds, per_layer)
        curve = [_point(*each) for each in zip(settings[1:], found[1:], strict=True)]
        chosen = 1 + targets.index(float(target))
        return Measurement(
            settings[chosen].thresholds,
            before,
            found[chosen][0],
            zeros,
            found[chosen][1],
            tuple(curve),
            layer_curves,
            note,
        )

    def _layers(
        self,
        places: Sequence[Place],
        samples: Mapping[str, Tensor],
        levels: Sequence[float],
        seconds: float,
        per_layer: bool | None,
    ) -> tuple[dict[str, tuple[CurvePoint, ...]], str]:
        """Return the curve of each place by itself, and a note on those that are not measured.

        Args:
            places: of the model.
            samples: magnitudes at each of them.
            levels: targets above 0.
            seconds: that one setting takes.
            per_layer: what the user asked for.
        """
        curves: dict[str, tuple[CurvePoint, ...]] = {}
        estimate = seconds * (len(levels) + 1) * len(places)
        if per_layer is False or not levels:
            return curves, ""
        if per_layer is None and estimate > QUICK:
            words = clock(estimate)
            return curves, (
                f"single layers were not measured, since that takes {words}: per_layer=True does it"
            )
        words = f"single layers, {clock(estimate)} in all"
        try:
            for number, each in enumerate(places):
                self.progress(words, number, len(places))
                curves[each.name] = self._layer(each, samples[each.name], levels)
        except KeyboardInterrupt:
            return curves, (
                f"interrupted: {len(curves)} of {len(places)} layers were measured by themselves"
            )
        self.progress(words, len(places), len(places))
        return curves, ""

    def _layer(
        self, place: Place, sample: Tensor, levels: Sequence[float]
    ) -> tuple[CurvePoint, ...]:
        """Return the curve with a threshold at one place only."""
        settings = [_Setting(0.0, {}, [place])]
        for level in levels:
            settings.append(_Setting(level, {place.name: threshold_for(sample, level)}, [place]))
        _, _, found = self._run(settings)
        return tuple(_point(*each) for each in zip(settings[1:], found[1:], strict=True))

    def _samples(self) -> dict[str, Tensor]:
        """Return magnitudes at all places without thresholds, from small to large."""
        magnitudes = Magnitudes(len(self.calibration))
        set_thresholds(self.placed.places, {})
        with watched(self.placed.places, magnitudes.add):
            for batch in self.calibration:
                batch.run(self.model)
        return magnitudes.sorted()

    def _run(
        self, settings: Sequence[_Setting]
    ) -> tuple[Quality, Counts, list[tuple[Quality, Counts]]]:
        """Return quality and counts of the original, and of each setting.

        Every batch runs with all settings. The first setting has no thresholds.
        """
        judges = [Judge() for _ in settings]
        counts = [Counts() for _ in settings]
        first = Judge()
        zeros = Counts(0.0)
        for batch in self.held_out:
            dense: Tensor | None = None
            if self.original is not None:
                dense = self._run_original(batch, first, zeros)
            for setting, judge, count in zip(settings, judges, counts, strict=True):
                set_thresholds(self.placed.places, setting.thresholds)
                with watched(setting.places, count.add):
                    output = batch.run(self.model)
                if dense is None:
                    dense = scores_of(output).clone()
                judge.add(batch, output, dense)
        results = []
        for setting, judge, count in zip(settings, judges, counts, strict=True):
            score = None
            if self.evaluate is not None:
                set_thresholds(self.placed.places, setting.thresholds)
                score = checked_score(self.evaluate(self.model))
            results.append((judge.quality(score), count))
        if self.original is None:
            return *results[0], results
        score = None if self.evaluate is None else checked_score(self.evaluate(self.original))
        return first.quality(score), zeros, results

    def _run_original(self, batch: ModelCall, judge: Judge, zeros: Counts) -> Tensor:
        """Run the original, count zeros at its layers, and return its scores."""
        assert self.original is not None  # noqa: S101  the caller has looked
        layers = linear_layers(self.original)
        places = []
        for each in self.placed.places:
            places.append(Place(each.name, layers[each.name], each.weights, each.width))
        with untouched(self.original):
            self.original.eval()
            with watched(places, zeros.add):
                output = batch.run(self.original)
        dense = scores_of(output).clone()
        judge.add(batch, output, dense)
        return dense

    def time(
        self, original: nn.Module | None, thresholds: Thresholds, repeats: int
    ) -> tuple[tuple[LayerTime, ...], Timing | None]:
        """Store weights for skipping where that is faster, and time the model on one input.

        Args:
            original: the model without thresholds; ``None`` if it was changed in place.
            thresholds: of the sparse model.
            repeats: how often each input is run.
        """
        inputs = self._single_inputs()
        dense = None
        if original is None and inputs:
            dense = self._seconds([self.model], {}, inputs, repeats)[0]
        zeros, most = self._rows_timed(inputs, thresholds)
        rows = self._rows(thresholds)
        displace = numbers_to_displace(linear_layers(self.model).values())
        times = []
        for path, layer in self.placed.readers.items():
            is_one = most.get(path, 1) == 1
            found = layer_seconds(layer, rows.get(path, []) if is_one else [], displace)
            if found is not None:
                times.append(LayerTime(path, *found, skips=layer.skips))
        if not inputs:
            return tuple(times), None
        if original is not None:
            both = [original, self.model]
            dense, sparse = self._seconds(both, thresholds, inputs, repeats)
        else:
            (sparse,) = self._seconds([self.model], thresholds, inputs, repeats)
        seen = max(most.values(), default=1)
        words = inputs[0].words
        timing = Timing(dense or sparse, sparse, seen, torch.get_num_threads(), words, zeros)
        return tuple(times), timing

    def _seconds(
        self,
        models: Sequence[nn.Module],
        thresholds: Thresholds,
        inputs: Sequence[SingleInput],
        repeats: int,
    ) -> list[float]:
        set_thresholds(self.placed.places, thresholds)
        with ExitStack() as stack:
            for model in models:
                stack.enter_context(evaluating(model))
            return model_seconds(models, inputs, repeats)

    def _single_inputs(self) -> Sequence[SingleInput]:
        """Return single inputs of the held-out data that the model runs on."""
        with untouched(self.model):
            self.model.eval()
            set_thresholds(self.placed.places, {})
            return single_inputs(self.model, self.held_out[0])

    def _rows_timed(
        self, inputs: Sequence[SingleInput], thresholds: Thresholds
    ) -> tuple[float, dict[str, int]]:
        """Return the share of small numbers in the rows that are timed, and the rows of each layer.

        Args:
            inputs: single inputs.
            thresholds: of the sparse model.
        """
        counts = Counts()
        most: dict[str, int] = {}

        def count(place: Place, values: Tensor) -> None:
            rows = values.numel() // max(1, values.shape[-1])
            most[place.name] = max(rows, most.get(place.name, 0))

        with untouched(self.model):
            self.model.eval()
            set_thresholds(self.placed.places, thresholds)
            for each in inputs:
                state = each.start(self.model)
                with watched(self.placed.places, counts.add), watched(self._readers(), count):
                    each.run(self.model, state)
        set_thresholds(self.placed.places, thresholds)
        reached = [place for place in self.placed.places if place.name in counts.numbers]
        return mean_share(reached, counts), most

    def _rows(self, thresholds: Thresholds) -> dict[str, list[Tensor]]:
        """Return some rows of inputs of each layer that can skip, with thresholds set."""
        kept: dict[str, list[Tensor]] = {}

        def tell(each: Place, values: Tensor) -> None:
            rows = values.detach().reshape(-1, 1, values.shape[-1])
            step = max(1, len(rows) // ROWS)
            kept[each.name] = [row.clone() for row in rows[::step][:ROWS]]

        with untouched(self.model):
            self.model.eval()
            set_thresholds(self.placed.places, thresholds)
            with watched(self._readers(), tell):
                self.held_out[0].run(self.model)
        set_thresholds(self.placed.places, thresholds)
        return kept

    def _readers(self) -> list[Place]:
        readers = self.placed.readers
        return [Place(path, layer, 0, 0) for path, layer in readers.items()]


def _point(setting: _Setting, found: tuple[Quality, Counts]) -> CurvePoint:
    quality, counts = found
    return CurvePoint(setting.target, mean_share(setting.places, counts), quality)


def result_of(
    placed: Placed,
    measured: Measurement,
    times: tuple[LayerTime, ...],
    timing: Timing | None,
    method: str,
    target: float,
    first_notes: Sequence[str],
    training: FineTuning | None = None,
) -> Sparsified:
    """Return the result with its notes.

    Args:
        placed: the model with places for thresholds.
        measured: what was measured of it.
        times: of its layers.
        timing: of the whole model.
        method: how it became sparse.
        target: the share that was asked for.
        first_notes: on the model and the data, of which some may be empty.
        training: how it was trained.
    """
    check_saving(placed.model)
    counts = measured.counts
    places = [each for each in placed.places if each.name in counts.numbers]
    rows = layer_rows(places, counts, measured.zeros, measured.thresholds)
    sparsity = mean_share(places, counts)
    linear = sum(layer.weight.numel() for layer in linear_layers(placed.model).values())
    notes = [*first_notes, measured.note, *_notes(rows, times, timing, sparsity, float(target))]
    return Sparsified(
        model=placed.model,
        target=float(target),
        method=method,
        layers=rows,
        sparsity=sparsity,
        unweighted=mean_share(places, counts, weighted=False),
        skipped=_skipped(placed, rows, times) / max(1, linear),
        before=measured.before,
        after=measured.after,
        curve=measured.curve,
        layer_curves=measured.layer_curves,
        times=times,
        timing=timing,
        left=placed.left,
        tokens=max(counts.numbers[each.name] // max(1, each.width) for each in places),
        notes=tuple(filter(None, notes)),
        training=training,
    )


def _skipped(
    placed: Placed,
    rows: Sequence[LayerSparsity],
    times: Sequence[LayerTime],
) -> float:
    """Return how many weights one row does not read."""
    skipping = {each.layer for each in times if each.skips}
    total = 0.0
    for row in rows:
        if row.kind == "input":
            total += row.sparsity * row.weights * (row.layer in skipping)
        elif skipping:
            # Layers that read a gate skip what the gate set to zero, where it is faster.
            readers = sum(placed.readers[path].weight.numel() for path in skipping)
            every = sum(layer.weight.numel() for layer in placed.readers.values())
            total += row.sparsity * row.weights * readers / every
    return total


def _notes(
    rows: Sequence[LayerSparsity],
    times: Sequence[LayerTime],
    timing: Timing | None,
    sparsity: float,
    target: float,
) -> list[str]:
    """Return sentences on what was not reached, and on what does not pay."""
    notes = []
    short = [row for row in rows if row.sparsity < target - CLOSE]
    if sparsity < target - CLOSE:
        notes.append(f"the target of {target:.1%} was not reached: {sparsity:.1%} became zero")
    elif short:
        worst = min(short, key=lambda row: row.sparsity)
        notes.append(
            f"{len(short)} of {len(rows)} places stay below the target of {target:.1%}: "
            f"{worst.layer} has {worst.sparsity:.1%}"
        )
    slow = [each for each in times if not each.pays]
    if slow:
        shown = []
        for each in slow[:4]:
            shown.append(f"{each.layer} (x {each.sparse_seconds / each.dense_seconds:.2f})")
        more = f" and {len(slow) - 4} more" if len(slow) > 4 else ""
        notes.append(f"skipping does not pay at {', '.join(shown)}{more}")
    if timing is None:
        notes.append("the model does not run on one single input: its time was not measured")
    elif timing.rows > 1:
        notes.append(
            "Zeros are only skipped when a layer sees one row at a time; here it sees "
            f"{timing.rows}."
        )
    elif not times:
        notes.append("no compiled code for this model here: zeros are computed with, not skipped")
    return notes
