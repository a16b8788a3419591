"""Compile a C source of this package once, and load it."""

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import stat
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
COMPILERS = ("cc", "gcc", "clang")
FLAGS = (
    "-std=c99",
    "-O3",
    "-fPIC",
    "-shared",
    "-pthread",
    "-ffp-contract=off",  # a product and a sum are rounded as in the Python form
    "-D_GNU_SOURCE",
)
TIMEOUT = 60  # seconds; a compiler that takes longer hangs


@dataclass(frozen=True)
class Library:
    """A compiled source, or the reason why there is none.

    Attributes:
        name: the name of the source, without ``.c``.
        handle: the loaded library; ``None`` if there is none.
        reason: how it was compiled or why it was not, as printed by ``gatewise doctor``.
    """

    name: str
    handle: ctypes.CDLL | None
    reason: str


@functools.cache
def library(name: str) -> Library:
    """Compile and load ``name.c``; without a compiler, ``handle`` of the result is ``None``.

    This raises no error: ``reason`` of the result says what went wrong.
    """
    if os.environ.get("GATEWISE_NATIVE", "1") == "0":
        return Library(name, None, "switched off by GATEWISE_NATIVE=0")
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None or sys.platform == "win32":
        return Library(name, None, f"no C compiler ({', '.join(COMPILERS)}) on the path")
    try:
        handle = ctypes.CDLL(str(_compiled_file(name, compiler)))
    except (OSError, subprocess.SubprocessError) as problem:
        return Library(name, None, f"{compiler} did not compile it: {problem}")
    return Library(name, handle, f"compiled by {compiler}")


def _compiled_file(name: str, compiler: str) -> Path:
    """Return the compiled file of a source, from the cache if it was compiled before."""
    source = HERE / f"{name}.c"
    settings = "\n".join((compiler, *FLAGS, platform.machine(), sys.platform)).encode()
    key = hashlib.sha256(source.read_bytes() + b"\0" + settings).hexdigest()[:20]
    target = _cache_folder() / f"{name}-{key}.so"
    if not target.exists():
        _compile(compiler, source, target)
    if not _is_safe(target):
        raise OSError(f"{target} is not the user's own file")
    return target


def _compile(compiler: str, source: Path, target: Path) -> None:
    """Compile into a new folder first, so that no other process loads half a library."""
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        output = Path(folder) / target.name
        # The second attempt is for compilers that cannot choose code at run time.
        for extra in ((), ("-DGW_PLAIN",)):
            command = [compiler, *FLAGS, *extra, "-o", str(output), str(source), "-lm"]
            result = subprocess.run(command, capture_output=True, timeout=TIMEOUT, text=True)  # noqa: S603  the command has no input of the user
            if result.returncode == 0:
                output.replace(target)
                return
    raise OSError(result.stderr.strip().partition("\n")[0] or "no message")


def _cache_folder() -> Path:
    """Return the folder of compiled sources: in ``GATEWISE_CACHE``, or in the user's cache."""
    home = os.environ.get("GATEWISE_CACHE") or os.environ.get("XDG_CACHE_HOME")
    folder = (Path(home) if home else Path.home() / ".cache") / "gatewise" / "native"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not _is_safe(folder):
        raise OSError(f"{folder} can be written to by others")
    return folder


def _is_safe(path: Path) -> bool:
    """Return whether only the user can write to ``path``. A library that is loaded is executed."""
    status = path.stat()
    return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
