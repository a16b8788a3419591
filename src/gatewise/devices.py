"""Where a network is trained: the processor or an accelerator, and how tensors get there."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.errors import ArgumentError

DEVICE_VARIABLE = "GATEWISE_DEVICE"
KINDS = ("cpu", "cuda", "mps", "xpu", "meta")
ALLOWED = "cpu, cuda, cuda:1, mps, or auto for the accelerator that is there"
# What torch raises for a device that this machine or this build of torch does not have.
NO_DEVICE = (RuntimeError, AssertionError, ImportError, NotImplementedError, ValueError)
# Some builds of torch are killed by a product of bfloat16 matrices on processors with matrix tiles
# (AMX). They are not if this variable tells torch's library to do without tiles.
INSTRUCTIONS_VARIABLE = "ONEDNN_MAX_CPU_ISA"
WITHOUT_TILES = "AVX512_CORE_FP16"
_PRODUCT = "import torch; a = torch.ones(64, 64, dtype=torch.bfloat16); a @ a"
_PRODUCT_SECONDS = 120


def find_device(name: str | torch.device | None = None) -> torch.device:
    """Return the device of that name, after checking that a tensor can be made on it.

    Args:
        name: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"`` or ``"auto"``: the accelerator of this
            machine, or the processor if there is none. None is what the environment variable
            GATEWISE_DEVICE says, or the processor.

    Raises:
        ArgumentError: if there is no such device here.
    """
    if name is None:
        name = os.environ.get(DEVICE_VARIABLE) or "cpu"
    if name == "auto":
        return _best_device()
    if not isinstance(name, str | torch.device):
        raise ArgumentError("device: a name is needed", got=name, allowed=ALLOWED)
    try:
        device = torch.device(name)
    except (RuntimeError, ValueError) as problem:
        raise ArgumentError("device: not understood", got=str(name), allowed=ALLOWED) from problem
    if device.type not in KINDS:
        raise ArgumentError("device: not supported", got=str(name), allowed=ALLOWED)
    try:
        torch.empty(1, device=device)
    except NO_DEVICE as problem:
        message = str(problem).split("\n")[0].split(". ")[0]
        raise ArgumentError(
            "device: it cannot be used here",
            got=f"{device} ({message})",
            allowed=ALLOWED,
        ) from problem
    return device


def describe_device(device: torch.device) -> str:
    """Return the device with the name of its hardware, such as ``cuda:0 (NVIDIA A100)``."""
    if device.type == "cuda":
        return f"{device} ({torch.cuda.get_device_name(device)})"
    return str(device)


def describe_processor() -> str:
    """Return the name of the processor, and whether it multiplies bfloat16 itself."""
    facts = _processor_facts()
    name = facts.get("model name") or platform.processor() or platform.machine()
    return f"{name} with bfloat16" if "bf16" in facts.get("flags", "") else name


def move(value: Any, device: torch.device, *, channels_last: bool = False) -> Any:
    """Return ``value`` with all tensors in it on ``device``.

    Lists, tuples, named tuples, mappings, dataclasses and objects with a method ``to`` are entered.

    Args:
        value: a batch in any of these forms.
        device: where to.
        channels_last: whether tensors of four dimensions get that layout.
    """
    if isinstance(value, Tensor):
        value = value.to(device, non_blocking=True)
        if channels_last and value.dim() == 4 and value.is_floating_point():
            value = value.contiguous(memory_format=torch.channels_last)
        return value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(move(v, device, channels_last=channels_last) for v in value))
    if isinstance(value, list | tuple):
        return type(value)(move(item, device, channels_last=channels_last) for item in value)
    if type(value) is dict:
        return {k: move(v, device, channels_last=channels_last) for k, v in value.items()}
    if isinstance(value, Mapping) or not is_dataclass(value):
        to = getattr(value, "to", None)  # such as a BatchEncoding or a graph
        if callable(to) and not isinstance(value, nn.Module):
            return to(device)
        if isinstance(value, Mapping):
            return {k: move(v, device, channels_last=channels_last) for k, v in value.items()}
        return value
    if isinstance(value, type):
        return value
    changes = {}
    for field in fields(value):
        item = getattr(value, field.name)
        changes[field.name] = move(item, device, channels_last=channels_last)
    return replace(value, **changes)


def device_of(model: nn.Module) -> torch.device:
    """Return the device of the first parameter; the processor if there is none."""
    first = next(model.parameters(), None)
    return torch.device("cpu") if first is None else first.device


def place_model(model: nn.Module, device: torch.device, *, channels_last: bool) -> nn.Module:
    """Move ``model`` to the device and into the layout, in place."""
    if channels_last:
        model.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
    return model.to(device)


@cache
def bfloat16_kills() -> bool:
    """Return whether a product of bfloat16 matrices ends the process on this processor.

    It is tried once, in a process of its own, and only on processors with matrix tiles (AMX).
    """
    if not _has_tiles():
        return False
    try:
        tried = subprocess.run(  # noqa: S603  this Python, and a constant program
            [sys.executable, "-c", _PRODUCT],
            capture_output=True,
            timeout=_PRODUCT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False  # not known
    return tried.returncode < 0  # ended by a signal


def check_bfloat16(device: torch.device) -> None:
    """Raise if computing in bfloat16 would end the process.

    Args:
        device: where it would compute.

    Raises:
        ArgumentError: if a product of bfloat16 matrices ends the process.
    """
    if device.type == "cpu" and bfloat16_kills():
        raise ArgumentError(
            "bfloat16: a matrix product ends the process here",
            got=f"torch {torch.__version__} on a processor with matrix tiles (AMX)",
            fix=f"start Python with {INSTRUCTIONS_VARIABLE}={WITHOUT_TILES} in the environment, "
            "or compute in float32",
        )


def has_fast_bfloat16(device: torch.device) -> bool:
    """Return whether the device has instructions for products of bfloat16 numbers.

    Without them, computing in bfloat16 takes up to ten times as long as in float32.

    Args:
        device: where it would compute.
    """
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type != "cpu":
        return False
    flags = _processor_facts().get("flags", "").split()
    return "avx512_bf16" in flags and not bfloat16_kills()


def _has_tiles() -> bool:
    """Return whether the processor has matrix tiles for bfloat16."""
    return "amx_bf16" in _processor_facts().get("flags", "")


@cache
def _processor_facts() -> dict[str, str]:
    """Return what Linux says about the first processor; nothing on other systems."""
    try:
        lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
    except OSError:
        return {}
    pairs = (line.partition(":") for line in lines)
    return {name.strip(): value.strip() for name, _, value in pairs}


@contextmanager
def device_randomness(device: torch.device) -> Iterator[None]:
    """Restore the state of the accelerator's generator after the block."""
    if device.type in ("cpu", "meta"):
        yield
        return
    module = torch.get_device_module(device)
    state = module.get_rng_state()
    try:
        yield
    finally:
        module.set_rng_state(state)


def _best_device() -> torch.device:
    """Return the accelerator of this machine, or the processor."""
    if torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")
