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
import warnings
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
SWITCH = "GATEWISE_NATIVE"
# Of sources whose loops become vectors of the kind that torch uses here. Every processor with AVX2
# also converts float16 (F16C).
VECTOR_FLAGS = ("-fno-trapping-math", "-fno-math-errno")
# GCC must not turn choices by related conditions into jumps, which keep a loop from using vectors.
# Other compilers may not know the option.
WITHOUT_JUMPS = ("-fno-thread-jumps",)
VECTORS = {
    "AVX2": ("-mavx2", "-mfma", "-mf16c"),
    "AVX512": (
        "-mfma",
        "-mf16c",
        "-mavx512f",
        "-mavx512dq",
        "-mavx512bw",
        "-mavx512vl",
        "-mprefer-vector-width=512",
    ),
}
ONLY_OWNER = 0o700
_said: list[str] = []  # the library whose absence was said
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


def is_switched_off() -> bool:
    """Return whether the user has switched compiled code off."""
    return os.environ.get(SWITCH, "1") == "0"


@functools.cache
def library(name: str, options: tuple[str, ...] = ()) -> Library:
    """Compile and load ``name.c``; without a compiler, ``handle`` of the result is ``None``.

    This raises no error: ``reason`` of the result says what went wrong.

    Args:
        name: of the source and of the compiled file, without ``.c``.
        options: further options of the compiler.
    """
    if is_switched_off():
        return Library(name, None, f"switched off by {SWITCH}=0")
    if sys.platform == "win32":
        return Library(name, None, "not available on Windows")
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    try:
        source = (HERE / f"{name}.c").read_text()
        handle, compiled = _load(name, source, options, compiler)
    except (OSError, subprocess.SubprocessError) as problem:
        by = f"{compiler} did not compile it" if compiler else "it cannot be loaded"
        return Library(name, None, f"{by}: {problem}")
    if handle is None:
        return Library(name, None, f"no C compiler ({', '.join(COMPILERS)}) on the path")
    return Library(name, handle, f"compiled by {compiler}" if compiled else "compiled before")


@functools.cache
def vector_library(name: str) -> ctypes.CDLL | None:
    """Return ``name.c``, compiled with the vectors that torch uses here, or without if that fails.

    It is ``None``, after a warning, without a compiler.

    Args:
        name: of the source, without ``.c``.
    """
    import torch  # the other functions here are used where nothing needs it

    vectors = VECTORS.get(torch.backends.cpu.get_cpu_capability(), ())
    loaded = library(name, (*VECTOR_FLAGS, *WITHOUT_JUMPS, *vectors))
    for fewer in ((*VECTOR_FLAGS, *vectors), VECTOR_FLAGS):
        if loaded.handle is None:
            loaded = library(name, fewer)
    return handle_or_warning(loaded)


@functools.cache
def compiled_library(name: str) -> ctypes.CDLL | None:
    """Return a loaded library for a call that is slow without it, or ``None``.

    The first time that there is none, a warning says so and why.
    """
    return handle_or_warning(library(name))


def handle_or_warning(loaded: Library) -> ctypes.CDLL | None:
    """Return the handle of a library. The first time that there is none, a warning says why."""
    if loaded.handle is None and not _said and not is_switched_off():
        _said.append(loaded.name)
        warnings.warn(
            f"gatewise uses its slower Python code: {loaded.reason}. Install a C compiler, or set "
            f"{SWITCH}=0 to hide this message.",
            RuntimeWarning,
            stacklevel=3,
        )
    return loaded.handle


def _load(
    name: str,
    source: str,
    options: tuple[str, ...],
    compiler: str | None,
) -> tuple[ctypes.CDLL | None, bool]:
    """Return the library of a source, and whether it was compiled now.

    The name of a compiled file ends with a digest of its bytes. A file that was cut short would end
    the process when it is used, so it is removed and compiled again. So is one that others can
    write to.
    """
    settings = "\n".join((*FLAGS, *options, platform.machine(), sys.platform))
    key = hashlib.sha256(f"{source}\0{settings}".encode()).hexdigest()[:20]
    folder = _cache_folder()
    for path in sorted(folder.glob(f"{name}-{key}-*.so")):
        if _is_safe(path) and path.name == f"{name}-{key}-{_digest(path)}.so":
            return ctypes.CDLL(str(path)), False
        path.unlink(missing_ok=True)
    if compiler is None:
        return None, False
    compiled = _compile(compiler, source, options, folder, f"{name}-{key}")
    return ctypes.CDLL(str(compiled)), True


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:32]


def _compile(
    compiler: str,
    source: str,
    options: tuple[str, ...],
    folder: Path,
    name: str,
) -> Path:
    """Compile into a new folder first, so that no other process loads half a library."""
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        text = Path(temporary) / "source.c"
        text.write_text(source)
        output = text.with_suffix(".so")
        # The second attempt is for compilers that cannot choose code at run time.
        for extra in ((), ("-DGW_PLAIN",)):
            command = [compiler, *FLAGS, *options, *extra, "-o", str(output), str(text), "-lm"]
            result = subprocess.run(command, capture_output=True, timeout=TIMEOUT, text=True)  # noqa: S603  the command has no input of the user
            if result.returncode == 0:
                target = folder / f"{name}-{_digest(output)}.so"
                output.chmod(ONLY_OWNER)  # whatever the umask
                output.replace(target)
                return target
    raise OSError(result.stderr.strip().partition("\n")[0] or "no message")


def _cache_folder() -> Path:
    """Return the folder of compiled sources: in ``GATEWISE_CACHE``, or in the user's cache."""
    home = os.environ.get("GATEWISE_CACHE") or os.environ.get("XDG_CACHE_HOME")
    folder = (Path(home) if home else Path.home() / ".cache") / "gatewise" / "native"
    folder.mkdir(parents=True, exist_ok=True, mode=ONLY_OWNER)
    if not _is_safe(folder):
        raise OSError(f"{folder} can be written to by others")
    return folder


def _is_safe(path: Path) -> bool:
    """Return whether only the user can write to ``path``. A library that is loaded is executed."""
    status = path.stat()
    return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
