"""MASO: a layer of max-affine splines, a vector quantiser and a Gaussian mixture in one."""

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gatewise.checks import check_choice, check_count, check_flag, check_number
from gatewise.errors import ArgumentError
from gatewise.layers.any_size import at_any_size
from gatewise.layers.beta import BetaLayer, gates, soft_maximum
from gatewise.units import (
    Device,
    DType,
    allocating,
    cast_like_input,
    check_generator,
    check_input,
    replace_infinities,
    to_compute_dtype,
)
from gatewise_papers.maso.layers.max_affine import UnitLike, read_layer

Inference = Literal["hard", "soft", "beta"]
_FIXED = {"hard": 1.0, "soft": 0.5}


class MASO(BetaLayer):
    r"""Max-affine spline operator: each output selects among affine functions of the whole input.

    .. math:: y_k = \sum_r T_{kr} u_{kr}, \qquad u_{kr} = \langle A_{kr}, z \rangle + B_{kr}, \qquad
        T_k = \arg\max_{T \in \Delta}\ \beta \langle T, u_k \rangle + (1 - \beta) H(T)

    for units :math:`k` and regions :math:`r`. The entropy chooses the selection T and is not part
    of the output. ``inference="hard"`` (:math:`\beta = 1`) gives :math:`\max_r u_{kr}`. ``"soft"``
    (:math:`\beta = 1/2`) gives the selection :math:`\mathrm{softmax}(u_k)`. ``"beta"`` gives
    :math:`\mathrm{softmax}(\eta u_k)` with :math:`\eta = \beta / (1 - \beta)`, at :math:`\beta = 0`
    exactly the mean. Where hard scores tie, the first region is selected.

    The same slopes and offsets are, for each unit, a mixture of Gaussians over the *input*, with
    means :math:`A_{kr}`, unit covariance and weights :math:`\pi_{kr} \propto \exp(B_{kr} +
    \|A_{kr}\|^2 / 2)`: see :meth:`prior`, :meth:`responsibilities`, :meth:`log_likelihood` and
    :meth:`sample`. The soft selection is its posterior, the hard one its maximum a posteriori. With
    :math:`B_{kr} = -\|A_{kr}\|^2 / 2` all weights are equal, and the hard selection is the nearest
    mean, as in K-means: see :meth:`from_centroids`. These methods also take another ``variance``
    :math:`\sigma^2` of the Gaussians, with weights :math:`\pi_{kr} \propto \exp((B_{kr} +
    \|A_{kr}\|^2 / 2) / \sigma^2)`. The posterior is then :math:`\mathrm{softmax}(u_k / \sigma^2)`,
    the selection of :math:`\beta = 1 / (1 + \sigma^2)`; for :math:`\sigma^2 \to 0` it is hard.

    Parameters: ``slopes`` A ``(out_features, regions, in_features)``, ``offsets`` B
    ``(out_features, regions)``, and with ``learn_beta`` one ``beta_logit`` per unit. In maps made
    by :meth:`from_layer` the flat region of a rectifier comes first, the active one second.

    Args:
        in_features: the number of input features.
        out_features: the number of units.
        regions: the number of affine functions of each unit.
        inference: ``"hard"``, ``"soft"`` or ``"beta"``, how T is found.
        beta: from 0 to 1, for ``inference="beta"`` only; by default 1/2. A trainable beta starts
            here.
        learn_beta: whether to train one beta per unit, for ``inference="beta"`` only.
        device: the device of the parameters.
        dtype: the dtype of the parameters.

    Shape: ``(*, in_features) -> (*, out_features)``.

    Balestriero and Baraniuk, 2019, "From Hard to Soft: Understanding Deep Network Nonlinearities
    via Vector Quantization and Statistical Inference", arXiv:1810.09274. Corrections to the print:
    the weights of Theorem 2 have one index, not two; the number of units is the layer's output
    size; a rectifier's active region has weight :math:`\sigma(\|a\|^2 / 2 + b)`, at zero bias never
    below 1/2, so small slopes do not favour the inactive one.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        regions: int,
        *,
        inference: Inference = "hard",
        beta: float | None = None,
        learn_beta: bool = False,
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        check_count("MASO", "in_features", in_features, least=1)
        check_count("MASO", "out_features", out_features, least=1)
        check_count("MASO", "regions", regions, least=1)
        start = _read_beta(inference, beta, learn_beta)
        super().__init__(
            "MASO",
            start,
            learn_beta=learn_beta,
            count=out_features,
            device=device,
            dtype=dtype,
        )
        self.in_features = in_features
        self.out_features = out_features
        self.regions = regions
        self.inference = inference
        with allocating("MASO", device, dtype):
            # A and B of the formula, for each unit and region.
            self.slopes = nn.Parameter(
                torch.empty(out_features, regions, in_features, device=device, dtype=dtype)
            )
            self.offsets = nn.Parameter(
                torch.empty(out_features, regions, device=device, dtype=dtype)
            )
        self.reset_parameters()

    def filter_slopes(self) -> Tensor:
        """Return the slopes, as :func:`gatewise.nn.orthogonality_penalty` counts them."""
        return self.slopes

    @classmethod
    def from_parameters(
        cls,
        slopes: Tensor,
        offsets: Tensor,
        *,
        inference: Inference = "hard",
        beta: float | None = None,
        learn_beta: bool = False,
    ) -> "MASO":
        """Return a MASO with copies of these slopes and offsets.

        Args:
            slopes: ``(K, R, D)``.
            offsets: ``(K, R)``.
            inference: how T is found.
            beta: as in the constructor.
            learn_beta: as in the constructor.
        """
        _check_parameters(slopes, offsets)
        units, regions, features = slopes.shape
        layer = cls(
            features,
            units,
            regions,
            inference=inference,
            beta=beta,
            learn_beta=learn_beta,
            device=slopes.device,
            dtype=slopes.dtype,
        )
        with torch.no_grad():
            layer.slopes.copy_(slopes)
            layer.offsets.copy_(offsets)
        return layer

    @classmethod
    def from_centroids(
        cls,
        centroids: Tensor,
        *,
        inference: Inference = "hard",
        beta: float | None = None,
        learn_beta: bool = False,
    ) -> "MASO":
        """Return the MASO whose hard selection is the nearest centroid of a unit (Proposition 1).

        Args:
            centroids: ``(K, R, D)``.
            inference: how T is found.
            beta: as in the constructor.
            learn_beta: as in the constructor.
        """
        centroids = check_input("MASO", centroids)
        squares = to_compute_dtype(centroids).square().sum(-1)
        offsets = (-squares / 2).to(centroids.dtype)
        return cls.from_parameters(
            centroids,
            offsets,
            inference=inference,
            beta=beta,
            learn_beta=learn_beta,
        )

    @classmethod
    def from_layer(
        cls,
        layer: nn.Module,
        unit: UnitLike | Sequence[UnitLike] = "relu",
        *,
        input_shape: Sequence[int] | None = None,
        skip: bool | nn.Module = False,
        skip_at: Literal["output", "response"] = "output",
        inference: Inference = "hard",
        beta: float | None = None,
        learn_beta: bool = False,
    ) -> "MASO":
        """Return the MASO of a linear or convolution layer and a convex piecewise affine unit.

        ``MASO.from_layer(layer, unit, ...)(z.flatten(1))`` equals ``unit(layer(z)).flatten(1)``
        (Theorem 1). Other values of ``inference`` give the soft and beta forms of that layer. The
        matrices are dense, which is meant for small maps; more than 2**24 slopes are an error.

        Args:
            layer: ``nn.Linear`` or a convolution of torch.
            unit: ``"relu"``, ``"leaky_relu"``, ``"prelu"``, ``"abs"``, ``"maxout"``,
                ``"identity"``; a module of these, ours or torch's; ``nn.MaxPool1d``, ``2d``,
                ``3d``, ``nn.AvgPool1d``, ``2d``, ``3d``. Channel pooling is ``Maxout(pieces=...)``.
                Several units, in a list or ``nn.Sequential``, are applied in turn.
            input_shape: for convolutions, the shape of one input without the batch: ``(C, H, W)``.
            skip: ``True`` adds the input, a linear or convolution layer adds its response to the
                input.
            skip_at: where to add it: to the unit's ``"output"``, or to the layer's ``"response"``
                before the unit.
            inference: how T is found.
            beta: as in the constructor.
            learn_beta: as in the constructor.
        """
        start = _read_beta(inference, beta, learn_beta)
        slopes, offsets = read_layer(layer, unit, input_shape, skip, skip_at, hard=start == 1)
        weight = next(layer.parameters())
        return cls.from_parameters(
            slopes.to(weight.device, weight.dtype),
            offsets.to(weight.device, weight.dtype),
            inference=inference,
            beta=beta,
            learn_beta=learn_beta,
        )

    def reset_parameters(self) -> None:
        """Draw slopes and offsets as :class:`torch.nn.Linear` does, and reset a trainable beta."""
        super().reset_parameters()
        bound = 1 / math.sqrt(self.in_features)
        nn.init.uniform_(self.slopes, -bound, bound)
        nn.init.uniform_(self.offsets, -bound, bound)

    def forward(self, z: Tensor) -> Tensor:
        u = self._scores(z)
        eta = self._steepness(z)
        top = u.max(-1).values
        if isinstance(eta, float) and eta == math.inf:
            return top.to(z.dtype)
        if isinstance(eta, float) and eta == 0:
            # Divided first: the sum may overflow where the mean does not.
            return (u / self.regions).sum(-1).to(z.dtype)
        return soft_maximum(replace_infinities(u).unbind(-1), top, eta).to(z.dtype)

    def scores(self, z: Tensor) -> Tensor:
        """Return ``u = A z + B`` of every unit and region: ``(*, out_features, regions)``."""
        return self._scores(z).to(z.dtype)

    def select(self, z: Tensor) -> Tensor:
        """Return the VQ matrix T, ``(*, out_features, regions)``.

        Its rows sum to 1, and are one-hot for hard inference.
        """
        return self._select(z).to(z.dtype)

    def affine(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``A[T]`` and ``B[T]`` at ``z``.

        ``A[T] z + B[T]`` is the output. For hard inference they are unchanged rows of the slopes
        and offsets, and ``A[T]`` is the Jacobian.

        Args:
            z: the inputs, ``(*, in_features)``.

        Returns:
            ``A[T]`` of shape ``(*, out_features, in_features)``, and ``B[T]`` of shape
            ``(*, out_features)``.
        """
        # Hard inference: the rows as they are, without rounding by a product with 0 and 1.
        if self.start == 1 and self.beta_logit is None:
            region = self._scores(z).max(-1).indices
            unit = torch.arange(self.out_features, device=z.device)
            slopes = self.slopes[unit, region]
            return slopes.to(z.dtype), self.offsets[unit, region].to(z.dtype)
        selection = self._select(z)
        slopes = torch.einsum(
            "...kr,krd->...kd",
            selection,
            cast_like_input("MASO", "slopes", self.slopes, z),
        )
        offsets = (selection * cast_like_input("MASO", "offsets", self.offsets, z)).sum(-1)
        return slopes.to(z.dtype), offsets.to(z.dtype)

    def prior(self, variance: float = 1.0) -> Tensor:
        """Weights of each unit's mixture, ``(out_features, regions)``, not knowing the input.

        Args:
            variance: of the Gaussians, above 0.
        """
        return self._log_prior(variance).exp().to(self.slopes.dtype)

    def responsibilities(self, z: Tensor, variance: float = 1.0) -> Tensor:
        """Posterior of each region given ``z``: the soft selection, whatever ``inference`` is.

        Args:
            z: the inputs, ``(*, in_features)``.
            variance: of the Gaussians. 0 is the limit: the hard selection.
        """
        if variance == 0:
            eta = math.inf
        else:
            eta = 1 / check_number("MASO", "variance", variance, above=0.0)
        return torch.stack(gates(self._scores(z).unbind(-1), eta), -1).to(z.dtype)

    def log_likelihood(self, z: Tensor, variance: float = 1.0) -> Tensor:
        """Return ``log p(z)`` under each unit's mixture: ``(*, out_features)``.

        Args:
            z: the inputs, ``(*, in_features)``.
            variance: of the Gaussians, above 0.
        """
        self._check(z)
        w = to_compute_dtype(z).unsqueeze(-2)
        means = cast_like_input("MASO", "slopes", self.slopes, z)
        # Differences first: expanding the square would cancel digits if z is far from 0 and near a
        # mean.
        squares = [(w - mean).square().sum(-1) for mean in means.unbind(1)]
        distances = torch.stack(squares, -1)
        prior = self._log_prior(variance).to(w.dtype)
        joint = replace_infinities(prior - distances / (2 * variance))
        normalisation = self.in_features * math.log(2 * math.pi * variance) / 2
        return (torch.logsumexp(joint, -1) - normalisation).to(z.dtype)

    def sample(
        self,
        count: int,
        *,
        variance: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Draw ``count`` inputs from every unit's mixture.

        Args:
            count: the number of inputs per unit.
            variance: of the Gaussians, above 0.
            generator: the source of random numbers; torch's global generator by default.

        Returns:
            The inputs ``(count, out_features, in_features)``, and the regions from which they were
            drawn ``(count, out_features)``.
        """
        check_count("MASO", "count", count, least=1)
        check_generator("MASO", generator)
        with torch.no_grad(), allocating("MASO"):
            prior = self._log_prior(variance).exp()
            regions = torch.multinomial(prior, count, replacement=True, generator=generator).T
            means = self.slopes[torch.arange(self.out_features, device=regions.device), regions]
            noise = torch.randn(
                means.shape,
                generator=generator,
                device=means.device,
                dtype=to_compute_dtype(means).dtype,
            )
            return (means + math.sqrt(variance) * noise).to(self.slopes.dtype), regions

    def extra_repr(self) -> str:
        shown = f"in_features={self.in_features}, out_features={self.out_features}, "
        shown += f"regions={self.regions}, inference={self.inference!r}"
        if self.inference == "beta":
            shown += f", beta={self.start}, learn_beta={self.learn_beta}"
        return shown

    def _scores(self, z: Tensor) -> Tensor:
        self._check(z)
        slopes = cast_like_input("MASO", "slopes", self.slopes, z)
        offsets = cast_like_input("MASO", "offsets", self.offsets, z).flatten()
        flat = at_any_size(
            lambda z, offsets: F.linear(z, slopes.flatten(0, 1), offsets),
            to_compute_dtype(z),
            offsets,
        )
        return flat.to(slopes.dtype).unflatten(-1, (self.out_features, self.regions))

    def _steepness(self, z: Tensor) -> float | Tensor:
        eta = self.steepness()
        if isinstance(eta, Tensor):
            return cast_like_input("MASO", "beta", eta, z)
        return eta

    def _select(self, z: Tensor) -> Tensor:
        return torch.stack(gates(self._scores(z).unbind(-1), self._steepness(z)), -1)

    def _log_prior(self, variance: float) -> Tensor:
        """Return the log prior in float64, where the square of no float32 overflows."""
        variance = check_number("MASO", "variance", variance, above=0.0)
        slopes, offsets = self.slopes.double(), self.offsets.double()
        weights = (offsets + slopes.square().sum(-1) / 2) / variance
        return torch.log_softmax(replace_infinities(weights), -1)

    def _check(self, z: Tensor) -> None:
        check_input("MASO", z)
        if z.dim() < 1 or z.shape[-1] != self.in_features:
            raise ArgumentError(
                "MASO: wrong number of input features",
                got=f"shape {tuple(z.shape)}",
                allowed=f"(*, {self.in_features})",
                fix="z.flatten(1) for maps",
            )


def _read_beta(inference: str, beta: float | None, learn_beta: bool) -> float:
    check_choice("MASO", "inference", inference, ("hard", "soft", "beta"))
    check_flag("MASO", "learn_beta", learn_beta)
    if inference == "beta":
        return 0.5 if beta is None else beta
    if beta is not None or learn_beta:
        raise ArgumentError(
            "MASO: beta is an option of inference='beta'",
            got=f"inference={inference!r}, beta={beta}, learn_beta={learn_beta}",
            fix="inference='beta'",
        )
    return _FIXED[inference]


def _check_parameters(slopes: Tensor, offsets: Tensor) -> None:
    check_input("MASO", slopes)
    check_input("MASO", offsets)
    if slopes.dim() != 3 or 0 in slopes.shape or offsets.shape != slopes.shape[:2]:
        raise ArgumentError(
            "MASO: slopes and offsets do not fit",
            got=f"slopes {tuple(slopes.shape)}, offsets {tuple(offsets.shape)}",
            allowed="slopes (K, R, D) and offsets (K, R)",
        )
    if slopes.device != offsets.device:
        got = f"slopes on {slopes.device}, offsets on {offsets.device}"
        raise ArgumentError("MASO: slopes and offsets are on different devices", got=got)
