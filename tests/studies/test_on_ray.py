"""The same cells on Ray.

The same records, cells of a killed worker and of a killed machine run again.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest
from small_studies import small_study, without_times

import gatewise
from gatewise.errors import ArgumentError, MissingExtraError
from gatewise.studies.engine import RunOptions, run_study

PROGRAM = Path(__file__).with_name("ray_program.py")
needs_ray = pytest.mark.skipif(
    find_spec("ray") is None or not Path("/proc/net/tcp").exists(),
    reason="needs ray, and processes listed in /proc",
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The same study without Ray."""
    study = small_study(seeds=3, recipe={"epochs": 10, "batch": 20}, evaluate_every=10)
    return run_study(study, tmp_path_factory.mktemp("whole") / "s", RunOptions(on="here"))


def answer_of(how: str, folder: Path) -> dict:
    source = str(Path(gatewise.__file__).parents[1])
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("RAY_")
    } | {
        "PYTHONPATH": f"{source}:{PROGRAM.parent}",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, str(PROGRAM), how, str(folder / "s"), str(folder / "answer.json")]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads((folder / "answer.json").read_text())


def check(found: dict, whole, least_lost: int) -> None:
    kinds = Counter(kind for kind, _, _ in found["events"])
    assert found["struck"] and kinds["lost"] >= least_lost, kinds
    assert kinds["finished"] == len(found["records"]) == len(whole.cells) == 18
    assert without_times(found["records"]) == without_times(whole.records)


@pytest.mark.thorough
@needs_ray
def test_on_one_machine_it_keeps_to_itself_and_a_killed_worker_is_made_up_for(tmp_path, whole):
    found = answer_of("alone", tmp_path)
    check(found, whole, least_lost=1)
    assert found["listening"] and all(
        address in ("127.0.0.1", "::1", "::ffff:127.0.0.1") for address in found["listening"]
    ), found["listening"]
    assert found["usage"] is False and found["left"] is False


@needs_ray
@pytest.mark.slow
def test_a_machine_of_three_that_is_lost_with_all_its_workers_is_made_up_for(tmp_path, whole):
    found = answer_of("cluster", tmp_path)
    check(found, whole, least_lost=1)
    assert found["struck"] >= 2  # workers and agents of that node


def test_without_ray_it_says_how_to_have_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setenv("RAY_ADDRESS", "")
    with pytest.raises(MissingExtraError, match=r"pip install 'gatewise\[ray\]'"):
        run_study(small_study(seeds=1, units=["relu"]), tmp_path / "s", RunOptions(on="ray"))


def test_a_cluster_that_can_be_reached_from_outside_is_refused():
    from gatewise.studies.engine import _check_alone

    class Ray:
        down = False

        class util:  # noqa: N801 - as ray calls it
            @staticmethod
            def get_node_ip_address() -> str:
                return "192.0.2.7"

        @classmethod
        def shutdown(cls) -> None:
            cls.down = True

    with pytest.raises(ArgumentError, match=r"more than the loopback address; got: 192\.0\.2\.7"):
        _check_alone(Ray)
    assert Ray.down


def test_a_machine_that_does_not_see_the_folder_says_so(tmp_path):
    from gatewise.studies.engine import on_cluster

    task = {"cell": {"key": "a"}, "folder": str(tmp_path / "elsewhere" / "cells")}
    found = on_cluster(task, 1)
    assert (
        found["status"] == "lost" and found["disc"] and "all machines must share" in found["reason"]
    )
