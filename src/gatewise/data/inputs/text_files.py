"""Text as rows of token numbers, for language models."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from gatewise.errors import ArgumentError, FileError, MissingExtraError
from gatewise.files import show

TOKENIZER = "tokenizer.json"
MOST_LETTERS = 50_000_000


def read_text_tokens(
    texts: Path | Sequence[str],
    tokenizer: Path | None,
    length: int,
    examples: int,
) -> Tensor:
    """Return rows of token numbers (n, length), of the whole text one after another.

    Args:
        texts: A text file, or texts.
        tokenizer: The file ``tokenizer.json`` of the model.
        length: Tokens in a row.
        examples: How many rows to return at most.

    Raises:
        FileError: A file cannot be read.
        ArgumentError: There is no tokenizer, or the text is shorter than one row.
    """
    if tokenizer is None or not tokenizer.is_file():
        raise ArgumentError(
            "--data: text needs the tokenizer of the model",
            got="no tokenizer" if tokenizer is None else show(tokenizer),
            fix=f"--tokenizer FOLDER/{TOKENIZER}, or --data IDS.npy with token numbers (n, length)",
        )
    try:
        from tokenizers import Tokenizer
    except ImportError as problem:
        raise MissingExtraError(
            "reading text needs tokenizers, which is not installed",
            fix='pip install "gatewise[hf]"',
        ) from problem
    try:
        encode = Tokenizer.from_file(str(tokenizer)).encode
    except Exception as problem:  # the library raises its own errors as plain exceptions
        raise FileError(
            "--tokenizer: the file cannot be read", got=f"{show(tokenizer)}: {problem}"
        ) from problem
    tokens: list[int] = []
    for text in [_read(texts)] if isinstance(texts, Path) else texts:
        tokens += encode(text).ids
        if len(tokens) >= length * examples:
            break
    rows = min(examples, len(tokens) // length)
    if not rows:
        raise ArgumentError(
            "--data: the text is shorter than one row",
            got=f"{len(tokens):,} tokens",
            allowed=f"{length:,} tokens or more",
            fix=f"--length {max(1, len(tokens))}, or a longer text",
        )
    return torch.tensor(tokens[: rows * length]).reshape(rows, length)


def _read(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            return file.read(MOST_LETTERS)
    except (OSError, UnicodeDecodeError) as problem:
        raise FileError(
            "--data: the text cannot be read",
            got=f"{show(path)}: {problem}",
            allowed="a text file in UTF-8",
        ) from problem
