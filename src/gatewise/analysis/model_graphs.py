"""The graph of a model in eval mode, for questions about what it computes at given inputs."""

from torch import Tensor, nn

from gatewise.analysis.finite import first_not_finite
from gatewise.errors import ArgumentError, Limitation, NotApplicableError
from gatewise.graph import (
    Graph,
    Node,
    check_readable,
    check_runs,
    read_by_export,
    read_by_tracing,
    tensors_in,
)

MIXING = (
    nn.modules.batchnorm._BatchNorm,
    nn.modules.dropout._DropoutNd,
    nn.RReLU,
)  # other in train mode


def eval_graph(what: str, model: nn.Module, x: Tensor) -> Graph:
    """The calls of ``model(x)`` in eval mode.

    A model whose answer depends on its batch or on chance is refused.
    """
    check_readable(model)
    for path, module in model.named_modules():
        if module.training and isinstance(module, MIXING):
            raise ArgumentError(
                f"{what}: model is in train mode, and its answer depends on the whole batch or on chance",
                got=f"{path or 'the model'}: {type(module).__name__}",
                fix="call model.eval() first",
            )
    reasons = []
    for reader in (read_by_export, read_by_tracing):
        try:
            return reader(model, (x,), {}, mode="eval")
        except Exception as problem:  # whatever a model's own code raises under a reader
            reasons.append(f"{type(problem).__name__}: {problem}".splitlines()[0])
    check_runs(model, (x,), {})
    raise NotApplicableError(
        Limitation.UNREADABLE_MODEL,
        f"{what}: neither torch.export nor make_fx can read the model",
        got="; ".join(reasons),
    )


def the_output(what: str, graph: Graph) -> Node:
    """The one tensor that the graph gives, a row for each input."""
    outputs = [
        each
        for node in graph
        if node.op == "output"
        for each in tensors_in(node.arguments["values"])
    ]
    if len(outputs) != 1 or not outputs[0].floating or outputs[0].rank < 1:
        raise NotApplicableError(
            Limitation.SEVERAL_OUTPUTS,
            f"{what}: the model must give one tensor of numbers",
            got=f"{len(outputs)} tensors",
            fix="wrap the model in one that returns the output in question",
        )
    if 0 in (outputs[0].shape or ()):
        raise NotApplicableError(
            Limitation.UNSUPPORTED_MODEL,
            f"{what}: the model gives no numbers",
            got=f"an output of shape {outputs[0].shape}",
        )
    return outputs[0]


def check_points(what: str, name: str, x: Tensor, model: nn.Module) -> Tensor:
    """``x`` if it is a batch of finite numbers; parameters that are not finite are named."""
    if not isinstance(x, Tensor) or not x.is_floating_point() or x.dim() < 2 or not x.numel():
        got = f"{tuple(x.shape)} of {x.dtype}" if isinstance(x, Tensor) else type(x).__name__
        raise ArgumentError(
            f"{what}: {name} must be a batch of numbers", got=got, allowed="a float tensor (n, ...)"
        )
    if not x.isfinite().all():
        raise ArgumentError(
            f"{what}: {name} holds NaN or infinity",
            got=f"{int((~x.isfinite()).sum())} such numbers",
        )
    check_weights(what, model)
    return x


def check_weights(what: str, model: nn.Module) -> None:
    """Parameters and buffers that are not finite are named."""
    for path, value in model.named_parameters():
        if value.is_meta:
            raise ArgumentError(
                f"{what}: the model has no weights",
                got=f"{path} on the meta device",
                fix="load them",
            )
    found = first_not_finite((*model.named_parameters(), *model.named_buffers()))
    if found is not None:
        raise ArgumentError(f"{what}: the model holds NaN or infinity", got=found[1])
