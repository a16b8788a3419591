"""Read the graph of a model in eval mode, and check a model and its inputs for an analysis."""

from torch import Tensor, nn

from gatewise.analysis.finite import first_not_finite
from gatewise.checks import check_kind
from gatewise.errors import ArgumentError, Limitation, NotApplicableError
from gatewise.graph import (
    Graph,
    Node,
    check_dense,
    check_not_lazy,
    check_readable,
    check_runs,
    read_by_export,
    read_by_tracing,
    tensors_in,
)

# Modules whose output in train mode depends on the whole batch or on random numbers.
MIXING = (
    nn.modules.batchnorm._BatchNorm,
    nn.modules.dropout._DropoutNd,
    nn.RReLU,
)


def eval_graph(what: str, model: nn.Module, x: Tensor) -> Graph:
    """Return the graph of ``model(x)`` in eval mode.

    Args:
        what: the name of the analysis, for messages.
        model: the model.
        x: the inputs.

    Raises:
        ArgumentError: the model cannot be read or run, or its output depends on the whole batch or
            on random numbers.
    """
    check_readable(model)
    for path, module in model.named_modules():
        if module.training and isinstance(module, MIXING):
            raise ArgumentError(
                f"{what}: model is in train mode, and its output depends on the whole batch or on "
                "random numbers",
                got=f"{path or 'the model'}: {type(module).__name__}",
                fix="call model.eval() first",
            )
    reasons = []
    for reader in (read_by_export, read_by_tracing):
        try:
            return reader(model, (x,), {}, mode="eval")
        except Exception as problem:  # a model's code may raise anything under a reader
            reasons.append(f"{type(problem).__name__}: {problem}".splitlines()[0])
    check_runs(model, (x,), {})
    raise NotApplicableError(
        Limitation.UNREADABLE_MODEL,
        f"{what}: neither torch.export nor make_fx can read the model",
        got="; ".join(reasons),
    )


def the_output(what: str, graph: Graph) -> Node:
    """Return the node of the one output tensor, which has a row for each input."""
    output = graph.nodes[-1]
    tensors = list(tensors_in(output.arguments["values"]))
    if len(tensors) != 1 or not tensors[0].floating or tensors[0].rank < 1:
        raise NotApplicableError(
            Limitation.SEVERAL_OUTPUTS,
            f"{what}: the model must return one floating-point tensor",
            got=f"{len(tensors)} tensors",
            fix="wrap the model in one that returns the output in question",
        )
    if 0 in (tensors[0].shape or ()):
        raise NotApplicableError(
            Limitation.UNSUPPORTED_MODEL,
            f"{what}: the model returns an empty tensor",
            got=f"an output of shape {tensors[0].shape}",
        )
    return tensors[0]


def check_points(what: str, name: str, x: Tensor, model: nn.Module) -> Tensor:
    """Return ``x``, a batch of finite numbers, and check that the weights are finite.

    Args:
        what: the name of the analysis, for messages.
        name: the name of the argument ``x``, for messages.
        x: the inputs.
        model: the model.

    Raises:
        ArgumentError: ``x`` is no batch of numbers, or a number is NaN or infinite.
    """
    check_dense(f"{what}: {name}", x)
    if not isinstance(x, Tensor) or not x.is_floating_point() or x.dim() < 2 or not x.numel():
        got = f"{tuple(x.shape)} of {x.dtype}" if isinstance(x, Tensor) else type(x).__name__
        raise ArgumentError(
            f"{what}: {name} must be a batch of numbers",
            got=got,
            allowed="a float tensor (n, ...)",
        )
    if not x.isfinite().all():
        raise ArgumentError(
            f"{what}: {name} holds NaN or infinity",
            got=f"{int((~x.isfinite()).sum())} such numbers",
        )
    check_weights(what, model)
    return x


def check_weights(what: str, model: nn.Module) -> None:
    """Raise an error that names the first parameter or buffer that is not finite."""
    check_kind(what, "model", model, nn.Module)
    for path, value in model.named_parameters():
        if value.is_meta:
            raise ArgumentError(
                f"{what}: the model has no weights",
                got=f"{path} on the meta device",
                fix="load them",
            )
    check_not_lazy(model)
    problem = first_not_finite((*model.named_parameters(), *model.named_buffers()))
    if problem is not None:
        raise ArgumentError(f"{what}: the model holds NaN or infinity", got=problem[1])
