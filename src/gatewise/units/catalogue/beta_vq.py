"""BetaVQ: the hard, soft and beta form of any max-affine unit of one variable."""

import math
from collections.abc import Sequence
from itertools import combinations

import torch
from torch import Tensor, nn

from gatewise.checks import check_flag
from gatewise.errors import ArgumentError, unknown_name
from gatewise.units.contract import (
    Device,
    DType,
    LeafModule,
    Limits,
    Pieces,
    UnitModule,
    allocating,
    at_least,
    at_most,
    check_channels,
    check_input,
    error_bounds,
    hard_gates,
    in_compute_dtype,
    mean_gates,
    per_channel,
    promise,
    registered_units,
    shannon_gates,
    to_compute_dtype,
    tsallis_gates,
    unit,
)

# Beyond this logit, gates are the maximum or the mean to the last bit, and exp would soon overflow.
LARGEST_LOGIT = 60.0
RELU = ((0.0, 1.0), (0.0, 0.0))  # its pieces
Penalty = str | tuple[str, float]
UnitPieces = str | tuple[Sequence[float] | Tensor, Sequence[float] | Tensor]


def beta_vq(
    x: Tensor,
    pieces: UnitPieces = "relu",
    beta: float = 0.5,
    *,
    eta: float | Tensor | None = None,
    penalty: Penalty = "shannon",
    dim: int = 1,
) -> Tensor:
    r"""Return the sum of affine pieces :math:`u_r = a_r x + b_r`, each weighted by a gate.

    .. math:: y = \sum_r T_r u_r = A[T]\,x + B[T], \qquad
        T = \arg\max_{T \in \Delta}\ \beta \langle T, u \rangle + (1 - \beta) H(T)

    ``beta = 1`` is exactly the maximum, ``beta = 0`` exactly the mean, ``beta = 1/2`` the soft
    form. For Shannon entropy :math:`T = \mathrm{softmax}(\eta u)` with :math:`\eta = \beta / (1 -
    \beta)`. So ``"relu"`` is SiLU at 1/2 and Swish in between, and ``"abs"`` gives :math:`x
    \tanh(\eta x)`. The entropy chooses the gate and is not part of the output. Where hard pieces
    tie, the first one has the gate.

    Args:
        x: the input, a real floating point tensor.
        pieces: the name of a unit with max-affine pieces (``"relu"``, ``"abs"``, ``"leaky_relu"``),
            or ``(slopes, offsets)``.
        beta: from 0 (mean) to 1 (maximum).
        eta: the steepness, which may be given in place of ``beta``: a number, or a tensor of one
            number or one per channel.
        penalty: the entropy, ``"shannon"`` or ``("tsallis", alpha)`` with ``1 <= alpha <= 2``,
            whose gates can be exactly 0 (sparsemax at 2).
        dim: the channel dimension of the input.

    Shape: ``(*) -> (*)``.

    Balestriero and Baraniuk, 2019, "From Hard to Soft: Understanding Deep Network Nonlinearities
    via Vector Quantization and Statistical Inference", arXiv:1810.09274; Tsallis
    gates are the future work it names.
    """
    check_input("beta_vq", x)
    slopes, offsets = read_pieces(pieces)
    alpha = read_penalty(penalty)
    eta = _steepness(check_beta("beta_vq", beta)) if eta is None else _check_eta(eta, x, dim)

    if (slopes, offsets) == RELU and alpha == 1 and _is_soft(eta):
        return in_compute_dtype(_softened_relu, x, eta)

    def weigh(w: Tensor, eta: float | Tensor) -> Tensor:
        scores = [a * w + b for a, b in zip(slopes, offsets, strict=True)]
        gates = _choose(scores, eta, alpha)
        return w * _weighted(slopes, gates) + _weighted(offsets, gates)

    return in_compute_dtype(weigh, x, eta)


def _is_soft(eta: float | Tensor) -> bool:
    return isinstance(eta, Tensor) or eta < math.inf


def _softened_relu(w: Tensor, eta: float | Tensor) -> Tensor:
    return w * torch.sigmoid(eta * w)


def trained_eta(logit: Tensor) -> Tensor:
    """Return ``eta = beta / (1 - beta)`` from the logit of a trainable beta, always finite."""
    return torch.exp(at_most(at_least(to_compute_dtype(logit), -LARGEST_LOGIT), LARGEST_LOGIT))


