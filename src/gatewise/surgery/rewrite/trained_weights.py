"""Tell whether weights were trained after a swap, and what of them an undone swap can keep."""

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.surgery.propagate import Edit, edited, select

# Copies of weights that a swap does not replace are kept if they are at most this many bytes.
MOST_COPIED = 64 * 2**20
UNKNOWN = -1  # the digest of a tensor without values, such as one on the meta device


@dataclass(frozen=True)
class WeightsAtSwap:
    """The weights of a model directly after a swap.

    Attributes:
        digests: a checksum of every tensor of the state dict, by name.
        copies: the values of tensors that the swap did not replace, by name. Empty if they are
            more than ``MOST_COPIED`` bytes.
        replaced: the names of tensors that the swap replaced or added.
        loaded: whether the weights were loaded after the swap, so that those of before the swap
            were never there.
    """

    digests: Mapping[str, int] = field(default_factory=dict)
    copies: Mapping[str, Tensor] = field(default_factory=dict)
    replaced: frozenset[str] = frozenset()
    loaded: bool = False

    @classmethod
    def of(cls, model: nn.Module, before: Iterable[int]) -> "WeightsAtSwap":
        """Those of ``model`` now; ``before`` has the ids of the tensors that it had before."""
        same = set(before)
        tensors = state_tensors(model)
        digests = {name: digest(value) for name, value in tensors.items()}
        kept = {name: value for name, value in tensors.items() if id(value) in same}
        size = sum(value.numel() * value.element_size() for value in kept.values())
        copies = {}
        if size <= MOST_COPIED:
            for name, value in kept.items():
                if digests[name] != UNKNOWN:
                    copies[name] = value.detach().clone()
        return cls(digests, copies, frozenset(tensors.keys() - kept.keys()))

    def changed(self, model: nn.Module) -> list[str]:
        """The names of tensors whose values are not those of directly after the swap."""
        names = []
        for name, value in state_tensors(model).items():
            if self.digests.get(name, UNKNOWN) not in (UNKNOWN, digest(value)):
                names.append(name)
        return names

    def lost(self, changed: Iterable[str]) -> list[str]:
        """Those of ``changed`` whose values before the swap nothing has kept."""
        return [name for name in changed if name not in self.copies and name not in self.replaced]


def state_tensors(model: nn.Module) -> dict[str, Tensor]:
    """The tensors of the state dict by name: the parameters and buffers themselves."""
    state = model.state_dict(keep_vars=True)
    return {name: value for name, value in state.items() if isinstance(value, Tensor)}


def digest(value: Tensor) -> int:
    """A checksum of the values of a tensor; ``UNKNOWN`` if it has none that can be read."""
    if value.is_meta or value.layout != torch.strided or value.is_quantized:
        return UNKNOWN
    if nn.parameter.is_lazy(value):
        return UNKNOWN
    flat = value.detach().cpu().contiguous().reshape(-1)
    bytes_of_values: Any = flat.view(torch.uint8).numpy()
    return zlib.crc32(bytes_of_values) if flat.numel() else 0


def drops(old: Tensor, edits: tuple[Edit, ...]) -> bool:
    """Whether edits left out entries of ``old``."""
    shape = list(old.shape)
    for edit in edits:
        if len(edit.old_positions()[1].unique()) < shape[edit.dim]:
            return True
        shape[edit.dim] = len(edit.index)
    return False


def folded(
    value: Tensor, old: Tensor, edits: tuple[Edit, ...], sign: int | None = None
) -> tuple[Tensor, bool]:
    """Take edits of a trained tensor back.

    Args:
        value: the tensor as it is now, which ``edits`` made from ``old``.
        old: the tensor before the edits.
        edits: in the order in which they were made.
        sign: what to multiply an entry by to get its partner in the other half, for edits that
            dropped the second half; ``None`` if partners are not known. Dropped entries then get
            their values of before the swap.

    Returns:
        The tensor with the shape of ``old``, and whether new entries that are not zero, or entries
        that a copy was made of and that differ from it, were left out.
    """
    stages = [old.detach()]
    for edit in edits[:-1]:
        stages.append(edited(stages[-1], (edit,)))
    result = value.detach()
    lossy = False
    for edit, stage in zip(reversed(edits), reversed(stages), strict=True):
        places, olds = edit.old_positions()
        # A tensor without values had its weights loaded after the swap.
        base = torch.zeros_like(stage, device=result.device) if stage.is_meta else stage.clone()
        base = base.to(result)
        kept = select(result, edit.dim, places)
        if sign is not None and base.shape[edit.dim] == 2 * kept.shape[edit.dim]:
            base = torch.cat((kept, kept * sign), edit.dim)
        else:
            base.index_copy_(edit.dim, olds.to(base.device), kept)
        if edit.fill in ("copy", "scaled"):
            again = edited(base, (edit,))
            lossy |= not torch.equal(again, result)
        else:
            lossy |= any(bool(entries.any()) for entries in edit.new_entries(result))
        result = base
    return result, lossy
