"""Text as rows of token numbers, for language models."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from gatewise.errors import ArgumentError, FileError, MissingExtraError, install_extra
from gatewise.files import show

TOKENIZER = "tokenizer.json"
MOST_LETTERS = 50_000_000


def read_text_tokens(
    texts: Path | Sequence[str],
    tokenizer: Path | None,
    length: int,
    examples: int,
    *,
    as_bytes: bool = False,
) -> Tensor:
    """Return rows of token numbers (n, length), of the whole text one after another.

    Args:
        texts: A text file, or texts.
        tokenizer: The file ``tokenizer.json`` of the model.
        length: Tokens in a row.
        examples: How many rows to return at most.
        as_bytes: Whether the tokens are the bytes of the text. Then no tokenizer is needed.

    Raises:
        FileError: A file cannot be read.
        ArgumentError: There is no tokenizer, or the text is shorter than one row.
    """
    encode = _bytes_of if as_bytes else _tokenizer(tokenizer)
    tokens: list[int] = []
    for text in [_read(texts)] if isinstance(texts, Path) else texts:
        tokens += encode(text)
        if len(tokens) >= length * examples:
            break
    rows = min(examples, len(tokens) // length)
    if not rows:
        kind = "bytes" if as_bytes else "tokens"
        raise ArgumentError(
            "data: the text is shorter than one row",
            got=f"{len(tokens):,} {kind}",
            allowed=f"{length:,} {kind} or more",
            fix="a smaller length=TOKENS, or a longer text",
        )
    return torch.tensor(tokens[: rows * length]).reshape(rows, length)


def _bytes_of(text: str) -> Iterable[int]:
    return text.encode()


def _tokenizer(file: Path | None) -> Callable[[str], Iterable[int]]:
    """Return the function from a text to the token numbers of a tokenizer."""
    if file is None or not file.is_file():
        raise ArgumentError(
            "data: text needs the tokenizer of the model",
            got="no tokenizer" if file is None else show(file),
            fix=f"tokenizer=FILE, the {TOKENIZER} of the model, or data=FILE, an .npy file of "
            "token numbers (n, length)",
        )
    try:
        from tokenizers import Tokenizer
    except ImportError as problem:
        raise MissingExtraError(
            "reading text needs tokenizers, which is not installed",
            fix=install_extra("hf"),
        ) from problem
    try:
        encode = Tokenizer.from_file(str(file)).encode
    except Exception as problem:  # the library raises its own errors as plain exceptions
        raise FileError(
            "tokenizer: the file cannot be read", got=f"{show(file)}: {problem}"
        ) from problem
    return lambda text: encode(text).ids


def _read(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            return file.read(MOST_LETTERS)
    except (OSError, UnicodeDecodeError) as problem:
        raise FileError(
            "data: the text cannot be read",
            got=f"{show(path)}: {problem}",
            allowed="a text file in UTF-8",
        ) from problem
