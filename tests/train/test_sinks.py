"""The sinks, with their own packages.

A run is written, and read back with the package's own reader.
"""

import socket

import pytest
from small_runs import small_run
from test_loop import DATA

from gatewise.files import Journal
from gatewise.train.loop import Watcher
from gatewise.train.run import make_sink, train


class InterruptionError(Exception):
    """Raised to interrupt a run."""


class Interruption(Watcher):
    def epoch(self, record):
        if record["epoch"] == 2:
            raise InterruptionError


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    """Files only: whoever asks for an address fails, and MLflow is told not to."""
    monkeypatch.setenv("DO_NOT_TRACK", "true")
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE", raising=False)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)


def refuse(*given, **options):
    pytest.fail(f"a connection is asked for: {given}")


def run(folder, name: str, *watchers: Watcher):
    """Train with a sink; what our own file says of every epoch, but for missing numbers."""
    result = train(small_run(), folder, data=DATA, watchers=[make_sink(name, folder), *watchers])
    return result, recorded(folder)


def recorded(folder) -> list[dict]:
    records = Journal(folder / "metrics.jsonl").read()
    return [
        {name: value for name, value in record.items() if value is not None} for record in records
    ]


def scalars(folder) -> list[dict]:
    """The records of a TensorBoard folder, by TensorBoard's reader."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder))
    events.Reload()
    found: dict[int, dict] = {}
    for name in events.Tags()["scalars"]:
        for event in events.Scalars(name):
            found.setdefault(event.step, {"epoch": event.step})[name] = event.value
    return [found[epoch] for epoch in sorted(found)]


def mlflow_runs(folder):
    from mlflow import MlflowClient

    client = MlflowClient(folder.resolve().as_uri())
    return client, client.search_runs(["0"], order_by=["attributes.start_time"])


def logged(client, run) -> list[dict]:
    """The records of an MLflow run, by MLflow's reader."""
    found: dict[int, dict] = {}
    for name in run.data.metrics:
        for each in client.get_metric_history(run.info.run_id, name):
            found.setdefault(each.step, {"epoch": each.step})[name] = each.value
    return [found[epoch] for epoch in sorted(found)]


def test_tensorboard_reads_every_number_of_every_epoch(tmp_path):
    pytest.importorskip("tensorboard")
    _, records = run(tmp_path / "run", "tensorboard")
    found = scalars(tmp_path / "run" / "tensorboard")
    assert len(found) == 3
    for theirs, ours in zip(found, records, strict=True):
        assert theirs == pytest.approx(ours, rel=2**-23)  # TensorBoard keeps float32


@pytest.mark.slow
def test_mlflow_reads_the_configuration_and_every_number_of_every_epoch(tmp_path):
    pytest.importorskip("mlflow")
    result, records = run(tmp_path / "run", "mlflow")
    client, (kept,) = mlflow_runs(tmp_path / "run" / "mlflow")
    assert logged(client, kept) == records
    assert kept.info.status == "FINISHED" and kept.info.run_name == result.config_sha256[:12]
    assert kept.data.params == {
        "model": "small_cnn",
        "unit": "swish",
        "data": "digits",
        "seed": "0",
    }


def test_a_run_that_goes_on_writes_the_rest_to_both(tmp_path):
    pytest.importorskip("tensorboard")
    pytest.importorskip("mlflow")
    folder = tmp_path / "run"
    sinks = [make_sink("tensorboard", folder), make_sink("mlflow", folder)]
    with pytest.raises(InterruptionError):
        train(small_run(), folder, data=DATA, watchers=[*sinks, Interruption()])
    _, records = run(folder, "tensorboard", make_sink("mlflow", folder))
    assert [each["epoch"] for each in records] == [1, 2, 3]
    assert [each["epoch"] for each in scalars(folder / "tensorboard")] == [1, 2, 3]
    client, runs = mlflow_runs(folder / "mlflow")
    assert [each.info.status for each in runs] == [
        "RUNNING",
        "FINISHED",
    ]  # nobody was left to say that it had ended
    assert {each["epoch"] for kept in runs for each in logged(client, kept)} == {1, 2, 3}


def test_two_mlflow_sinks_at_once_do_not_share_a_run(tmp_path):
    pytest.importorskip("mlflow")
    inner = tmp_path / "inner"

    class Nested(Watcher):
        def epoch(self, record):
            if record["epoch"] == 1:
                run(inner, "mlflow")

    run(tmp_path / "outer", "mlflow", Nested())
    for folder in (inner, tmp_path / "outer"):
        client, (kept,) = mlflow_runs(folder / "mlflow")
        assert [each["epoch"] for each in logged(client, kept)] == [1, 2, 3]
