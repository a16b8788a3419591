"""Static phase selective convolution and linear layer.

Some outputs read the positive phase, the others the negative.

Note [Traced and batched splits]. Evaluation reads the learned boundary as a number and computes
what the deployed layer computes. While torch traces (compile, export) or batches (vmap over
parameters) there is no such number; then both phases are computed and multiplied by gates of 0 and
1, which is equal but for rounding. Deploy first, and the exported layer has a plain layer's cost.
"""

import copy
import math
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gatewise.errors import ArgumentError
from gatewise.layers.phase.phase_layer import PhaseLayer, read
from gatewise.layers.phase.split import gates, gumbel_like, one_hot, relaxed_choice, split_response
from gatewise.layers.response import ConvolutionResponse, LinearResponse, layer_options
from gatewise.layers.windows import Sizes
from gatewise.units import (
    Device,
    DType,
    allocating,
    apply_gate,
    check_choice,
    check_flag,
    check_generator,
    check_number,
    saturation_bound,
    to_compute_dtype,
)

RELAXATIONS = ("gumbel", "straight_through")
COLDEST, HOTTEST = 1e-3, 1e3  # what half precision holds
HEAD_START = (
    0.01  # of the middle boundary, so that an untrained layer is half and half and not all negative
)

Split = float | str
Self = TypeVar("Self", bound="StaticPhaseSelective")


