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
from gatewise.analysis.tangent_kernel.execution_plan import Plan, plan_kernel
from gatewise.analysis.tangent_kernel.gram import KernelBlock, accumulator
from gatewise.analysis.tangent_kernel.jacobian import Jacobians
from gatewise.analysis.tangent_kernel.layerwise import (
    Layerwise,
    RowsMayMove,
    UnfitParameters,
    check_row,
    check_rows,
)
from gatewise.analysis.tangent_kernel.memory import MemoryBudget, jacobian_bytes, layerwise_bytes
from gatewise.analysis.tangent_kernel.model_state import Subject, prepared
from gatewise.analysis.tangent_kernel.row_checks import run_rotated_halves
from gatewise.analysis.tangent_kernel.sample_blocks import Samples
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
    r"""The empirical neural tangent kernel of ``model`` between the samples ``x`` and ``x2``.

    .. math:: K_{ss',ij} = \sum_\theta \frac{\partial f_i(x_s)}{\partial \theta}
        \frac{\partial f_j(x_{s'})}{\partial \theta}

    Shape: ``(n, m)`` for a model with one output per sample, ``(n, m, o, o)`` for one with ``o``
    outputs. ``K[s, t, i, j]`` belongs to output ``i`` of sample ``s`` and output ``j`` of sample
    ``t``. The kernel of ``x`` with itself is symmetric to the bit. Parts are summed in float64. The
    result has the parameters' dtype.

    Linear, convolution, norm and embedding layers have a closed form. For a linear layer with
    inputs ``Z`` and slopes ``D`` at its outputs, the part of its weight and bias is
    ``(Z Z' + 1) * (D D')``. No gradient of a parameter is formed. Parameters that are used in any
    other way (tied, reparametrised, read by a function, part of other modules) are detected, and
    their Jacobian is computed instead. :func:`ntk_routes` lists them. The same holds for layers
    that see the samples in another order. A model that mixes samples or draws random numbers is
    refused. Hooks on modules are part of the model; hooks on parameters are not. The model is left
    unchanged, except for what its own forward pass does to its weights.

    Args:
        model: any module that treats samples independently: batch norm and dropout in eval mode.
        x: samples along the first dimension; a tuple of tensors for a model of several arguments.
        x2: other samples, for a cross block; ``x`` itself if None.
        parameters: which parameters to differentiate by: a name or a pattern such as
            ``"layer1.*"``, several of them, parameters themselves, or a function of name and
            parameter. All that require a gradient if None. The kernel of two disjoint sets is the
            sum of their kernels. A gated network's kernel is that of its weights plus that of its
            gates.
        memory: bytes that may be used beyond the model and ``x``. If one pass needs more, the
            kernel is computed in blocks, which is slower. Too little raises an error that says how
            much is enough for the plan so far.
        method: ``"auto"`` uses closed forms where there are any, ``"layerwise"`` refuses parameters
            without a closed form, ``"jacobian"`` uses none.

    Raises:
        ArgumentError: if an argument is wrong, or the model has no kernel on these samples.

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
        total = _kernel_in_blocks(subject, samples, memory, method)
    return _finish(total, next(iter(chosen.values())).dtype, symmetric=samples.symmetric)


def ntk_routes(model: nn.Module, x: Inputs, *, parameters: Choice = None) -> dict[str, str]:
    """For each parameter, how :func:`ntk` handles it.

    The value is ``"layerwise"``, or ``"jacobian: "`` and the reason. This is what one sample
    shows. :func:`ntk` also computes the Jacobian where a batch shows more, for example layers that
    some samples do not use, or that see the samples in another order.

    Args:
        model: the model, as for :func:`ntk`.
        x: samples, as for :func:`ntk`.
        parameters: which parameters, as for :func:`ntk`.

    >>> routes = ntk_routes(nn.Sequential(nn.Linear(2, 3), nn.PReLU()), torch.ones(1, 2))
    >>> routes["0.weight"]
    'layerwise'
    >>> routes["1.weight"]
    'jacobian: no closed form for weight of PReLU'
    """
    model = check_model(model)
    chosen = choose_parameters(model, parameters)
    samples = Samples(check_inputs("x", x), None)
    with prepared(model, chosen, samples.x[0].device) as subject:
        return plan_kernel(subject, samples.probe(), method="auto", unfit={}).routes


def _kernel_in_blocks(subject: Subject, samples: Samples, memory: int, method: str) -> Tensor:
    """Plan and compute; plan again whenever a batch shows what the probe did not."""
    unfit: dict[str, str] = {}
    careful = False
    while True:
        plan = plan_kernel(subject, samples.probe(), method=method, unfit=unfit)
        if method == "layerwise" and plan.rest:
            raise ArgumentError(
                "ntk: not every parameter has a closed form",
                got="; ".join(f"{name}: {plan.routes[name]}" for name in plan.rest),
                fix="method='auto'",
            )
        try:
            total = _sum_of_parts(
                subject,
                plan,
                samples,
                memory,
                careful=careful or not plan.rows_stay,
            )
        except UnfitParameters as signal:
            unfit |= signal.reasons
        except RowsMayMove:
            careful = True
        else:
            subject.check_not_random()
            return total


def _sum_of_parts(
    subject: Subject,
    plan: Plan,
    samples: Samples,
    memory: int,
    *,
    careful: bool,
) -> Tensor:
    outputs = plan.output.shape[1]
    budget = MemoryBudget(memory, samples.rows, samples.columns, outputs, samples.symmetric)
    by_layers = layerwise_bytes(plan)
    by_jacobian = jacobian_bytes(plan)
    budget.check(by_layers, by_jacobian)
    jacobian_block = budget.block_size(by_jacobian)
    shape = (samples.rows, outputs, samples.columns, outputs)
    total = torch.zeros(shape, dtype=accumulator(plan.output), device=plan.output.device)
    if plan.covered:
        layers = Layerwise(subject, plan, careful=careful)
        _add_layerwise(layers, total, samples, budget.block_size(by_layers), budget.workspace)
    else:
        _check_batch(subject, plan, samples, jacobian_block)
    if plan.rest:
        jacobians = Jacobians(subject, plan.rest)
        _add_jacobians(jacobians, total, samples, jacobian_block, budget.workspace)
    return total


def _add_layerwise(
    layers: Layerwise,
    total: Tensor,
    samples: Samples,
    size: int,
    workspace: int,
) -> None:
    for rows, columns in samples.blocks(size):
        inputs, first, second = samples.batch(rows, columns)
        block = KernelBlock(
            total[rows, :, columns],
            first,
            second,
            limit=workspace,
            symmetric=samples.symmetric and rows == columns,
        )
        layers.add(block, inputs, samples.probed_row(rows))


def _check_batch(subject: Subject, plan: Plan, samples: Samples, size: int) -> None:
    """Raise if samples mix. The layerwise passes check it too, but here there are none."""
    size = max(2, size)
    start = max(0, samples.probed + 1 - size)
    stop = min(samples.rows, samples.probed + size)
    inputs = tuple(x[start:stop] for x in samples.x)
    subject.require_grad_only(())
    output = run(subject.model, tuple(x.clone() for x in inputs), plan.output)
    check_row(plan.output, output, samples.probed - start)
    if len(output) > 1:
        check_rows(subject, inputs, output, run_rotated_halves(subject, inputs, ()))


def _add_jacobians(
    jacobians: Jacobians,
    total: Tensor,
    samples: Samples,
    size: int,
    workspace: int,
) -> None:
    last_rows = None
    of_rows = {}
    for rows, columns in samples.blocks(size):
        if rows != last_rows:
            last_rows = rows
            of_rows = jacobians.of(tuple(x[rows] for x in samples.x))
        same = samples.symmetric and rows == columns
        of_columns = of_rows if same else jacobians.of(tuple(x[columns] for x in samples.x2))
        block = KernelBlock(
            total[rows, :, columns],
            slice(None),
            slice(None),
            limit=workspace,
            symmetric=same,
        )
        for name, jacobian in of_rows.items():
            block.add_between(jacobian, of_columns[name])


def _finish(total: Tensor, dtype: torch.dtype, *, symmetric: bool) -> Tensor:
    """The kernel in the parameters' dtype, its lower half mirrored.

    Shape: ``(n, o, m, o) -> (n, m[, o, o])``.
    """
    rows, outputs, _, _ = total.shape
    kernel = total.to(dtype)
    if symmetric:
        flat = kernel.view(rows * outputs, -1).tril_()
        flat += flat.tril(-1).mT
    # Looking at two numbers is quicker than at all. A NaN is both the minimum and the maximum.
    if not all(map(math.isfinite, kernel.aminmax())):
        row, _, column, _ = (~kernel.isfinite()).nonzero()[0].tolist()
        raise NotApplicableError(
            Limitation.NOT_FINITE,
            "ntk: the kernel is not finite",
            got=f"row {row}, column {column}",
            fix="check x and the weights for NaN and infinity, or use float64",
        )
    if outputs == 1:
        return kernel[:, 0, :, 0]
    return kernel.transpose(1, 2).contiguous()
