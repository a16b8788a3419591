"""BetaVQ: the hard, soft and beta form of any max-affine unit of one variable."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gatewise.errors import ArgumentError, unknown_name
from gatewise.units.contract import (
    Device,
    DType,
    Limits,
    Pieces,
    UnitModule,
    allocating,
    apply_gate,
    at_least,
    at_most,
    check_channels,
    check_flag,
    check_input,
    detach_saturated,
    elementwise,
    per_channel,
    promise,
    region_gates,
    registered_units,
    saturation_bound,
    to_compute_dtype,
    unit,
)

STEEPEST = (
    1024.0  # slopes of the compiled form: products of steeper ones with a large eta would overflow
)
LARGEST_LOGIT = (
    60.0  # beyond it gates are the maximum or the mean to the last bit, and exp would soon overflow
)
Penalty = str | tuple[str, float]
NamedOrGiven = str | tuple[Sequence[float] | Tensor, Sequence[float] | Tensor]


def beta_vq(
    x: Tensor,
    pieces: NamedOrGiven = "relu",
    beta: float = 0.5,
    *,
    eta: float | Tensor | None = None,
    penalty: Penalty = "shannon",
    dim: int = 1,
) -> Tensor:
    r"""Gate the affine pieces :math:`u_r = a_r x + b_r` by how large they are, and add them up.

    .. math:: y = \sum_r T_r u_r = A[T]\,x + B[T], \qquad
        T = \arg\max_{T \in \Delta}\ \beta \langle T, u \rangle + (1 - \beta) H(T)

    ``pieces`` is the name of a unit with max-affine pieces (``"relu"``, ``"abs"``,
    ``"leaky_relu"``) or ``(slopes, offsets)``. ``beta = 1`` is exactly the maximum, ``beta = 0``
    exactly the mean, ``beta = 1/2`` the soft form; for Shannon entropy :math:`T =
    \mathrm{softmax}(\eta u)` with :math:`\eta = \beta / (1 - \beta)`. So ``"relu"`` at 1/2 is SiLU,
    and in between Swish; ``"abs"`` gives :math:`x \tanh(\eta x)`. The entropy chooses the gate and
    is not part of the output.

    ``eta`` may be given in place of ``beta``: a number, or a tensor with one number or one per
    channel of ``dim``. ``penalty`` is the entropy: ``"shannon"``, or ``("tsallis", alpha)`` with
    ``1 <= alpha <= 2`` for gates that are exactly 0 (sparsemax at 2). Shape: ``(*) -> (*)``. Where
    hard pieces tie, the first one has the gate.

    Balestriero and Baraniuk, 2019, "From Hard to Soft: Understanding Deep Network Nonlinearities
    via Vector Quantization and Statistical Inference", arXiv:1810.09274; Tsallis gates are the
    future work it names.
    """
    w = to_compute_dtype(check_input("beta_vq", x))
    slopes, offsets = read_pieces(pieces)
    alpha = read_penalty(penalty)
    eta = _steepness(check_beta("beta_vq", beta)) if eta is None else _check_eta(eta, x, dim)

    def plain(w: Tensor, eta: float | Tensor) -> Tensor:
        z = w.clamp(-saturation_bound(w), saturation_bound(w))
        gates = _choose([a * z + b for a, b in zip(slopes, offsets, strict=True)], eta, alpha)
        slope, offset = (
            detach_saturated(w, _weighted(numbers, gates)) for numbers in (slopes, offsets)
        )
        return apply_gate(w, slope) + offset

    if not _are_two_softened_lines(slopes, offsets, eta, alpha):
        return plain(w, eta).to(x.dtype)
    return elementwise(
        "two_lines", plain, w, eta, (slopes[0], slopes[1], slopes[1] - slopes[0])
    ).to(x.dtype)


def _are_two_softened_lines(
    slopes: tuple[float, ...], offsets: tuple[float, ...], eta: float | Tensor, alpha: float
) -> bool:
    """Two lines through 0 and Shannon's entropy, neither hard nor the mean, nor steep.

    What the compiled form knows.
    """
    if len(slopes) != 2 or any(offsets) or max(map(abs, slopes)) > STEEPEST:
        return False
    return alpha == 1 and (isinstance(eta, Tensor) or 0 < eta < math.inf)


def trained_eta(logit: Tensor) -> Tensor:
    """``eta = beta / (1 - beta)`` of a trainable beta held as its logit, finite however far the logit was trained."""
    return torch.exp(at_most(at_least(to_compute_dtype(logit), -LARGEST_LOGIT), LARGEST_LOGIT))


def _check_eta(eta: float | Tensor, x: Tensor, dim: int) -> float | Tensor:
    """A number of at least 0, infinity being the hard form.

    A tensor is kept below what would overflow.
    """
    if isinstance(eta, int | float) and not isinstance(eta, bool) and not eta >= 0:
        raise ArgumentError(
            "beta_vq: eta must be at least 0", got=eta, fix="eta = beta / (1 - beta)"
        )
    value = per_channel("beta_vq", "eta", eta, x, dim)
    return at_most(value, math.exp(LARGEST_LOGIT)) if isinstance(value, Tensor) else value


def _weighted(numbers: tuple[float, ...], gates: list[Tensor]) -> Tensor:
    total = numbers[0] * gates[0]
    for number, gate in zip(numbers[1:], gates[1:], strict=True):
        total = total + number * gate
    return total


def _choose(scores: list[Tensor], eta: float | Tensor, alpha: float) -> list[Tensor]:
    if isinstance(eta, float) and eta == math.inf:
        return region_gates.hard_gates(scores)
    if len(scores) == 1 or (isinstance(eta, float) and eta == 0):
        return region_gates.mean_gates(scores)
    if alpha == 1:
        return region_gates.shannon_gates(scores, eta)
    return region_gates.tsallis_gates(scores, eta, alpha)


def read_pieces(pieces: NamedOrGiven) -> Pieces:
    """Slopes and offsets as tuples of numbers, from a unit's name or as given."""
    if isinstance(pieces, str):
        known = {
            name: u
            for name, u in registered_units().items()
            if u.pieces is not None and name != "beta_vq"
        }
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
            "beta_vq: pieces are not readable", got=pieces, allowed=allowed
        ) from None
    if not slopes or len(slopes) != len(offsets) or not all(map(math.isfinite, slopes + offsets)):
        raise ArgumentError("beta_vq: pieces are not usable", got=pieces, allowed=allowed)
    return slopes, offsets


