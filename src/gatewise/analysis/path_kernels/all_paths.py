"""Every path of a small network: where it goes, how strong it is, and how active for each input."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis.path_kernels.shared_paths import kernel_of_steps
from gatewise.analysis.path_kernels.wiring import edges
from gatewise.errors import ArgumentError, Limitation, NotApplicableError
from gatewise.layers import Dense, Gate, Linear, Step, path_steps
from gatewise.units import check_choice, check_count, check_input

MOST_BYTES = 2**30


@dataclass(frozen=True, eq=False)
class Paths:
    """All P paths of a network to one output, in lexicographic order of the nodes they visit, for n inputs."""

    # (P, layers + 1): input node, then the node in each layer, numbered as the flattened layer is
    nodes: Tensor
    weights: Tensor  # (P, layers): which entry of each layer's flattened weight; -1 for a pool
    strength: Tensor  # (P,): the product of the weights on the path
    activity: Tensor  # (n, P): the product of the gates on the path
    features: Tensor  # (n, P): the activity times the input that the path starts from

    def __len__(self) -> int:
        return len(self.strength)

    def output(self) -> Tensor:
        """The network's output, as the sum over its paths: (n,)."""
        return self.features @ self.strength

    def kernel(self, kind: str = "features") -> Tensor:
        """Sums over paths of products for each pair of inputs.

        Of ``"features"`` or of ``"activity"``, (n, n).
        """
        check_choice("Paths.kernel", "kind", kind, ("features", "activity"))
        values = self.features if kind == "features" else self.activity
        return values @ values.T

    def to_dict(self) -> dict[str, Any]:
        """Numbers and lists only."""
        names = ("nodes", "weights", "strength", "activity", "features")
        return {"count": len(self), **{name: getattr(self, name).tolist() for name in names}}

    def _repr_html_(self) -> str:
        active = (
            (self.activity != 0).double().mean(1) if len(self) else torch.zeros(len(self.activity))
        )
        rows = "".join(
            f"<tr><td>{s}</td><td>{share:.1%}</td></tr>"
            for s, share in enumerate(active[:20].tolist())
        )
        more = f"<p>and {len(active) - 20} inputs more</p>" if len(active) > 20 else ""
        head = "<tr><th>input</th><th>paths active</th></tr>"
        return f"<p>{len(self)} paths, {len(self.activity)} inputs</p><table>{head}{rows}</table>{more}"


def paths(model: nn.Module, x: Tensor, *, output: int = 0, index: Tensor | None = None) -> Paths:
    r"""Walk every path of ``model`` from an input node to the output number ``output``, for the inputs ``x`` (n, \*).

    .. math:: w(p) = \prod_{l=1}^{d} \Theta_l(p), \qquad A(x, p) = \prod_{l=1}^{d-1} G_l(x, p), \qquad
        \phi(x, p) = x(p_0)\,A(x, p), \qquad \hat y(x) = \sum_p \phi(x, p)\,w(p)

    In float64, on the CPU. There are as many paths as the product of all widths: this is for small networks, and says
    so of others; :func:`path_kernel` gives sums over paths for networks of any size. Models and ``index`` as there.

    Lakshminarayanan and Singh, 2020, "Deep Gated Networks", arXiv:2002.03996. A pool's weights are part of a path's
    strength, as there.
    """
    with torch.no_grad():
        steps = path_steps(model, check_input("paths", x), index=index)
        _check_size(steps, x)
        return _walk(steps, x, _check_output(steps, output))


def log_count(steps: Sequence[Step], x: Tensor) -> float:
    """The logarithm of how many paths lead to one output."""
    one, opened = (
        x[:1],
        [
            Gate(torch.ones_like(step.values[:1])) if isinstance(step, Gate) else step
            for step in steps
        ],
    )
    logs = kernel_of_steps(opened, opened, one, one, kind="log_lambda")
    nodes = (
        math.prod(x.shape[1:]) if logs.dim() == 2 else 1
    )  # in a dense network all have the same number
    return float(logs.flatten().logsumexp(0)) + math.log(nodes)


def _check_size(steps: Sequence[Step], x: Tensor) -> None:
    log = log_count(steps, x)
    layers = sum(isinstance(step, Linear) for step in steps)
    per_path = 8 * (2 * len(x) + 2 * layers + 4)
    if log + math.log(per_path) > math.log(MOST_BYTES):
        count = (
            f"{round(math.exp(log)):,}"
            if log < math.log(2.0**40)
            else f"about 10^{log / math.log(10):.1f}"
        )
        raise NotApplicableError(
            Limitation.TOO_LARGE,
            "paths: there are too many paths to walk",
            got=f"{count} paths, each of which takes {per_path} bytes for {len(x)} inputs",
            allowed=f"{MOST_BYTES:,} bytes in all",
            fix="path_kernel(model, x) adds up over all paths without walking them",
        )


def _check_output(steps: Sequence[Step], output: int) -> int:
    linear = [step for step in steps if isinstance(step, Linear)]
    count = len(linear[-1].weight) if isinstance(linear[-1], Dense) else 1
    if check_count("paths", "output", output, least=0) >= count:
        raise ArgumentError(
            "paths: there is no output of that number", got=output, allowed=f"0 to {count - 1}"
        )
    return output


def _walk(steps: Sequence[Step], x: Tensor, output: int) -> Paths:
    shape: tuple[int, ...] = tuple(x.shape[1:])
    start = torch.arange(math.prod(shape))
    visited, used = [start], []
    strength, activity = torch.ones(len(start)).double(), torch.ones(len(x), len(start)).double()
    last = max(i for i, step in enumerate(steps) if isinstance(step, Linear))
    for i, step in enumerate(steps):
        if isinstance(step, Gate):
            activity = activity * step.values.to("cpu", torch.float64).flatten(1)[:, visited[-1]]
        elif isinstance(step, Linear):
            joints = edges(step, shape, [output] if i == last else None)
            path, edge = _extend(visited[-1], joints.source)
            visited = [*(each[path] for each in visited), joints.target[edge]]
            used = [*(each[path] for each in used), joints.weight[edge]]
            strength, activity = strength[path] * joints.strength[edge], activity[:, path]
            shape = joints.shape
    features = x.to("cpu", torch.float64).flatten(1)[:, visited[0]] * activity
    return Paths(torch.stack(visited, 1), torch.stack(used, 1), strength, activity, features)


def _extend(at: Tensor, source: Tensor) -> tuple[Tensor, Tensor]:
    """Each path continued along each joint that leaves the node it is ``at``.

    Which path, which joint.
    """
    leaving = torch.bincount(source, minlength=int(at.max()) + 1)
    first = leaving.cumsum(0) - leaving
    degree = leaving[at]
    path = torch.arange(len(at)).repeat_interleave(degree)
    begun = (degree.cumsum(0) - degree)[path]
    return path, first[at[path]] + torch.arange(len(path)) - begun
