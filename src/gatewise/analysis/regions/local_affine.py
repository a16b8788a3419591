"""The affine map that a network applies at an input."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis.model_graphs import check_points, eval_graph, the_output
from gatewise.analysis.record import AnalysisResult
from gatewise.analysis.regions.frozen_gates import FrozenRun
from gatewise.checks import is_size
from gatewise.errors import ArgumentError, Limitation, NotApplicableError
from gatewise.graph import untouched

GIB = 2**30


@dataclass(frozen=True, eq=False)
class AffineMap(AnalysisResult):
    """The result of :func:`affine_map`: ``f(x) = A x + b`` at each of the inputs.

    Attributes:
        A: (n, o, *input).
        b: (n, o).
        x: the inputs, (n, *input).
        outputs: which outputs of the model the rows of ``A`` belong to.
    """

    A: Tensor
    b: Tensor
    x: Tensor
    outputs: tuple[int, ...]

    def __call__(self, x: Tensor | None = None) -> Tensor:
        """Return ``A x + b``, shape (n, o), at the inputs themselves or at other inputs ``x``."""
        x = self.x if x is None else x
        return torch.einsum("noi,ni->no", self.A.flatten(2), x.flatten(1)) + self.b

    def templates(self) -> Tensor:
        """The rows of ``A``, each scaled to a largest absolute value of 1: (n, o, *input).

        An output is the product of its row with the input, so the row is a template.
        """
        largest = self.A.flatten(2).abs().amax(-1).clamp_min(torch.finfo(self.A.dtype).tiny)
        return self.A / largest.reshape(*largest.shape, *(1,) * (self.A.dim() - 2))

    def plot(self, sample: int = 0, names: Sequence[str] | None = None) -> Any:
        """Return a figure of an input and the template of every output.

        Args:
            sample: the number of the input, an image or a vector.
            names: the names of the outputs; their numbers if None.
        """
        from matplotlib.figure import Figure

        if not isinstance(sample, int) or not -len(self.x) <= sample < len(self.x):
            raise ArgumentError(
                "plot: there is no such sample",
                got=sample,
                allowed=f"0 to {len(self.x) - 1}",
            )
        pictures = [self.x[sample], *self.templates()[sample]]
        titles = ["input", *(names or [f"output {index}" for index in self.outputs])]
        columns = min(len(pictures), 6)
        rows = math.ceil(len(pictures) / columns)
        figure = Figure(figsize=(1.8 * columns, 1.9 * rows), layout="constrained")
        panels = list(figure.subplots(rows, columns, squeeze=False).flat)
        for panel, picture, title in zip(panels, pictures, titles, strict=False):
            _draw(panel, picture.detach().cpu(), title)
        for panel in panels[len(pictures) :]:
            panel.set_visible(False)
        return figure

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for a file: sizes, offsets, and the norms of the rows of ``A``."""
        norms = self.A.flatten(2).norm(dim=-1)
        return {
            "inputs": list(self.x.shape),
            "outputs": list(self.outputs),
            "b": self.b.tolist(),
            "norms": norms.tolist(),
        }

    def __str__(self) -> str:
        return f"AffineMap(A={tuple(self.A.shape)}, b={tuple(self.b.shape)}, {self.A.dtype})"


