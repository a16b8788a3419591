"""Compare the changed model with the reference, a run of the original with other activations.

See Note [The reference] in :mod:`gatewise.surgery.proof.reference`.
"""

import copy
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.graph import Reading, untouched
from gatewise.surgery.calls import Coverage, is_whole_form
from gatewise.surgery.planning import UNCHANGED, PlanData
from gatewise.surgery.proof.failures import OriginalFailedError
from gatewise.surgery.proof.float32 import HALF, InFloat32
from gatewise.surgery.proof.module_outputs import (
    Samples,
    checking_sizes,
    first_difference,
    sampling_outputs,
)
from gatewise.surgery.proof.new_weights import MOVED, disturbed, neutral
from gatewise.surgery.proof.reference import Function, Reference, places_of
from gatewise.surgery.proof.relative_difference import difference
from gatewise.surgery.proof.running import (
    LARGE,
    Run,
    State,
    of_changed,
    of_original,
    run,
    state_of,
)
from gatewise.surgery.proof.subsample import MUCH, Part, parts

# Bytes of 16-bit weights from which they are converted one at a time, not all at once.
MANY_BYTES = 1 << 27
# Both models run the same kernels in the same order, so that differences mostly are zero.
MOST = {torch.float64: 1e-9, torch.float32: 1e-5, torch.bfloat16: 0.03, torch.float16: 0.004}
MOST_GRADIENT = {torch.float64: 1e-7, torch.float32: 1e-3, torch.bfloat16: 0.1, torch.float16: 0.05}
# The outputs of modules: rounding is larger where they are small against what was added up.
MOST_INSIDE = 1e-3
FLOOR = 1e-3


