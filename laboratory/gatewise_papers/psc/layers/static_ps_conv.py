"""Static phase selective layers: some outputs read the positive phase, the others the negative one.

Note [Traced and batched splits]. Evaluation reads the learned boundary as a number and computes
what the deployed layer computes. While torch traces (compile, export) or batches (vmap over
parameters) there is no such number. Then both phases are computed and multiplied by gates of 0 and
1, which is equal except for rounding. If the layer is deployed first, the exported layer costs as
much as a plain one.
"""

import copy
import math
import warnings
from typing import ClassVar, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gatewise.checks import check_choice, check_flag, check_number
from gatewise.errors import ArgumentError
from gatewise.layers import PhaseLayer
from gatewise.layers.phase import read
from gatewise.layers.response import ConvolutionResponse, LinearResponse, layer_options
from gatewise.units import (
    Device,
    DType,
    allocating,
    apply_gate,
    check_generator,
    saturation_bound,
    to_compute_dtype,
)
from gatewise_papers.psc.layers.split import (
    gates,
    gumbel_like,
    one_hot,
    relaxed_choice,
    split_response,
)

RELAXATIONS = ("gumbel", "straight_through")
# Temperatures that half precision can hold.
COLDEST = 1e-3
HOTTEST = 1e3
# The score of the middle boundary, so that an untrained layer is half and half, not all negative.
HEAD_START = 0.01
# The last temperature is reached after this share of the training: weights and batch norms adapt to
# the settled split in the rest.
SETTLED = 0.75
# deploy() warns if the boundary has a smaller probability.
SETTLED_AT = 0.9

Split = float | str
Self = TypeVar("Self", bound="StaticPhaseSelective")


