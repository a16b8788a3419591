"""Function cells that say who ran them, and a program that forks drivers made to be killed."""

import os
import sys
import threading
import time
from pathlib import Path

from small_studies import small_study

from gatewise.studies.older import (
    CellCall,
    FunctionCell,
    FunctionStudy,
    RunOptions,
    Study,
    run_study,
)


def work(call: CellCall) -> dict:
    """Leave a line for every time that the cell is run to its end."""
    time.sleep(call.settings["seconds"])
    with (Path(call.settings["log"]) / call.name).open("a") as log:
        log.write(f"{os.getpid()}\n")
    return {"number": call.settings["number"]}


def cells(folder: Path, count: int, seconds: float) -> list[FunctionCell]:
    log = folder.parent / "log"
    log.mkdir(exist_ok=True)
    settings = {"log": str(log), "seconds": seconds}
    return [FunctionCell(f"cell{n}", work, settings | {"number": n}) for n in range(count)]


def runs(folder: Path) -> dict[str, int]:
    """How often each cell was run to its end."""
    log = folder.parent / "log"
    return {path.name: len(path.read_text().splitlines()) for path in log.iterdir()}


def run_shard(folder: Path, shard: str, count: int, seconds: float, **options) -> dict | None:
    study = FunctionStudy(folder, "shared")
    return study.run(cells(folder, count, seconds), RunOptions(on="here", shard=shard, **options))


def main() -> None:
    """Import once, and fork a driver for each line ``FOLDER SHARD CELLS SECONDS``."""
    import shared_cells  # so that the cells have the same names in every process

    print("ready", flush=True)
    for line in sys.stdin:
        folder, shard, count, seconds = line.split()
        driver = os.fork()
        if not driver:
            code = 1
            try:
                done = shared_cells.run_shard(Path(folder), shard, int(count), float(seconds))
                code = 0 if done and len(done) == int(count) else 1
            finally:
                os._exit(code)
        os.write(1, f"driver {driver}\n".encode())
        threading.Thread(target=wait_for, args=(driver,), daemon=True).start()


def wait_for(driver: int) -> None:
    _, code = os.waitpid(driver, 0)
    os.write(1, f"dead {driver} {os.waitstatus_to_exitcode(code)}\n".encode())


def tuned_study() -> Study:
    return small_study(units=["relu", "elu"], seeds=2, tune={"lr": [1e-4, 3e-3]})


if __name__ == "__main__":
    if len(sys.argv) > 1:  # FOLDER SHARD: a whole study with tuning
        run_study(tuned_study(), sys.argv[1], RunOptions(on="here", threads=1, shard=sys.argv[2]))
    else:
        main()
