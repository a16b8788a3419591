"""T2, T3: whatever a disc does, a run keeps its last checkpoint and ends in the same bits."""

import errno
from contextlib import suppress
from pathlib import Path

import pytest
import simulated_disk
from simulated_disk import PowerCut, every_call, using
from small_runs import EXAMPLES, small_run

from gatewise.data import load
from gatewise.errors import FileError
from gatewise.files import is_temporary
from gatewise.train.loop import Checkpoints, Pace
from gatewise.train.run import METRICS, WEIGHTS, train

OUT = "/disc/run"
PERCEPTRON = {"model": "mlp", "unit": "relu", "model_options": {"widths": [2]}}
RUN = small_run(
    "dropout", "epochs = 2", "batch = 48", evaluate_every=2, **PERCEPTRON
)  # two steps an epoch
EVERY_STEP = Pace(checkpoint_seconds=0)


class Disc(simulated_disk.SimulatedDisk):
    """With the calls that a run makes besides: folders are there, and a lock is free."""

    def make_folder(self, path):
        self.call(lambda: None)

    def contents(self, path):
        return self.call(
            lambda: [Path(name) for name in sorted(self.names) if Path(name).parent == path]
        )

    def hold(self, path):
        return self.lock(path)

    def is_replaceable(self, path):
        return True


@pytest.fixture(autouse=True)
def use_it(monkeypatch):
    monkeypatch.setattr(simulated_disk, "SimulatedDisk", Disc)


@pytest.fixture(scope="module")
def program():
    data = load("digits", train=EXAMPLES)
    data = type(data)(**vars(data) | {"test": data.test.first(50)})
    return lambda: train(RUN, OUT, data=data, pace=EVERY_STEP)


@pytest.fixture(scope="module")
def whole(program):
    """Result and files of a run to which nothing happened."""
    disc = Disc()
    with using(disc):
        return program(), contents(disc), disc.calls


def contents(disc):
    """The files of a run without those that hold seconds and the number of processes."""
    return {
        name: data for name, data in disc.visible().items() if name.endswith((METRICS, WEIGHTS))
    }


def finish(files, program, whole):
    """Give the command again on these files.

    The end must be that of a run to which nothing happened.
    """
    disc = Disc(files)
    with using(disc):
        result = program()
    assert (
        result.weights_sha256 == whole[0].weights_sha256
        and result.state_sha256 == whole[0].state_sha256
    )
    assert contents(disc) == whole[1] and not [
        name for name in disc.visible() if is_temporary(name)
    ]
    return result


def chosen(disc, count):
    """Some of the states that the medium may have, with the first and last; always the same."""
    states = list(disc.survivors())
    step = max(1, len(states) // count)
    return [*states[::step], states[-1]]


@pytest.mark.thorough
def test_a_power_cut_at_any_call_loses_no_more_than_the_work_since_the_last_checkpoint(
    program, whole, full
):
    cuts, again = 0, []
    for disc, end in every_call({}, program):
        if isinstance(end, PowerCut):
            cuts += 1
            for state in chosen(disc, 50 if full else 1):
                again.append(finish(state, program, whole).starts)
        else:
            assert end == whole[0] or end.weights_sha256 == whole[0].weights_sha256
    assert cuts > 80 and max(again) == 2  # some went on from a checkpoint of the process before


@pytest.mark.thorough
def test_a_killed_process_leaves_files_that_the_next_one_goes_on_with(program, whole, full):
    """Every third call; what the system was told is there, synced or not."""
    for at in range(1, whole[2], 1 if full else 3):
        disc = Disc(at=at)
        with (
            using(disc),
            suppress(PowerCut),
        ):  # a look for a file that is not there yet ends in that, not in a cut
            program()
        finish(disc.visible(), program, whole)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "error", [errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT], ids=errno.errorcode.get
)
def test_a_failing_disc_is_one_sentence_and_the_run_can_go_on(program, whole, error, full):
    """Every call for a full disc; every seventh for the others, and all with the full counts."""
    step = 1 if full or error == errno.ENOSPC else 7
    for at in range(1, whole[2], step):
        disc = Disc(at=at, error=error, lasting=True)
        with using(disc), pytest.raises(FileError) as found:
            program()
        assert found.value.errno == error and found.value.fix and "\n" not in str(found.value)
        if full or at % 20 == 1:
            finish(disc.visible(), program, whole)


def test_the_comparison_can_fail(program, whole):
    """A checkpoint in which one weight differs leads to another end."""
    for disc, end in every_call({}, program):
        if isinstance(end, PowerCut) and any("checkpoint" in name for name in disc.visible()):
            break
    with using(Disc(disc.visible())):
        slots = Checkpoints(Path(OUT))
        saved = slots.load()
        saved.tensors["model/head.layer.bias"][0] += 1.0
        slots.save(saved)
        assert program().weights_sha256 != whole[0].weights_sha256
