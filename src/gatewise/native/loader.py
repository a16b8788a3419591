"""Compile a C source of ours once, and load it."""

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
# No contraction: a product and a sum are rounded as in the twin.
FLAGS = ("-std=c99", "-O3", "-fPIC", "-shared", "-pthread", "-ffp-contract=off", "-D_GNU_SOURCE")
PATIENCE = 60  # seconds for a compiler that hangs


@dataclass(frozen=True)
class Library:
    """A compiled source, or why there is none."""

    name: str
    handle: ctypes.CDLL | None
    reason: str  # in words, for `gatewise doctor`


@functools.cache
def library(name: str) -> Library:
    """The compiled ``name.c``.

    It never fails: without a compiler ``handle`` is ``None``, and ``reason`` says why.
    """
    if os.environ.get("GATEWISE_NATIVE", "1") == "0":
        return Library(name, None, "switched off by GATEWISE_NATIVE=0")
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None or sys.platform == "win32":
        return Library(name, None, f"no C compiler ({', '.join(COMPILERS)}) on the path")
    try:
        built = _built(name, compiler)
        return Library(name, ctypes.CDLL(str(built)), f"compiled by {compiler}")
    except (OSError, subprocess.SubprocessError) as problem:
        return Library(name, None, f"{compiler} did not compile it: {problem}")


def _built(name: str, compiler: str) -> Path:
    source = (HERE / f"{name}.c").read_bytes()
    facts = "\n".join((compiler, *FLAGS, platform.machine(), sys.platform)).encode()
    key = hashlib.sha256(source + b"\0" + facts).hexdigest()[:20]
    target = _folder() / f"{name}-{key}.so"
    if not target.exists():
        _compile(compiler, HERE / f"{name}.c", target)
    if not _is_ours(target):
        raise OSError(f"{target} is not the user's own file")
    return target


def _compile(compiler: str, source: Path, target: Path) -> None:
    """Into a file beside ``target`` and then to its name, so that nobody loads half a library."""
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder) / target.name
        for extra in (
            (),
            ("-DGW_PLAIN",),
        ):  # plain: for compilers that cannot choose code at run time
            command = [compiler, *FLAGS, *extra, "-o", str(made), str(source), "-lm"]
            done = subprocess.run(command, capture_output=True, timeout=PATIENCE, text=True)  # noqa: S603  see import
            if done.returncode == 0:
                made.replace(target)
                return
    raise OSError((done.stderr.strip().splitlines() or ["no message"])[0])


def _folder() -> Path:
    """Where compiled sources are kept: in the user's cache, or where ``GATEWISE_CACHE`` says."""
    home = os.environ.get("GATEWISE_CACHE") or os.environ.get("XDG_CACHE_HOME")
    folder = (Path(home) if home else Path.home() / ".cache") / "gatewise" / "native"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not _is_ours(folder):
        raise OSError(f"{folder} can be written to by others")
    return folder


def _is_ours(path: Path) -> bool:
    """Whether nobody but the user can have written it: what is loaded is run."""
    found = path.stat()
    return found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
