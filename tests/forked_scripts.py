"""Run scripts in copies of a process that has imported torch and gatewise and has no threads."""

import multiprocessing
import os
import runpy
import sys
import traceback
import warnings
from pathlib import Path

from zoo import declare_missing_torchvision_operators

SECONDS = 300  # a script that takes longer has failed

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["torch", "gatewise", "zoo"])


def run_in_child(script: Path) -> tuple[int, str]:
    """Run a script in its folder.

    Returns:
        The exit code and what the script wrote.
    """
    child = _context.Process(target=_run, args=(str(script),))
    child.start()
    child.join(SECONDS)
    if child.is_alive():
        child.kill()
        child.join()
    return child.exitcode, script.with_suffix(".log").read_text()


def _run(path: str) -> None:
    """Run a script with its outputs in a file, as the main program."""
    script = Path(path)
    log = os.open(script.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", closefd=False)
    os.chdir(script.parent)
    sys.argv = [script.name]
    sys.path.insert(0, str(script.parent))
    warnings.resetwarnings()
    declare_missing_torchvision_operators()  # recorders import torchvision where it is installed
    try:
        runpy.run_path(script.name, run_name="__main__")
    except SystemExit:
        raise
    except BaseException:
        traceback.print_exc()
        sys.exit(1)
