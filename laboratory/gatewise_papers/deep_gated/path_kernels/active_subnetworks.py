"""Which gates are open for an input, and which can still be changed by training: section 3.1."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis import AnalysisResult
from gatewise.checks import check_choice, check_number
from gatewise.errors import Limitation, NotApplicableError
from gatewise.units import check_input
from gatewise_papers.deep_gated.layers import Gate, Step, path_steps, read_steps
from gatewise_papers.deep_gated.path_kernels.gate_jacobians import gate_derivatives, gate_layers
from gatewise_papers.deep_gated.path_kernels.shared_paths import kernel_of_steps, rows_of

ROWS_AT_A_TIME = 64  # gates whose derivatives are computed in one vectorised pass


@dataclass(frozen=True, eq=False)
class Subnetworks(AnalysisResult):
    """The active and the sensitive gates of a network for n inputs, layer by layer.

    Attributes:
        active: for each layer (n, *units), whether the gate is above its threshold.
        sensitive: for each layer (n, *units), whether some weight changes the gate by more than
            the threshold of sensitivity.
        thresholds: the two thresholds.
        steps: the network.
        x: the inputs.
    """

    active: tuple[Tensor, ...]
    sensitive: tuple[Tensor, ...]
    thresholds: tuple[float, float]
    steps: tuple[Step, ...]
    x: Tensor

    @property
    def active_count(self) -> Tensor:
        """How many gates are active, (n, layers)."""
        return _counts(self.active)

    @property
    def sensitive_count(self) -> Tensor:
        """How many gates are sensitive, (n, layers)."""
        return _counts(self.sensitive)

    @property
    def both_count(self) -> Tensor:
        """How many gates are both, (n, layers); none if the thresholds separate the two sets."""
        both = [a & s for a, s in zip(self.active, self.sensitive, strict=True)]
        return _counts(both)

    def overlap(self, which: str = "active") -> Tensor:
        """How many gates are ``"active"`` (or ``"sensitive"``) for both of two inputs, (n, n)."""
        check_choice("Subnetworks.overlap", "which", which, ("active", "sensitive"))
        masks = self.active if which == "active" else self.sensitive
        flat = torch.cat([mask.flatten(1) for mask in masks], 1).double()
        return (flat @ flat.T).long()

    def active_paths(self) -> Tensor:
        """How many paths have only gates that are active for both of two inputs, (n, n)."""
        steps = self._steps(self.active)
        return kernel_of_steps(steps, steps, self.x, self.x, kind="paths")

    def sensitive_paths(self) -> Tensor:
        """How many paths have one sensitive gate and active gates elsewhere, (n,).

        The counts are summed over the layer of the sensitive gate.
        """
        total = torch.zeros(len(self.x), dtype=torch.float64)
        for layer, sensitive in enumerate(self.sensitive):
            steps = self._steps((*self.active[:layer], sensitive, *self.active[layer + 1 :]))
            for sample in range(len(self.x)):
                row = slice(sample, sample + 1)
                of_sample = [rows_of(step, row) for step in steps]
                x = self.x[row]
                total[sample] += kernel_of_steps(of_sample, of_sample, x, x, kind="paths").item()
        return total

    def _steps(self, masks: Sequence[Tensor]) -> list[Step]:
        """The network with ``masks`` as its gates."""
        remaining = iter(masks)
        steps = []
        for step in self.steps:
            if isinstance(step, Gate):
                step = Gate(next(remaining).double())
            steps.append(step)
        return steps

    def to_dict(self) -> dict[str, Any]:
        """Counts and overlaps as lists."""
        return {
            "thresholds": dict(zip(("active", "sensitive"), self.thresholds, strict=True)),
            "gates": [mask[0].numel() for mask in self.active],
            "active": self.active_count.tolist(),
            "sensitive": self.sensitive_count.tolist(),
            "both": self.both_count.tolist(),
            "overlap": {which: self.overlap(which).tolist() for which in ("active", "sensitive")},
        }

    def _repr_html_(self) -> str:
        table = "<tr><th>layer</th><th>active</th><th>sensitive</th></tr>"
        shares = zip(_shares(self.active), _shares(self.sensitive), strict=True)
        for layer, (active, sensitive) in enumerate(shares, 1):
            table += f"<tr><td>{layer}</td><td>{active:.1%}</td><td>{sensitive:.1%}</td></tr>"
        return f"<p>gates of {len(self.x)} inputs, on average</p><table>{table}</table>"

    def plot(self) -> Any:
        """A matplotlib figure: shares of active and sensitive gates by layer, and overlaps."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9, 3.6), layout="constrained")
        bars, image = figure.subplots(1, 2)
        layers = range(1, len(self.active) + 1)
        bars.bar([i - 0.2 for i in layers], _shares(self.active), 0.4, label="active")
        bars.bar([i + 0.2 for i in layers], _shares(self.sensitive), 0.4, label="sensitive")
        bars.set(xlabel="layer", ylabel="share of gates", xticks=layers)
        bars.legend(frameon=False)
        shown = image.imshow(self.overlap().cpu().numpy())
        figure.colorbar(shown, ax=image, label="gates active for both")
        image.set(xlabel="input", ylabel="input")
        return figure


