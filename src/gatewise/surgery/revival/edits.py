"""Changes of single rows and columns of tensors, which can be taken back."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.optim import Optimizer


class TensorEdits:
    """Writes into tensors of a model and keeps what was there.

    Args:
        names: The names of each parameter and buffer, by the id of the tensor.
    """

    def __init__(self, names: dict[int, list[str]]) -> None:
        self.names = names
        self.old: list[tuple[Tensor, int, Tensor, Tensor]] = []

    @torch.no_grad()
    def write(
        self, tensor: Tensor, dim: int, places: Sequence[int], values: Tensor | float
    ) -> None:
        """Replace the rows (``dim`` 0) or columns (``dim`` 1) of a tensor.

        Args:
            tensor: A parameter or a buffer.
            dim: The dimension along which places are counted.
            places: The places.
            values: Their new values, or one number for all.
        """
        index = torch.tensor(places, device=tensor.device)
        self.old.append((tensor, dim, index, tensor.index_select(dim, index).clone()))
        if isinstance(values, Tensor):
            tensor.index_copy_(dim, index, values.to(tensor))
        else:
            tensor.index_fill_(dim, index, values)

    @torch.no_grad()
    def take_back(self) -> None:
        """Put all old numbers back, the last change first."""
        for tensor, dim, index, before in reversed(self.old):
            tensor.index_copy_(dim, index, before)

    def counts(self) -> dict[str, int]:
        """Return how many numbers of each parameter and buffer were written."""
        places: dict[str, Tensor] = {}
        for tensor, dim, index, _ in self.old:
            for name in self.names.get(id(tensor), ())[:1]:
                written = places.setdefault(name, torch.zeros(tensor.shape, dtype=torch.bool))
                written.index_fill_(dim, index.cpu(), True)
        return {name: int(written.sum()) for name, written in places.items()}

    def reset_training(self, optimizer: Optimizer | None) -> tuple[str, ...]:
        """Set gradients, and what an optimizer keeps for the written numbers, to zero.

        Args:
            optimizer: The optimizer. Entries of its state that have the shape of the parameter
                are changed; counts of steps go on.

        Returns:
            The names of these entries.
        """
        found: dict[str, None] = {}
        for tensor, dim, index, _ in list(self.old):
            if not isinstance(tensor, nn.Parameter):
                continue
            places = index.tolist()
            if tensor.grad is not None:
                self.write(tensor.grad, dim, places, 0.0)
            state = optimizer.state.get(tensor, {}) if optimizer is not None else {}
            for name, value in state.items():
                if isinstance(value, Tensor) and value.shape == tensor.shape:
                    self.write(value, dim, places, 0.0)
                    found[name] = None
        return tuple(found)
