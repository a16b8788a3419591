"""The empirical neural tangent kernel of any model."""

import math

import torch
from torch import Tensor, nn

from gatewise.analysis.tangent_kernel.arguments import (
    Choice,
    Inputs,
    check_alike,
    check_inputs,
    check_model,
    check_options,
    choose_parameters,
    run,
)
from gatewise.analysis.tangent_kernel.execution_plan import Plan, plan
from gatewise.analysis.tangent_kernel.gram import Pairs, accumulator
from gatewise.analysis.tangent_kernel.jacobian import Jacobians
from gatewise.analysis.tangent_kernel.layerwise import (
    Layerwise,
    RowsMayMove,
    UnfitParameters,
    check_row,
    check_rows,
)
from gatewise.analysis.tangent_kernel.memory import Room, jacobian_bytes, layerwise_bytes
from gatewise.analysis.tangent_kernel.model_state import Subject, prepared
from gatewise.analysis.tangent_kernel.row_checks import run_apart
from gatewise.analysis.tangent_kernel.sample_blocks import Samples
from gatewise.analysis.tangent_kernel.single_pass import kernel_at_once
from gatewise.errors import ArgumentError, Limitation, NotApplicableError

GIB = 1 << 30


def ntk(
    model: nn.Module,
    x: Inputs,
    x2: Inputs | None = None,
    *,
    parameters: Choice = None,
    memory: int = GIB,
    method: str = "auto",
) -> Tensor:
    r"""The empirical neural tangent kernel of ``model`` between the samples ``x`` and ``x2``, or ``x`` and itself.

    .. math:: K_{ss',ij} = \sum_\theta \frac{\partial f_i(x_s)}{\partial \theta}
        \frac{\partial f_j(x_{s'})}{\partial \theta}

    Shape: ``(n, m)`` for a model with one output per sample, ``(n, m, o, o)`` for one with ``o``: ``K[s, t, i, j]``
    belongs to output ``i`` of sample ``s`` and output ``j`` of sample ``t``. The kernel of ``x`` with itself is
    symmetric to the bit. Parts are summed in float64 and the result has the parameters' dtype.

    Linear, convolution, norm and embedding layers have a closed form: for a linear layer with inputs ``Z`` and slopes
    ``D`` at its outputs, the part of its weight and bias is ``(Z Z' + 1) * (D D')``, and no gradient of a parameter is
    ever formed. Parameters used in any other way (tied, reparametrised, read by a function, part of other modules) are
    noticed and have their Jacobian taken instead; :func:`ntk_routes` says which. So are rows that a model puts in
    another order; a model that mixes samples or draws at random is refused. Hooks on modules are part of the model;
    hooks on parameters are not. The model is left as it was, but for what its own forward pass does to its weights.

    Args:
        model: any module that treats samples independently: batch norm and dropout in eval mode.
        x: samples along the first dimension; a tuple of tensors for a model of several arguments.
        x2: other samples, for a cross block.
        parameters: which parameters to differentiate by: a name or a pattern such as ``"layer1.*"``, several of them,
            parameters themselves, or a function of name and parameter. All that require a gradient unless given. The
            kernel of two disjoint sets is the sum of theirs: a gated network's is that of its weights plus its gates.
        memory: bytes that may be used beyond the model and ``x``. Less than one pass needs makes it slower, not wrong.
            Too little is refused, with the least that the plan so far can do with.
        method: ``"layerwise"`` refuses parameters without a closed form, ``"jacobian"`` uses none.

    Jacot, Gabriel and Hongler, 2018, "Neural Tangent Kernel", arXiv:1806.07572.

    >>> layer = nn.Linear(2, 1)
    >>> ntk(layer, torch.tensor([[1.0, 2.0], [3.0, 0.0]]))
    tensor([[ 6.,  4.],
            [ 4., 10.]])
    """
    check_options(memory, method)
    model = check_model(model)
    chosen = choose_parameters(model, parameters)
    samples = Samples(check_inputs("x", x), None if x2 is None else check_inputs("x2", x2))
    check_alike(samples.x, samples.x2)
    with prepared(model, chosen, samples.x[0].device) as subject:
        at_once = kernel_at_once(subject, samples, memory) if method != "jacobian" else None
        total = at_once if at_once is not None else _kernel(subject, samples, memory, method)
    return _finished(total, next(iter(chosen.values())).dtype, symmetric=samples.symmetric)


def ntk_routes(model: nn.Module, x: Inputs, *, parameters: Choice = None) -> dict[str, str]:
    """For each parameter, how :func:`ntk` would treat it.

    ``"layerwise"``, or ``"jacobian: "`` and the reason.

    This is what one sample shows. Where a batch shows more (layers that some samples do not use, or
    that see samples in another order) :func:`ntk` takes the Jacobian of these too.

    >>> ntk_routes(nn.Sequential(nn.Linear(2, 3), nn.PReLU()), torch.ones(1, 2))
    {'0.weight': 'layerwise', '0.bias': 'layerwise', '1.weight': 'jacobian: no closed form for weight of PReLU'}
    """
    model = check_model(model)
    chosen = choose_parameters(model, parameters)
    samples = Samples(check_inputs("x", x), None)
    with prepared(model, chosen, samples.x[0].device) as subject:
        return plan(subject, samples.probe(), method="auto", unfit={}).routes


