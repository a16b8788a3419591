"""Which gates are open for an input, and which of them training can still move: section 3.1."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis.path_kernels.gate_jacobians import gate_layers, moved_gates
from gatewise.analysis.path_kernels.shared_paths import kernel_of_steps, slices
from gatewise.errors import Limitation, NotApplicableError
from gatewise.layers import Gate, Step, path_steps, read_steps
from gatewise.units import check_choice, check_input, check_number

ROWS_AT_A_TIME = 64


@dataclass(frozen=True, eq=False)
class Subnetworks:
    """The active and the sensitive gates of a network for n inputs, layer by layer."""

    active: tuple[Tensor, ...]  # (n, *units) each: whether the gate is above its threshold
    sensitive: tuple[
        Tensor, ...
    ]  # (n, *units) each: whether some weight moves the gate by more than its threshold
    thresholds: tuple[float, float]
    steps: tuple[Step, ...]  # the network
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
        """How many are both, (n, layers); none where the thresholds tell them apart."""
        return _counts(tuple(a & s for a, s in zip(self.active, self.sensitive, strict=True)))

    def overlap(self, which: str = "active") -> Tensor:
        """How many gates are ``"active"`` (or ``"sensitive"``) for both of two inputs, (n, n)."""
        check_choice("Subnetworks.overlap", "which", which, ("active", "sensitive"))
        masks = self.active if which == "active" else self.sensitive
        flat = torch.cat([mask.flatten(1) for mask in masks], 1).double()
        return (flat @ flat.T).long()

    def active_paths(self) -> Tensor:
        """How many paths run through active gates alone, for both of two inputs, (n, n)."""
        steps = self._steps(self.active)
        return kernel_of_steps(steps, steps, self.x, self.x, kind="paths")

    def sensitive_paths(self) -> Tensor:
        """How many paths run through one sensitive gate and are active elsewhere, (n,).

        The sum over which gate.
        """
        total = torch.zeros(len(self.x), dtype=torch.float64)
        for layer in range(len(self.active)):
            steps = self._steps(
                (*self.active[:layer], self.sensitive[layer], *self.active[layer + 1 :])
            )
            for s in range(len(self.x)):
                own = [
                    Gate(step.values[s : s + 1]) if isinstance(step, Gate) else step
                    for step in steps
                ]
                one = self.x[s : s + 1]
                total[s] += kernel_of_steps(own, own, one, one, kind="paths").item()
        return total

    def _steps(self, masks: Sequence[Tensor]) -> list[Step]:
        left = iter(masks)
        return [
            Gate(next(left).double()) if isinstance(step, Gate) else step for step in self.steps
        ]

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
        rows = zip(*(_shares(masks) for masks in (self.active, self.sensitive)), strict=True)
        table = "".join(
            f"<tr><td>{i}</td><td>{a:.1%}</td><td>{s:.1%}</td></tr>"
            for i, (a, s) in enumerate(rows, 1)
        )
        head = "<tr><th>layer</th><th>active</th><th>sensitive</th></tr>"
        return f"<p>gates of {len(self.x)} inputs, on average</p><table>{head}{table}</table>"

    def plot(self) -> Any:
        """A matplotlib figure: shares of active and sensitive gates by layer, and overlaps of inputs."""
        from matplotlib.figure import Figure

        drawn = Figure(figsize=(9, 3.6), layout="constrained")
        left, right = drawn.subplots(1, 2)
        for name, masks, shift in (
            ("active", self.active, -0.2),
            ("sensitive", self.sensitive, 0.2),
        ):
            left.bar([i + shift for i in range(1, len(masks) + 1)], _shares(masks), 0.4, label=name)
        left.set(xlabel="layer", ylabel="share of gates", xticks=range(1, len(self.active) + 1))
        left.legend(frameon=False)
        drawn.colorbar(
            right.imshow(self.overlap().cpu().numpy()), ax=right, label="gates active for both"
        )
        right.set(xlabel="input", ylabel="input")
        return drawn


def subnetworks(
    model: nn.Module,
    x: Tensor,
    *,
    active: float = 0.9,
    sensitive: float = 0.1,
    index: Tensor | None = None,
) -> Subnetworks:
    r"""The gates of ``model`` that are active and those that are sensitive, for each of the inputs ``x`` (n, \*).

    .. math:: \text{active: } |G(l, i)| > \tau_A, \qquad
        \text{sensitive: } \max_m \left|\frac{\partial G(l, i)}{\partial \theta^g_m}\right| > \tau_S

    ``active`` is :math:`\tau_A` and ``sensitive`` is :math:`\tau_S`. Active gates hold what an input has taught;
    sensitive ones are still learning. No soft gate is both if :math:`\tau_S` is above
    :math:`\beta \tau_A (1 - \tau_A / (1 + \epsilon)) \max |\partial q / \partial \theta|` and
    :math:`\tau_A \ge (1 + \epsilon) / 2`. Hard gates have derivative 0, so that none of them is sensitive.

    Models and ``index`` as in :func:`path_kernel`. Sensitivity is by every weight that sets gates, trained or frozen,
    also where gradients are switched off.

    Lakshminarayanan and Singh, 2020, "Deep Gated Networks", arXiv:2002.03996, section 3.1. The paper's bound leaves out
    ``beta`` and the derivative of the response, and has the sign of the gate's slope reversed.
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
        moved = _sensitivities(model, x, index, gates)
    return Subnetworks(
        tuple(gate.abs() > active for gate in gates),
        tuple(each > sensitive for each in moved),
        (active, sensitive),
        steps,
        x,
    )


