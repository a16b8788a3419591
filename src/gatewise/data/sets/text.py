"""Text as bytes, to train small language models: documentation of Python 3.11, or the user's text.

Note [Rows of bytes]. A token is a byte, so there are 256 of them and no tokenizer. The text is cut
into blocks. A tenth of the blocks, chosen by one fixed random order, is the test split; training
and test text then come from all parts of the text and do not depend on the length of a row. Inside
a block, row i holds the bytes from i * length on, and its labels are the bytes one place later. So
every byte but the first of a block and the incomplete row at its end is predicted exactly once.

The documentation strings were extracted once by ``tools/python_docstrings.py`` from the standard
library of Python 3.11.7. The file is frozen: text of the running interpreter would differ by
version. Its licence stands beside it, in ``python_text.LICENSE.txt``.
"""

import lzma
from pathlib import Path

import torch
from torch import Tensor

from gatewise.checks import check_count
from gatewise.data.catalogue import register_data_set
from gatewise.data.data_set import DataSet, Split, content_digest
from gatewise.data.published import Form, Published, read_published
from gatewise.data.seeds import shuffled
from gatewise.errors import ArgumentError, FileError
from gatewise.files import explained, show

FILE = Published(
    "python_text.xz",
    Form("95b8688c78d2772530d993381734e8e140eb1da59ac4b36e81a5e1526c6d9336", 433_832),
)
TOKENS = 256
LENGTH = 128
LONGEST = 4096
BLOCK = 16_384  # bytes of text that stay together in one split
SHARE = 10  # one in so many blocks is for the test
LARGEST = 200_000_000  # bytes of the user's text


@register_data_set(
    "text",
    title="Documentation of Python 3.11 as bytes, or your own text",
    home="https://docs.python.org/3.11/library/",
    fetch="nothing to fetch: it comes with gatewise",
    licence="PSF License Agreement (Python Software Foundation, 2001-2023)",
    sizes=(12_446, 1_270),
    classes=TOKENS,
    shape=(LENGTH,),
)
def text(
    *,
    folder: str | Path | None = None,
    path: str | None = None,
    length: int = LENGTH,
    train: int | None = None,
    test: int | None = None,
) -> DataSet:
    """Rows of bytes and the bytes that follow them, see Note [Rows of bytes].

    Args:
        folder: not used: the text comes with gatewise.
        path: a text file, or a folder whose .txt files are read in the order of their names, in
            place of the documentation of Python.
        length: bytes in a row.
        train: number of training rows, from a fixed random order; all unless given.
        test: number of test rows, likewise.
    """
    if type(length) is not int or not 1 <= length <= LONGEST:
        raise ArgumentError(
            "length must be a number of bytes", got=length, allowed=f"1 .. {LONGEST}"
        )
    data = _python_text() if path is None else _own_text(Path(path))
    first, second = _splits(data, length)
    first = _fewer("train", first, train)
    second = _fewer("test", second, test)
    return DataSet(
        name="text",
        train=first,
        test=second,
        classes=TOKENS,
        shape=(length,),
        mean=(),
        std=(),
        digest=content_digest((first.images, first.labels, second.images, second.labels)),
    )


def _python_text() -> bytes:
    """Return the frozen text; its digest is checked before it is unpacked."""
    home = Path(__file__).parent
    return lzma.decompress(read_published(home, FILE, fetch="install gatewise again"))


def _own_text(path: Path) -> bytes:
    """Return the bytes of a file, or of the .txt files of a folder with a line break between."""
    with explained("look at", path):
        files = sorted(path.glob("*.txt")) if path.is_dir() else [path]
    if not files:
        raise FileError("the folder has no text", got=show(path), allowed="files that end in .txt")
    parts = []
    room = LARGEST
    for file in files:
        with explained("read", file), file.open("rb") as handle:
            parts.append(handle.read(room + 1))
        room -= len(parts[-1])
        if room < 0:
            raise FileError(
                "the text is too large",
                got=show(path),
                allowed=f"{LARGEST:,} bytes",
                fix="use a part of it",
            )
    return b"\n".join(parts)


def _splits(data: bytes, length: int) -> tuple[Split, Split]:
    """Return training and test rows, see Note [Rows of bytes]."""
    least = 2 * SHARE * (length + 1)  # two test blocks of one row
    if len(data) < least:
        raise ArgumentError(
            f"the text is too short for rows of {length} bytes",
            got=f"{len(data):,} bytes",
            allowed=f"{least:,} bytes or more",
            fix="use a longer text, or a smaller length",
        )
    tokens = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    size = min(max(BLOCK, length + 1), len(data) // (2 * SHARE))
    blocks = tokens[: len(tokens) // size * size].view(-1, size)
    order = shuffled(len(blocks), 0, "split")
    count = len(blocks) // SHARE
    test, train = (places.sort().values for places in (order[:count], order[count:]))
    return _rows(blocks[train], length), _rows(blocks[test], length)


def _rows(blocks: Tensor, length: int) -> Split:
    """Return the rows of some blocks, and the next byte at every place of them."""
    end = (blocks.shape[1] - 1) // length * length
    inputs = blocks[:, :end].reshape(-1, length)
    labels = blocks[:, 1 : end + 1].reshape(-1, length)
    return Split(inputs, labels.long())


def _fewer(name: str, split: Split, count: int | None) -> Split:
    """Return ``count`` rows of a split."""
    if count is None:
        return split
    check_count("data", name, count, most=len(split))
    return split.take(shuffled(len(split), 0, "split")[:count])