def read_penalty(penalty: Penalty) -> float:
    """The alpha of the entropy: 1 for Shannon, as given for Tsallis."""
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
    """``beta`` if it lies in [0, 1], and strictly between if it is to be trained."""
    if isinstance(beta, bool) or not isinstance(beta, int | float) or not 0 <= beta <= 1:
        fix = "for a steepness of eta, beta = eta / (1 + eta)"
        raise ArgumentError(
            f"{owner}: option beta is not allowed", got=beta, allowed="0 <= beta <= 1", fix=fix
        )
    if learn and not 0 < beta < 1:
        raise ArgumentError(
            f"{owner}: a trainable beta must start strictly between 0 and 1",
            got=beta,
            fix="learn_beta=False, or 0.5",
        )
    return float(beta)


def _steepness(beta: float) -> float:
    return beta / (1 - beta) if beta < 1 else math.inf


def _reference(
    x: Tensor,
    pieces: NamedOrGiven,
    beta: float = 0.5,
    eta: float | Tensor | None = None,
    penalty: Penalty = "shannon",
    dim: int = 1,
) -> Tensor:
    """Stacked scores and torch's own softmax.

    Tsallis gates by bisection, differentiated implicitly.
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
        turn = (
            eta
            * support
            * (slopes - (support * slopes).sum(-1, keepdim=True) / support.sum(-1, keepdim=True))
        )
        y = (gates * u).sum(-1) + (x - x.detach()) * (turn * u.detach()).sum(-1)
    return y.movedim(-1, dim) if x.dim() else y


def _bisected_gates(z: Tensor, alpha: float) -> Tensor:
    z = (alpha - 1) * (z - z.amax(-1, keepdim=True))
    low, high = torch.full_like(z[..., :1], -1.0), torch.zeros_like(z[..., :1])
    for _ in range(80):
        tau = (low + high) / 2
        over = ((z - tau).clamp(min=0) ** (1 / (alpha - 1))).sum(-1, keepdim=True) > 1
        low, high = torch.where(over, tau, low), torch.where(over, high, tau)
    return (z - low).clamp(min=0) ** (1 / (alpha - 1))


def _limits(
    pieces: NamedOrGiven = "relu", beta: float = 0.5, penalty: Penalty = "shannon"
) -> Limits:
    slopes, offsets = read_pieces(pieces)

    def end(x: float) -> float:
        steepest = max(a * x for a in slopes)
        tied = [
            (a, b) for a, b in zip(slopes, offsets, strict=True) if beta == 0 or a * x == steepest
        ]
        slope = sum(a for a, _ in tied) / len(tied)
        if slope:
            return math.copysign(math.inf, slope * x)
        flat = (tuple(0.0 for _ in tied), tuple(b for _, b in tied))
        return _reference(torch.zeros((), dtype=torch.float64), flat, beta, penalty=penalty).item()

    return Limits(minus=(end(-1.0),), plus=(end(1.0),))


def _kinks(
    pieces: NamedOrGiven = "relu", beta: float = 0.5, penalty: Penalty = "shannon"
) -> dict[float, float]:
    """Corners of the hard form.

    For sparse gates the points where a gate closes (derivative there unspecified: NaN).
    """
    if beta == 1:
        return _corners(*read_pieces(pieces))
    if beta == 0 or read_penalty(penalty) == 1:
        return {}
    return dict.fromkeys(
        _closing_points(*read_pieces(pieces), _steepness(beta), read_penalty(penalty)), math.nan
    )


def _corners(slopes: tuple[float, ...], offsets: tuple[float, ...]) -> dict[float, float]:
    found = {}
    for i, (a, b) in enumerate(zip(slopes, offsets, strict=True)):
        for c, d in list(zip(slopes, offsets, strict=True))[:i]:
            x = (d - b) / (a - c) if a != c else math.nan
            values = [s * x + o for s, o in zip(slopes, offsets, strict=True)]
            if math.isclose(max(values), a * x + b, rel_tol=1e-12, abs_tol=1e-12):
                found[x] = slopes[values.index(max(values))] if x == 0 else math.nan
    return found


def _closing_points(
    slopes: tuple[float, ...], offsets: tuple[float, ...], eta: float, alpha: float
) -> list[float]:
    def support(x: Tensor) -> Tensor:
        scores = eta * (
            x[..., None] * torch.tensor(slopes).double() + torch.tensor(offsets).double()
        )
        return _bisected_gates(scores, alpha) > 0

    x = torch.linspace(-64.0, 64.0, 20001, dtype=torch.float64)
    change = (support(x)[1:] != support(x)[:-1]).any(-1).nonzero().flatten()
    low, high = x[change], x[change + 1]
    for _ in range(40):
        middle = (low + high) / 2
        same = (support(middle) == support(low)).all(-1)
        low, high = torch.where(same, middle, low), torch.where(same, high, middle)
    return low.tolist()


@unit(
    name="beta_vq",
    title="Beta vector quantisation of a max-affine unit",
    family="soft",
    function=beta_vq,
    formula=r"\sum_r T_r\,(a_r x + b_r),\quad T = \mathrm{softmax}_r\left(\frac{\beta}{1 - \beta}(a_r x + b_r)\right)",
    paper="Balestriero and Baraniuk, 2019 (arXiv:1810.09274)",
    studied_in=("maso",),
    reference=_reference,
    limits=_limits,
    kinks=_kinks,
    pieces=lambda pieces="relu": read_pieces(pieces),
    parameters={"beta_logit": "log(beta / (1 - beta)), with learn_beta"},
    error={
        "float16": promise(1, 2**-24),
        "bfloat16": promise(1, 2**-24),
        "float32": promise(4, 2**-22, back_absolute=2**-20),
    },
    samples=(
        {},
        {"pieces": "abs", "beta": 0.8},
        {"pieces": "relu", "beta": 1.0},
        {"pieces": "leaky_relu", "beta": 0.0},
        {"pieces": ((-1.0, 0.0, 2.0), (-0.5, 0.25, -1.0)), "beta": 0.6},
        {"pieces": "relu", "penalty": ("tsallis", 2.0)},
        {"pieces": ((-1.0, 0.0, 2.0), (-0.5, 0.25, -1.0)), "penalty": ("tsallis", 1.5)},
        {"learn_beta": True, "channels": 6, "beta": 0.7},
    ),
)
class BetaVQ(UnitModule):
    """Module form of :func:`beta_vq`, with a fixed or a trainable ``beta``.

    Args: pieces: a unit's name, or ``(slopes, offsets)``. beta: from 0 (mean) to 1 (maximum); the
        start value if it is trained, and then strictly between. learn_beta: train it, through its
        logit: ``eta = exp(logit)`` exactly. channels: with ``learn_beta``, one ``beta`` per channel
        of ``dim`` instead of one. penalty: ``"shannon"`` or ``("tsallis", alpha)``.
    """

    beta_logit: nn.Parameter | None

    def __init__(
        self,
        pieces: NamedOrGiven = "relu",
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
        self.penalty, self.dim = penalty, dim
        self.start = check_beta(
            "beta_vq", beta, learn=check_flag("beta_vq", "learn_beta", learn_beta)
        )
        count = check_channels("beta_vq", channels) or 1
        with allocating("beta_vq", device, dtype):
            logit = (
                nn.Parameter(torch.empty(count, device=device, dtype=dtype)) if learn_beta else None
            )
        self.register_parameter("beta_logit", logit)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set a trainable beta to its starting value."""
        if self.beta_logit is not None:
            nn.init.constant_(self.beta_logit, math.log(self.start) - math.log1p(-self.start))

    @property
    def beta(self) -> float | Tensor:
        """The present beta: a number, or a tensor of one number or one per channel."""
        return self.start if self.beta_logit is None else torch.sigmoid(self.beta_logit)

    def arguments(self, x: Tensor) -> dict:
        """Pieces and penalty, with ``beta`` where it is fixed and ``eta`` where it is trained."""
        given = {"pieces": self.pieces, "penalty": self.penalty, "dim": self.dim}
        if self.beta_logit is None:
            return given | {"beta": self.start}
        return given | {"eta": trained_eta(self.beta_logit)}

    def forward(self, x: Tensor) -> Tensor:
        return beta_vq(x, **self.arguments(x))
