r"""Deep gated networks of dense layers.

Responses and gates come from different networks, or from the same.
"""

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gatewise.errors import ArgumentError
from gatewise.models.gated.base import DeepGated, Layer
from gatewise.units import Device, DType, check_count, is_sequence


class DeepGatedNetwork(DeepGated):
    r"""A fully connected network whose units are multiplied by gates that need not be their own.

    .. math:: z_0 = x, \qquad q_l = \Theta_l z_{l-1}, \qquad z_l = q_l \odot G_l, \qquad
        \hat y = \Theta_d z_{d-1}

    ``depth`` is d: it counts layers of weights, so that d - 1 layers are gated. There is no bias.

    ===============
    =================================================================================================
    ``gate``         :math:`G_l` ===============
    =================================================================================================
    ``"linear"``     1: a deep linear network ``"random"``     a coin for each training example and
    unit, thrown once; ``forward(x, index)`` needs to know which
                     examples ``x`` are, and there is no answer for any others
    ``"relu"``       ``1[q_l > 0]``: a plain ReLU network ``"galu"``       ``1[q'_l > 0]``, ``q'``
    the responses of a second ReLU network, which is frozen ``"soft_relu"``
    ``(1 + eps) sigmoid(beta q_l)`` ``"soft_galu"``  ``(1 + eps) sigmoid(beta q'_l)``, ``q'`` of a
    second network with soft gates, which can learn ===============
    =================================================================================================

    Shape: ``(*, d_in) -> (*, d_out)``.

    Args: d_in: input features. width: units in each hidden layer, or one number for each of the d -
        1. depth: d. beta: sharpness of a soft gate. eps: how far above 1 a soft gate reaches. mu:
        how likely a random gate is open; also what the default ``sigma`` assumes of the others.
        init: ``"bernoulli"`` (plus or minus sigma), ``"normal"`` or ``"uniform"``, all of standard
        deviation sigma. sigma: by default ``sqrt(1 / (mu width))``, ``mu`` being 1 without gates:
        an input's paths then neither grow
            nor fade with depth. ``sigmas`` holds each layer's.
        trains: ``"weights"``, ``"gates"`` (the gating network alone) or ``"both"``; by default
            whatever can learn.
        examples: how many training examples there are, for random gates.
        gates_from: a network whose gates ``"galu"`` or ``"soft_galu"`` begin with: its weights are
            copied.
        same_start: the gating network begins with the strength network's own weights.
        generator: what draws weights and random gates; torch's own by default.

    ``forward(x, gates=...)`` uses the gates it is given: with
    ``[g.detach() for g in net.gates(x)]`` its gradient is the part in which only path strengths
    move.

    The paper says that gates lie in [0, 1]; soft ones reach ``1 + eps``. It trains hard gates in
    one experiment, to which no gradient passes: here that is an error.

    Lakshminarayanan and Singh, 2020, "Deep Gated Networks", arXiv:2002.03996.
    """

    def __init__(
        self,
        d_in: int,
        width: int | Sequence[int],
        depth: int,
        *,
        gate: str = "relu",
        beta: float = 4.0,
        eps: float = 0.1,
        mu: float = 0.5,
        d_out: int = 1,
        init: str = "bernoulli",
        sigma: float | None = None,
        trains: str | None = None,
        examples: int | None = None,
        gates_from: nn.Module | None = None,
        same_start: bool = False,
        generator: torch.Generator | None = None,
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        widths = _widths(width, check_count("DeepGatedNetwork", "depth", depth, least=2))
        self.d_in = check_count("DeepGatedNetwork", "d_in", d_in, least=1)
        self.d_out = check_count("DeepGatedNetwork", "d_out", d_out, least=1)
        super().__init__(
            dense_layers([d_in, *widths, d_out]),
            [(each,) for each in widths],
            gate=gate,
            beta=beta,
            eps=eps,
            mu=mu,
            init=init,
            sigma=sigma,
            trains=trains,
            examples=examples,
            gates_from=gates_from,
            same_start=same_start,
            generator=generator,
            device=device,
            dtype=dtype,
        )

    def check_shape(self, x: Tensor) -> None:
        """An error if the last dimension of ``x`` is not ``d_in``."""
        if x.dim() < 1 or x.shape[-1] != self.d_in:
            what = "DeepGatedNetwork: the input has another number of features"
            raise ArgumentError(what, got=f"shape {tuple(x.shape)}", allowed=f"(*, {self.d_in})")


def dense_layers(sizes: Sequence[int]) -> list[Layer]:
    """Linear layers without bias from each size to the next."""
    return [
        (nn.Linear, {"in_features": a, "out_features": b, "bias": False})
        for a, b in itertools.pairwise(sizes)
    ]


def _widths(width: int | Sequence[int], depth: int) -> tuple[int, ...]:
    widths = (
        (width,) * (depth - 1)
        if isinstance(width, int)
        else tuple(width)
        if is_sequence(width)
        else ()
    )
    if len(widths) != depth - 1:
        what = "DeepGatedNetwork: there are depth - 1 hidden layers"
        raise ArgumentError(
            what, got=f"width {width}, depth {depth}", allowed=f"one width, or {depth - 1} of them"
        )
    return tuple(check_count("DeepGatedNetwork", "width", each, least=1) for each in widths)
