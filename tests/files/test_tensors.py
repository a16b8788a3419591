"""Sealed safetensors: tensors are read back bit for bit, also by plain safetensors."""

import pytest
import safetensors
import torch
from safetensors.torch import load_file

from gatewise.errors import ArgumentError
from gatewise.files import DTYPES, digest, read_tensors, write_tensors
from gatewise.files import tensors as _tensors

BASE = torch.arange(24, dtype=torch.float32).reshape(4, 6)
CASES = {
    "plain": BASE,
    "transposed": BASE.t(),
    "strided": BASE[::2, 1::3],
    "expanded": BASE[:1].expand(5, 6),
    "view of the same storage": BASE[1],
    "parameter": torch.nn.Parameter(BASE[2]),
    "0-d": torch.tensor(1.5),
    "empty": torch.empty(0),
    "empty with shape": torch.empty(3, 0, 2, dtype=torch.int64),
    "bfloat16": BASE.bfloat16(),
    "float16": BASE.half(),
    "nan and inf": torch.tensor([float("nan"), float("inf"), -0.0]),
    "conjugate": torch.complex(BASE, -BASE).conj(),
    "negative view": torch.complex(BASE, BASE).conj().imag,
    "contiguous negative view": torch._neg_view(BASE),
    "odd length": torch.arange(7, dtype=torch.uint8),
    "é/\U0001f600": torch.tensor([True, False]),
    "channels last": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "": torch.ones(1),
}


def bits(tensor):
    return (
        tensor.detach()
        .resolve_conj()
        .resolve_neg()
        .contiguous()
        .reshape(-1)
        .view(torch.uint8)
        .tolist()
    )


def assert_same(found, wanted):
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert found[name].dtype == tensor.dtype and found[name].shape == tensor.shape, name
        assert bits(found[name]) == bits(tensor), name


def test_every_kind_of_tensor_comes_back_bit_for_bit(tmp_path):
    write_tensors(tmp_path / "a", CASES, metadata={"step": "3", "é": '"}'})
    found, metadata = read_tensors(tmp_path / "a")
    assert_same(found, CASES)
    assert metadata == {"step": "3", "é": '"}'} and list(found) == sorted(CASES)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_comes_back_bit_for_bit(tmp_path, dtype):
    tensor = (
        torch.arange(48, dtype=torch.uint8).clamp(max=1).view(getattr(torch, dtype)).reshape(2, -1)
    )
    write_tensors(tmp_path / "a", {"x": tensor, "y": tensor[:, 1:]})
    assert_same(read_tensors(tmp_path / "a")[0], {"x": tensor, "y": tensor[:, 1:]})


def test_plain_safetensors_reads_the_file_and_sees_the_digest(tmp_path):
    write_tensors(tmp_path / "a", CASES, metadata={"k": "v"})
    assert_same(load_file(tmp_path / "a"), CASES)
    with safetensors.safe_open(tmp_path / "a", "pt") as plain:
        assert plain.metadata().keys() == {"sha256", "k"}
        raw = (tmp_path / "a").read_bytes()
        assert (
            digest(raw.replace(plain.metadata()["sha256"].encode(), b"0" * 64))
            == plain.metadata()["sha256"]
        )


def test_no_tensors_and_no_metadata_is_a_file_too(tmp_path):
    write_tensors(tmp_path / "a", {})
    assert read_tensors(tmp_path / "a") == ({}, {}) and load_file(tmp_path / "a") == {}


def test_the_same_tensors_give_the_same_bytes_in_whatever_order(tmp_path):
    write_tensors(tmp_path / "a", CASES)
    write_tensors(tmp_path / "b", dict(reversed(CASES.items())))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_numbers_are_aligned_in_the_file(tmp_path):
    for length in range(1, 9):  # of a name, which moves what comes after it
        write_tensors(
            tmp_path / "a",
            {"n" * length: torch.ones(3, dtype=torch.bool), "w": torch.ones(1).double()},
        )
        raw = (tmp_path / "a").read_bytes()
        assert raw.index(torch.ones(1).double().numpy().tobytes()) % 8 == 0
        assert len(raw) == 8 + int.from_bytes(raw[:8], "little") + 11


