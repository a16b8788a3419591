"""The ways to compute a tangent kernel that `benchmarks/ntk.py` compares, on one torch model.

Each method is a function of a model and inputs that returns a function without arguments:
everything that can be prepared (compiling, moving weights) has then been done. The peers of torch's
world need nothing more; neural-tangents 0.6.5 needs a jax of its time (0.4.25 is the newest that we
found to work; it uses names that later ones removed), which
needs numpy 1 and scipy 1.12:

    python -m venv peers
    peers/bin/pip install torch==2.13.0 jax==0.4.25 jaxlib==0.4.25 "numpy<2" "scipy<1.13"
    peers/bin/pip install frozendict typing_extensions
    peers/bin/pip install --no-deps neural-tangents==0.6.5  # its TensorFlow part is not used
    peers/bin/pip install --no-deps -e .
    peers/bin/python benchmarks/ntk.py
"""

import importlib
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev, vmap

import gatewise as gw

Kernel = Callable[[], Any]


def gatewise(model: nn.Module, x: Tensor) -> Kernel:
    """Ours."""
    return lambda: gw.analysis.ntk(model, x)


def torch_func(model: nn.Module, x: Tensor) -> Kernel:
    """Per-sample Jacobians by torch.func, taken once, then their product.

    The way of torch's tutorial.
    """
    parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}

    def one(values: dict[str, Tensor], sample: Tensor) -> Tensor:
        return functional_call(model, values, (sample[None],))[0]

    def kernel() -> Tensor:
        jacobians = vmap(jacrev(one), (None, 0))(parameters, x)
        parts = [
            torch.einsum("Naf,Mbf->NMab", j.flatten(2), j.flatten(2)) for j in jacobians.values()
        ]
        return torch.stack(parts).sum(0)

    return kernel


def neural_tangents(implementation: str) -> Callable[[nn.Module, Tensor], Kernel]:
    """One of the three ways of neural-tangents, compiled."""

    def method(model: nn.Module, x: Tensor) -> Kernel:
        jax, nt = import_peers()
        chosen = nt.NtkImplementation[implementation]
        function = nt.empirical_ntk_fn(
            in_jax(jax, model), trace_axes=(), vmap_axes=0, implementation=chosen
        )
        weights = [
            jax.numpy.asarray(as_in_jax(parameter.detach()).numpy())
            for parameter in model.parameters()
        ]
        inputs = jax.numpy.asarray(x.numpy())
        compiled = (
            jax.jit(lambda x, weights: function(x, None, weights)).lower(inputs, weights).compile()
        )
        return lambda: compiled(inputs, weights).block_until_ready()

    return method


METHODS = {
    "gatewise": gatewise,
    "torch.func jacobian": torch_func,
    "neural-tangents jacobian (its default)": neural_tangents("JACOBIAN_CONTRACTION"),
    "neural-tangents vector products": neural_tangents("NTK_VECTOR_PRODUCTS"),
    "neural-tangents structured": neural_tangents("STRUCTURED_DERIVATIVES"),
}


def import_peers() -> tuple[Any, Any]:
    """Import jax and neural-tangents without its TensorFlow part, which is not used here."""
    sys.modules.setdefault(
        "neural_tangents.experimental", types.ModuleType("neural_tangents.experimental")
    )
    return importlib.import_module("jax"), importlib.import_module("neural_tangents")


def peer_versions() -> dict[str, str]:
    """Versions of the peers; "absent" where they cannot be had, and why is printed."""
    try:
        jax, nt = import_peers()
    except Exception as error:  # an old package fails in many ways under a new one
        print(
            f"neural-tangents is left out ({type(error).__name__}: {error}); "
            "see benchmarks/ntk_methods.py"
        )
        return {"jax": "absent", "neural_tangents": "absent"}
    return {"jax": jax.__version__, "neural_tangents": nt.__version__}


def as_in_jax(parameter: Tensor) -> Tensor:
    """Matrices as jax's users hold them, inputs first.

    Neural-tangents does not see through a transposition.
    """
    return parameter.mT.contiguous() if parameter.dim() == 2 else parameter


def in_jax(jax: Any, model: nn.Module) -> Callable[[list[Any], Any], Any]:
    """The same sequence of layers, as a function of weights and inputs."""
    layers = [module for module in model if not isinstance(module, nn.Identity)]

    def forward(weights: list[Any], x: Any) -> Any:
        waiting = iter(weights)
        for layer in layers:
            if isinstance(layer, nn.Linear):
                x = x @ next(waiting) + next(waiting)
            elif isinstance(layer, nn.Conv2d):
                sides = [(side, side) for side in layer.padding]
                x = jax.lax.conv_general_dilated(x, next(waiting), layer.stride, sides)
                x = x + next(waiting)[:, None, None]
            elif isinstance(layer, nn.Flatten):
                x = x.reshape(x.shape[0], -1)
            else:
                x = jax.nn.relu(x)
        return x

    return forward


def as_square(kernel: Any, samples: int) -> Tensor:
    """Any method's result as a torch tensor in float64. Shape: ``(n, n)``."""
    found = kernel if isinstance(kernel, Tensor) else torch.from_numpy(np.array(kernel))
    return found.detach().double().reshape(samples, samples)