class StaticPhaseSelective(PhaseLayer):
    """A response whose outputs are divided between the phases at a fixed or a learned boundary."""

    weight: Tensor  # W+, or W+ above W- if the split is fixed
    weight_neg: Tensor  # W-, only if the split is learned
    split_logits: Tensor  # (out + 1,), one score per boundary
    temperature: Tensor  # a buffer without dimensions
    splitter: nn.Linear  # the scores, only if they depend on the data

    def build(
        self,
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
        """Create and draw the parameters.

        A fixed split has those of a plain layer. A learned split has twice as many, and scores.
        """
        self.split = _check_split(self.layer, split)
        self.data_dependent = check_flag(self.layer, "data_dependent", data_dependent)
        if data_dependent and self.split != "learned":
            raise ArgumentError(
                f"{self.layer}: a fixed split does not depend on data", got=f"split={self.split}"
            )
        self.relaxation = check_choice(self.layer, "relaxation", relaxation, RELAXATIONS)
        self.first_temperature = check_temperature(self.layer, temperature)
        self.noise = check_flag(self.layer, "noise", noise)
        self.generator = check_generator(self.layer, generator)
        self.add_weight("weight", self.weight_shape, device, dtype)
        if split == "learned":
            self.add_weight("weight_neg", self.weight_shape, device, dtype)
            self._make_scores(device, dtype)
        self.add_bias(bias, device, dtype)
        self.reset_parameters()

    def _make_scores(self, device: Device, dtype: DType) -> None:
        with allocating(self.layer, device, dtype):
            self.register_buffer("temperature", torch.empty((), device=device, dtype=dtype))
            if self.data_dependent:
                self.splitter = nn.Linear(self.inputs, self.outputs + 1, device=device, dtype=dtype)
            else:
                self.add_weight("split_logits", (self.outputs + 1,), device, dtype)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw the weights with variance ``2 / fan_in``, and set the scores to an even split.

        Each output sees half of its input.
        """
        # A uniform distribution on [-b, b] has variance b^2 / 3.
        bound = math.sqrt(6 / self.fan_in)
        nn.init.uniform_(self.weight, -bound, bound)
        self.reset_uniform("bias")
        if self.split == "learned":
            nn.init.uniform_(self.weight_neg, -bound, bound)
            self._reset_scores()

    @torch.no_grad()
    def _reset_scores(self) -> None:
        """Set the first temperature, and the scores to an even split."""
        self.temperature.fill_(self.first_temperature)
        scores = self.splitter.bias if self.data_dependent else self.split_logits
        scores.zero_()[(self.outputs + 1) // 2] = HEAD_START
        if self.data_dependent:
            self.splitter.weight.zero_()

    def no_weight_decay(self) -> tuple[str, ...]:
        """Return the scores: weight decay would pull a split that has settled back to a mixture."""
        return ("split_logits",) if "split_logits" in self._parameters else ()

    @classmethod
    def sharing(cls: type[Self], layer: nn.Module, *, split: Split = "learned") -> Self:
        """Return the static form of a plain ``layer`` that holds its own parameters, not copies.

        Both phases start with its weight: ``W- = W+``. An output then reads the positive or the
        negative part of the inputs with the weight that it had.

        Args:
            layer: a layer of torch of the same kind.
            split: ``"learned"``, or the share of outputs that read positive inputs.
        """
        weight = layer.get_parameter("weight")
        new = cls(**layer_options(layer), split=split, device="meta", dtype=weight.dtype)
        new._parameters["weight"] = weight
        new._parameters["bias"] = layer._parameters["bias"]
        if new.split == "learned":
            second = weight.detach().clone(memory_format=torch.preserve_format)
            new._parameters["weight_neg"] = nn.Parameter(second, weight.requires_grad)
            new._parameters["split_logits"] = nn.Parameter(weight.new_empty(new.outputs + 1))
            new._buffers["temperature"] = weight.new_empty(())
            new._reset_scores()
        return new.train(layer.training)

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
        boundary = None
        if not self.training and not self.data_dependent:
            boundary = read(self.split_logits.argmax())
        if boundary is not None:
            return split_response(self, ready, weight, weight_neg, boundary)
        gate = self._freeze_far_out(self.gates(x).to(ready.dtype), ready)
        if self.data_dependent:
            return self._gated_outputs(ready, weight, weight_neg, gate)
        # A gate on an output is a gate on its row of the weight.
        rows = gate.reshape(-1, *[1] * (weight.dim() - 1))
        return self.two_phases(ready, (1 - rows) * weight, rows * weight_neg)

    def _freeze_far_out(self, gate: Tensor, x: Tensor) -> Tensor:
        """Return ``gate``, detached for an input that is far out.

        See Note [Far out] in the arithmetic of units.
        """
        far_out = x.detach().abs() > saturation_bound(x)
        if self.data_dependent:
            sample = x.dim() - 1 - self.spatial
            far_out = far_out.flatten(sample).any(-1, keepdim=True)
        else:
            far_out = far_out.any()
        return torch.where(far_out, gate.detach(), gate)

    def _gated_outputs(
        self,
        x: Tensor,
        weight: Tensor,
        weight_neg: Tensor,
        gate: Tensor,
    ) -> Tensor:
        gate = gate.reshape(*gate.shape, *[1] * self.spatial)

        def respond(x: Tensor, bias: Tensor | None) -> Tensor:
            positive = self.respond(x.relu(), weight)
            negative = self.respond(-x.neg().relu(), weight_neg)
            out = apply_gate(positive, 1 - gate) + apply_gate(negative, gate)
            if bias is None:
                return out
            return out + bias.reshape(-1, *[1] * self.spatial)

        return self.at_any_size(respond, x, self.bias)

    def gates(self, x: Tensor) -> Tensor:
        """Return how negative each output is, from 0 to 1.

        In training the gates are relaxed and drawn at every call. In evaluation, and for a fixed
        split, they are 0 or 1 without noise.

        Args:
            x: the input of the layer.

        Shape: ``(M,)``, or ``(*, M)`` for the samples of a data-dependent layer.
        """
        if self.split != "learned":
            negative = torch.arange(self.outputs, device=x.device) >= self.boundary()
            return negative.to(to_compute_dtype(x).dtype)
        logits = self._logits(x)
        if not self.training:
            return gates(one_hot(logits))
        if self.noise:
            logits = logits + self._noise_scale() * gumbel_like(logits, self.generator)
        hard = self.relaxation == "straight_through"
        return gates(relaxed_choice(logits, self.temperature, hard=hard))

    def _noise_scale(self) -> Tensor:
        """Return the factor of the noise: below temperature 1 it falls with the temperature.

        Otherwise the noise would choose the boundary to the end, however cold the choice is.
        """
        return to_compute_dtype(self.temperature).clamp(max=1.0)

    @torch.no_grad()
    def confidence(self) -> float:
        """Return the probability with which training draws the boundary that evaluation uses.

        It is 1 for a fixed split. An untrained split has about ``1 / (M + 1)``.
        """
        if self.data_dependent:
            raise ArgumentError(
                f"{self.layer}: a data-dependent split has no single boundary", fix="gates(x)"
            )
        if self.split != "learned":
            return 1.0
        logits = self.split_logits.double()
        scale = self._noise_scale().double() if self.noise else self.temperature.double()
        return float(torch.softmax((logits - logits.max()) / scale, 0).max())

    def _logits(self, x: Tensor) -> Tensor:
        if not self.data_dependent:
            return to_compute_dtype(self.split_logits)
        pooled = self._pooled(to_compute_dtype(x)) if self.spatial else to_compute_dtype(x)
        largest = pooled.abs().amax(-1, keepdim=True)
        features = pooled / torch.where(largest > torch.finfo(pooled.dtype).tiny, largest, 1.0)
        weight = self.splitter.weight.to(features.dtype)
        bias = self.splitter.bias.to(features.dtype)
        # Autocast may have made the result narrower.
        return F.linear(features, weight, bias).to(features.dtype)

    def _pooled(self, x: Tensor) -> Tensor:
        """Return the mean over positions up to a factor, which the later scaling removes.

        The factor keeps the sum from overflowing.
        """
        size = x.detach().abs().amax(list(range(-1 - self.spatial, 0)), keepdim=True)
        scaled = torch.where(size > saturation_bound(x), x * 2.0**-40, x)
        return scaled.flatten(x.dim() - self.spatial).mean(-1)

    def boundary(self) -> int:
        """Return how many outputs, counted from the first, read the positive phase."""
        if self.data_dependent:
            raise ArgumentError(
                f"{self.layer}: a data-dependent split has no single boundary", fix="gates(x)"
            )
        if isinstance(self.split, str):
            return int(self.split_logits.argmax())
        # Not `round`, which rounds halves to even numbers.
        return math.floor(self.split * self.outputs + 0.5)

    def set_temperature(self, temperature: float) -> None:
        """Set how soft the relaxed choice is; see :func:`anneal_splits`.

        Args:
            temperature: from 0.001 to 1000.
        """
        if self.split != "learned":
            raise ArgumentError(
                f"{self.layer}: a fixed split has no temperature", got=f"split={self.split}"
            )
        self.temperature.fill_(check_temperature(self.layer, temperature))

    @property
    def follows_training(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether the split is learned: its temperature then falls in training."""
        return self.split == "learned"

    def set_progress(self, progress: float) -> None:
        """Set the temperature to that of :func:`split_temperature`."""
        self.set_temperature(split_temperature(progress))

    def freeze(self) -> nn.Module:
        """Return :meth:`deploy` of a learned split; a layer with a fixed split is plain already."""
        if self.split != "learned":
            return self
        if self.data_dependent:
            raise ArgumentError("its split depends on the data, so all weights may be needed")
        return self.deploy()

    @torch.no_grad()
    def deploy(self: Self) -> Self:
        """Return a layer with the boundary fixed and the unused rows removed.

        It has the parameters and cost of a plain layer. Its output is, bit for bit, this layer's
        output in evaluation mode. A warning is given if the split has not settled, because the
        layer was then trained as a mixture of other boundaries.
        """
        if self.data_dependent:
            raise ArgumentError(
                f"{self.layer}: a data-dependent split cannot be deployed",
                fix="train with data_dependent=False",
            )
        if self.split != "learned":
            return copy.deepcopy(self)
        boundary = self.boundary()
        if (confidence := self.confidence()) < SETTLED_AT:
            warnings.warn(
                f"{self.layer}: the split has not settled: training draws boundary {boundary} with "
                f"probability {confidence:.2f}, below {SETTLED_AT}. The deployed layer may be "
                "worse than the trained one. Lower the temperature in training: anneal_splits.",
                UserWarning,
                stacklevel=2,
            )
        deployed = self.fixed(boundary / self.outputs)
        rows = torch.cat((self.weight[:boundary], self.weight_neg[boundary:]))
        deployed.weight = nn.Parameter(rows, self.weight.requires_grad)
        if self.bias is not None:
            deployed.bias = nn.Parameter(self.bias.clone(), self.bias.requires_grad)
        return deployed.train(self.training)

    def fixed(self: Self, split: float) -> Self:
        """Return a layer of the same sizes with a fixed split, on the meta device."""
        options = layer_options(self) | {"device": "meta", "dtype": self.weight.dtype}
        return type(self)(**options, split=split)

    def extra_repr(self) -> str:
        shown = f"{super().extra_repr()}, split={self.split!r}"
        if self.split == "learned":
            shown += f", relaxation={self.relaxation!r}" + ("" if self.noise else ", noise=False")
        return shown + (", data_dependent=True" if self.data_dependent else "")


def split_temperature(progress: float, *, start: float = 1.0, end: float = 0.001) -> float:
    r"""Return the temperature after a share ``progress`` of the training.

    .. math:: \tau = \tau_0 (\tau_1 / \tau_0)^{\min(p / 0.75, 1)}

    The noise of a split falls with the temperature, so that the split settles. Whether it has
    settled is what ``confidence()`` of the layer returns. In a small network on digits (400 steps,
    three seeds) the boundaries had a probability of 1.00 at the end. If the temperature falls too
    fast, a split settles at a random place. If it does not fall, the split stays a mixture of both
    phases.

    Args:
        progress: the share :math:`p` of the training that is done, from 0 to 1.
        start: the first temperature :math:`\tau_0`.
        end: the last temperature :math:`\tau_1`, reached after three quarters of the training.

    >>> round(split_temperature(0.375, start=4.0, end=1.0), 6)
    2.0
    """
    progress = check_number("split_temperature", "progress", progress, least=0, most=1)
    first = check_temperature("split_temperature", start)
    last = check_temperature("split_temperature", end)
    return first * (last / first) ** min(progress / SETTLED, 1.0)


def check_temperature(layer: str, temperature: float) -> float:
    """Return ``temperature`` if a choice can be relaxed by it in every dtype."""
    value = check_number(layer, "temperature", temperature, above=0, most=HOTTEST)
    if value < COLDEST:
        allowed = f"{COLDEST} <= temperature <= {HOTTEST}"
        raise ArgumentError(
            f"{layer}: option temperature is not allowed",
            got=temperature,
            allowed=allowed,
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
    r"""Linear layer of which some outputs read positive inputs and the others negative inputs.

    .. math:: y = \begin{bmatrix} W^+ x^+ \\ W^- x^- \end{bmatrix} + b

    This is the linear :class:`StaticPSConv2d`. Data-dependent scores are a linear function of the
    scaled input itself.

    Args:
        in_features: the number of input features.
        out_features: the number of output features.
        bias: whether every output has a trainable bias.
        split: ``"learned"``, or the share of outputs that read positive inputs.
        relaxation: ``"gumbel"`` or ``"straight_through"``, how a learned split trains.
        temperature: the first temperature, from 0.001 to 1000.
        noise: whether Gumbel noise is drawn in training.
        data_dependent: whether the scores depend on the input.
        generator: the source of the noise; torch's global generator by default.
        device: the device of the parameters.
        dtype: the dtype of the parameters.

    Shape: ``(*, N) -> (*, M)``.
    """


class StaticPSConv1d(StaticPhaseSelective, ConvolutionResponse):
    """Static phase selective convolution of sequences: :class:`StaticPSConv2d` over one dimension.

    Args:
        in_channels: the number of input channels.
        out_channels: the number of output channels.
        kernel_size: the size of the kernel, one integer or one per dimension.
        stride: the step from patch to patch, one integer or one per dimension.
        padding: the padding on both sides, one integer or one per dimension, or ``"same"`` or
            ``"valid"``.
        dilation: the distance between elements of the kernel, one integer or one per dimension.
        groups: the number of groups; outputs of a group see only the inputs of that group.
        bias: whether every output has a trainable bias.
        padding_mode: ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.
        split: ``"learned"``, or the share of outputs that read positive inputs.
        relaxation: ``"gumbel"`` or ``"straight_through"``, how a learned split trains.
        temperature: the first temperature, from 0.001 to 1000.
        noise: whether Gumbel noise is drawn in training.
        data_dependent: whether the scores depend on the input.
        generator: the source of the noise; torch's global generator by default.
        device: the device of the parameters.
        dtype: the dtype of the parameters.

    Shape: ``(N, C, L) -> (N, M, L')``, with or without ``N``.
    """

    spatial: ClassVar[int] = 1


class StaticPSConv2d(StaticPhaseSelective, ConvolutionResponse):
    r"""Convolution of which some outputs read positive inputs and the others negative inputs.

    .. math:: y_i = (1 - g_i)\,(W^+ * x^+)_i + g_i\,(W^- * x^-)_i + b_i, \qquad
        g_i = \sum_{j \le i} s_j

    with :math:`x^+ = \max(x, 0)`, :math:`x^- = \min(x, 0)` and a one-hot :math:`s` over ``M + 1``
    positions for ``M`` outputs: ``p`` outputs are positive if the 1 is at position ``p``, counted
    from 0. Once the split is fixed, weights and multiplications are those of a plain layer;
    ``weight`` and ``bias`` have its shape, with W+ above W-. With ``groups``, the boundary may be
    within a group; each output reads the inputs of its own group.

    In evaluation the largest score decides, without noise, and the output is bit for bit that of
    :meth:`deploy`. Under compile, export, or vmap over parameters it is equal except for rounding.

    Args:
        in_channels: the number of input channels.
        out_channels: the number of output channels.
        kernel_size: the size of the kernel, one integer or one per dimension.
        stride: the step from patch to patch, one integer or one per dimension.
        padding: the padding on both sides, one integer or one per dimension, or ``"same"`` or
            ``"valid"``.
        dilation: the distance between elements of the kernel, one integer or one per dimension.
        groups: the number of groups; outputs of a group see only the inputs of that group.
        bias: whether every output has a trainable bias.
        padding_mode: ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.
        split: ``"learned"``, or the share of positive outputs: ``floor(split * M + 1/2)`` of them.
        relaxation: how a learned split trains: ``"gumbel"``, :math:`s = \mathrm{softmax}((a +
            \min(1, \tau) G) / \tau)` with scores ``a`` and Gumbel noise ``G``; or
            ``"straight_through"``, the one-hot of its largest entry with its gradient.
        temperature: the first ``tau``, from 0.001 to 1000, stored in the buffer ``temperature``;
            lower it with :func:`anneal_splits`.
        noise: whether ``G`` is drawn, once per training forward (data-dependent: once per sample),
            times the temperature if that is below 1. Without it nothing makes a soft split hard.
        data_dependent: whether the scores are a linear function, ``splitter``, of the input's mean
            over positions, instead of numbers, ``split_logits``. The mean's largest magnitude is
            scaled to 1, so that the choice does not depend on the input's scale. Such a layer
            cannot be deployed.
        generator: the source of the noise. The default is torch's global generator
            (``torch.manual_seed``), which torch.compile needs, and vmap with its ``randomness=``
            option. A deep copy copies the generator.
        device: the device of the parameters.
        dtype: the dtype of the parameters.

    Shape: ``(N, C, H, W) -> (N, M, H', W')``, with or without ``N``.

    Lin, Noorzad, Yang, Kwak and Porikli, 2021, "Phase Selective Convolution", CVPR Workshops,
    supplement A. Corrected: the paper's gate sums over ``j < i``, which cannot express "all
    negative" and has two positions for "all positive". The available text does not say which
    relaxation, temperature and schedule the authors used.
    """

    spatial: ClassVar[int] = 2
