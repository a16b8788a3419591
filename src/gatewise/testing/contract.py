"""The contract every unit keeps, and the receipt that says so."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from gatewise.errors import ContractError, GatewiseError, MissingExtraError, unknown_name
from gatewise.testing import gradients, layout, modes, numbers, shape
from gatewise.testing.case import Case
from gatewise.units import Unit, get_unit

Thing = TypeVar("Thing")
Check = Callable[[Case], None]

CHECKS: dict[str, Check] = {
    check.__name__: check
    for check in (
        shape.module_and_function_agree,
        shape.output_has_the_declared_width,
        shape.parts_span_what_is_declared,
        shape.pieces_are_the_unit,
        shape.parameters_are_declared,
        shape.state_survives,
        shape.repr_can_be_read_back,
        shape.bad_input_gets_our_error,
        shape.wide_parameters_are_refused,
        numbers.float64_agrees_with_the_reference,
        numbers.every_half_precision_value_is_within_the_promise,
        numbers.every_half_precision_derivative_is_within_the_promise,
        numbers.float32_is_within_the_promise,
        numbers.limits_hold_at_every_length_and_stride,
        numbers.a_nan_never_vanishes_on_the_way_back,
        numbers.denormals_are_kept_or_flushed_cleanly,
        gradients.gradients_match_finite_differences,
        gradients.second_gradients_match_finite_differences,
        gradients.derivative_at_each_kink_is_the_declared_one,
        gradients.functional_transforms_agree,
        gradients.parameters_all_receive_gradients,
        layout.layout_does_not_matter,
        layout.channels_last_is_kept,
        layout.batches_do_not_matter,
        layout.every_length_gives_the_same_bits,
        layout.a_single_number_is_an_input,
        layout.threads_do_not_matter,
        modes.compiles_whole_and_once,
        modes.traces_through_aot_autograd,
        modes.exports,
        modes.exports_to_onnx,
        modes.autocast_keeps_the_input_dtype,
        modes.half_precision_modules_work,
        modes.works_on_the_meta_device,
        modes.trains,
    )
}


@dataclass(frozen=True)
class Outcome:
    """What one check found for one set of options.

    A ``problem``, why it was ``left_out``, or neither: it passed.
    """

    check: str
    case: str
    problem: str = ""
    left_out: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Receipt:
    """Every check that was made of a unit."""

    unit: str
    outcomes: tuple[Outcome, ...]

    @property
    def failures(self) -> tuple[Outcome, ...]:
        """The checks that failed."""
        return tuple(o for o in self.outcomes if o.problem)

    def __str__(self) -> str:
        ran = sum(not o.left_out for o in self.outcomes)
        lines = [f"{self.unit}: {ran - len(self.failures)} of {ran} checks passed"]
        lines += [f"  failed: {o.check} for {o.case}: {o.problem}" for o in self.failures]
        lines += [f"  left out: {o.check}: {o.left_out}" for o in self.outcomes if o.left_out]
        return "\n".join(lines)


def check_unit(
    unit: str | Unit,
    *,
    only: Iterable[str] | None = None,
    full: bool = False,
    sample: Mapping[str, Any] | None = None,
    **options: Any,
) -> Receipt:
    """Hold a unit to the contract.

    Raise :class:`~gatewise.errors.ContractError` naming everything it does not keep.

    Args: unit: a name from the catalogue, or a :class:`~gatewise.units.Unit` of your own. only:
        names of checks, out of ``CHECKS``; all of them by default. full: ten million float32 inputs
        in place of 131,072, and torch's default compiler besides the tracing ones. sample: build
        the module with these options, possibly none, instead of with each of the unit's own
        samples. **options: the same, as keywords.

    >>> print(check_unit("relu", only=["module_and_function_agree"]))
    relu: 1 of 1 checks passed
    """
    spec = get_unit(unit) if isinstance(unit, str) else unit
    chosen = {**(sample or {}), **options}
    samples = spec.samples if sample is None and not options else (chosen,)
    cases = [Case(spec, s) for s in samples]
    checks = _chosen(only, full)
    receipt = Receipt(
        spec.name, tuple(run(name, check, case) for case in cases for name, check in checks.items())
    )
    if receipt.failures:
        raise ContractError(str(receipt))
    return receipt


def _chosen(only: Iterable[str] | None, full: bool) -> dict[str, Check]:
    checks = dict(CHECKS)
    if full:
        checks["float32_is_within_the_promise"] = lambda case: (
            numbers.float32_is_within_the_promise(case, full=True)
        )
        checks["compiles_with_inductor"] = modes.compiles_with_inductor
    if only is None:
        return checks
    for name in (names := list(only)):
        if name not in checks:
            raise unknown_name("check", name, checks)
    return {name: checks[name] for name in names}


def run(name: str, check: Callable[[Thing], None], case: Thing) -> Outcome:
    """Make one check; whatever it raises becomes the outcome."""
    start = time.perf_counter()
    problem = left_out = ""
    try:
        check(case)
    except MissingExtraError as error:
        left_out = str(error)
    except GatewiseError as error:
        problem = str(error)
    except Exception as error:  # a unit that breaks in a way no check foresaw has failed the check, with its reason
        problem = f"{type(error).__name__}: {error}"
    return Outcome(name, str(case), problem, left_out, time.perf_counter() - start)
