"""Memory of large tensors that the C library keeps for the next one."""

import ctypes
import sys

_MMAP_THRESHOLD = -3
_TRIM_THRESHOLD = -1
_LARGEST = 1 << 30  # bytes of a tensor whose memory is kept
_MOST_KEPT = 2**31 - 1  # bytes
_tuned: list[bool] = []  # whether the C library took the settings


def tune_allocator() -> bool:
    """Let the C library reuse the memory of large tensors, and return whether it does.

    Otherwise every tensor above 32 MiB, and many smaller ones, get new pages from the system, which
    costs more than an activation. The process then keeps up to 2 GiB that it has freed, so only the
    processes of gatewise itself call this: the command line and the workers of studies.
    """
    if not _tuned:
        _tuned.append(_set_thresholds())
    return _tuned[0]


def is_allocator_tuned() -> bool:
    """Return whether memory is reused: only then do stores that pass the caches by pay."""
    return bool(_tuned) and _tuned[0]


def _set_thresholds() -> bool:
    if not sys.platform.startswith("linux"):
        return False
    try:
        libc = ctypes.CDLL("libc.so.6")
    except OSError:  # another C library
        return False
    return bool(
        libc.mallopt(_MMAP_THRESHOLD, _LARGEST) and libc.mallopt(_TRIM_THRESHOLD, _MOST_KEPT)
    )
