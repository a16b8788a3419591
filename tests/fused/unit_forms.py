"""Every plain form that a unit of the catalogue hands to the generator."""

import functools

import gatewise as gw
from gatewise.testing import Case
from gatewise.units import FORMS, PlainForm, run_plain

# Units whose every call in float32 or a half type runs generated code.
GENERATED = (
    "acon_c bilinear celu dyt elu erfact frelu geglu gelu glu hardsigmoid hardswish hardtanh "
    "iieu_b jump_relu leaky_relu2 logsigmoid maxout meta_acon mish pau prelu pserf reglu relu2 "
    "relu6 selu sigmoid silu smu smu1 soft_relu softplus softsign star_relu swiglu swish tanh telu "
    "xielu"
).split()
# Units that read several elements at once.
SEVERAL_ELEMENTS = ("bilinear", "frelu", "geglu", "glu", "maxout", "reglu", "swiglu")
# Units that run generated code with some options, or in half types only.
PARTLY_GENERATED = ("beta_vq", "crelu", "threshold")
# Checks in float32 and half types, without transforms: nothing but generated code runs.
GENERATED_CHECKS = (
    "every_half_precision_value_is_within_the_promise",
    "every_half_precision_derivative_is_within_the_promise",
    "float32_is_within_the_promise",
    "limits_hold_at_every_length_and_stride",
    "denormals_are_kept_or_flushed_cleanly",
    "layout_does_not_matter",
    "channels_last_is_kept",
    "batches_do_not_matter",
    "every_length_gives_the_same_bits",
    "threads_do_not_matter",
)


@functools.cache
def unit_forms() -> dict[str, tuple[PlainForm, int]]:
    """Plain form and how many numbers it takes, by module and name."""
    found: dict[str, tuple[PlainForm, int]] = {}

    def note(plain, x, numbers):
        name = f"{plain.__module__.rpartition('.')[2]}.{plain.__qualname__}"
        found[name] = (plain, len(numbers))
        return run_plain(plain, x, numbers)

    before = list(FORMS)
    FORMS[:] = [note]
    try:
        for name in gw.list_units():
            for options in gw.get_unit(name).samples:
                case = Case(gw.get_unit(name), options)
                case.function(case.sample())
    finally:
        FORMS[:] = before
    return found