def affine_map(
    model: nn.Module,
    x: Tensor,
    *,
    outputs: Sequence[int] | None = None,
    memory: int = 2 * GIB,
) -> AffineMap:
    r"""The affine map that ``model`` applies at each input: :math:`f(x) = A[x]\, x + b[x]`.

    A network of max-affine units (the ReLU family, maxout, max-pooling) is one affine map in the
    whole region of an input. This is that map. In a network with soft units, each unit is
    :math:`T(x)(A z + B)`, a mean of its pieces with weights that depend on the input. The map is
    the one with all these weights fixed, so that :math:`f(x) = A x + b` at ``x`` itself. It is not
    the derivative, which also contains the derivatives of the weights. Softmax, for example in
    attention, is such a weight. A product of two tensors that both depend on the input, without a
    gate, is refused.

    The model is read in eval mode from its graph of calls. Units may be modules, functions or in
    place, and may be called several times.

    Args:
        model: a model that returns one tensor with a row for each input.
        x: inputs, (n, *input).
        outputs: the numbers of the (flattened) outputs to compute; all if None.
        memory: bytes that ``A`` may take.

    Balestriero and Baraniuk, 2019, "From Hard to Soft", arXiv:1810.09274, equations 3 and 9.

    >>> model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> local = affine_map(model, torch.ones(1, 3))
    >>> local.A.shape, local.b.shape
    (torch.Size([1, 2, 3]), torch.Size([1, 2]))
    """
    check_points("affine_map", "x", x, model)
    graph = eval_graph("affine_map", model, x)
    output = the_output("affine_map", graph)
    if output.shape is None or output.shape[0] != len(x):
        raise NotApplicableError(
            Limitation.UNSUPPORTED_MODEL,
            "affine_map: the model must return a row for each input",
            got=output.shape,
        )
    chosen = _choose(outputs, math.prod(output.shape[1:]))
    _check_memory(x, len(chosen), memory)
    with untouched(model), torch.enable_grad():  # the graph may write into tensors of the model
        leaf = x.detach().clone().requires_grad_()
        y = FrozenRun("affine_map", graph, model)(leaf, output).flatten(1)[:, list(chosen)]
        A = torch.stack([_row(y, place, leaf) for place in range(len(chosen))], 1)
    b = y.detach() - torch.einsum("noi,ni->no", A.flatten(2), x.detach().flatten(1))
    return AffineMap(A, b, x.detach(), chosen)


def _row(y: Tensor, place: int, leaf: Tensor) -> Tensor:
    """The gradients of one output for all inputs at once: in eval mode rows are independent."""
    if not y.requires_grad:  # with only gates on the way, the output is a constant
        return torch.zeros_like(leaf)
    (gradient,) = torch.autograd.grad(
        y[:, place].sum(),
        leaf,
        retain_graph=True,
        allow_unused=True,
        materialize_grads=True,
    )
    return gradient


def _choose(outputs: Sequence[int] | None, count: int) -> tuple[int, ...]:
    if outputs is None:
        return tuple(range(count))
    chosen = tuple(outputs)
    if not chosen or not all(is_size(number, 0, count - 1) for number in chosen):
        raise ArgumentError(
            "affine_map: outputs must be numbers of outputs",
            got=chosen,
            allowed=f"0 to {count - 1}",
        )
    return chosen


def _check_memory(x: Tensor, count: int, memory: int) -> None:
    numbers = x[0].numel()
    per_row = 2 * numbers * x.element_size()  # a row of A exists twice while they are stacked
    needed = per_row * count * len(x)
    if needed <= memory:
        return
    fitting = memory // per_row
    fix = f"outputs=range({fitting})"
    if fitting >= count:
        fix = f"at most {max(1, fitting // count)} inputs at a time"
    raise NotApplicableError(
        Limitation.TOO_LARGE,
        "affine_map: A would not fit in memory",
        got=f"{needed / GIB:.2f} GiB for {len(x)} inputs of {numbers} numbers and {count} outputs",
        allowed=f"memory={memory} ({memory / GIB:.2f} GiB)",
        fix=fix,
    )


def _draw(panel: Any, picture: Tensor, title: str) -> None:
    """Draw a colour image (3 channels first), or signed numbers in two colours.

    A vector becomes a strip.
    """
    if picture.dim() == 3 and len(picture) == 3:
        shown = picture.permute(1, 2, 0)
        low = float(shown.min())
        high = float(shown.max())
        panel.imshow(((shown - low) / ((high - low) or 1.0)).numpy())
    else:
        shown = picture.reshape(-1, picture.shape[-1])
        largest = float(shown.abs().max()) or 1.0
        panel.imshow(shown.numpy(), cmap="RdBu_r", vmin=-largest, vmax=largest)
    panel.set_title(title, fontsize=8)
    panel.set_xticks([])
    panel.set_yticks([])