def _sensitivities(
    model: nn.Module, x: Tensor, index: Tensor | None, gates: list[Tensor]
) -> list[Tensor]:
    """The largest derivative of each gate by a weight: (n, *units) each."""
    kind: Any = getattr(model, "kind", None)
    if getattr(kind, "soft", None) is False:
        return [torch.zeros_like(gate) for gate in gates]
    parameters: Any = getattr(model, "gate_parameters", None)
    if parameters is not None and all(each.dim() == 2 for each in parameters()):
        return _of_dense(model, x)
    return _of_any(model, x, index, gates)


def _of_dense(model: nn.Module, x: Tensor) -> list[Tensor]:
    layers = gate_layers("subnetworks", model, x)
    found = [torch.zeros_like(layer.gates) for layer in layers]
    for k, layer in enumerate(layers):
        largest = layer.inputs.abs().amax(1, keepdim=True)
        for i, by_response in enumerate(
            moved_gates(layers, k, slice(0, layer.directions)), start=k
        ):
            found[i] = torch.maximum(found[i], by_response.abs().amax(1) * largest)
    return found


class _Reader(nn.Module):
    """A network that returns its gates, so that it can be called with other weights."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor, index: Tensor | None) -> Tensor:
        steps = read_steps(self.model, x, index=index)
        return torch.cat([step.values.flatten() for step in steps if isinstance(step, Gate)])


def _of_any(model: nn.Module, x: Tensor, index: Tensor | None, gates: list[Tensor]) -> list[Tensor]:
    """One backward pass for each gate and input, some at a time.

    Whether a weight trains makes no difference.
    """
    reader = _Reader(model)
    weights = {name: weight.detach().clone() for name, weight in reader.named_parameters()}
    if not _are_moved(reader, weights, x[:1], None if index is None else index[:1]):
        return [torch.zeros_like(gate) for gate in gates]
    rows = [
        _of_one(reader, weights, x[i], None if index is None else index[i])
        for i in slices(len(x), 1)
    ]
    parts = torch.stack(rows).split([gate[0].numel() for gate in gates], 1)
    return [part.reshape(gate.shape) for part, gate in zip(parts, gates, strict=True)]


def _are_moved(
    reader: nn.Module, weights: dict[str, Tensor], x: Tensor, index: Tensor | None
) -> bool:
    """Whether any gate has a derivative by a weight: hard ones have none."""
    with torch.enable_grad():
        leaves = {name: weight.clone().requires_grad_() for name, weight in weights.items()}
        return torch.func.functional_call(reader, leaves, (x, index)).requires_grad


def _of_one(
    reader: nn.Module, weights: dict[str, Tensor], x: Tensor, index: Tensor | None
) -> Tensor:
    values, pull, *_ = torch.func.vjp(
        lambda w: torch.func.functional_call(reader, w, (x, index)), weights
    )
    one_each = torch.eye(len(values), dtype=values.dtype, device=values.device)
    found = []
    for some in one_each.split(ROWS_AT_A_TIME):
        (by_weight,) = torch.func.vmap(pull)(some)
        found.append(
            torch.stack([each.abs().flatten(1).amax(1) for each in by_weight.values()]).amax(0)
        )
    return torch.cat(found)


def _counts(masks: tuple[Tensor, ...]) -> Tensor:
    return torch.stack([mask.flatten(1).sum(1) for mask in masks], 1)


def _shares(masks: tuple[Tensor, ...]) -> list[float]:
    return [mask.double().mean().item() for mask in masks]
