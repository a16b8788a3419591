"""The contract of layers with weights: the checks of units that apply to them, and more."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import torch
from torch import Tensor, nn

from gatewise.checks import check_count, check_kind
from gatewise.errors import ArgumentError, ContractError, unknown_name
from gatewise.testing import gradients, layer_checks, modes
from gatewise.testing.contract import Outcome, Receipt, run
from gatewise.testing.ddp import trains_in_two_processes

# By name, in the order in which they run. The names are part of the receipt.
LAYER_CHECKS = {
    check.__name__: check
    for check in (
        layer_checks.repr_begins_with_the_class_name,
        layer_checks.state_survives,
        layer_checks.bad_input_gets_our_error,
        layer_checks.a_wrong_shape_gets_our_error,
        layer_checks.other_dtypes_work_or_get_our_error,
        layer_checks.finite_input_never_gives_nan,
        layer_checks.finite_input_never_gives_nan_in_training,
        layer_checks.the_largest_numbers_never_give_nan,
        layer_checks.the_largest_numbers_everywhere_never_give_nan,
        layer_checks.the_largest_float16_everywhere_never_gives_nan,
        layer_checks.batches_do_not_matter,
        layer_checks.layout_does_not_matter,
        layer_checks.channels_last_is_kept,
        layer_checks.every_parameter_receives_a_gradient,
        gradients.gradients_match_finite_differences,
        gradients.second_gradients_match_finite_differences,
        gradients.functional_transforms_agree,
        modes.compiles_whole_and_once,
        modes.traces_through_aot_autograd,
        modes.traces_with_fx,
        modes.exports,
        modes.exports_to_onnx,
        modes.autocast_keeps_the_input_dtype,
        layer_checks.half_precision_layers_work,
        layer_checks.works_on_the_meta_device,
        trains_in_two_processes,
    )
}


@dataclass(frozen=True)
class Layer:
    """How to build one layer, and inputs for it."""

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    channel_dim: int = 1
    largest: float = 1e30
    tolerance: float = 1e-5
    seed: int = 0
    name: str = field(init=False, default="")

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", " ".join(repr(self.build()).split()))

    def __str__(self) -> str:
        return self.name

    def build(
        self,
        dtype: torch.dtype = torch.float32,
        device: str = "cpu",
        *,
        seed: int | None = None,
    ) -> nn.Module:
        """Return a new layer in evaluation mode, with the same numbers every time."""
        with torch.random.fork_rng(devices=[]):
            # Buffers and parameters are drawn from the global generator.
            torch.manual_seed(self.seed if seed is None else seed)
            with torch.device(device):
                return self.make().to(dtype=dtype).eval()

    def sample(
        self,
        dtype: torch.dtype = torch.float32,
        shape: tuple[int, ...] | None = None,
        seed: int = 0,
    ) -> Tensor:
        """Return a random input with standard deviation 1."""
        generator = torch.Generator().manual_seed(self.seed + seed)
        # In float64 first, so that all dtypes get the same numbers.
        values = torch.randn(shape or self.shape, generator=generator, dtype=torch.float64)
        return values.to(dtype)

    def smooth_sample(self, *copies: int) -> Tensor:
        """Return a random float64 batch of two.

        The kinks of a layer are not known; another ``seed`` avoids one.
        """
        return self.sample(torch.float64, (*copies, 2, *self.shape[1:]))


def check_layer(
    build: Callable[[], nn.Module],
    shape: tuple[int, ...],
    *,
    only: Iterable[str] | None = None,
    leave_out: Mapping[str, str] = MappingProxyType({}),
    rtol: float = 1e-5,
    channel_dim: int = 1,
    largest: float = 1e30,
    seed: int = 0,
    ddp: bool = False,
) -> Receipt:
    """Check a layer against the contract.

    The layer takes one tensor. Wrap a layer that takes several in a module that makes the others
    from the first. Finite differences are taken to every element of input and parameters, so the
    layer should be small; above 600 elements random projections replace them.

    Finite input must give no NaN, forward or backward. Inputs have all magnitudes up to
    ``largest``; magnitudes up to the largest float32 that add up to no more than that; and the
    largest number everywhere. There every sum overflows, and a plain layer with enough inputs gives
    infinity minus infinity, so a layer made of torch's own layers may leave out the last.

    Args:
        build: a function that makes the layer, with new random weights each time. It is also called
            under ``torch.device("meta")``.
        shape: the shape of an input, batch first.
        only: names of checks, out of ``LAYER_CHECKS``; all of them by default.
        leave_out: checks to leave out, with the reason, which the receipt shows.
        rtol: the largest difference of two float32 ways to the same value, relative or absolute.
        channel_dim: the input dimension whose size the layer knows.
        largest: the magnitude up to which inputs of all magnitudes are tried.
        seed: the seed of weights and inputs; choose another one if a sample is on a kink.
        ddp: whether to also train in two processes, which takes seconds; the layer's class must be
            importable.

    Returns:
        The outcomes.

    Raises:
        ContractError: if a check failed; the message names every failed check.

    >>> from gatewise.units import PReLU
    >>> print(check_layer(lambda: PReLU(channels=3), (2, 3), only=["state_survives"]))
    PReLU: 1 of 1 checks passed
    """
    for size in check_kind("check_layer", "shape", shape, Sequence):
        check_count("check_layer", "a size of shape", size)
    if not callable(build):
        raise ArgumentError("check_layer: build is no function", got=build, allowed="a function")
    # A batch norm in training needs two samples.
    batch_shape = (max(2, shape[0]), *shape[1:])
    layer = Layer(build, batch_shape, channel_dim, largest, rtol, seed)
    if not ddp:
        reason = "not asked for: check_layer(..., ddp=True)"
        leave_out = {trains_in_two_processes.__name__: reason, **leave_out}
    outcomes = [_outcome(name, layer, leave_out) for name in _chosen(only, leave_out)]
    receipt = Receipt(layer.name.split("(")[0], tuple(outcomes))
    if receipt.failures:
        raise ContractError(str(receipt))
    return receipt


def _outcome(name: str, layer: Layer, leave_out: Mapping[str, str]) -> Outcome:
    if name in leave_out:
        return Outcome(name, str(layer), left_out=leave_out[name])
    return run(name, LAYER_CHECKS[name], layer)


def _chosen(only: Iterable[str] | None, leave_out: Mapping[str, str]) -> list[str]:
    names = list(LAYER_CHECKS) if only is None else list(only)
    for name in (*names, *leave_out):
        if name not in LAYER_CHECKS:
            raise unknown_name("check", name, LAYER_CHECKS)
    unexplained = [name for name, reason in leave_out.items() if not reason]
    if unexplained:
        raise ArgumentError(
            "a check is left out without a reason",
            got=unexplained,
            fix="leave_out={check: reason}",
        )
    return names