class StaticPhaseSelective(PhaseLayer):
    """A response whose outputs are divided between the phases of its input, at a fixed or a learned boundary."""

    weight: Tensor
    weight_neg: Tensor
    split_logits: Tensor
    temperature: Tensor
    splitter: nn.Linear

    def build(
        self, bias: bool, split: Split, device: Device, dtype: DType, **learning: Any
    ) -> None:
        """Make and fill the parameters.

        A plain layer's for a fixed split, twice as many and scores for a learned.
        """
        self.split = _check_split(self.layer, split)
        self._set_learning(**learning)
        self.add_weight("weight", self.weight_shape, device, dtype)
        if split == "learned":
            self.add_weight("weight_neg", self.weight_shape, device, dtype)
            self._make_scores(device, dtype)
        self.add_bias(bias, device, dtype)
        self.reset_parameters()

    def _set_learning(
        self,
        relaxation: str = "gumbel",
        temperature: float = 1.0,
        noise: bool = True,
        data_dependent: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        self.data_dependent = check_flag(self.layer, "data_dependent", data_dependent)
        if data_dependent and self.split != "learned":
            raise ArgumentError(
                f"{self.layer}: a fixed split does not depend on data", got=f"split={self.split}"
            )
        self.relaxation = check_choice(self.layer, "relaxation", relaxation, RELAXATIONS)
        self.first_temperature = check_temperature(self.layer, temperature)
        self.noise = check_flag(self.layer, "noise", noise)
        self.generator = check_generator(self.layer, generator)

    def _make_scores(self, device: Device, dtype: DType) -> None:
        with allocating(self.layer, device, dtype):
            self.register_buffer("temperature", torch.empty((), device=device, dtype=dtype))
            if self.data_dependent:
                self.splitter = nn.Linear(self.inputs, self.outputs + 1, device=device, dtype=dtype)
            else:
                self.add_weight("split_logits", (self.outputs + 1,), device, dtype)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw the weights with variance ``2 / fan_in``, for each output sees half of its input.

        Level the scores.
        """
        bound = math.sqrt(6 / self.fan_in)
        nn.init.uniform_(self.weight, -bound, bound)
        self.reset_uniform("bias")
        if self.split == "learned":
            nn.init.uniform_(self.weight_neg, -bound, bound)
            self.temperature.fill_(self.first_temperature)
            scores = self.splitter.bias if self.data_dependent else self.split_logits
            scores.zero_()[(self.outputs + 1) // 2] = HEAD_START
            if self.data_dependent:
                self.splitter.weight.zero_()

    def forward(self, x: Tensor) -> Tensor:
        if self.split == "learned":
            return self._learned_response(x).to(x.dtype)
        ready, weight = self.prepare(x, self.weight)
        if (boundary := self.boundary()) < self.outputs:
            self.warn_if_rectified(x)
        return split_response(self, ready, weight, weight, boundary).to(x.dtype)

    def _learned_response(self, x: Tensor) -> Tensor:
        ready, weight, weight_neg = self.prepare(x, self.weight, self.weight_neg)
        self.warn_if_rectified(x)
        boundary = (
            None if self.training or self.data_dependent else read(self.split_logits.argmax())
        )
        if boundary is not None:
            return split_response(self, ready, weight, weight_neg, boundary)
        gate = self._settled(self.gates(x).to(ready.dtype), ready)
        if self.data_dependent:
            return self._gated_outputs(ready, weight, weight_neg, gate)
        rows = gate.reshape(
            -1, *[1] * (weight.dim() - 1)
        )  # a gate on an output is a gate on its row of the weight
        return self.two_phases(ready, (1 - rows) * weight, rows * weight_neg)

    def _settled(self, gate: Tensor, x: Tensor) -> Tensor:
        """``gate``, a constant where it meets an input that is far out.

        See Note [Far out] in ``units/_arithmetic``.
        """
        far_out = x.detach().abs() > saturation_bound(x)
        dims = 1 + self.spatial
        far_out = (
            far_out.flatten(x.dim() - dims).any(-1, keepdim=True)
            if self.data_dependent
            else far_out.any()
        )
        return torch.where(far_out, gate.detach(), gate)

    def _gated_outputs(self, x: Tensor, weight: Tensor, weight_neg: Tensor, gate: Tensor) -> Tensor:
        gate = gate.reshape(*gate.shape, *[1] * self.spatial)

        def respond(x: Tensor, bias: Tensor | None) -> Tensor:
            positive = self.respond(x.relu(), weight)
            negative = self.respond(-x.neg().relu(), weight_neg)
            out = apply_gate(positive, 1 - gate) + apply_gate(negative, gate)
            return out if bias is None else out + bias.reshape(-1, *[1] * self.spatial)

        return self.at_any_size(respond, x, self.bias)

    def gates(self, x: Tensor) -> Tensor:
        """How negative each output is, from 0 to 1.

        ``(M,)``, or ``(*, M)`` for the samples of a data-dependent layer.

        Relaxed and drawn anew in training; 0 or 1 and without noise in evaluation, and if the split
        is fixed.
        """
        if self.split != "learned":
            return (torch.arange(self.outputs, device=x.device) >= self.boundary()).to(
                to_compute_dtype(x).dtype
            )
        logits = self._logits(x)
        if not self.training:
            return gates(one_hot(logits))
        if self.noise:
            logits = logits + gumbel_like(logits, self.generator)
        return gates(
            relaxed_choice(logits, self.temperature, hard=self.relaxation == "straight_through")
        )

    def _logits(self, x: Tensor) -> Tensor:
        if not self.data_dependent:
            return to_compute_dtype(self.split_logits)
        pooled = self._pooled(to_compute_dtype(x)) if self.spatial else to_compute_dtype(x)
        largest = pooled.abs().amax(-1, keepdim=True)
        features = pooled / torch.where(largest > torch.finfo(pooled.dtype).tiny, largest, 1.0)
        weight, bias = (
            each.to(features.dtype) for each in (self.splitter.weight, self.splitter.bias)
        )
        return F.linear(features, weight, bias).to(
            features.dtype
        )  # autocast may have made it narrower

    def _pooled(self, x: Tensor) -> Tensor:
        """The mean over positions up to a factor per sample, which the scaling takes out.

        Small enough to add up.
        """
        size = x.detach().abs().amax(list(range(-1 - self.spatial, 0)), keepdim=True)
        return (
            torch.where(size > saturation_bound(x), x * 2.0**-40, x)
            .flatten(x.dim() - self.spatial)
            .mean(-1)
        )

    def boundary(self) -> int:
        """How many outputs, counted from the first, read the positive phase.

        The others read the negative.
        """
        if self.data_dependent:
            raise ArgumentError(
                f"{self.layer}: a data-dependent split has no one boundary", fix="gates(x)"
            )
        if isinstance(self.split, str):
            return int(self.split_logits.argmax())
        return math.floor(self.split * self.outputs + 0.5)

    def set_temperature(self, temperature: float) -> None:
        """Set how soft the relaxed choice is; see :func:`anneal_splits`."""
        if self.split != "learned":
            raise ArgumentError(
                f"{self.layer}: a fixed split has no temperature", got=f"split={self.split}"
            )
        self.temperature.fill_(check_temperature(self.layer, temperature))

    @torch.no_grad()
    def deploy(self: Self) -> Self:
        """A layer with the boundary fixed where it is and the unused rows removed.

        A plain layer's parameters and cost.

        Its output is, bit for bit, this layer's output in evaluation mode.
        """
        if self.data_dependent:
            what = f"{self.layer}: a data-dependent split cannot be deployed, for every row may be needed"
            raise ArgumentError(what, fix="train with data_dependent=False")
        if self.split != "learned":
            return copy.deepcopy(self)
        boundary = self.boundary()
        made = self.fixed(boundary / self.outputs)
        rows = torch.cat((self.weight[:boundary], self.weight_neg[boundary:]))
        made.weight = nn.Parameter(rows, self.weight.requires_grad)
        if self.bias is not None:
            made.bias = nn.Parameter(self.bias.clone(), self.bias.requires_grad)
        return made.train(self.training)

    def fixed(self: Self, split: float) -> Self:
        """Return a layer of the same sizes with a fixed split, on the meta device."""
        options = layer_options(self) | {"device": "meta", "dtype": self.weight.dtype}
        return type(self)(**options, split=split)

    def extra_repr(self) -> str:
        shown = f"{super().extra_repr()}, split={self.split!r}"
        if self.split == "learned":
            shown += f", relaxation={self.relaxation!r}" + ("" if self.noise else ", noise=False")
        return shown + (", data_dependent=True" if self.data_dependent else "")


def check_temperature(layer: str, temperature: float) -> float:
    """``temperature`` if a choice can be relaxed by it in every dtype."""
    value = check_number(layer, "temperature", temperature, above=0, most=HOTTEST)
    if value < COLDEST:
        allowed = f"{COLDEST} <= temperature <= {HOTTEST}"
        raise ArgumentError(
            f"{layer}: option temperature is not allowed", got=temperature, allowed=allowed
        )
    return value


def _check_split(layer: str, split: Split) -> Split:
    if split == "learned":
        return split
    if isinstance(split, str | bool) or not isinstance(split, int | float) or not 0 <= split <= 1:
        allowed = "'learned', or the share of outputs that read the positive phase, from 0 to 1"
        raise ArgumentError(f"{layer}: option split is not allowed", got=split, allowed=allowed)
    return float(split)


class StaticPSLinear(StaticPhaseSelective, LinearResponse):
    r"""Linear layer of which some outputs read the positive phase of the input and the others the negative one.

    .. math:: y = \begin{bmatrix} W^+ x^+ \\ W^- x^- \end{bmatrix} + b

    Shape: ``(*, N) -> (*, M)``. Everything else as :class:`StaticPSConv2d`, whose linear form it is; data-dependent
    scores are a linear function of the scaled input itself.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        split: Split = "learned",
        relaxation: str = "gumbel",
        temperature: float = 1.0,
        noise: bool = True,
        data_dependent: bool = False,
        generator: torch.Generator | None = None,
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        super().__init__(in_features, out_features)
        learning = {
            "relaxation": relaxation,
            "temperature": temperature,
            "noise": noise,
            "generator": generator,
        }
        self.build(bias, split, device, dtype, data_dependent=data_dependent, **learning)


class _StaticPSConv(StaticPhaseSelective, ConvolutionResponse):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        *,
        split: Split = "learned",
        relaxation: str = "gumbel",
        temperature: float = 1.0,
        noise: bool = True,
        data_dependent: bool = False,
        generator: torch.Generator | None = None,
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, padding_mode
        )
        learning = {
            "relaxation": relaxation,
            "temperature": temperature,
            "noise": noise,
            "generator": generator,
        }
        self.build(bias, split, device, dtype, data_dependent=data_dependent, **learning)


