"""Weights as tensors, read without running code of the files."""

import io
import pickle
from collections.abc import Mapping
from typing import Any

import numpy
import torch
from torch import Tensor

NUMPY_NAMES = {
    ("numpy.core.multiarray", "_reconstruct"): numpy._core.multiarray._reconstruct,  # pyright: ignore
    ("numpy", "ndarray"): numpy.ndarray,
    ("numpy", "dtype"): numpy.dtype,
}


class NumpyUnpickler(pickle.Unpickler):
    """Reads dicts and arrays of numbers, and refuses every other name."""

    def find_class(self, module: str, name: str) -> Any:
        """Return one of the three names that an array of numbers needs."""
        if (module, name) not in NUMPY_NAMES:
            raise pickle.UnpicklingError(f"the name {module}.{name} is not allowed in weights")
        return NUMPY_NAMES[module, name]


def numpy_arrays(content: bytes) -> dict[str, Any]:
    """Return nested dicts of arrays.

    Args:
        content: of a pickle file.
    """
    return NumpyUnpickler(io.BytesIO(content)).load()


def torch_weights(content: bytes) -> dict[str, Tensor]:
    """Return the tensors of a file of ``torch.save``.

    Args:
        content: of the file.
    """
    return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)


def from_flax(layers: Mapping[str, Mapping[str, Any]]) -> dict[str, Tensor]:
    """Return the weights of flax's convolutions under torch's names and in torch's order.

    Args:
        layers: ``Conv_0``, ``Conv_1`` and so on, each with ``kernel`` and ``bias``.
    """
    weights = {}
    for name, arrays in layers.items():
        number = name.removeprefix("Conv_")
        kernel = torch.tensor(numpy.asarray(arrays["kernel"]))
        weights[f"convolutions.{number}.weight"] = kernel.permute(3, 2, 0, 1).contiguous()
        weights[f"convolutions.{number}.bias"] = torch.tensor(numpy.asarray(arrays["bias"]))
    return weights
