"""Every path of a small network: its nodes, its strength, and its activity for each input."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis import AnalysisResult
from gatewise.checks import check_choice, check_count
from gatewise.errors import ArgumentError, Limitation, NotApplicableError
from gatewise.units import check_input
from gatewise_papers.deep_gated.layers import Dense, Gate, Linear, Step, path_steps
from gatewise_papers.deep_gated.path_kernels.shared_paths import kernel_of_steps
from gatewise_papers.deep_gated.path_kernels.wiring import connections

MOST_BYTES = 2**30
SHOWN_INPUTS = 20  # rows of the HTML table


@dataclass(frozen=True, eq=False)
class Paths(AnalysisResult):
    """All P paths of a network to one output, for n inputs.

    Paths are in lexicographic order of the nodes they visit.

    Attributes:
        nodes: (P, layers + 1), the input node, then the node in each layer, numbered as in the
            flattened layer.
        weights: (P, layers), which entry of each layer's flattened weight; -1 for a pool.
        strength: (P,), the product of the weights on the path.
        activity: (n, P), the product of the gates on the path.
        features: (n, P), the activity times the input that the path starts from.
    """

    nodes: Tensor
    weights: Tensor
    strength: Tensor
    activity: Tensor
    features: Tensor

    def __len__(self) -> int:
        return len(self.strength)

    def output(self) -> Tensor:
        """The network's output, as the sum over its paths: (n,)."""
        return self.features @ self.strength

    def kernel(self, kind: str = "features") -> Tensor:
        """Products of ``"features"`` or of ``"activity"``, summed over paths: (n, n)."""
        check_choice("Paths.kernel", "kind", kind, ("features", "activity"))
        values = self.features if kind == "features" else self.activity
        return values @ values.T

    def to_dict(self) -> dict[str, Any]:
        """Numbers and lists only."""
        names = ("nodes", "weights", "strength", "activity", "features")
        return {"count": len(self), **{name: getattr(self, name).tolist() for name in names}}

    def _repr_html_(self) -> str:
        inputs = len(self.activity)
        shares = (self.activity != 0).double().mean(1) if len(self) else torch.zeros(inputs)
        rows = ""
        for number, share in enumerate(shares[:SHOWN_INPUTS].tolist()):
            rows += f"<tr><td>{number}</td><td>{share:.1%}</td></tr>"
        more = f"<p>and {inputs - SHOWN_INPUTS} inputs more</p>" if inputs > SHOWN_INPUTS else ""
        head = "<tr><th>input</th><th>paths active</th></tr>"
        return f"<p>{len(self)} paths, {inputs} inputs</p><table>{head}{rows}</table>{more}"


def paths(model: nn.Module, x: Tensor, *, output: int = 0, index: Tensor | None = None) -> Paths:
    r"""Enumerate every path of ``model`` from an input node to one output, for the inputs ``x``.

    .. math:: w(p) = \prod_{l=1}^{d} \Theta_l(p), \qquad
        A(x, p) = \prod_{l=1}^{d-1} G_l(x, p), \qquad
        \phi(x, p) = x(p_0)\,A(x, p), \qquad \hat y(x) = \sum_p \phi(x, p)\,w(p)

    It is computed in float64, on the CPU. There are as many paths as the product of all widths, so
    this works for small networks only. :func:`path_kernel` gives sums over paths for networks of
    any size.

    Args:
        model: a network as for :func:`path_kernel`.
        x: inputs (n, \*).
        output: the number of the output at which the paths end.
        index: which training examples ``x`` are, for random gates.

    Raises:
        ArgumentError: if the paths need more than 1 GiB.

    Lakshminarayanan and Singh, 2020, "Deep Gated Networks", arXiv:2002.03996. As there, the weights
    of a pool are part of a path's strength.
    """
    with torch.no_grad():
        steps = path_steps(model, check_input("paths", x), index=index)
        _check_size(steps, x)
        return _enumerate(steps, x, _check_output(steps, output))


def _log_count(steps: Sequence[Step], x: Tensor) -> float:
    """The logarithm of the number of paths that lead to one output."""
    all_open = []
    for step in steps:
        if isinstance(step, Gate):
            step = Gate(torch.ones_like(step.values[:1]))
        all_open.append(step)
    one = x[:1]
    logs = kernel_of_steps(all_open, all_open, one, one, kind="log_lambda")
    # In a dense network all input nodes have the same number of paths, and it is given once.
    nodes = math.prod(x.shape[1:]) if logs.dim() == 2 else 1
    return float(logs.flatten().logsumexp(0)) + math.log(nodes)


def _check_size(steps: Sequence[Step], x: Tensor) -> None:
    log = _log_count(steps, x)
    layers = sum(isinstance(step, Linear) for step in steps)
    per_path = 8 * (2 * len(x) + 2 * layers + 4)
    if log + math.log(per_path) <= math.log(MOST_BYTES):
        return
    count = f"about 10^{log / math.log(10):.1f}"
    if log < math.log(2.0**40):
        count = f"{round(math.exp(log)):,}"
    raise NotApplicableError(
        Limitation.TOO_LARGE,
        "paths: there are too many paths to enumerate",
        got=f"{count} paths, each of which takes {per_path} bytes for {len(x)} inputs",
        allowed=f"{MOST_BYTES:,} bytes in all",
        fix="path_kernel(model, x) sums over all paths without enumerating them",
    )


def _check_output(steps: Sequence[Step], output: int) -> int:
    last = [step for step in steps if isinstance(step, Linear)][-1]
    count = len(last.weight) if isinstance(last, Dense) else 1
    if check_count("paths", "output", output, least=0) >= count:
        raise ArgumentError(
            "paths: there is no output of that number",
            got=output,
            allowed=f"0 to {count - 1}",
        )
    return output


def _enumerate(steps: Sequence[Step], x: Tensor, output: int) -> Paths:
    shape: tuple[int, ...] = tuple(x.shape[1:])
    start = torch.arange(math.prod(shape))
    visited = [start]
    used: list[Tensor] = []
    strength = torch.ones(len(start)).double()
    activity = torch.ones(len(x), len(start)).double()
    last = max(i for i, step in enumerate(steps) if isinstance(step, Linear))
    for i, step in enumerate(steps):
        if isinstance(step, Gate):
            activity = activity * step.values.to("cpu", torch.float64).flatten(1)[:, visited[-1]]
        elif isinstance(step, Linear):
            edges = connections(step, shape, [output] if i == last else None)
            path, edge = _extend(visited[-1], edges.source)
            visited = [*(nodes[path] for nodes in visited), edges.target[edge]]
            used = [*(weights[path] for weights in used), edges.weight[edge]]
            strength = strength[path] * edges.strength[edge]
            activity = activity[:, path]
            shape = edges.shape
    features = x.to("cpu", torch.float64).flatten(1)[:, visited[0]] * activity
    return Paths(torch.stack(visited, 1), torch.stack(used, 1), strength, activity, features)


def _extend(at: Tensor, source: Tensor) -> tuple[Tensor, Tensor]:
    """Continue each path along each connection that leaves the node it is ``at``.

    Returns:
        For each new path, which old path and which connection it consists of.
    """
    leaving = torch.bincount(source, minlength=int(at.max()) + 1)
    first = leaving.cumsum(0) - leaving
    degree = leaving[at]
    path = torch.arange(len(at)).repeat_interleave(degree)
    first_of_path = (degree.cumsum(0) - degree)[path]
    return path, first[at[path]] + torch.arange(len(path)) - first_of_path