def _kernel(subject: Subject, samples: Samples, memory: int, method: str) -> Tensor:
    unfit: dict[str, str] = {}
    careful = False
    while True:
        planned = plan(subject, samples.probe(), method=method, unfit=unfit)
        if method == "layerwise" and planned.rest:
            got = "; ".join(f"{name}: {planned.routes[name]}" for name in planned.rest)
            raise ArgumentError(
                "ntk: not every parameter has a closed form", got=got, fix="method='auto'"
            )
        try:
            total = _sum_of_parts(
                subject, planned, samples, memory, careful=careful or not planned.rows_stay
            )
        except UnfitParameters as found:
            unfit |= found.reasons
        except RowsMayMove:
            careful = True
        else:
            subject.check_not_random()
            return total


def _sum_of_parts(
    subject: Subject, planned: Plan, samples: Samples, memory: int, *, careful: bool
) -> Tensor:
    outputs, like = planned.output.shape[1], planned.output
    room = Room(memory, samples.rows, samples.columns, outputs, symmetric=samples.symmetric)
    by_layers, by_jacobian = layerwise_bytes(planned), jacobian_bytes(planned)
    room.check(by_layers, by_jacobian)
    shape = (samples.rows, outputs, samples.columns, outputs)
    total = torch.zeros(shape, dtype=accumulator(like), device=like.device)
    if planned.covered:
        layers = Layerwise(subject, planned, careful=careful)
        _add_layerwise(layers, total, samples, room.block(by_layers), room.workspace)
    else:
        _check_batch(subject, planned, samples, room.block(by_jacobian))
    if planned.rest:
        _add_jacobians(
            Jacobians(subject, planned.rest),
            total,
            samples,
            room.block(by_jacobian),
            room.workspace,
        )
    return total


def _add_layerwise(
    layers: Layerwise, total: Tensor, samples: Samples, size: int, workspace: int
) -> None:
    for rows, columns in samples.blocks(size):
        inputs, first, second = samples.batch(rows, columns)
        part, symmetric = total[rows, :, columns], samples.symmetric and rows == columns
        pairs = Pairs(part, first, second, limit=workspace, symmetric=symmetric)
        layers.add(pairs, inputs, samples.probed_row(rows))


def _check_batch(subject: Subject, planned: Plan, samples: Samples, size: int) -> None:
    """What the layerwise way sees in passing: that samples do not mix."""
    size = max(2, size)
    near = slice(max(0, samples.probed + 1 - size), min(samples.rows, samples.probed + size))
    inputs = tuple(each[near] for each in samples.x)
    subject.require_grad_only(())
    output = run(subject.model, tuple(each.clone() for each in inputs), planned.output)
    check_row(planned.output, output, samples.probed - near.start)
    if len(output) > 1:
        check_rows(subject, inputs, output, run_apart(subject, inputs, ()))


def _add_jacobians(
    jacobians: Jacobians, total: Tensor, samples: Samples, size: int, workspace: int
) -> None:
    last, held = None, {}
    for rows, columns in samples.blocks(size):
        if rows != last:
            last, held = rows, jacobians.of(tuple(each[rows] for each in samples.x))
        same = samples.symmetric and rows == columns
        other = held if same else jacobians.of(tuple(each[columns] for each in samples.x2))
        pairs = Pairs(
            total[rows, :, columns], slice(None), slice(None), limit=workspace, symmetric=same
        )
        for name, jacobian in held.items():
            pairs.add_between(jacobian, other[name])


def _finished(total: Tensor, dtype: torch.dtype, *, symmetric: bool) -> Tensor:
    """The kernel in the parameters' dtype, its lower half mirrored.

    Shape: ``(n, o, m, o) -> (n, m[, o, o])``.
    """
    rows, outputs, _, _ = total.shape
    kernel = total.to(dtype)
    if symmetric:
        flat = kernel.view(rows * outputs, -1).tril_()
        flat += flat.tril(-1).mT
    if not all(
        map(math.isfinite, kernel.aminmax())
    ):  # quicker than all of them; a NaN is its own extreme
        where = (~kernel.isfinite()).nonzero()[0].tolist()
        got = f"row {where[0]}, column {where[2]}"
        raise NotApplicableError(
            Limitation.NOT_FINITE,
            "ntk: the kernel is not finite",
            got=got,
            fix="look at x and the weights, or use float64",
        )
    return kernel[:, 0, :, 0] if outputs == 1 else kernel.transpose(1, 2).contiguous()
