"""The ``gatewise`` command: one file per command. No other part imports it."""

import contextlib
import io
import os
import signal
import sys
from typing import TYPE_CHECKING

import gatewise

if TYPE_CHECKING:
    from gatewise.cli.application import app as app


def __getattr__(name: str) -> object:
    """Load the application when it is first used: ``--version`` does not need it."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from gatewise.cli.application import app

    return app


def main() -> None:
    """Run the ``gatewise`` command."""
    _prepare_streams()
    try:
        if sys.argv[1:] == ["--version"]:
            print(f"gatewise {gatewise.__version__}")
            sys.stdout.flush()
            return
        from gatewise.cli.application import app, help_text

        if sys.argv[-1] in ("--help", "-h"):
            text = help_text(sys.argv[1:-1])
            if text is not None:
                print(text)
                sys.stdout.flush()
                return
        try:
            app(prog_name="gatewise")
        finally:
            sys.stdout.flush()  # here, a full disk can still be reported
    except OSError as error:
        _exit_unwritten(error)


def _prepare_streams() -> None:
    """Let output end quietly if the reader of a pipe stops, or if a stream is closed."""
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # the parent process closed it
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123  stays open until the end
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal without our symbols shows "?" instead of raising an error.
            stream.reconfigure(errors="replace")


def _exit_unwritten(error: OSError) -> None:
    """Print one line and exit with code 2 because the output could not be written."""
    with contextlib.suppress(OSError):
        print(f"error: cannot write the output: {error.strerror or error}", file=sys.stderr)
    os._exit(2)  # a normal exit would flush the same output again and fail again
