"""Data of the user in two parts: one to calibrate thresholds, another to measure them."""

from collections.abc import Sequence
from itertools import islice
from typing import Any

from torch import nn

from gatewise.batches import ModelCall, read_batches
from gatewise.checks import check_count
from gatewise.devices import device_of


def first_calls(what: str, model: nn.Module, data: Any, most: int) -> list[ModelCall]:
    """Return the calls of a model on the first batches of the user's data.

    Args:
        what: the name of the function, for messages.
        model: the inputs go to its device.
        data: of any form that :mod:`gatewise.batches` knows.
        most: the number of batches to read at most.
    """
    check_count(what, "batches", most)
    device = device_of(model)
    calls = islice(read_batches(what, model, data), most)
    return [call.map(lambda tensor: tensor.to(device)) for call in calls]


def divided(calls: Sequence[ModelCall]) -> tuple[list[ModelCall], list[ModelCall], str]:
    """Return calls to calibrate on, others to measure on, and a note if these are the same."""
    if len(calls) > 1:
        half = (len(calls) + 1) // 2
        return list(calls[:half]), list(calls[half:]), ""
    (call,) = calls
    if call.size > 1:
        half = (call.size + 1) // 2
        return [call.rows(0, half)], [call.rows(half, call.size)], ""
    note = "there is one input only: thresholds are measured on the input that they come from"
    return [call], [call], note
