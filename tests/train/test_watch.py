"""What looks on: the progress line in words, and sinks that cannot be had."""

import io
import sys

import pytest
import torch
from small_runs import small_run
from test_loop import DATA

from gatewise.errors import MissingExtraError, UnknownNameError
from gatewise.train.loop import Start, Step
from gatewise.train.run import ProgressLine, clock, make_sink, train


class Screen(io.StringIO):
    def isatty(self):
        return True


def test_the_line_says_where_how_fast_and_how_long(monkeypatch):
    now = iter([100.0, 102.0, 104.0])
    monkeypatch.setattr("gatewise.train.run.progress.time.monotonic", lambda: next(now))
    line = ProgressLine(Screen())
    line.start(
        Start(small_run(), torch.nn.Identity(), 0, 0, epochs=2, steps_per_epoch=10, examples=640)
    )
    for number in (1, 2):
        line.step(Step(number, 1, torch.arange(64), 0.5, 0.1))
    shown = line.stream.getvalue().rsplit("\r\x1b[K", 1)[1]
    assert (
        shown == "epoch 1/2  step 2/20  loss 0.5000  32 examples/s  0:36 left"
    )  # 18 steps of 2 s, 64 images each


@pytest.mark.parametrize(
    "seconds, words", [(0, "0:00"), (59.6, "1:00"), (3599, "59:59"), (3661, "1:01:01")]
)
def test_time_in_words(seconds, words):
    assert clock(seconds) == words


def test_without_a_terminal_there_is_a_line_for_every_epoch_and_no_control_character(tmp_path):
    stream = io.StringIO()
    train(small_run(), tmp_path / "run", data=DATA, watchers=[ProgressLine(stream)])
    lines = stream.getvalue().splitlines()
    assert [line.split("  ")[0] for line in lines] == ["epoch 1/3", "epoch 2/3", "epoch 3/3"]
    assert (
        "test accuracy" in lines[-1]
        and "\x1b" not in stream.getvalue()
        and "\r" not in stream.getvalue()
    )


def test_a_missing_package_and_a_wrong_name_are_said(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(MissingExtraError, match=r"pip install .*mlflow"):
        make_sink("mlflow", tmp_path)
    with pytest.raises(UnknownNameError, match="did you mean 'mlflow'"):
        make_sink("mlflo", tmp_path)
