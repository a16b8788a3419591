"""Deep gated networks of dense layers."""

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gatewise.checks import check_count, is_sequence
from gatewise.errors import ArgumentError
from gatewise.units import Device, DType
from gatewise_papers.deep_gated.networks.base import DeepGated, Layer


class DeepGatedNetwork(DeepGated):
    r"""A fully connected network whose units are multiplied by gates that need not be their own.

    .. math:: z_0 = x, \qquad q_l = \Theta_l z_{l-1}, \qquad z_l = q_l \odot G_l, \qquad
        \hat y = \Theta_d z_{d-1}

    ``depth`` is d. It counts layers of weights, so that d - 1 layers are gated. There is no bias.
    The gates :math:`G_l` of each kind of ``gate`` are:

    - ``"linear"``: 1; a deep linear network.
    - ``"random"``: drawn once for each training example and unit. ``forward(x, index)`` needs the
      numbers of the examples ``x``; there is no output for other inputs.
    - ``"relu"``: ``1[q_l > 0]``; a plain ReLU network.
    - ``"galu"``: ``1[q'_l > 0]``, where ``q'`` are the responses of a second ReLU network, which
      is frozen.
    - ``"soft_relu"``: ``(1 + eps) sigmoid(beta q_l)``.
    - ``"soft_galu"``: ``(1 + eps) sigmoid(beta q'_l)``, where ``q'`` are the responses of a second
      network with soft gates, which can learn.

    ``forward(x, gates=...)`` uses the gates it gets. With ``[g.detach() for g in net.gates(x)]``
    its gradient is the part in which only path strengths move.

    The paper says that gates lie in [0, 1]; soft ones reach ``1 + eps``. In one experiment it
    trains hard gates, through which no gradient passes: here that is an error.

    Shape: ``(*, d_in) -> (*, d_out)``.

    Args:
        d_in: input features.
        width: units in each hidden layer, or one number for each of the d - 1.
        depth: number of layers of weights, d.
        gate: the kind of gate, see above.
        beta: sharpness of a soft gate.
        eps: how far above 1 a soft gate reaches.
        mu: how likely a random gate is open. The default ``sigma`` assumes it for other gates.
        d_out: outputs.
        init: ``"bernoulli"`` (plus or minus sigma), ``"normal"`` or ``"uniform"``, all with
            standard deviation sigma.
        sigma: by default ``sqrt(1 / (mu width))``, where ``mu`` is 1 without gates. Then the
            strengths of an input's paths neither grow nor vanish with depth. ``sigmas`` holds the
            number of each layer.
        trains: ``"weights"``, ``"gates"`` (the gating network alone) or ``"both"``; by default
            whatever can learn.
        examples: number of training examples, for random gates.
        gates_from: a network whose weights are copied into the gating network of ``"galu"`` or
            ``"soft_galu"``.
        same_start: whether the gating network starts with the weights of the strength network.
        generator: draws weights and random gates; torch's own by default.
        device: of the weights.
        dtype: of the weights.

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
            [(width,) for width in widths],
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
        """Raise an error if the last dimension of ``x`` is not ``d_in``."""
        if x.dim() < 1 or x.shape[-1] != self.d_in:
            raise ArgumentError(
                "DeepGatedNetwork: the input has another number of features",
                got=f"shape {tuple(x.shape)}",
                allowed=f"(*, {self.d_in})",
            )


def dense_layers(sizes: Sequence[int]) -> list[Layer]:
    """Return linear layers without bias from each size to the next."""
    layers: list[Layer] = []
    for inputs, outputs in itertools.pairwise(sizes):
        options = {"in_features": inputs, "out_features": outputs, "bias": False}
        layers.append((nn.Linear, options))
    return layers


def _widths(width: int | Sequence[int], depth: int) -> tuple[int, ...]:
    """Return the width of each hidden layer."""
    widths: tuple[int, ...] = ()
    if isinstance(width, int):
        widths = (width,) * (depth - 1)
    elif is_sequence(width):
        widths = tuple(width)
    if len(widths) != depth - 1:
        raise ArgumentError(
            "DeepGatedNetwork: there are depth - 1 hidden layers",
            got=f"width {width}, depth {depth}",
            allowed=f"one width, or {depth - 1} of them",
        )
    return tuple(check_count("DeepGatedNetwork", "width", size, least=1) for size in widths)
