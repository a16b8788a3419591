"""Change a model, or a copy of it, in a way that can be undone."""

from collections.abc import Callable

from torch import nn

from gatewise.graph import copied
from gatewise.surgery.proof import Receipt
from gatewise.surgery.rewrite import RECORD, SwapRecord, Transaction
from gatewise.surgery.saving import follow_transformers


def change_recorded(
    model: nn.Module, make: Callable[[Transaction], Receipt], *, inplace: bool
) -> nn.Module:
    """Return the changed model, with the record that undoing needs.

    On any error the model is as it was before.

    Args:
        model: The model.
        make: Makes all changes by the transaction, and returns the receipt.
        inplace: Change ``model`` itself instead of a copy.
    """
    changed = model if inplace else copied(model)
    work = Transaction(changed)
    try:
        changed.__dict__[RECORD] = SwapRecord(make(work), list(work.changes))
        follow_transformers(changed)
    except BaseException:
        work.roll_back()
        raise
    return changed
