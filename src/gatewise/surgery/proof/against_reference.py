"""Compare the changed model with the reference, a run of the original with other activations.

See Note [The reference] in :mod:`gatewise.surgery.proof.reference`.
"""

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.graph import Reading, untouched
from gatewise.surgery.calls import Coverage, is_whole_form
from gatewise.surgery.planning import UNCHANGED, PlanData, float_dtypes
from gatewise.surgery.proof.failures import OriginalFailedError
from gatewise.surgery.proof.float32 import has_half, in_float32
from gatewise.surgery.proof.limits import is_large, largest_gradient, parts
from gatewise.surgery.proof.module_outputs import (
    Samples,
    changed_modules,
    checking_sizes,
    first_difference,
    sampling_outputs,
)
from gatewise.surgery.proof.new_weights import MOVED, disturbed, neutral
from gatewise.surgery.proof.preserved import compare_training
from gatewise.surgery.proof.reference import Function, Places, Reference, places_of
from gatewise.surgery.proof.relative_difference import difference, movement
from gatewise.surgery.proof.running import (
    Arguments,
    Run,
    of_changed,
    of_original,
    run,
    state_of,
)

# Both models run the same kernels in the same order, so that differences mostly are zero.
MOST = {torch.float64: 1e-9, torch.float32: 1e-5, torch.bfloat16: 0.03, torch.float16: 0.004}
MOST_GRADIENT = {torch.float64: 1e-7, torch.float32: 1e-3, torch.bfloat16: 0.1, torch.float16: 0.05}
# The outputs of modules: rounding is larger where they are small against what was added up.
MOST_INSIDE = 1e-3


@dataclass
class Compared:
    """What was compared, and what came of it.

    Attributes:
        output: largest relative difference of outputs in eval mode; ``None`` if not compared.
        train_output: the same in training mode.
        gradient: the same of gradients in training mode.
        weights: of how many weights gradients were compared, and how many the original has;
            ``None`` if of all.
        inside: the largest difference of a module's output, and the path of the first module whose
            output differs by more than rounding.
        changed_inside: without functions in place of activations, the paths of the modules that
            return other values.
        train_dtype: the type in which training was compared.
        outputs_moved: how far the outputs in eval mode are from the original's, relative to their
            size; not measured where weights are added.
        moved: how much random new weights change what some module returns.
        saved_bytes: kept for the backward pass before and after.
        seen: the sites that were compared.
        problems: why something could not be compared.
        notes: remarks for people.
    """

    output: float | None = None
    train_output: float | None = None
    gradient: float | None = None
    weights: tuple[int, int] | None = None
    inside: tuple[str, float] = ("", 0.0)
    changed_inside: list[str] = field(default_factory=list)
    train_dtype: torch.dtype = torch.float32
    outputs_moved: float | None = None
    moved: float | None = None
    saved_bytes: tuple[int, int] | None = None
    seen: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def take(self, reference: Reference) -> None:
        """Add what a run with the reference has seen."""
        self.seen |= reference.seen
        self.problems += [each for each in reference.problems if each not in self.problems]


def reference_functions(
    plan: PlanData, units: Mapping[str, nn.Module]
) -> dict[str, Function] | None:
    """Return what the original must compute at which sites to be the changed model.

    The result is ``None`` if a swap cannot tell. Sites at which the original's own activation
    stays are left out. A plan that keeps the function has none.
    """
    if plan.preserve:
        return {}
    functions: dict[str, Function] = {}
    for swap, entries in plan.by_swap():
        for entry in entries:
            if entry.call is not None and is_whole_form(entry.call.form):
                return None  # a function mode sees each of its calls, and not all of them as one
            function = swap.reference(entry, units.get(entry.site))
            if function is None:
                return None
            if function is not UNCHANGED:
                functions[entry.site] = function
    return functions


