"""Tensors are read back bit for bit, also by plain safetensors, or stay on the disk."""

import pytest
import safetensors
import torch
from safetensors.torch import load_file

from gatewise.errors import ArgumentError, DamagedFileError, FileError
from gatewise.files import digest, map_tensors, read_tensors, write_tensors

DTYPES = (
    "complex64 float64 int64 uint64 float32 int32 uint32 bfloat16 float16 int16 uint16 bool "
    "float8_e4m3fn float8_e5m2 int8 uint8"
).split()
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


def test_no_tensors_and_no_metadata_is_a_file_too(tmp_path):
    write_tensors(tmp_path / "a", {})
    assert read_tensors(tmp_path / "a") == ({}, {}) and load_file(tmp_path / "a") == {}


def test_the_same_tensors_give_the_same_bytes_in_whatever_order(tmp_path):
    write_tensors(tmp_path / "a", CASES)
    write_tensors(tmp_path / "b", dict(reversed(CASES.items())))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


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
        ({"w": [1.0]}, None, "'w': list"),
        ({1: ONE}, None, "1: Tensor"),
        ({"__metadata__": ONE}, None, "cannot be written"),
        ({"\ud800": ONE}, None, "cannot be written"),
        ({}, {"n": 1}, "cannot be written"),
        ({}, {1: "n"}, "cannot be written"),
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


def test_plain_safetensors_reads_the_file(tmp_path):
    write_tensors(tmp_path / "a", CASES, metadata={"k": "v"})
    assert_same(load_file(tmp_path / "a"), CASES)
    with safetensors.safe_open(tmp_path / "a", "pt") as plain:
        assert plain.metadata() == {"k": "v"}


def test_mapped_tensors_are_those_that_are_read(tmp_path):
    write_tensors(tmp_path / "a", CASES, metadata={"k": "é"})
    found, metadata = map_tensors(tmp_path / "a")
    assert_same(found, CASES)
    assert metadata == {"k": "é"} and list(found) == sorted(CASES)


def test_mapped_numbers_are_on_the_disk_and_a_change_never_reaches_it(tmp_path):
    path = tmp_path / "large"
    write_tensors(path, {"a": torch.zeros(50_000_000, dtype=torch.uint8)})
    before = digest(path)
    found, _ = map_tensors(path)
    with open("/proc/self/maps") as maps:  # noqa: PTH123 - not a file of ours
        assert str(path) in maps.read()
    found["a"].fill_(1)
    assert digest(path) == before and not map_tensors(path)[0]["a"].any()


def test_a_file_that_is_replaced_leaves_the_mapped_numbers_as_they_were(tmp_path):
    write_tensors(tmp_path / "a", {"a": BASE})
    found, _ = map_tensors(tmp_path / "a")
    write_tensors(tmp_path / "a", {"a": torch.zeros(1)})
    assert torch.equal(found["a"], BASE)


@pytest.mark.parametrize("read", [read_tensors, map_tensors])
def test_every_cut_is_noticed_and_what_is_not_there_is_our_error(tmp_path, read):
    write_tensors(tmp_path / "a", {"w": BASE, "e": torch.empty(0)}, metadata={"k": "v"})
    good = (tmp_path / "a").read_bytes()
    for length in range(len(good)):
        (tmp_path / "a").write_bytes(good[:length])
        with pytest.raises(DamagedFileError, match="is damaged"):
            read(tmp_path / "a")
    for place in (tmp_path, tmp_path / "missing", tmp_path / "a\0b"):
        with pytest.raises(FileError):
            read(place)


def test_files_of_earlier_versions_are_read_without_their_digest(tmp_path):
    write_tensors(tmp_path / "a", {"w": BASE}, metadata={"sha256": "0" * 64, "k": "v"})
    assert read_tensors(tmp_path / "a")[1] == {"k": "v"}
