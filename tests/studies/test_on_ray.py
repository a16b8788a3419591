"""The same cells on Ray.

The same records, cells of a killed worker and of a killed machine run again.
"""

import json
import os
import socket
import subprocess
import sys
from collections import Counter
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
from small_studies import small_study, without_times

import gatewise
from gatewise.errors import ArgumentError, LostProcessError, MissingExtraError
from gatewise.studies.older import RunOptions, Task, on_ray, run_study
from gatewise.train import StopSignal

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


def check_lost(found: dict, whole) -> None:
    first = Counter(kind for kind, _, _ in found["first"])
    assert found["struck"] and 3 <= first["finished"] < 18 and not first["failed"], first
    assert "the cluster was lost; finished runs are kept" in found["problem"]
    assert "rerun the same command to resume" in found["problem"]
    assert found["between"]["failed_count"] == 0 and found["between"]["driver"] is None
    assert found["between"]["finished"] >= first["finished"]  # orphans may have ended theirs
    kinds = Counter(kind for kind, _, _ in found["events"])
    assert kinds["lost"] == kinds["failed"] == 0 and kinds["finished"] < 18
    assert without_times(found["records"]) == without_times(whole.records)


@needs_ray
@pytest.mark.thorough
def test_a_cluster_that_is_lost_stops_the_study_and_no_run_fails(tmp_path, whole):
    check_lost(answer_of("raylet", tmp_path), whole)


@needs_ray
@pytest.mark.slow
def test_a_cluster_that_loses_its_control_service_is_lost(tmp_path, whole):
    check_lost(answer_of("gcs_server", tmp_path), whole)


@needs_ray
@pytest.mark.slow
def test_an_address_of_ray_keeps_its_meaning(tmp_path, whole):
    found = answer_of("client", tmp_path)
    assert without_times(found["records"]) == without_times(whole.records)


def error_classes() -> SimpleNamespace:
    """The classes of Ray's errors, as far as they decide."""
    base = type("RayError", (Exception,), {})
    names = ("LocalRayletDiedError", "NodeDiedError", "WorkerCrashedError", "TaskCancelledError")
    return SimpleNamespace(RayError=base, **{name: type(name, (base,), {}) for name in names})


Errors = error_classes()


class FakeRay:
    """Ends every task with one error, or with an outcome."""

    exceptions = Errors

    def __init__(self, *ends) -> None:
        self.ends = list(ends)

    def get(self, reference):
        end = self.ends.pop(0)
        if isinstance(end, BaseException):
            raise end
        return dict(end)

    def wait(self, references, num_returns=1, timeout=None):
        return references[:1], references[1:]

    def remote(self, **resources):
        self.resources = resources
        return lambda function: SimpleNamespace(remote=lambda *arguments: object())

    def nodes(self):
        return [{"Alive": True, "Resources": {"CPU": 4.0, "GPU": 2.0}}]

    def cluster_resources(self):
        return {"CPU": 4.0, "GPU": 2.0}

    util = SimpleNamespace(client=SimpleNamespace(ray=SimpleNamespace(is_connected=lambda: True)))


def run_fake(monkeypatch, tmp_path, ends, **options):
    ray = FakeRay(*ends)
    monkeypatch.setattr(on_ray, "joined_cluster", lambda *_: nullcontext(ray))
    events = []
    executor = on_ray.OnRay("ray:x", 1, 1, tries=2, **options)
    task = Task({"key": "a"}, str(tmp_path / "cells"))
    try:
        executor.run([task], events.append, StopSignal())
    finally:
        executor.close()
    return [event.kind for event in events], ray


DONE = {"status": "finished", "reason": None, "disc": False, "worker": "w"}


@pytest.mark.parametrize("error", [Errors.NodeDiedError, Errors.WorkerCrashedError])
def test_a_lost_worker_or_machine_is_tried_again(monkeypatch, tmp_path, error):
    kinds, _ = run_fake(monkeypatch, tmp_path, [error("gone"), DONE])
    assert kinds == ["started", "lost", "started", "finished"]


def test_a_run_that_is_lost_every_time_has_no_result(monkeypatch, tmp_path):
    with pytest.raises(LostProcessError, match="1 runs were lost 2 times each"):
        run_fake(monkeypatch, tmp_path, [Errors.WorkerCrashedError("gone")] * 2)
    assert not list(tmp_path.iterdir())


def test_the_type_of_the_error_says_that_the_cluster_is_lost(monkeypatch, tmp_path):
    """Its text does not: a run of the user may say anything."""
    for error in (Errors.LocalRayletDiedError(""), ConnectionError("x")):
        with pytest.raises(LostProcessError, match="the cluster was lost"):
            run_fake(monkeypatch, tmp_path, [error])
    text = "The task's local raylet died. Check raylet.out for more information."
    kinds, _ = run_fake(monkeypatch, tmp_path, [Errors.NodeDiedError(text), DONE])
    assert kinds[-1] == "finished"


def test_graphics_processors_are_reserved_and_must_be_there(monkeypatch, tmp_path):
    _, ray = run_fake(monkeypatch, tmp_path, [DONE], gpus=0.5)
    assert ray.resources["num_gpus"] == 0.5
    with pytest.raises(ArgumentError, match="enough GPUs for one run; got: 3 asked for, 2 there"):
        run_fake(monkeypatch, tmp_path, [DONE], gpus=3)
    cluster = on_ray.Cluster(FakeRay(), 1, 0.5)
    assert cluster.slots() == 4  # four cores, and two processors for two runs each


def test_a_control_service_that_is_gone_is_a_lost_cluster():
    cluster = on_ray.Cluster(FakeRay(), 1, 0)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        cluster.control = f"127.0.0.1:{closed.getsockname()[1]}"  # nobody listens
        for _ in range(on_ray.PROBES - 1):
            cluster._probe()
        with pytest.raises(LostProcessError, match="the cluster was lost"):
            cluster._probe()
    cluster.unreachable = on_ray.PROBES - 1
    with socket.create_server(("127.0.0.1", 0)) as server:
        cluster.control = f"127.0.0.1:{server.getsockname()[1]}"
        cluster._probe()
    assert cluster.unreachable == 0


@pytest.mark.parametrize(
    ("on", "address"),
    [
        ("ray", ""),
        ("ray:10.0.0.1:6379", "10.0.0.1:6379"),
        ("ray:auto", "auto"),
        ("ray://head:10001", "ray://head:10001"),
    ],
)
def test_addresses(on, address):
    assert on_ray.address_of(RunOptions(on=on).on) == address


def test_without_ray_it_says_how_to_have_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setenv("RAY_ADDRESS", "")
    with pytest.raises(MissingExtraError, match=r"pip install .*ray"):
        run_study(small_study(seeds=1, units=["relu"]), tmp_path / "s", RunOptions(on="ray"))


def test_a_cluster_that_can_be_reached_from_outside_is_refused():
    from gatewise.studies.older.on_ray import check_alone

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
        check_alone(Ray)
    assert Ray.down


def test_a_machine_that_does_not_see_the_folder_says_so(tmp_path):
    from gatewise.studies.older import on_cluster

    task = {"cell": {"key": "a"}, "folder": str(tmp_path / "elsewhere" / "cells")}
    found = on_cluster(task, 1)
    assert (
        found["status"] == "lost" and found["disc"] and "all machines must share" in found["reason"]
    )
