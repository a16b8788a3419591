"""Make Triton kernels of a traced function, and compile them for a GPU that need not be here.

Why making functions from text is safe here: the text is written by ``kernel_source`` from a trace.
It holds names that are generated there and numbers, and nothing from a file or a configuration.
Nothing of it is executed as Python, except by Triton's interpreter for tests.
"""

import importlib
import importlib.util
import linecache
from collections.abc import Callable
from functools import cache
from types import CodeType, FunctionType
from typing import Any

import torch
from torch import Tensor

from gatewise.errors import ArgumentError, MissingExtraError, install_extra
from gatewise.fused.gpu.kernel_source import kernel_arguments, kernel_texts
from gatewise.fused.source import loops_of
from gatewise.fused.tracing import trace

# Name: backend, architecture, threads that run together, the file that the compiler makes.
TARGETS = {
    "sm_80": ("cuda", 80, 32, "ptx"),
    "sm_90": ("cuda", 90, 32, "ptx"),
    "gfx90a": ("hip", "gfx90a", 64, "hsaco"),
    "gfx942": ("hip", "gfx942", 64, "hsaco"),
}
# See Note [Half types] in device_functions.
POINTERS = {torch.float32: "*fp32", torch.bfloat16: "*i16", torch.float16: "*fp16"}
# Sums and products are fused only where the source says so.
OPTIONS = {"enable_fp_fusion": False, "num_warps": 4}
ELEMENTS = 1024  # of one tile


def has_triton() -> bool:
    """Return whether Triton is installed."""
    return importlib.util.find_spec("triton") is not None


@cache
def kernels_of(function: Callable[..., Tensor], numbers: int) -> dict[str, Any]:
    """Return the Triton kernels of a function by name: ``values``, ``slopes`` and ``terms``.

    Args:
        function: an elementwise function of ``x`` and numbers.
        numbers: how many.

    Raises:
        MissingExtraError: without Triton.
    """
    if not has_triton():
        raise MissingExtraError("triton is not installed", fix=install_extra("triton"))
    triton = importlib.import_module("triton")
    texts = kernel_texts(trace(function, numbers), numbers)
    origin = f"{function.__module__}.{function.__qualname__}"
    return {
        name: triton.jit(_make_function(text, f"<{origin}: {name}, {numbers} numbers>"))
        for name, text in texts.items()
    }


def _make_function(text: str, file: str) -> FunctionType:
    """Return the one function that a text defines, without running the text.

    Args:
        text: of a generated kernel.
        file: a name under which Triton finds the text again.
    """
    (code,) = (
        each
        for each in compile(text, file, "exec", dont_inherit=True).co_consts
        if isinstance(each, CodeType)
    )
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"__name__": __name__, "tl": importlib.import_module("triton.language")}
    for module in ("device_functions", "tile_access"):
        names.update(vars(importlib.import_module(f"gatewise.fused.gpu.{module}")))
    function = FunctionType(code, names | {"__name__": __name__})
    constants = code.co_varnames[: code.co_argcount]
    function.__annotations__ = {name: names["tl"].constexpr for name in constants if name.isupper()}
    return function


def device_code(
    function: Callable[..., Tensor],
    numbers: int,
    target: str,
    dtype: torch.dtype = torch.float32,
) -> dict[str, str | bytes]:
    """Return the compiled kernels of a function for a GPU that need not be here.

    Every number is one per channel, and the gradients to all of them are summed.

    Args:
        function: an elementwise function of ``x`` and numbers.
        numbers: how many.
        target: the GPU's architecture, one of ``TARGETS``.
        dtype: of the elements.

    Returns:
        PTX text or the bytes of an HSACO file, by kernel: ``values``, ``slopes`` and ``terms``.

    Raises:
        MissingExtraError: without Triton.
    """
    if target not in TARGETS:
        raise ArgumentError("device_code: unknown target", got=target, allowed=", ".join(TARGETS))
    if dtype not in POINTERS:
        raise ArgumentError("device_code: wrong dtype", got=dtype, allowed=list(POINTERS))
    kernels = kernels_of(function, numbers)
    compiler = importlib.import_module("triton.compiler")
    backend, architecture, warp, kind = TARGETS[target]
    gpu = importlib.import_module("triton.backends.compiler").GPUTarget(backend, architecture, warp)
    built = {}
    for loop in loops_of(trace(function, numbers), numbers):
        kernel = kernels[loop.name]
        arguments = kernel_arguments(loop, numbers)
        constants = {name: _constant(name) for name in arguments if name.isupper()}
        signature = {name: _type_name(name, POINTERS[dtype]) for name in arguments}
        source = compiler.ASTSource(kernel, signature=signature, constexprs=constants)
        built[loop.name] = compiler.compile(source, target=gpu, options=OPTIONS).asm[kind]
    return built


def _constant(argument: str) -> int:
    """Return a compile-time constant for numbers per channel of contiguous maps."""
    return {"ROWS": 1, "COLS": ELEMENTS}.get(argument, 1)


def _type_name(argument: str, elements: str) -> str:
    """Return Triton's name for the type of an argument."""
    if argument.isupper():
        return "constexpr"
    if argument in ("x", "above", "out"):
        return elements
    return "*fp32" if argument.startswith(("number", "sums")) else "i32"