def _check_eta(eta: float | Tensor, x: Tensor, dim: int) -> float | Tensor:
    """Return ``eta`` if it is at least 0; infinity is the hard form.

    A tensor is bounded so that it does not overflow.
    """
    if isinstance(eta, int | float) and not isinstance(eta, bool) and not eta >= 0:
        raise ArgumentError(
            "beta_vq: eta must be at least 0",
            got=eta,
            fix="eta = beta / (1 - beta)",
        )
    value = per_channel("beta_vq", "eta", eta, x, dim)
    if isinstance(value, Tensor):
        return at_most(value, math.exp(LARGEST_LOGIT))
    return value


def _weighted(numbers: tuple[float, ...], gates: list[Tensor]) -> Tensor:
    total = numbers[0] * gates[0]
    for number, gate in zip(numbers[1:], gates[1:], strict=True):
        total = total + number * gate
    return total


def _choose(scores: list[Tensor], eta: float | Tensor, alpha: float) -> list[Tensor]:
    if isinstance(eta, float) and eta == math.inf:
        return hard_gates(scores)
    if len(scores) == 1 or (isinstance(eta, float) and eta == 0):
        return mean_gates(scores)
    if alpha == 1:
        return shannon_gates(scores, eta)
    return tsallis_gates(scores, eta, alpha)


def read_pieces(pieces: UnitPieces) -> Pieces:
    """Return slopes and offsets as tuples of numbers, from a unit's name or from two sequences."""
    if isinstance(pieces, str):
        known = {}
        for name, spec in registered_units().items():
            if spec.pieces is not None and name != "beta_vq":
                known[name] = spec
        if pieces not in known:
            raise unknown_name("max-affine unit", pieces, known)
        return known[pieces].fact("pieces")
    allowed = "a unit's name or (slopes, offsets): two sequences of finite numbers, equally long"
    try:
        if any(isinstance(part, str) for part in pieces):
            raise TypeError
        slopes, offsets = (tuple(float(v) for v in part) for part in pieces)
    except (TypeError, ValueError):
        raise ArgumentError(
            "beta_vq: option pieces is not allowed",
            got=pieces,
            allowed=allowed,
        ) from None
    if not slopes or len(slopes) != len(offsets) or not all(map(math.isfinite, slopes + offsets)):
        raise ArgumentError("beta_vq: option pieces is not allowed", got=pieces, allowed=allowed)
    return slopes, offsets


def read_penalty(penalty: Penalty) -> float:
    """Return the alpha of the entropy, which is 1 for Shannon entropy."""
    if penalty == "shannon":
        return 1.0
    if isinstance(penalty, tuple | list) and len(penalty) == 2 and penalty[0] == "tsallis":
        alpha = penalty[1]
        if isinstance(alpha, int | float) and not isinstance(alpha, bool) and 1 <= alpha <= 2:
            return float(alpha)
    raise ArgumentError(
        "beta_vq: unknown penalty",
        got=penalty,
        allowed="'shannon' or ('tsallis', alpha) with 1 <= alpha <= 2",
    )


def check_beta(owner: str, beta: float, *, learn: bool = False) -> float:
    """Return ``beta`` if it lies in [0, 1], and strictly between if it is trained."""
    if isinstance(beta, bool) or not isinstance(beta, int | float) or not 0 <= beta <= 1:
        fix = "for a steepness of eta, beta = eta / (1 + eta)"
        raise ArgumentError(
            f"{owner}: option beta is not allowed",
            got=beta,
            allowed="0 <= beta <= 1",
            fix=fix,
        )
    if learn and not 0 < beta < 1:
        raise ArgumentError(
            f"{owner}: a trainable beta must start strictly between 0 and 1",
            got=beta,
            fix="learn_beta=False, or 0.5",
        )
    return float(beta)


def _steepness(beta: float) -> float:
    if beta < 1:
        return beta / (1 - beta)
    return math.inf


def _reference(
    x: Tensor,
    pieces: UnitPieces,
    beta: float = 0.5,
    eta: float | Tensor | None = None,
    penalty: Penalty = "shannon",
    dim: int = 1,
) -> Tensor:
    """Return the output by stacked scores and torch's softmax.

    Tsallis gates are found by bisection and differentiated implicitly.
    """
    slopes, offsets = (torch.tensor(part, dtype=x.dtype) for part in read_pieces(pieces))
    x = x.movedim(dim, -1) if x.dim() else x
    u = x[..., None] * slopes + offsets
    eta = torch.as_tensor(_steepness(beta) if eta is None else eta, dtype=x.dtype)[..., None]
    alpha = read_penalty(penalty)
    if bool((eta == math.inf).all()):
        y = u.amax(-1)
    elif alpha == 1:
        y = (torch.softmax(eta * u, -1) * u).sum(-1)
    else:
        gates = _bisected_gates(eta * u.detach(), alpha)
        support = torch.where(gates > 0, gates ** (2 - alpha), 0.0)
        mean_slope = (support * slopes).sum(-1, keepdim=True) / support.sum(-1, keepdim=True)
        derivative = eta * support * (slopes - mean_slope)
        y = (gates * u).sum(-1) + (x - x.detach()) * (derivative * u.detach()).sum(-1)
    if x.dim():
        return y.movedim(-1, dim)
    return y


