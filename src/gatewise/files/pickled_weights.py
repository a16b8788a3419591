"""Weights that ``torch.save`` wrote. This is the only module that reads such a file.

Note [Why only on request]. Such a file is a pickle, and a pickle can run code. The argument
``weights_only=True`` refuses that, but it had faults before torch 2.10. So three things are needed:
the user says that the file is trusted, torch is new enough, and only tensors are accepted. With
``mmap=True`` the tensors stay on the disk until they are used.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gatewise.errors import ArgumentError, FileError
from gatewise.files.failure import show

if TYPE_CHECKING:
    from torch import Tensor

PICKLED = (".pt", ".pth", ".bin", ".ckpt")
SAFE_SINCE = (2, 10)
# Names under which training programs keep the weights among other things.
INSIDE = ("state_dict", "model_state_dict", "model", "weights")


def read_pickled_weights(path: str | Path, *, trust: bool, command: str) -> "dict[str, Tensor]":
    """Return the tensors in a file of ``torch.save``, by name.

    Args:
        path: The file.
        trust: Whether the user said that the file is trusted.
        command: What the user types to say so, for the message.

    Raises:
        ArgumentError: The file is not trusted, or torch is too old.
        FileError: The file cannot be read, or holds something else than tensors.
    """
    import torch

    path = Path(path)
    if not trust:
        raise ArgumentError(
            "a file of torch.save is a pickle and could run code: it is read only on request",
            got=show(path),
            allowed=".safetensors",
            fix=f"if you trust its author, type: {command}",
        )
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if version < SAFE_SINCE:
        needed = ".".join(map(str, SAFE_SINCE))
        raise ArgumentError(
            "this version of torch cannot read a file of torch.save safely",
            got=f"torch {torch.__version__}",
            allowed=f"torch {needed} or newer",
            fix="install a newer torch, or save the weights as .safetensors",
        )
    try:
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as problem:  # torch raises many types for a file that is damaged or refused
        first, _, _ = str(problem).partition("\n")
        raise FileError("the weights cannot be read", got=f"{show(path)}: {first}") from problem
    return _tensors(content, path)


def _tensors(content: Any, path: Path) -> "dict[str, Tensor]":
    """Return the tensors of a state dict, or of one inside a training checkpoint."""
    from torch import Tensor

    for name in INSIDE:
        if isinstance(content, Mapping) and isinstance(content.get(name), Mapping):
            content = content[name]
    if not isinstance(content, Mapping) or not content:
        raise FileError("the file holds no weights", got=f"{show(path)}: {type(content).__name__}")
    for name, value in content.items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            raise FileError(
                "the file holds more than weights",
                got=f"{show(path)}: {name!r} is a {type(value).__name__}",
                allowed="a state dict, or a dict with one under state_dict or model",
            )
    return dict(content)
