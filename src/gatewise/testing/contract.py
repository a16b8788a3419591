"""The contract of units: its checks, and the receipt of their outcomes."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from gatewise.checks import check_kind
from gatewise.errors import ContractError, GatewiseError, MissingExtraError, unknown_name
from gatewise.testing import gradients, layer_checks, layout, modes, numbers, shape
from gatewise.testing.case import Case
from gatewise.units import Unit, get_unit

Thing = TypeVar("Thing")
Check = Callable[[Case], None]

# By name, in the order in which they run. The names are part of the receipt.
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
        numbers.the_curve_tends_to_its_limits,
        numbers.a_nan_never_vanishes_on_the_way_back,
        numbers.denormals_are_kept_or_flushed_cleanly,
        gradients.gradients_match_finite_differences,
        gradients.second_gradients_match_finite_differences,
        gradients.derivative_at_each_kink_is_the_declared_one,
        gradients.functional_transforms_agree,
        gradients.float32_parameters_move_in_a_half_precision_model,
        layout.layout_does_not_matter,
        layout.channels_last_is_kept,
        layout.batches_do_not_matter,
        layout.a_single_number_is_an_input,
        modes.compiles_whole_and_once,
        modes.traces_through_aot_autograd,
        modes.traces_with_fx,
        modes.exports,
        modes.exports_to_onnx,
        modes.autocast_keeps_the_input_dtype,
        modes.half_precision_modules_work,
        layer_checks.works_on_the_meta_device,
        modes.trains,
    )
}


@dataclass(frozen=True)
class Outcome:
    """The outcome of one check for one set of options.

    Args:
        check: the name of the check.
        case: the unit or layer with its options.
        problem: what failed; empty if the check passed or was left out.
        left_out: why the check was left out; empty if it ran.
        seconds: the duration.
    """

    check: str
    case: str
    problem: str = ""
    left_out: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Receipt:
    """The outcomes of all checks of a unit.

    Args:
        unit: the name of the unit.
        outcomes: one outcome per check and set of options.
    """

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
    """Check a unit against the contract.

    Args:
        unit: a name from the catalogue, or your own :class:`~gatewise.units.Unit`.
        only: names of checks, out of ``CHECKS``; all of them by default.
        full: whether to use ten million float32 inputs instead of 131,072, and torch's default
            compiler in addition to the tracing ones.
        sample: the options with which to build the module, possibly none, instead of each of the
            unit's own samples.
        **options: the same, as keywords.

    Returns:
        The outcomes.

    Raises:
        ContractError: if a check failed; the message names every failed check.

    >>> print(check_unit("relu", only=["module_and_function_agree"]))
    relu: 1 of 1 checks passed
    """
    spec = unit if isinstance(unit, Unit) else get_unit(unit)
    samples = spec.samples
    if sample is not None or options:
        samples = ({**(sample or {}), **options},)
    checks = _chosen(only, full)
    outcomes = []
    for case_options in samples:
        case = Case(spec, case_options)
        outcomes += [run(name, check, case) for name, check in checks.items()]
    receipt = Receipt(spec.name, tuple(outcomes))
    if receipt.failures:
        raise ContractError(str(receipt))
    return receipt


def _chosen(only: Iterable[str] | None, full: bool) -> dict[str, Check]:
    checks = dict(CHECKS)
    if full:
        check = numbers.float32_is_within_the_promise
        checks["float32_is_within_the_promise"] = partial(check, full=True)
        checks["compiles_with_inductor"] = modes.compiles_with_inductor
    if only is None:
        return checks
    names = list(check_kind("check_unit", "only", only, Iterable))
    for name in names:
        if name not in checks:
            raise unknown_name("check", name, checks)
    return {name: checks[name] for name in names}


def run(name: str, check: Callable[[Thing], None], case: Thing) -> Outcome:
    """Run one check; whatever it raises becomes the outcome."""
    start = time.perf_counter()
    problem = left_out = ""
    try:
        check(case)
    except MissingExtraError as error:
        left_out = str(error)
    except GatewiseError as error:
        problem = str(error)
    except Exception as error:  # an error that no check foresaw is a failure of the check
        problem = f"{type(error).__name__}: {error}"
    return Outcome(name, str(case), problem, left_out, time.perf_counter() - start)
