"""Which affine map is a network, where the input is?"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis.model_graphs import check_points, eval_graph, the_output
from gatewise.analysis.regions.frozen_gates import HeldRun
from gatewise.errors import ArgumentError, Limitation, NotApplicableError

GIB = 2**30


@dataclass(frozen=True, eq=False)
class AffineMap:
    """The answer of :func:`affine_map`: ``f(x) = A x + b`` at each of the inputs."""

    A: Tensor  # (n, o, *input)
    b: Tensor  # (n, o)
    x: Tensor  # (n, *input)
    outputs: tuple[int, ...]  # which outputs of the model the rows are

    def __call__(self, x: Tensor | None = None) -> Tensor:
        """``A x + b``, shape (n, o).

        At the inputs themselves, or with the maps of those at other inputs ``x``.
        """
        x = self.x if x is None else x
        return torch.einsum("noi,ni->no", self.A.flatten(2), x.flatten(1)) + self.b

    def templates(self) -> Tensor:
        """What each output is matched with: the rows of ``A``, each scaled to a largest size of 1.

        (n, o, *input).
        """
        largest = self.A.flatten(2).abs().amax(-1).clamp_min(torch.finfo(self.A.dtype).tiny)
        return self.A / largest.reshape(*largest.shape, *(1,) * (self.A.dim() - 2))

    def plot(self, sample: int = 0, names: Sequence[str] | None = None) -> Any:
        """The input and the template of every output beside it: a figure.

        For inputs that are images or rows.
        """
        from matplotlib.figure import Figure

        if not isinstance(sample, int) or not -len(self.x) <= sample < len(self.x):
            raise ArgumentError(
                "plot: there is no such sample", got=sample, allowed=f"0 to {len(self.x) - 1}"
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
        """Plain numbers, for a file: sizes and offsets, and the norms of the rows.

        Not the rows themselves.
        """
        norms = self.A.flatten(2).norm(dim=-1)
        return {
            "inputs": list(self.x.shape),
            "outputs": list(self.outputs),
            "b": self.b.tolist(),
            "norms": norms.tolist(),
        }

    def __repr__(self) -> str:
        return f"AffineMap(A={tuple(self.A.shape)}, b={tuple(self.b.shape)}, {self.A.dtype})"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"


def affine_map(
    model: nn.Module, x: Tensor, *, outputs: Sequence[int] | None = None, memory: int = 2 * GIB
) -> AffineMap:
    r"""The affine map that ``model`` is at each input: :math:`f(x) = A[x]\, x + b[x]`.

    A network of max-affine units (ReLU and its kin, maxout, max-pooling) is one affine map in the
    whole region of an input, and this is that map. A network with soft units is :math:`T(x)(A z +
    B)` in each unit, a mean of its pieces with weights that depend on the input: the map is the one
    with all these weights held, so that :math:`f(x) = A x + b` at ``x`` itself. (It is not the
    derivative there, which has the weights' own as well.) Softmax, as of attention, is such a
    weight; two tensors that both depend on the input and are multiplied without any gate are
    refused.

    The model is read in eval mode from its graph of calls: units may be modules, functions or in
    place, and may be called several times.

    Args: model: gives one tensor, a row an input. x: shape (n, *input). outputs: which of the
        outputs, flattened, to
            answer for; all unless given. memory: bytes that ``A`` may take.

    Balestriero and Baraniuk, 2019, "From Hard to Soft", arXiv:1810.09274, equations 3 and 9.

    >>> found = affine_map(nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2)), torch.ones(1, 3))
    >>> found.A.shape, found.b.shape
    (torch.Size([1, 2, 3]), torch.Size([1, 2]))
    """
    check_points("affine_map", "x", x, model)
    graph = eval_graph("affine_map", model, x)
    output = the_output("affine_map", graph)
    if output.shape is None or output.shape[0] != len(x):
        raise NotApplicableError(
            Limitation.UNSUPPORTED_MODEL,
            "affine_map: the model must give a row for each input",
            got=output.shape,
        )
    chosen = _chosen(outputs, math.prod(output.shape[1:]))
    _check_memory(x, len(chosen), memory)
    with torch.enable_grad():
        leaf = x.detach().clone().requires_grad_()
        y = HeldRun("affine_map", graph, model)(leaf, output).flatten(1)[:, list(chosen)]
        A = torch.stack([_row(y, place, leaf) for place in range(len(chosen))], 1)
    b = y.detach() - torch.einsum("noi,ni->no", A.flatten(2), x.detach().flatten(1))
    return AffineMap(A, b, x.detach(), chosen)


def _row(y: Tensor, place: int, leaf: Tensor) -> Tensor:
    """The gradients of one output, all inputs at once.

    Rows of a batch do not know each other in eval mode.
    """
    if not y.requires_grad:  # nothing but gates on the way: the output is a constant
        return torch.zeros_like(leaf)
    found = torch.autograd.grad(y[:, place].sum(), leaf, retain_graph=True, allow_unused=True)[0]
    return torch.zeros_like(leaf) if found is None else found


def _chosen(outputs: Sequence[int] | None, count: int) -> tuple[int, ...]:
    if outputs is None:
        return tuple(range(count))
    wanted = tuple(outputs)
    if not wanted or any(
        isinstance(i, bool) or not isinstance(i, int) or not 0 <= i < count for i in wanted
    ):
        raise ArgumentError(
            "affine_map: outputs must be numbers of outputs",
            got=wanted,
            allowed=f"0 to {count - 1}",
        )
    return wanted


def _check_memory(x: Tensor, count: int, memory: int) -> None:
    one = x[0].numel() * x.element_size()
    needed = 2 * count * x.numel() * x.element_size()  # the rows, and the stack of them
    if needed > memory:
        fitting = memory // (2 * one)
        fix = (
            f"at most {max(1, fitting // count)} inputs at a time"
            if fitting >= count
            else f"outputs=range({fitting})"
        )
        got = f"{needed / GIB:.2f} GiB for {len(x)} inputs of {x[0].numel()} numbers and {count} outputs"
        allowed = f"memory={memory} ({memory / GIB:.2f} GiB)"
        raise NotApplicableError(
            Limitation.TOO_LARGE,
            "affine_map: A would not fit in memory",
            got=got,
            allowed=allowed,
            fix=fix,
        )


def _draw(panel: Any, picture: Tensor, title: str) -> None:
    """An image (channels first, of 1 or 3), a plane, or a row as a strip.

    Signed numbers in two colours.
    """
    if picture.dim() == 3 and len(picture) in (1, 3):
        shown = picture.permute(1, 2, 0)
        signed = len(picture) == 1
    else:
        shown, signed = picture.reshape(-1, picture.shape[-1]).unsqueeze(-1), True
    if signed:
        largest = float(shown.abs().max()) or 1.0
        panel.imshow(shown[..., 0].numpy(), cmap="RdBu_r", vmin=-largest, vmax=largest)
    else:
        low, high = float(shown.min()), float(shown.max())
        panel.imshow(((shown - low) / ((high - low) or 1.0)).numpy())
    panel.set_title(title, fontsize=8)
    panel.set_xticks([])
    panel.set_yticks([])