class StaticPSConv1d(_StaticPSConv):
    """Static phase selective convolution of sequences ``(N, C, L)``.

    Everything else as :class:`StaticPSConv2d`.
    """

    spatial: ClassVar[int] = 1


class StaticPSConv2d(_StaticPSConv):
    r"""Convolution of which some outputs read the positive phase of the input and the others the negative one.

    .. math:: y_i = (1 - g_i)\,(W^+ * x^+)_i + g_i\,(W^- * x^-)_i + b_i, \qquad g_i = \sum_{j \le i} s_j

    with :math:`x^+ = \max(x, 0)`, :math:`x^- = \min(x, 0)` and a one-hot :math:`s` over ``M + 1`` positions for ``M``
    outputs: ``p`` outputs are positive if the 1 stands at position ``p``, counted from 0. Shape:
    ``(N, C, H, W) -> (N, M, H', W')``, the ``N`` optional. Weights and multiplications are a plain layer's once the
    split is fixed; a fixed split's ``weight`` and ``bias`` are of a plain layer's shape, W+ above W-.

    With ``groups``, the boundary may lie within a group; each output reads its own group's inputs as always.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode: as in
            ``torch.nn.Conv2d``.
        split: ``"learned"``, or the share of positive outputs: ``floor(split * M + 1/2)`` of them.
        relaxation: how a learned split trains: ``"gumbel"``, :math:`s = \mathrm{softmax}((a + G) / \tau)` with scores
            ``a`` and Gumbel noise ``G``; or ``"straight_through"``, the one-hot of its largest entry with its gradient.
        temperature: the first ``tau``, from 0.001 to 1000, kept in the buffer ``temperature``; cool it with
            :func:`anneal_splits`.
        noise: whether ``G`` is drawn, once per training forward (data-dependent: once per sample). Without it a soft
            split has no reason to become hard.
        data_dependent: whether the scores are a linear function, ``splitter``, of the input's mean over positions (with
            its largest magnitude scaled to 1, so that the choice does not depend on the input's scale), instead of
            numbers, ``split_logits``. Such a layer cannot be deployed.
        generator: where the noise comes from; torch's global generator (``torch.manual_seed``) by default, which
            torch.compile needs, and vmap, with its ``randomness=`` option. A deep copy copies the generator.

    In evaluation the largest score decides, without noise, and the output is bit for bit that of :meth:`deploy`;
    under compile, export, or vmap over parameters it is so but for rounding.

    Lin, Noorzad, Yang, Kwak and Porikli, 2021, "Phase Selective Convolution", CVPR Workshops, supplement A. Corrected:
    the paper's gate sums over ``j < i``, which cannot express "all negative" and has two positions for "all
    positive". Which relaxation, temperature and schedule the authors used is not in the text at hand.
    """

    spatial: ClassVar[int] = 2