@dataclass(frozen=True)
class ReferenceComparison:
    """The original, the changed model, and the functions that take the activations' places.

    Without functions the changed model is compared with the original as it is.
    """

    plan: PlanData
    original: nn.Module
    changed: nn.Module
    units: Mapping[str, nn.Module]
    functions: Mapping[str, Function]
    coverage: Coverage

    @property
    def keeps_function(self) -> bool:
        """Whether the changed model must compute what the original computes."""
        fresh = any(edit.fill == "fresh" for edit in self.plan.edits)
        return self.plan.preserve or not (self.functions or fresh)

    def compare(
        self,
        example: Arguments,
        readings: Mapping[str, Reading],
        sizes: Mapping[str, tuple[int, ...]],
        compared: Compared,
    ) -> None:
        """Compare in eval and in training mode on one example, and add to ``compared``.

        Args:
            example: positional and keyword arguments.
            readings: the graph of the original on the example, by mode; not used without
                functions.
            sizes: the shapes that layers of the changed model must make.
            compared: takes the results.
        """
        reading = readings.get("eval")
        if self.functions and reading is None:
            compared.notes.append("eval mode was not compared: it could not be read")
        else:
            self._compare_eval(example, reading, sizes, compared)
        self._compare_training(example, readings.get("train"), compared)

    def _compare_eval(
        self,
        example: Arguments,
        reading: Reading | None,
        sizes: Mapping[str, tuple[int, ...]],
        compared: Compared,
    ) -> None:
        if not has_half(self.original):
            self._compare_outputs(example, reading, sizes, compared)
            return
        if is_large(self.original):
            try:
                self._compare_outputs(example, reading, sizes, compared, in_float32)
            except OriginalFailedError:
                pass  # a module computes with tensors of another one
            else:
                compared.notes.append("compared in float32, weights converted one at a time")
                return
        self._compare_outputs(example, reading, sizes, compared)
        compared.notes.append("compared in float32")

    def _compare_outputs(
        self,
        example: Arguments,
        reading: Reading | None,
        sizes: Mapping[str, tuple[int, ...]],
        compared: Compared,
        converted: Callable[[nn.Module], AbstractContextManager[None]] | None = None,
    ) -> None:
        """Compare the outputs, with weights in float32 if they have 16 bits.

        Args:
            example: positional and keyword arguments.
            reading: the graph of the original on the example.
            sizes: the shapes that layers of the changed model must make.
            compared: takes the results.
            converted: converts the weights of a model while it runs; by default all are converted
                before.
        """
        half = has_half(self.original)
        units = _copies_in_float32(self.units) if half else self.units
        reference = self._reference(reading, units)
        before: Samples = {}
        after: Samples = {}

        def evaluated(model: nn.Module, *contexts: AbstractContextManager[Any]) -> Run:
            state = None
            if converted is not None:
                contexts += (converted(model),)
            elif half:
                state = state_of(model, torch.float32)
            dtype = torch.float32 if half else _dtype(model)
            return run(model, example, state, dtype=dtype, inside=_all_of(contexts))

        with _as_in(units, training=False):
            watching = (sampling_outputs(self.original, before), self.coverage.watching())
            replaced = (reference,) if self.functions else ()
            expected = of_original(lambda: evaluated(self.original, *watching, *replaced))
        with checking_sizes(self.changed, sizes):
            actual = of_changed(
                lambda: evaluated(self.changed, sampling_outputs(self.changed, after))
            )
        if compared.output is None and not (self.keeps_function or self.plan.edits):
            plain = of_original(lambda: evaluated(self.original))
            compared.outputs_moved = movement(plain.outputs, actual.outputs)
        compared.take(reference)
        if not _has_numbers(expected):
            compared.problems.append("the outputs hold no finite floating-point numbers")
        compared.output = _larger(compared.output, difference(expected.outputs, actual.outputs))
        if self.keeps_function:
            compared.changed_inside += changed_modules(before, after, MOST_INSIDE)
        elif not compared.inside[0]:
            compared.inside = first_difference(before, after, MOST_INSIDE)

    def measure_movement(self, example: Arguments, compared: Compared) -> None:
        """Measure how much random new weights change what some module returns."""
        quiet: Samples = {}
        moved: Samples = {}
        dtype = _dtype(self.changed)
        for samples, context in ((quiet, neutral), (moved, disturbed)):
            with context(self.changed, self.plan):
                inside = sampling_outputs(self.changed, samples)
                of_changed(partial(run, self.changed, example, dtype=dtype, inside=inside))
        compared.moved = first_difference(quiet, moved, MOVED)[1]
        if not compared.moved > MOVED:
            compared.problems.append("random numbers in the new weights change nothing")

    def _compare_training(
        self, example: Arguments, reading: Reading | None, compared: Compared
    ) -> None:
        """Train the original and the changed model for one step, and compare with the reference."""
        problem = ""
        for part, words in parts(example, self.plan.operations[1]):
            try:
                self._compare_step(part, reading, compared)
            except OriginalFailedError as refused:
                problem = f"the original cannot be trained on the example ({refused})"
                continue
            if words:
                compared.notes.append(f"training and saved bytes: on {words}")
            return
        compared.notes.append(problem)

    def _compare_step(
        self, example: Arguments, reading: Reading | None, compared: Compared
    ) -> None:
        """Compare a training step of the changed model with one of the reference."""
        expected = actual = None
        if not self.functions or not self._is_costly:
            expected = self._trained(self.original, example, self.coverage.watching())
            actual = self._trained(self.changed, example)
            compared.saved_bytes = (expected.saved, actual.saved)
        if self.functions and reading is None:
            compared.notes.append("training mode was not compared: it could not be read")
            return
        reference = self._reference(reading, self.units)
        if expected is None or self.functions:
            try:
                with _as_in(self.units, training=True):
                    expected = self._trained(self.original, example, reference)
            except OriginalFailedError as refused:
                compared.notes.append(f"training mode was not compared ({refused})")
                return
        actual = actual or self._trained(self.changed, example)
        compared.train_dtype = _dtype(self.original) or lowest_dtype(self.original)
        compared.take(reference)
        if not self.keeps_function:
            expected = replace(expected, gradients=self._unedited(expected.gradients))
        found = compare_training(self.plan, expected, actual)
        compared.train_output = _larger(compared.train_output, found["train_output"])
        if reference.recomputed:
            compared.notes.append(
                "gradients were not compared: parts of the model run again in the backward pass"
            )
        elif not expected.gradients:
            compared.notes.append("gradients were not compared")
        else:
            compared.gradient = _larger(compared.gradient, found["gradient"])
            trained = sum(weight.requires_grad for weight in self.original.parameters())
            if len(expected.gradients) < trained:
                compared.weights = (len(expected.gradients), trained)

    def _unedited(self, gradients: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the gradients of the parameters that the plan does not edit."""
        edited = {edit.name for edit in self.plan.edits}
        return {name: value for name, value in gradients.items() if name not in edited}

    @property
    def _is_costly(self) -> bool:
        """Whether a backward pass takes minutes, and as much memory as the weights."""
        return has_half(self.original) and is_large(self.original)

    def _trained(self, model: nn.Module, example: Arguments, inside: Any = None) -> Run:
        """Run one training step."""
        action = partial(
            run,
            model,
            example,
            training=True,
            dtype=_dtype(self.original),
            inside=inside,
            largest=0 if self._is_costly else largest_gradient(self.original),
        )
        if model is self.changed:
            return of_changed(action, trained=True)
        return of_original(action)

    def _reference(self, reading: Reading | None, units: Mapping[str, nn.Module]) -> Reference:
        if reading is None or not self.functions:
            return Reference(self.original, Places({}, {}, {}), {})
        functions = reference_functions(self.plan, units) or {}
        known = {site.name for site in self.plan.graph or ()}
        others = {}
        for entry in self.plan.swapped:
            if entry.kind != "functional" and entry.site not in known:
                others[entry.site] = entry.path
        return Reference(
            self.original, places_of(self.original, reading.site_nodes, others), functions
        )


def exceeded(compared: Compared) -> tuple[str, float, float] | None:
    """Return the name, value and bound of the first difference that is larger than it may be."""
    checks = [
        ("outputs", compared.output, MOST[torch.float32]),
        ("outputs in training mode", compared.train_output, MOST[compared.train_dtype]),
        ("gradients", compared.gradient, MOST_GRADIENT[compared.train_dtype]),
    ]
    for name, value, bound in checks:
        if value is not None and not value <= bound:  # not a number exceeds it, too
            return name, value, bound
    where, value = compared.inside
    return (f"the output of {where}", value, MOST_INSIDE) if where else None


def _larger(value: float | None, other: float) -> float:
    return max(other, value or 0.0)


@contextmanager
def _all_of(contexts: tuple[AbstractContextManager[Any], ...]) -> Iterator[None]:
    with ExitStack() as stack:
        for context in contexts:
            stack.enter_context(context)
        yield


@contextmanager
def _as_in(units: Mapping[str, nn.Module], *, training: bool) -> Iterator[None]:
    """Within the context, units are in a mode; what they keep of a run is forgotten."""
    with ExitStack() as stack:
        for unit in {id(unit): unit for unit in units.values()}.values():
            stack.enter_context(untouched(unit, buffers=True))
            unit.train(training)
        yield


def _copies_in_float32(units: Mapping[str, nn.Module]) -> dict[str, nn.Module]:
    copies: dict[int, nn.Module] = {}
    for unit in units.values():
        if id(unit) not in copies:
            copies[id(unit)] = copy.deepcopy(unit).float()
    return {name: copies[id(unit)] for name, unit in units.items()}


def _dtype(model: nn.Module) -> torch.dtype | None:
    """Return the type of the model's floating-point parameters; ``None`` if they have several."""
    dtypes = float_dtypes(model)
    return dtypes[0] if len(dtypes) == 1 else None


def lowest_dtype(model: nn.Module) -> torch.dtype:
    """Return the type of a model with several floating-point types that rounds most."""
    return max(float_dtypes(model), key=lambda dtype: torch.finfo(dtype).eps, default=torch.float32)


def _has_numbers(result: Run) -> bool:
    return any(bool(output.isfinite().any()) for output in result.outputs if output.numel())
