"""Write pickles as Python 2 wrote the batches of CIFAR, correct and hostile ones."""

import struct
from collections.abc import Sequence

STOP = b"."


def short(text: bytes) -> bytes:
    return b"U" + bytes([len(text)]) + text


def array(
    values: bytes,
    shape: Sequence[int],
    *,
    kind: bytes = b"u1",
    length: int | None = None,
) -> bytes:
    """An array of bytes, as numpy pickles it by protocol 2."""
    new = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    sizes = b"(" + b"".join(b"J" + struct.pack("<i", n) for n in shape) + b"t"
    dtype = (
        b"cnumpy\ndtype\n"
        + short(kind)
        + b"K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    )
    data = b"T" + struct.pack("<i", len(values) if length is None else length) + values
    state = b"(K\x01" + sizes + dtype + b"\x89" + data + b"tb"
    return new + state


def numbers(values: Sequence[int]) -> bytes:
    return b"](" + b"".join(b"K" + bytes([n]) for n in values) + b"e"


def dictionary(**entries: bytes) -> bytes:
    """Remembers each of its keys, as the published files do, and recalls none."""
    pairs = [
        short(key.encode()) + b"q" + bytes([n]) + value
        for n, (key, value) in enumerate(entries.items())
    ]
    return b"\x80\x02}q\xff(" + b"".join(pairs) + b"u" + STOP


def batch(images: bytes, labels: Sequence[int], key: str = "labels", values: int = 3072) -> bytes:
    """A batch of CIFAR: as many images of ``values`` bytes as there are labels."""
    entries = {
        "batch_label": short(b"made up"),
        key: numbers(labels),
        "data": array(images, (len(labels), values)),
    }
    return dictionary(**entries)
