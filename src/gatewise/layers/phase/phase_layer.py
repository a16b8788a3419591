"""What phase selective layers share: the two phases of an input, start values, a check of signs.

Note [Two responses]. A phase selective layer can be computed as one convolution of CReLU with the
stacked weight ``[W+, -W-]``, as two convolutions, or as one of ``x`` and one of ``|x|``. Here it is
two convolutions of the two phases: for depthwise layers they are five times faster (stacked, they
are no longer depthwise). In eager mode on the CPU, a layer without groups is one convolution with
the stacked weight, which is faster and keeps only ``x`` for the backward pass. With ``W- = 0`` both
are bit for bit the plain layer after a rectifier. The form with ``|x|`` is not: it cancels where it
should give 0, and has a derivative at ``x = 0``.

Note [Zero]. ``relu`` has derivative 0 at 0, and so has the layer. ``clamp(min=0)`` and
``clamp(max=0)`` would both pass the gradient there, and their sum would count it twice.
"""

import math
import warnings
from typing import ClassVar

import torch
from torch import Tensor, nn

from gatewise.checks import is_number
from gatewise.errors import ArgumentError, RectifiedInputWarning
from gatewise.layers.response import Response
from gatewise.units import to_compute_dtype

# The smallest input that is checked for negative values. With 32 numbers, an input that is
# symmetric around 0 has no negative one with probability 2^-32.
ENOUGH = 32
STEEPEST = 1000  # the largest start slope, which half precision can still hold

Start = str | float
_SLOPES = {"zero": 0.0, "same": 1.0}


class PhaseLayer(Response):
    """A response to the phases of an input, which warns once if there are no negative values."""

    bias: Tensor | None  # (out,)
    follows_training: ClassVar[bool] = False  # whether runs call `set_progress` before each step
    _checks_signs = True  # becomes False on the instance after the first check

    def set_progress(self, progress: float) -> None:
        """Follow the training.

        Args:
            progress: the share of the training that is done, from 0 to 1.
        """

    def freeze(self) -> nn.Module:
        """Return the layer that computes the same in evaluation, without what training needs.

        Raises:
            ArgumentError: if training's parameters may all be needed; it says why.
        """
        return self

    def prepare(self, x: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
        """Prepare as for any response, but with half types in float32.

        Two half-precision sums that overflow with opposite signs would give NaN.
        """
        four = isinstance(x, Tensor) and x.dim() == 4
        if four and weights and _is_channels_last(weights[0]):
            # As torch's convolutions do: the gradient then has this format, too.
            x = x.contiguous(memory_format=torch.channels_last)
        return tuple(to_compute_dtype(part) for part in super().prepare(x, *weights))

    def two_phases(self, x: Tensor, weight: Tensor, weight_neg: Tensor) -> Tensor:
        """Return ``W+ x+  +  W- x-  +  b``. See Note [Two responses] and Note [Zero]."""

        def respond(x: Tensor, bias: Tensor | None) -> Tensor:
            at_once = self.respond_to_halves(x, weight, weight_neg, bias)
            if at_once is not None:
                return at_once
            positive = self.respond(x.relu(), weight, bias)
            return positive - self.respond(x.neg().relu(), weight_neg)

        return self.at_any_size(respond, x, self.bias)

    def respond_to_halves(
        self,
        x: Tensor,
        weight: Tensor,
        weight_neg: Tensor,
        bias: Tensor | None,
    ) -> Tensor | None:
        """Return one response to both phases; ``None`` where there is none, or it does not pay."""
        return None

    def warn_if_rectified(self, x: Tensor) -> None:
        """Warn if the first training input has no negative values.

        The check runs once. It is left out where values cannot be read, such as in a trace.
        """
        if torch.compiler.is_compiling() or x.numel() < ENOUGH:
            return
        if not (self.training and self._checks_signs):
            return
        rectified = read((x.detach() >= 0).all())
        self._checks_signs = rectified is None
        if rectified:
            message = (
                f"{self.layer}: the input has no negative values, so the weights of the negative "
                "phase get no gradient; is there a rectifier in front? The layer replaces it: "
                "fix: remove it"
            )
            warnings.warn(message, RectifiedInputWarning, stacklevel=5)

    def extra_repr(self) -> str:
        return super().extra_repr() + (", bias=False" if self.bias is None else "")


def _is_channels_last(weight: Tensor) -> bool:
    if weight.dim() != 4 or weight.is_contiguous():
        return False
    return weight.is_contiguous(memory_format=torch.channels_last)


def read(value: Tensor) -> bool | int | None:
    """Return the value of a one-element tensor, or ``None`` if it cannot be read.

    It cannot be read in a trace, under vmap, or on the meta device.
    """
    if torch.compiler.is_compiling():
        return None
    try:
        number = value.item()
    except RuntimeError:
        return None
    return number if isinstance(number, bool | int) else None  # a tracer's symbol is neither


def check_start(layer: str, start: Start) -> Start:
    """Return ``start`` if it says how the weight of the negative phase starts."""
    if isinstance(start, str):
        right = start == "independent" or start in _SLOPES
    else:
        right = is_number(start) and abs(start) <= STEEPEST
    if not right:
        allowed = f"'independent', 'zero', 'same', or a slope from -{STEEPEST} to {STEEPEST}"
        raise ArgumentError(f"{layer}: start is not allowed", got=start, allowed=allowed)
    return start


def slope_of(start: Start) -> float | None:
    """Return ``a`` of a start with ``W- = a W+``, or ``None`` if the two are independent."""
    if isinstance(start, str):
        return _SLOPES.get(start)
    return float(start)


@torch.no_grad()
def fill_phases(weight: Tensor, weight_neg: Tensor, start: Start) -> None:
    """Draw both weights so that the output keeps the mean square of an input symmetric around 0.

    That is ``(Var W+ + Var W-) / 2 = 1 / fan_in``, because each weight sees half of the input.
    """
    slope = slope_of(start)
    # A uniform distribution on [-b, b] has variance b^2 / 3.
    scale = math.hypot(1, 1 if slope is None else slope)
    bound = math.sqrt(6 / weight[0].numel()) / scale
    nn.init.uniform_(weight, -bound, bound)
    if slope is None:
        nn.init.uniform_(weight_neg, -bound, bound)
    else:
        weight_neg.copy_(slope * weight)