def subnetworks(
    model: nn.Module,
    x: Tensor,
    *,
    active: float = 0.9,
    sensitive: float = 0.1,
    index: Tensor | None = None,
) -> Subnetworks:
    r"""Find the active gates and the sensitive gates of ``model`` for each of the inputs ``x``.

    .. math:: \text{active: } |G(l, i)| > \tau_A, \qquad
        \text{sensitive: } \max_m \left|\frac{\partial G(l, i)}{\partial \theta^g_m}\right| > \tau_S

    Active gates hold what the network has learned about an input. Sensitive gates are still
    learning. No soft gate is both if :math:`\tau_S` is above
    :math:`\beta \tau_A (1 - \tau_A / (1 + \epsilon)) \max |\partial q / \partial \theta|` and
    :math:`\tau_A \ge (1 + \epsilon) / 2`. Hard gates have derivative 0, so none of them is
    sensitive. Sensitivity counts every weight that sets gates, trained or frozen, also where
    gradients are switched off.

    Args:
        model: a network as for :func:`path_kernel`.
        x: inputs (n, \*).
        active: the threshold :math:`\tau_A`.
        sensitive: the threshold :math:`\tau_S`.
        index: which training examples ``x`` are, for random gates.

    Lakshminarayanan and Singh, 2020, "Deep Gated Networks", arXiv:2002.03996, section 3.1. The
    paper's bound omits ``beta`` and the derivative of the response, and has the sign of the gate's
    slope reversed.
    """
    check_number("subnetworks", "active", active, above=0.0)
    check_number("subnetworks", "sensitive", sensitive, above=0.0)
    check_input("subnetworks", x)
    with torch.inference_mode(False), torch.no_grad():
        x = x.detach().clone() if x.is_inference() else x.detach()
        steps = path_steps(model, x, index=index)
        gates = [step.values.detach() for step in steps if isinstance(step, Gate)]
        if not gates:
            raise NotApplicableError(
                Limitation.NO_GATES,
                "subnetworks: the network has no gate",
                got=type(model).__name__,
            )
        sensitivities = _sensitivities(model, x, index, gates)
    return Subnetworks(
        active=tuple(gate.abs() > active for gate in gates),
        sensitive=tuple(largest > sensitive for largest in sensitivities),
        thresholds=(active, sensitive),
        steps=steps,
        x=x,
    )


def _sensitivities(
    model: nn.Module,
    x: Tensor,
    index: Tensor | None,
    gates: list[Tensor],
) -> list[Tensor]:
    """The largest derivative of each gate by a weight: (n, *units) for each layer."""
    kind: Any = getattr(model, "kind", None)
    if getattr(kind, "soft", None) is False:
        return [torch.zeros_like(gate) for gate in gates]
    parameters: Any = getattr(model, "gate_parameters", None)
    if parameters is not None and all(weight.dim() == 2 for weight in parameters()):
        return _of_dense_network(model, x)
    return _of_any_network(model, x, index, gates)


def _of_dense_network(model: nn.Module, x: Tensor) -> list[Tensor]:
    layers = gate_layers("subnetworks", model, x)
    largest = [torch.zeros_like(layer.gates) for layer in layers]
    for k, layer in enumerate(layers):
        # The derivative by a weight is that by the unit's response, times the weight's input.
        largest_input = layer.inputs.abs().amax(1, keepdim=True)
        derivatives = gate_derivatives(layers, k, slice(0, layer.directions))
        for i, by_response in enumerate(derivatives, start=k):
            by_weight = by_response.abs().amax(1) * largest_input
            largest[i] = torch.maximum(largest[i], by_weight)
    return largest


class _GateReader(nn.Module):
    """A network that returns its gates, so that it can be called with other weights."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor, index: Tensor | None) -> Tensor:
        steps = read_steps(self.model, x, index=index)
        return torch.cat([step.values.flatten() for step in steps if isinstance(step, Gate)])


def _of_any_network(
    model: nn.Module,
    x: Tensor,
    index: Tensor | None,
    gates: list[Tensor],
) -> list[Tensor]:
    """One backward pass for each gate and input, some at a time.

    Frozen weights count as well, so the weights are copied.
    """
    reader = _GateReader(model)
    weights = {name: weight.detach().clone() for name, weight in reader.named_parameters()}
    if not _have_derivatives(reader, weights, x[:1], None if index is None else index[:1]):
        return [torch.zeros_like(gate) for gate in gates]
    rows = []
    for i in range(len(x)):
        row = slice(i, i + 1)
        rows.append(_of_one(reader, weights, x[row], None if index is None else index[row]))
    parts = torch.stack(rows).split([gate[0].numel() for gate in gates], 1)
    return [part.reshape(gate.shape) for part, gate in zip(parts, gates, strict=True)]


def _have_derivatives(
    reader: nn.Module,
    weights: dict[str, Tensor],
    x: Tensor,
    index: Tensor | None,
) -> bool:
    """Whether any gate has a derivative by a weight: hard gates have none."""
    with torch.enable_grad():
        leaves = {name: weight.clone().requires_grad_() for name, weight in weights.items()}
        return torch.func.functional_call(reader, leaves, (x, index)).requires_grad


def _of_one(
    reader: nn.Module,
    weights: dict[str, Tensor],
    x: Tensor,
    index: Tensor | None,
) -> Tensor:
    """The largest derivative of each gate of one input, (gates,)."""
    values, pull_back, *_ = torch.func.vjp(
        lambda w: torch.func.functional_call(reader, w, (x, index)), weights
    )
    directions = torch.eye(len(values), dtype=values.dtype, device=values.device)
    parts = []
    for some in directions.split(ROWS_AT_A_TIME):
        (by_weight,) = torch.func.vmap(pull_back)(some)
        largest = [gradients.abs().flatten(1).amax(1) for gradients in by_weight.values()]
        parts.append(torch.stack(largest).amax(0))
    return torch.cat(parts)


def _counts(masks: Sequence[Tensor]) -> Tensor:
    return torch.stack([mask.flatten(1).sum(1) for mask in masks], 1)


def _shares(masks: Sequence[Tensor]) -> list[float]:
    return [mask.double().mean().item() for mask in masks]
