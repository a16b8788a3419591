"""Count the source files of gatewise that one call enters: a measure of how scattered the code is.

    python tools/entered_files.py [--list]

Runs the README's ``gw.swap`` and a whole ``gw.diagnose`` of its model twice. Counts the distinct
files below ``src/gatewise`` in which a function is called during the second run. Then does the
same for a model with a batch norm and for more inputs. ``--list`` also lists the files of the
README's two calls.
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


def entered_files(action: Callable[[], object]) -> list[str]:
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
    return sorted(name.removeprefix(SOURCE) for name in files)


def readme_example() -> tuple[list[str], list[str]]:
    """Files that the README's swap enters, and those of a diagnosis of its model and input."""
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4)).eval()
    x = torch.randn(2, 3, 8, 8)
    swap = entered_files(lambda: gw.swap(model, "crelu", x, width="same", preserve=True))
    return swap, entered_files(lambda: gw.diagnose(model, x))


def example_with_batch_norm() -> tuple[list[str], list[str]]:
    """The same for a model with a batch norm, and a diagnosis on 64 inputs."""
    layers = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4)]
    model = nn.Sequential(*layers).eval()
    x = torch.randn(64, 3, 8, 8)
    swap = entered_files(lambda: gw.swap(model, "crelu", x[:2], width="same", preserve=True))
    return swap, entered_files(lambda: gw.diagnose(model, x))


def main() -> None:
    """Print the counts."""
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    swap, diagnose = readme_example()
    print(f"README's model: gw.swap enters {len(swap)} files, gw.diagnose {len(diagnose)}")
    other_swap, other_diagnose = example_with_batch_norm()
    counts = f"gw.swap enters {len(other_swap)} files, gw.diagnose {len(other_diagnose)}"
    print(f"with a batch norm and 64 inputs: {counts}")
    if "--list" in sys.argv:
        for name, files in {"gw.swap": swap, "gw.diagnose": diagnose}.items():
            print(f"\n{name}", *files, sep="\n")


if __name__ == "__main__":
    main()