def _bisected_gates(z: Tensor, alpha: float) -> Tensor:
    z = (alpha - 1) * (z - z.amax(-1, keepdim=True))
    low = torch.full_like(z[..., :1], -1.0)
    high = torch.zeros_like(z[..., :1])
    for _ in range(80):
        tau = (low + high) / 2
        over = ((z - tau).clamp(min=0) ** (1 / (alpha - 1))).sum(-1, keepdim=True) > 1
        low = torch.where(over, tau, low)
        high = torch.where(over, high, tau)
    return (z - low).clamp(min=0) ** (1 / (alpha - 1))


def _limits(pieces: UnitPieces = "relu", beta: float = 0.5, penalty: Penalty = "shannon") -> Limits:
    slopes, offsets = read_pieces(pieces)

    def end(x: float) -> float:
        steepest = max(a * x for a in slopes)
        tied = []
        for a, b in zip(slopes, offsets, strict=True):
            if beta == 0 or a * x == steepest:
                tied.append((a, b))
        slope = sum(a for a, _ in tied) / len(tied)
        if slope:
            return math.copysign(math.inf, slope * x)
        flat = ((0.0,) * len(tied), tuple(b for _, b in tied))
        return _reference(torch.zeros((), dtype=torch.float64), flat, beta, penalty=penalty).item()

    return Limits(minus=(end(-1.0),), plus=(end(1.0),))


def _kinks(
    pieces: UnitPieces = "relu",
    beta: float = 0.5,
    penalty: Penalty = "shannon",
) -> dict[float, float]:
    """Return the corners of the hard form, or the points where a sparse gate closes.

    The derivative at a closing point is not specified, so it is NaN.
    """
    if beta == 1:
        return _corners(*read_pieces(pieces))
    if beta == 0 or read_penalty(penalty) == 1:
        return {}
    points = _closing_points(*read_pieces(pieces), _steepness(beta), read_penalty(penalty))
    return dict.fromkeys(points, math.nan)


def _corners(slopes: tuple[float, ...], offsets: tuple[float, ...]) -> dict[float, float]:
    corners = {}
    lines = list(zip(slopes, offsets, strict=True))
    for (c, d), (a, b) in combinations(lines, 2):
        x = (d - b) / (a - c) if a != c else math.nan
        values = [slope * x + offset for slope, offset in lines]
        if math.isclose(max(values), a * x + b, rel_tol=1e-12, abs_tol=1e-12):
            corners[x] = slopes[values.index(max(values))] if x == 0 else math.nan
    return corners


def _closing_points(
    slopes: tuple[float, ...],
    offsets: tuple[float, ...],
    eta: float,
    alpha: float,
) -> list[float]:
    def support(x: Tensor) -> Tensor:
        lines = x[..., None] * torch.tensor(slopes).double() + torch.tensor(offsets).double()
        return _bisected_gates(eta * lines, alpha) > 0

    x = torch.linspace(-64.0, 64.0, 20001, dtype=torch.float64)
    change = (support(x)[1:] != support(x)[:-1]).any(-1).nonzero().flatten()
    low = x[change]
    high = x[change + 1]
    for _ in range(40):
        middle = (low + high) / 2
        same = (support(middle) == support(low)).all(-1)
        low = torch.where(same, middle, low)
        high = torch.where(same, high, middle)
    return low.tolist()


