"""Batches of CIFAR are read as Python reads them; a pickle that runs code is refused."""

import pickle
import random
import resource
import warnings
from pathlib import Path

import pytest
import torch
from data.pickles import STOP, array, batch, dictionary, numbers, short

from gatewise.data.sets import read_batch

SMALL = batch(bytes(range(24)), [1, 0, 9], values=8)
PROTOCOL_2 = b"\x80\x02"


def by_python(data: bytes) -> dict:
    """What Python's own reader makes of it: for files written here only."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy has moved what old pickles name
        return pickle.loads(data, encoding="bytes")


def assert_same(found: dict, wanted: dict):
    assert found.keys() == wanted.keys()
    for key, value in wanted.items():
        if hasattr(value, "dtype"):
            assert found[key].dtype == value.dtype and found[key].tolist() == value.tolist()
        else:
            assert found[key] == value


def test_a_batch_is_read_as_python_reads_it():
    assert_same(read_batch(SMALL), by_python(SMALL))
    assert read_batch(SMALL)[b"data"].tolist() == torch.arange(24).view(3, 8).tolist()


def test_values_may_be_remembered_and_recalled():
    data = (
        PROTOCOL_2
        + b"}("
        + short(b"a")
        + numbers([1, 2])
        + b"r\x00\x01\x00\x00"
        + short(b"b")
        + b"j\x00\x01\x00\x00u."
    )
    assert_same(read_batch(data), by_python(data))
    data = PROTOCOL_2 + b"}(" + short(b"a") + numbers([3]) + b"q\x05" + short(b"b") + b"h\x05u."
    assert_same(read_batch(data), by_python(data))


class Acts:
    """Makes a folder when Python unpickles it."""

    def __init__(self, marker: Path):
        self.marker = str(marker)

    def __reduce__(self):
        import os

        return os.mkdir, (self.marker,)


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_that_acts_is_refused_without_acting(tmp_path: Path, protocol: int):
    control, marker = tmp_path / "control", tmp_path / "marker"
    pickle.loads(pickle.dumps(Acts(control), protocol))
    assert control.exists()  # it does act where it is let
    with pytest.raises(ValueError):
        read_batch(pickle.dumps({b"data": Acts(marker)}, protocol))
    assert not marker.exists()


def call(name: bytes, argument: bytes = b"U\x04true") -> bytes:
    return PROTOCOL_2 + b"c" + name.replace(b" ", b"\n") + b"\n" + argument + b"\x85R."


HOSTILE = {
    "a system call": call(b"os system"),
    "the same under another name": call(b"posix system"),
    "evaluation": call(b"builtins eval"),
    "an attribute of a known name": call(b"numpy.core.multiarray fromfile"),
    "a known name where it is not known": call(b"numpy.core._reconstruct ndarray"),
    "numpy's own evaluation": call(b"numpy.lib.npyio load"),
    "the type of objects": dictionary(data=array(b"x", (1,), kind=b"O8")),
    "a known name called with something else": PROTOCOL_2 + b"cnumpy\ndtype\nU\x01O\x85R.",
    "an object made by class": PROTOCOL_2 + b"(cos\nsystem\nU\x04trueo.",
    "an instance": b"(S'true'\nios\nsystem\n.",
    "a persistent id": PROTOCOL_2 + b"U\x01xQ.",
    "an extension": PROTOCOL_2 + b"\x82\x01.",
    "a new object": PROTOCOL_2 + b"cnumpy\nndarray\n)\x81.",
    "a name from the stack": b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
    "a build of a list": PROTOCOL_2 + b"](K\x01tb.",
    "a build of a name": PROTOCOL_2 + b"cnumpy\nndarray\n(K\x01tb.",
    "an array filled with nothing": dictionary(data=array(b"x", (1,)) + b"(K\x01tb"),
    "a number as dictionary": PROTOCOL_2 + b"K\x01.",
    "nothing": b"",
    "only the end": STOP,
    "no mark": PROTOCOL_2 + b"}u.",
    "values without list": PROTOCOL_2 + b"}(K\x01e.",
    "half a pair": PROTOCOL_2 + b"}(U\x01au.",
    "a key that is a list": PROTOCOL_2 + b"}(]K\x01u.",
    "nothing remembered": PROTOCOL_2 + b"}h\x07.",
    "a tuple of nothing": PROTOCOL_2 + b"\x87.",
    "a negative length": dictionary(data=array(b"x", (1,), length=-1)),
    "a length beyond the file": dictionary(data=array(b"x", (1,), length=2**31 - 1)),
    "a shape beyond the values": dictionary(data=array(b"x" * 8, (2**20, 2**11))),
    "a negative shape": dictionary(data=array(b"x", (-1, -1))),
    "a name without end": PROTOCOL_2 + b"c" + b"x" * 5000,
    "a name that is not ascii": PROTOCOL_2 + b"c\xff\n\xff\n.",
    "a dictionary within itself": PROTOCOL_2 + b"}q\x00(U\x01ah\x00u",
    "a page": b"<html>404 not found</html>",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_anything_else_is_refused(name: str):
    with pytest.raises(ValueError):
        read_batch(HOSTILE[name])


def test_many_arrays_of_one_string_take_its_memory_once():
    megabytes = 20
    values = b"T" + (megabytes << 20).to_bytes(4, "little") + bytes(megabytes << 20) + b"q\x02"
    first, again = (
        array(b"", (megabytes << 20,)),
        array(b"", (megabytes << 20,)).replace(b"T" + bytes(4), b"h\x02"),
    )
    names = [short(str(n).encode()) for n in range(200)]
    data = b"".join(
        name + (again if n else first.replace(b"T" + bytes(4), values))
        for n, name in enumerate(names)
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = read_batch(PROTOCOL_2 + b"}(" + data + b"u.")
    assert len(found) == 200 and all(each.shape == (megabytes << 20,) for each in found.values())
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 4 * megabytes << 10


@pytest.mark.parametrize("data", [b"(" * 5_000_000, PROTOCOL_2 + b"}r" + b"\xff" * 4 + b"."])
def test_neither_marks_nor_numbers_take_memory_beyond_the_size_of_the_file(data: bytes):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ValueError):
        read_batch(data)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kilobytes


def test_every_cut_of_a_batch_is_refused():
    for length in range(len(SMALL)):
        with pytest.raises(ValueError):
            read_batch(SMALL[:length])


def test_a_changed_batch_is_refused_or_still_plain(full: bool):
    source = random.Random(0)  # noqa: S311 - the same mistakes every time
    for _ in range(100_000 if full else 3000):
        data = bytearray(SMALL)
        for _ in range(source.randint(1, 4)):
            data[source.randrange(len(data))] = source.choice(
                (source.randrange(256), *b"(.cRbtuqh}]")
            )
        try:
            found = read_batch(bytes(data))
        except ValueError:
            continue
        assert isinstance(found, dict) and not any(callable(each) for each in found.values())


@pytest.mark.data
def test_a_published_batch_is_read_as_python_reads_it(data_folder: Path):
    data = (data_folder / "cifar-10-batches-py" / "test_batch").read_bytes()
    found, wanted = read_batch(data), by_python(data)
    assert (found[b"data"] == wanted[b"data"]).all() and found[b"data"].shape == (10_000, 3072)
    assert found[b"labels"] == wanted[b"labels"] and found[b"filenames"] == wanted[b"filenames"]