@dataclass
class Compared:
    """What was compared, and what came of it.

    Attributes:
        output: largest relative difference of outputs in eval mode; ``None`` if not compared.
        train_output: the same in training mode.
        gradient: the same of gradients in training mode.
        inside: the largest difference of a module's output, and the path of the first module whose
            output differs by more than rounding.
        train_dtype: the type in which training was compared.
        moved: how much random new weights change what some module returns.
        saved_bytes: kept for the backward pass before and after.
        seen: the sites that were compared.
        problems: why something could not be compared.
        notes: remarks for people.
    """

    output: float | None = None
    train_output: float | None = None
    gradient: float | None = None
    inside: tuple[str, float] = ("", 0.0)
    train_dtype: torch.dtype = torch.float32
    moved: float | None = None
    saved_bytes: tuple[int, int] | None = None
    seen: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def reference_functions(
    plan: PlanData, units: Mapping[str, nn.Module]
) -> dict[str, Function] | None:
    """Return what the original must compute at which sites to be the changed model.

    The result is ``None`` if a swap cannot tell. Sites at which the original's own activation
    stays are left out.
    """
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
    """The original, the changed model, and the functions that take the activations' places."""

    plan: PlanData
    original: nn.Module
    changed: nn.Module
    units: Mapping[str, nn.Module]
    coverage: Coverage

    def compare(
        self,
        example: Any,
        readings: Mapping[str, Reading],
        sizes: Mapping[str, tuple[int, ...]],
        compared: Compared,
    ) -> None:
        """Compare in eval and in training mode on one example, and add to ``compared``.

        Args:
            example: positional and keyword arguments.
            readings: the graph of the original on the example, by mode.
            sizes: the shapes that layers of the changed model must make.
            compared: takes the results.
        """
        if "eval" in readings:
            many = _many_half_bytes(self.original)
            try:
                self._compare_outputs(example, readings["eval"], sizes, compared, one_by_one=many)
            except OriginalFailedError:
                if not many:
                    raise
                # Some functions of torch, such as convolutions, refuse weights of another type.
                self._compare_outputs(example, readings["eval"], sizes, compared, one_by_one=False)
        else:
            compared.notes.append("eval mode was not compared: it could not be read")
        self._compare_training(example, readings.get("train"), compared)

    def _compare_outputs(
        self,
        example: Any,
        reading: Reading,
        sizes: Mapping[str, tuple[int, ...]],
        compared: Compared,
        *,
        one_by_one: bool,
    ) -> None:
        before: Samples = {}
        after: Samples = {}
        old = new = None
        if not one_by_one:
            old = _as_float32(self.original)
            new = _as_float32(self.changed)
        dtype = torch.float32 if one_by_one else _dtype(self.original)
        units = self.units if old is None else _copies_in_float32(self.units)
        reference = self._reference(reading, units)

        @contextmanager
        def inside(model: nn.Module, samples: Samples, *modes: Any) -> Iterator[None]:
            with ExitStack() as stack:
                for context in (sampling_outputs(model, samples), *modes):
                    stack.enter_context(context)
                if one_by_one:
                    stack.enter_context(InFloat32())
                yield

        with _as_in(units, training=False):
            expected = of_original(
                lambda: run(
                    self.original,
                    example,
                    old,
                    dtype=dtype,
                    inside=inside(self.original, before, self.coverage.watching(), reference),
                )
            )
        with checking_sizes(self.changed, sizes):
            actual = of_changed(
                lambda: run(
                    self.changed,
                    example,
                    new,
                    dtype=dtype,
                    inside=inside(self.changed, after),
                )
            )
        apart = difference(expected.outputs, actual.outputs)
        _take(compared, reference)
        if not _has_numbers(expected):
            compared.problems.append("the outputs hold no finite floating-point numbers")
        compared.output = max(apart, compared.output or 0.0)
        where, inner = first_difference(before, after, MOST_INSIDE)
        if where and not compared.inside[0]:
            compared.inside = (where, inner)
        if one_by_one:
            compared.notes.append("compared in float32, weights converted one at a time")
        elif old is not None:
            compared.notes.append("compared in float32")

    def measure_movement(self, example: Any, compared: Compared) -> None:
        """Measure how much random new weights change what some module returns."""
        quiet: Samples = {}
        moved: Samples = {}
        dtype = _dtype(self.changed)
        for samples, context in ((quiet, neutral), (moved, disturbed)):
            with context(self.changed, self.plan):
                run(
                    self.changed,
                    example,
                    dtype=dtype,
                    inside=sampling_outputs(self.changed, samples),
                )
        compared.moved = first_difference(quiet, moved, MOVED)[1]
        if not compared.moved > MOVED:
            compared.problems.append("random numbers in the new weights change nothing")

    def _compare_training(self, example: Any, reading: Reading | None, compared: Compared) -> None:
        """Train the original and the changed model for one step, and compare with the reference."""
        problem = ""
        is_large = _many_half_bytes(self.original)
        operations = self.plan.operations[1]
        for part in parts(example, operations) if operations > MUCH else [Part(example)]:
            plain = None
            try:
                if not is_large:
                    plain = self._trained(self.original, part, self.coverage.watching())
                self._compare_with_trained(part, reading, plain, compared)
            except OriginalFailedError as refused:
                problem = f"the original cannot be trained on the example ({refused})"
                continue
            if part.words:
                compared.notes.append(f"training and saved bytes: on {part.words}")
            return
        compared.notes.append(problem)

    def _trained(self, model: nn.Module, part: Part, inside: Any = None) -> Run:
        """Run one training step."""
        dtype = _dtype(self.original)
        # Backward passes of large 16-bit models take minutes and as much memory as the weights.
        largest = 0 if _many_half_bytes(self.original) else LARGE
        action = partial(
            run, model, part.example, training=True, dtype=dtype, inside=inside, largest=largest
        )
        if model is self.changed:
            return of_changed(action, trained=True)
        return of_original(action)

    def _compare_with_trained(
        self, part: Part, reading: Reading | None, plain: Run | None, compared: Compared
    ) -> None:
        """Compare a training step of the changed model with one of the reference."""
        actual = None
        if plain is not None:
            actual = self._trained(self.changed, part)
            compared.saved_bytes = (plain.saved, actual.saved)
        if reading is None:
            compared.notes.append("training mode was not compared: it could not be read")
            return
        reference = self._reference(reading, self.units)
        try:
            with _as_in(self.units, training=True):
                expected = self._trained(self.original, part, reference)
        except OriginalFailedError as refused:
            compared.notes.append(f"training mode was not compared ({refused})")
            return
        actual = actual or self._trained(self.changed, part)
        compared.train_dtype = _dtype(self.original) or lowest_dtype(self.original)
        _take(compared, reference)
        apart = difference(expected.outputs, actual.outputs)
        compared.train_output = max(apart, compared.train_output or 0.0)
        if reference.recomputed:
            compared.notes.append(
                "gradients were not compared: parts of the model run again in the backward pass"
            )
            return
        if not expected.gradients:
            compared.notes.append("gradients were not compared")
            return
        names = self._comparable(expected, actual)
        apart = difference(
            [expected.gradients[name] for name in names],
            [actual.gradients[name] for name in names],
            floor=FLOOR,
        )
        compared.gradient = max(apart, compared.gradient or 0.0)

    def _comparable(self, expected: Run, actual: Run) -> list[str]:
        """The parameters that the plan does not change and that have gradients in both runs."""
        edited = {edit.name for edit in self.plan.edits}
        names = []
        for name, gradient in expected.gradients.items():
            other = actual.gradients.get(name)
            if name not in edited and other is not None and other.shape == gradient.shape:
                names.append(name)
        return names

    def _reference(self, reading: Reading, units: Mapping[str, nn.Module]) -> Reference:
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


def _take(compared: Compared, reference: Reference) -> None:
    compared.seen |= reference.seen
    for problem in reference.problems:
        if problem not in compared.problems:
            compared.problems.append(problem)


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


def _as_float32(model: nn.Module) -> State | None:
    """Return the model's tensors in float32 if some of them have 16 bits."""
    return state_of(model, torch.float32) if _half_bytes(model) else None


def _half_bytes(model: nn.Module) -> int:
    tensors: list[Tensor] = [*model.parameters(), *model.buffers()]
    return sum(tensor.nbytes for tensor in tensors if tensor.dtype in HALF)


def _many_half_bytes(model: nn.Module) -> bool:
    return _half_bytes(model) > MANY_BYTES


def _dtype(model: nn.Module) -> torch.dtype | None:
    """Return the type of the model's floating-point parameters; ``None`` if they have several."""
    types = {value.dtype for value in model.parameters() if value.is_floating_point()}
    return types.pop() if len(types) == 1 else None


def lowest_dtype(model: nn.Module) -> torch.dtype:
    """Return the type of a model with several floating-point types that rounds most."""
    types = [value.dtype for value in model.parameters() if value.is_floating_point()]
    return max(types, key=lambda dtype: torch.finfo(dtype).eps, default=torch.float32)


def _has_numbers(result: Run) -> bool:
    return any(bool(output.isfinite().any()) for output in result.outputs if output.numel())
