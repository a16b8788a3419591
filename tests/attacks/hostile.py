"""Makes the hostile files of ``README.md``, by hand."""

import io
import json
import os
import pickle
import zipfile
from functools import cache


def tensor_file(rest: str | bytes, data: bytes = b"", length: int | None = None) -> bytes:
    """A safetensors file whose header is the usual beginning and ``rest``."""
    rest = rest if isinstance(rest, bytes) else rest.encode()
    header = b'{"__metadata__":{"k":"v"' + rest
    header += b" " * (-len(header) % 8)
    return (len(header) if length is None else length).to_bytes(8, "little") + header + data


def entry(dtype="U8", shape=(1,), offsets=(0, 1), name="a") -> str:
    return f"{json.dumps(name)}:" + json.dumps(
        {"dtype": dtype, "shape": shape, "data_offsets": offsets}
    )


def tensors(*entries: str, data: bytes = b"x") -> bytes:
    return tensor_file("}," + ",".join(entries) + "}", data)


class RunsCode:
    """A pickle that makes a marker file when it is loaded."""

    def __init__(self, marker):
        self.marker = str(marker)

    def __reduce__(self):
        return os.mkdir, (self.marker,)


def archive(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return buffer.getvalue()


@cache
def foreign_files(marker) -> dict[str, bytes]:
    """Not ours at all, for any reader."""
    payload = pickle.dumps(RunsCode(marker))
    return {
        "pickle": payload,
        "pickle, old protocol": pickle.dumps(RunsCode(marker), protocol=0),
        "torch archive": archive({"archive/data.pkl": payload, "archive/version": b"3\n"}),
        "zip bomb": archive({"big": bytes(50_000_000)}),
        "zeros": bytes(5_000_000),
        "newlines": b"x\n" * 1_000_000,
        "nothing but a header length of 2^63": (1 << 63).to_bytes(8, "little"),
        "page of HTML": b"<!doctype html><title>404</title>",
        "one byte": b"\x80",
        "brackets": b"[" * 1_000_000,
    }


@cache
def hostile_tensors() -> dict[str, bytes]:
    usual = "}," + entry() + "}"
    return {
        "header length 2^63": tensor_file(usual, b"x", 1 << 63),
        "header length 2^64-1": tensor_file(usual, b"x", (1 << 64) - 1),
        "header longer than the file": tensor_file(usual, b"x", 10_000),
        "header shorter than it is": tensor_file(usual, b"x", 100),
        "header of no length": tensor_file(usual, b"x", 0),
        "overlapping": tensors(
            entry(shape=[2], offsets=[0, 2]),
            entry(shape=[2], offsets=[1, 3], name="b"),
            data=b"xxx",
        ),
        "same bytes for two": tensors(entry(), entry(name="b")),
        "hole": tensors(entry(), entry(offsets=[2, 3], name="b"), data=b"xxx"),
        "backwards": tensors(entry(offsets=[1, 0])),
        "outside": tensors(entry(shape=[9], offsets=[0, 9])),
        "far outside": tensors(entry(shape=[1 << 62], offsets=[0, 1 << 62])),
        "more data than said": tensors(entry(), data=b"xxxx"),
        "less data than said": tensors(entry(shape=[4], offsets=[0, 4])),
        "length lies": tensors(entry(shape=[1 << 40])),
        "negative offset": tensors(entry(offsets=[-1, 0])),
        "fractional offset": tensors(entry(offsets=[0, 1.0])),
        "offsets of one": tensors(entry(offsets=[0])),
        "offsets no list": tensors(entry(offsets="01")),
        "negative size": tensors(entry(shape=[-1])),
        "fractional size": tensors(entry(shape=[1.0])),
        "true size": tensors(entry(shape=[True])),
        "size no number": tensors(entry(shape=["1"])),
        "size over 63 bits": tensors(entry(shape=[0, 1 << 63], offsets=[0, 0]), data=b""),
        "product overflows": tensors(entry(shape=[1 << 32, 1 << 32, 1 << 32])),
        "shape no list": tensors(entry(shape="1")),
        "no shape": tensors('"a":{"dtype":"U8","data_offsets":[0,1]}'),
        "no dtype": tensors('"a":{"shape":[1],"data_offsets":[0,1]}'),
        "no offsets": tensors('"a":{"dtype":"U8","shape":[1]}'),
        "unknown dtype": tensors(entry(dtype="F5", shape=[2])),
        "dtype no string": tensors(entry(dtype=["U8"])),
        "entry no object": tensors('"a":1'),
        "metadata no string": tensor_file(',"n":1},' + entry() + "}", b"x"),
        "nested 100,000 deep": tensor_file('},"a":' + "[" * 100_000 + "]" * 100_000 + "}", b"x"),
        "never closed": tensor_file('},"a":' + "[" * 100_000, b"x"),
        "not UTF-8": tensor_file(b'},"\xff":{}}'),
        "lone surrogate": tensors(entry().replace('"a"', '"\\ud800"')),
        "not a number": tensors(entry().replace("[1]", "[NaN]")),
        "header no object": tensor_file("}]"),
    }


@cache
def hostile_json() -> dict[str, bytes]:
    return {
        "nested 100,000 deep": b"[" * 100_000 + b"]" * 100_000,
        "objects nested 100,000 deep": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        "never closed": b"[" * 100_000,
        "100,000 digits": b"1" * 100_000,
        "beyond all floats": b"1e999",
        "NaN": b"NaN",
        "-Infinity": b"[-Infinity]",
        "same key twice": b'{"a": 1, "a": 2}',
        "lone surrogate": b'"\\ud800"',
        "not UTF-8": b'"\xff"',
        "raw newline in text": b'"\n"',
        "nothing": b"",
        "rubbish after it": b"1}{",
        "python": b"__import__('os').mkdir('marker')",
        "brackets never closed, 8 MB": b"[[]," * 2_000_000,
    }


@cache
def hostile_journals() -> dict[str, bytes]:
    return {
        "record no object": b"[1]\n",
        "same key twice": b'{"a": 1, "a": 2}\n',
        "nested 100,000 deep": b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
        "NaN": b'{"a": NaN}\n',
        "a million empty lines": b"{}\n" + b"\n" * 1_000_000,
    }
