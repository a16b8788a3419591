"""Sparse models are not saved in forms that would lose their thresholds."""

from typing import Any

from torch import nn

from gatewise.errors import ArgumentError
from gatewise.sparsity.sparse_linear import SparseLinear
from gatewise.surgery import ThresholdedUnit


class CheckedSave:
    """The method ``save_pretrained`` of a sparse Hugging Face model.

    What it writes has no thresholds, so the folder would load as a dense model. It refuses as long
    as the model has thresholds that set numbers to zero.

    Args:
        model: the model.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Save the model if it has no thresholds above 0.

        Raises:
            ArgumentError: the model has thresholds.
        """
        places = []
        for path, module in self.model.named_modules():
            if isinstance(module, SparseLinear | ThresholdedUnit) and module.threshold:
                places.append(path)
        if places:
            raise ArgumentError(
                "save_pretrained: the thresholds of a sparse model would be lost",
                got=f"{len(places)} thresholds above 0, the first at {places[0]!r}",
                fix="save the original model, and call gatewise.sparsify again after loading it; "
                "torch.save(model, file) keeps the whole model",
            )
        return type(self.model).save_pretrained(self.model, *args, **options)  # pyright: ignore


def check_saving(model: nn.Module) -> None:
    """Let the Hugging Face models in ``model`` refuse to be saved without their thresholds."""
    for module in model.modules():
        if callable(getattr(type(module), "save_pretrained", None)):
            module.save_pretrained = CheckedSave(module)  # pyright: ignore
