"""Count the source files of gatewise that one call enters: a measure of how scattered the code is.

    python tools/entered_files.py

Runs the README's ``gw.swap`` and a whole ``gw.diagnose`` of the same model twice. Counts the
distinct files below ``src/gatewise`` in which a function is called during the second run.
"""

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import torch
from torch import nn

import gatewise as gw

SOURCE = str(Path(gw.__file__).parent)


def entered_files(action: Callable[[], object]) -> set[str]:
    """Files of gatewise in which a function is called while ``action`` runs for the second time."""
    action()
    files: set[str] = set()

    def profile(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(SOURCE):
            files.add(frame.f_code.co_filename)

    sys.setprofile(profile)
    try:
        action()
    finally:
        sys.setprofile(None)
    return files


def main() -> None:
    """Print both counts."""
    warnings.simplefilter("ignore")
    layers = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 4)]
    model = nn.Sequential(*layers).eval()
    x = torch.randn(64, 3, 8, 8)
    swap = entered_files(lambda: gw.swap(model, "crelu", x[:2], preserve=True, width="same"))
    diagnose = entered_files(lambda: gw.diagnose(model, x))
    print(f"gw.swap enters {len(swap)} files, gw.diagnose {len(diagnose)}")
    if "--list" in sys.argv:
        print(*sorted(name.removeprefix(SOURCE) for name in diagnose), sep="\n")


if __name__ == "__main__":
    main()