class BetaModule(LeafModule):
    """A module with a fixed beta, or with trainable ones stored as logits.

    ``eta = beta / (1 - beta) = exp(logit)``.
    """

    beta_logit: nn.Parameter | None  # one number or one per channel; None if beta is fixed
    start: float  # the fixed beta, or the start value

    def add_beta(
        self,
        owner: str,
        beta: float,
        learn_beta: bool,
        count: int,
        device: Device,
        dtype: DType,
    ) -> None:
        """Check ``beta``, and register ``count`` logits if it is trained."""
        check_flag(owner, "learn_beta", learn_beta)
        self.start = check_beta(owner, beta, learn=learn_beta)
        with allocating(owner, device, dtype):
            logit = torch.empty(count if learn_beta else 0, device=device, dtype=dtype)
        self.register_parameter("beta_logit", nn.Parameter(logit) if learn_beta else None)

    def reset_parameters(self) -> None:
        """Set a trainable beta to its start value."""
        if self.beta_logit is not None:
            logit = math.log(self.start) - math.log1p(-self.start)
            nn.init.constant_(self.beta_logit, logit)

    @property
    def beta(self) -> float | Tensor:
        """The present beta: a number, or a tensor of one number or one per channel."""
        if self.beta_logit is None:
            return self.start
        return torch.sigmoid(self.beta_logit)


@unit(
    name="beta_vq",
    title="Beta vector quantisation of a max-affine unit",
    family="soft",
    on="gate > 1/2",
    function=beta_vq,
    formula=r"\sum_r T_r\,(a_r x + b_r),\quad "
    r"T = \mathrm{softmax}_r\left(\frac{\beta}{1 - \beta}(a_r x + b_r)\right)",
    paper="Balestriero and Baraniuk, 2019 (arXiv:1810.09274)",
    studied_in=("maso",),
    reference=_reference,
    limits=_limits,
    kinks=_kinks,
    pieces=lambda pieces="relu": read_pieces(pieces),
    parameters={"beta_logit": "log(beta / (1 - beta)), with learn_beta"},
    largest=5e37,
    error=error_bounds(
        half=promise(1, 2**-24, back_absolute=2**-22),
        float32=promise(4, 2**-22, back_absolute=2**-20),
    ),
    samples=(
        {},
        {"pieces": "abs", "beta": 0.8},
        {"pieces": "relu", "beta": 1.0},
        {"pieces": "leaky_relu", "beta": 0.0},
        {"pieces": ((-1.0, 0.0, 2.0), (-0.5, 0.25, -1.0)), "beta": 0.6},
        {"pieces": "relu", "penalty": ("tsallis", 2.0)},
        {"pieces": ((-1.0, 0.0, 2.0), (-0.5, 0.25, -1.0)), "penalty": ("tsallis", 1.5)},
        {
            "learn_beta": True,
            "channels": 6,
            "beta": 0.7,
        },
    ),
)
class BetaVQ(BetaModule, UnitModule):
    """Module form of :func:`beta_vq`, with a fixed or a trainable ``beta``.

    Args:
        pieces: a unit's name, or ``(slopes, offsets)``.
        beta: from 0 (mean) to 1 (maximum). A trainable beta starts here, strictly between 0 and 1.
        learn_beta: whether to train beta, through its logit: ``eta = exp(logit)`` exactly.
        channels: with ``learn_beta``, the number of channels for one beta per channel; ``None`` for
            one beta in all.
        penalty: the entropy, ``"shannon"`` or ``("tsallis", alpha)``.
        dim: the channel dimension of the input.
        device: the device of the parameters.
        dtype: the dtype of the parameters.
    """

    def __init__(
        self,
        pieces: UnitPieces = "relu",
        *,
        beta: float = 0.5,
        learn_beta: bool = False,
        channels: int | None = None,
        penalty: Penalty = "shannon",
        dim: int = 1,
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        pieces = pieces if isinstance(pieces, str) else read_pieces(pieces)
        super().__init__(
            pieces=pieces,
            beta=beta,
            learn_beta=learn_beta,
            channels=channels,
            penalty=penalty,
            dim=dim,
        )
        self.pieces = read_pieces(pieces)
        read_penalty(penalty)
        self.penalty = penalty
        self.dim = dim
        count = check_channels("beta_vq", channels) or 1
        self.add_beta("beta_vq", beta, learn_beta, count, device, dtype)
        is_soft = self.start < 1 and not learn_beta and read_penalty(penalty) == 1
        self.is_softened_relu = is_soft and self.pieces == RELU
        self.reset_parameters()

    def arguments(self, x: Tensor) -> dict:
        """Return pieces and penalty, with ``beta`` if it is fixed and ``eta`` if it is trained."""
        arguments = {
            "pieces": self.pieces,
            "penalty": self.penalty,
            "dim": self.dim,
        }
        if self.beta_logit is None:
            return arguments | {"beta": self.start}
        return arguments | {"eta": trained_eta(self.beta_logit)}

    def forward(self, x: Tensor) -> Tensor:
        if self.is_softened_relu:
            return _softened_relu(x, self.start / (1 - self.start))
        return beta_vq(x, **self.arguments(x))
