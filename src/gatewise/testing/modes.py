"""Contract: the unit works with compile, export, ONNX, autocast, the meta device and training."""

import importlib.util
import logging
import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn

from gatewise.errors import MissingExtraError, install_extra
from gatewise.testing.case import Case, Subject, require


def close(a: Tensor, b: Tensor, tolerance: float = 1e-5) -> bool:
    """Return whether both are equal up to ``tolerance``, relative or absolute."""
    return torch.allclose(a.float(), b.float(), rtol=tolerance, atol=tolerance)


def compiles_whole_and_once(case: Subject) -> None:
    """``torch.compile(fullgraph=True)`` gives the same values and gradients.

    There is no graph break, and one graph for all batch sizes.
    """
    graphs: list[int] = []

    def count(graph: torch.fx.GraphModule, _: list[Tensor]) -> Callable:
        graphs.append(1)
        return graph.forward

    # Graphs of other modules count towards the compiler's limit on recompilations.
    torch._dynamo.reset()
    module = case.build()
    compiled = torch.compile(module, backend=count, fullgraph=True, dynamic=True)
    # The compiler takes dimensions of equal size for one, so no batch size may equal another
    # dimension.
    sizes = [size for size in range(2, 5 + len(case.shape)) if size not in case.shape[1:]]
    for batch in sizes[:3]:
        x = case.sample(shape=(batch, *case.shape[1:]))
        _same_values_and_gradients(module, compiled, x, case.tolerance)
    require(
        len(graphs) == 1,
        "recompiled for another batch size",
        got=f"{len(graphs)} graphs",
        allowed="1",
    )
    torch._dynamo.reset()


def traces_through_aot_autograd(case: Subject) -> None:
    """``torch.compile`` with ahead-of-time autograd gives the same values and gradients."""
    torch._dynamo.reset()
    module = case.build()
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    _same_values_and_gradients(module, compiled, case.sample(), case.tolerance)
    torch._dynamo.reset()


def compiles_with_inductor(case: Subject) -> None:
    """``torch.compile`` with its default compiler stays within 1e-5 of eager mode."""
    torch._dynamo.reset()
    module = case.build()
    _same_values_and_gradients(
        module,
        torch.compile(module, fullgraph=True),
        case.sample(),
        case.tolerance,
    )
    torch._dynamo.reset()


def traces_with_fx(case: Subject) -> None:
    """``torch.fx.symbolic_trace`` gives the same values and gradients, alone and in a model."""
    module = case.build()
    model = nn.Sequential(nn.Identity(), module)
    for whole in (module, model):
        traced = torch.fx.symbolic_trace(whole)
        _same_values_and_gradients(whole, traced, case.sample(), case.tolerance)
    names = set(model.state_dict())
    require(
        set(traced.state_dict()) == names,
        "the traced model has other tensors",
        got=", ".join(sorted(set(traced.state_dict()) ^ names)),
    )


def exports(case: Subject) -> None:
    """``torch.export`` with a dynamic batch size gives a program with the same values."""
    module = case.build()
    shapes = ({0: torch.export.Dim("batch", min=2)},)
    program = torch.export.export(module, (case.sample(),), dynamic_shapes=shapes)
    x = case.sample(shape=(5, *case.shape[1:]), seed=1)
    require(
        close(program.module()(x), module(x), case.tolerance),
        "the exported program gives different values",
    )


def exports_to_onnx(case: Subject) -> None:
    """``torch.onnx.export(dynamo=True)`` gives the same values in onnxruntime.

    The batch size differs from that of the export.
    """
    packages = ("onnxruntime", "onnxscript")
    if any(importlib.util.find_spec(package) is None for package in packages):
        raise MissingExtraError(
            "the ONNX check needs onnx, onnxscript and onnxruntime",
            fix=install_extra("onnx"),
        )
    import onnxruntime  # optional, and slow to import

    module = case.build()
    # The exporter warns about its own internals.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        shapes = ({0: torch.export.Dim("batch", min=2)},)
        program = torch.onnx.export(
            module,
            (case.sample(),),
            dynamo=True,
            dynamic_shapes=shapes,
            verbose=False,
        )
    if program is None:
        require(False, "torch.onnx.export returned nothing")
        return
    stored = program.model_proto.SerializeToString()
    session = onnxruntime.InferenceSession(stored, providers=["CPUExecutionProvider"])
    x = case.sample(shape=(5, *case.shape[1:]), seed=1)
    name = session.get_inputs()[0].name
    (got,) = session.run(None, {name: x.numpy()})
    require(
        close(torch.from_numpy(got), module(x), case.tolerance),
        "onnxruntime gives different values",
    )


def autocast_keeps_the_input_dtype(case: Subject) -> None:
    """Under autocast, float32 parameters take float32 and half inputs and keep their dtype."""
    module = case.build()
    for low in (torch.bfloat16, torch.float16):
        for dtype in (torch.float32, low):
            x = case.sample(dtype)
            with torch.autocast("cpu", dtype=low):
                out = module(x)
            require(out.dtype == dtype, "autocast changes the dtype", got=out.dtype, allowed=dtype)
            # Half precision has 3 (float16) or 2 (bfloat16) decimal digits.
            require(close(out, module(x.float()), 0.05), "autocast gives different values")


def half_precision_modules_work(case: Case) -> None:
    """``module.half()`` and ``module.bfloat16()`` take their own dtype.

    Float32 parameters also take half inputs.
    """
    want = case.build()(case.sample())
    for dtype in (torch.bfloat16, torch.float16):
        for module in (case.build(dtype), case.build()):
            out = module(case.sample(dtype))
            require(
                out.dtype == dtype,
                "the output does not have the dtype of the input",
                got=out.dtype,
                allowed=dtype,
            )
            require(close(out, want, 0.1), f"{dtype} is far from float32")


def trains(case: Case) -> None:
    """In training mode the input and every parameter get a finite gradient."""
    module = case.build().train()
    x = case.sample().requires_grad_()
    module(x).square().mean().backward()
    for name, tensor in [("the input", x), *module.named_parameters()]:
        require(tensor.grad is not None, f"{name} is without a gradient after backward")
        require(bool(tensor.grad.isfinite().all()), f"the gradient to {name} is not finite")


def _same_values_and_gradients(
    module: nn.Module,
    compiled: Callable[[Tensor], Tensor],
    x: Tensor,
    tolerance: float,
) -> None:
    results = []
    for run in (module, compiled):
        leaf = x.clone().requires_grad_()
        y = run(leaf)
        (gradient,) = torch.autograd.grad(y.sum(), leaf)
        results.append((y.detach(), gradient))
    for name, a, b in zip(("values", "gradients"), *results, strict=True):
        require(close(a, b, tolerance), f"compiled {name} differ from eager")
