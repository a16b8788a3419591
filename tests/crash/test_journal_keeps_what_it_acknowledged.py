"""T2, T3, S2: after a fault at any I/O call, a confirmed record stays and no torn one is read."""

import errno
import logging

import pytest
from simulated_disk import ERRORS, PowerCut, SimulatedDisk, every_call, using

from gatewise.errors import FileError
from gatewise.files import Journal

PATH = "/disk/run/journal"
SHORT = [{"n": n} for n in range(3)]
LONG = [{"n": n, "text": "x" * 1300} for n in range(2)]  # spans sectors


def read(files):
    with using(SimulatedDisk(files)):
        return Journal(PATH).read()


def written(records):
    """The files after these appends."""
    simulated = SimulatedDisk()
    with using(simulated):
        for record in records:
            Journal(PATH).append(record)
    return simulated.visible()


def torn(records):
    """The same, after a crash within one more append."""
    files = written(records)
    whole = written([*records, {"n": "torn"}])[PATH]
    return {PATH: whole[: len(files.get(PATH, b"")) + 50]}


STARTS = {
    "none": ({}, []),
    "some": (written(SHORT), SHORT),
    "torn": (torn(SHORT), SHORT),
    "only torn": (torn([]), []),
}
CASES = [(start, new) for start in STARTS for new in ("short", "long")]
NEW = {"short": SHORT, "long": LONG}


def appending(new, acknowledged):
    """A program that appends, and notes what it was told is safe; errors do not stop it."""

    def program():
        acknowledged.clear()
        journal, failures = Journal(PATH), []
        for record in new:
            try:
                journal.append(record)
                acknowledged.append(record)
            except FileError as problem:
                failures.append(problem)
        return failures

    return program


@pytest.mark.parametrize(("start", "new"), CASES)
def test_a_power_cut_at_any_call_loses_no_acknowledged_record(start, new):
    files, old = STARTS[start]
    acknowledged, states, met = [], {}, set()
    for simulated, end in every_call(files, appending(NEW[new], acknowledged)):
        least, whole = [*old, *acknowledged], [*old, *NEW[new]]
        for state in simulated.survivors():
            found = read(state)
            assert found == whole[: len(found)] and len(found) in (len(least), len(least) + 1)
            met.add(len(found) - len(least))
            states[frozenset(state.items())] = found
        assert isinstance(end, PowerCut) or (end == [] and found == whole)
    assert met == {0, 1}
    for state, found in states.items():
        check_that_work_goes_on(dict(state), found)


def check_that_work_goes_on(files, found):
    """Another program appends to what the first power cut left, with a power cut at any call."""
    acknowledged = []
    for simulated, end in every_call(files, appending([{"n": "after"}], acknowledged)):  # noqa: B007  the last is looked at
        for state in simulated.survivors():
            again = read(state)
            assert again in ([*found, *acknowledged], [*found, {"n": "after"}])
    assert end == [] and acknowledged


@pytest.mark.parametrize(("start", "new"), CASES)
def test_a_record_appended_after_a_killed_writer_is_durable(start, new):
    """The writer dies, the machine does not.

    Another program appends, and only then the power goes.
    """
    files, old = STARTS[start]
    acknowledged = []
    for simulated, _ in every_call(files, appending(NEW[new], acknowledged)):
        simulated.at, simulated.over = 0, False
        with using(simulated):
            Journal(PATH).append({"n": "after"})
        for state in simulated.survivors():
            found = read(state)
            assert found[-1] == {"n": "after"}
            assert found[:-1] == [*old, *NEW[new]][: len(found) - 1] and len(found) > len(
                old
            ) + len(acknowledged)


@pytest.mark.thorough
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize("error", ERRORS, ids=errno.errorcode.get)
@pytest.mark.parametrize(("start", "new"), CASES)
def test_an_error_at_any_call_loses_no_acknowledged_record(start, new, error, lasting, late):
    files, old = STARTS[start]
    acknowledged = []
    for simulated, end in every_call(
        files, appending(NEW[new], acknowledged), error=error, lasting=lasting, late=late
    ):
        assert isinstance(end, list), end
        for problem in end:
            assert (
                type(problem) is FileError
                and problem.errno == error
                and PATH in str(problem)
                and problem.fix
            )
        for state in (simulated.visible(), *simulated.survivors()):
            found = read(state)
            assert found[: len(old)] == old
            assert [
                record for record in found[len(old) :] if record in acknowledged
            ] == acknowledged
            assert all(found.count(record) <= 1 for record in NEW[new]) or old
        if len(end) + len(acknowledged) == len(NEW[new]) and not lasting and not closing(simulated):
            assert read(simulated.visible()) == [
                *old,
                *acknowledged,
            ]  # what was not acknowledged was taken back


def closing(simulated):
    """Whether the error may be from a close, after the record was safe and could not be removed."""
    return simulated.closed_in_error


@pytest.fixture(autouse=True)
def note_closes(monkeypatch):
    def close(self, handle):
        if self.calls + 1 == self.at:
            self.closed_in_error = True
        self.call(lambda: None)

    monkeypatch.setattr(SimulatedDisk, "close", close)
    monkeypatch.setattr(SimulatedDisk, "closed_in_error", False, raising=False)


def test_a_torn_tail_that_is_dropped_is_reported(caplog):
    files, old = STARTS["torn"]
    simulated = SimulatedDisk(files)
    with using(simulated), caplog.at_level(logging.WARNING, "gatewise.files"):
        Journal(PATH).append({"n": "after"})
    assert "unfinished record of 50 bytes" in caplog.text and PATH in caplog.text
    assert read(simulated.visible()) == [*old, {"n": "after"}]


def test_an_interrupted_append_is_taken_back():
    class InterruptedDisk(SimulatedDisk):
        def sync(self, handle):
            raise KeyboardInterrupt

    simulated = InterruptedDisk(written(SHORT))
    with using(simulated), pytest.raises(KeyboardInterrupt):
        Journal(PATH).append({"n": "never"})
    assert simulated.visible() == written(SHORT)


def test_the_first_error_is_reported_even_if_the_record_cannot_be_taken_back():
    class FailingDisk(SimulatedDisk):
        def sync(self, handle):
            raise OSError(errno.ENOSPC, "full")

        def cut(self, handle, size):
            raise OSError(errno.EIO, "broken")

    with using(FailingDisk()), pytest.raises(FileError, match="full") as caught:
        Journal(PATH).append({})
    assert caught.value.errno == errno.ENOSPC


def test_only_the_first_append_of_a_program_syncs_the_folder():
    synced = []

    class CountingDisk(SimulatedDisk):
        def sync_folder(self, path):
            synced.append(path)
            super().sync_folder(path)

    with using(CountingDisk(written(SHORT))):
        journal = Journal(PATH)
        for _ in range(4):
            journal.append({})
    assert len(synced) == 1


def test_a_journal_that_was_deleted_is_made_again_durably():
    simulated = SimulatedDisk()
    with using(simulated):
        journal = Journal(PATH)
        journal.append({"n": 1})
        simulated.remove(PATH)
        simulated.sync_folder("/disk/run")
        journal.append({"n": 2})
    assert [read(state) for state in simulated.survivors()] == [[{"n": 2}]]