def test_what_is_read_can_be_changed_without_changing_the_file(tmp_path):
    write_tensors(tmp_path / "a", {"w": torch.ones(3)})
    read_tensors(tmp_path / "a")[0]["w"].zero_()
    assert read_tensors(tmp_path / "a")[0]["w"].tolist() == [1, 1, 1]


def test_writing_over_a_file_one_has_read_is_safe(tmp_path):
    write_tensors(tmp_path / "a", {"w": torch.ones(1000)})
    found, _ = read_tensors(tmp_path / "a")
    write_tensors(tmp_path / "a", found)
    assert_same(read_tensors(tmp_path / "a")[0], {"w": torch.ones(1000)})


ONE = torch.ones(1)


@pytest.mark.parametrize(
    ("tensors", "metadata", "words"),
    [
        ({"w": torch.eye(2).to_sparse()}, None, "'w': torch.sparse_coo"),
        ({"w": torch.empty(2, device="meta")}, None, "'w': .*meta"),
        ({"w": torch.ones(2, dtype=torch.complex128)}, None, "'w': .*complex128"),
        ({"w": torch.ones(1).reshape([1] * 65)}, None, "65 dimensions"),
        ({"w": [1.0]}, None, "'w': list"),
        ({1: ONE}, None, "1: Tensor"),
        ({"__metadata__": ONE}, None, "__metadata__"),
        ({"\ud800": ONE}, None, "UTF-8"),
        ({}, {"sha256": "x"}, "sha256"),
        ({}, {"n": 1}, "metadata of strings"),
        ({}, {1: "n"}, "metadata of strings"),
        ({}, {"\ud800": "n"}, "UTF-8"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_written_is_refused_and_the_old_file_stays(
    tmp_path, tensors, metadata, words
):
    write_tensors(tmp_path / "a", {"old": ONE})
    with pytest.raises(ArgumentError, match=words):
        write_tensors(tmp_path / "a", tensors, metadata=metadata)
    assert list(read_tensors(tmp_path / "a")[0]) == ["old"] and len(list(tmp_path.iterdir())) == 1


def test_as_many_tensors_as_can_be_written_can_be_read_and_no_more_are_written(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(_tensors, "MOST_TENSORS", 3)
    write_tensors(tmp_path / "a", dict.fromkeys("abc", ONE))
    assert len(read_tensors(tmp_path / "a")[0]) == 3
    with pytest.raises(ArgumentError, match="4 tensors"):
        write_tensors(tmp_path / "a", dict.fromkeys("abcd", ONE))


def test_the_longest_header_that_can_be_written_can_be_read_and_none_longer_is_written(
    tmp_path, monkeypatch
):
    write_tensors(tmp_path / "a", {"name": ONE})
    rest = int.from_bytes((tmp_path / "a").read_bytes()[:8], "little") - len(_tensors.HEAD) - 64
    monkeypatch.setattr(_tensors, "LARGEST_HEADER", rest)
    write_tensors(tmp_path / "a", {"name": ONE})
    assert len(read_tensors(tmp_path / "a")[0]) == 1
    with pytest.raises(ArgumentError, match="bytes of names"):
        write_tensors(tmp_path / "a", {"a name that is longer": ONE})


def test_as_many_dimensions_as_can_be_written_can_be_read(tmp_path):
    tensor = torch.ones(1).reshape([1] * _tensors.MOST_DIMENSIONS)
    write_tensors(tmp_path / "a", {"w": tensor})
    assert_same(read_tensors(tmp_path / "a")[0], {"w": tensor})


@pytest.mark.parametrize(
    "view",
    [
        torch.arange(6.0)[::2],
        torch.eye(3).diagonal(),
        torch.arange(12.0).view(3, 4)[:, 1],
        torch.ones(1).expand(5),
        torch.arange(6, dtype=torch.int8)[::2],
        torch.arange(6.0).flip(0)[1:],
        torch.arange(12.0).reshape(3, 4).T,
    ],
    ids=["every-other", "diagonal", "column", "expanded", "int8", "flipped", "transposed"],
)
def test_views_of_any_stride_are_written_as_what_they_show(tmp_path, view):
    write_tensors(tmp_path / "t", {"a": view})
    assert torch.equal(read_tensors(tmp_path / "t")[0]["a"], view)
