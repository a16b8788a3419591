"""The data sets are the published ones, and a test that needs them is never skipped in silence."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PUBLISHED_MD5 = {
    "cifar-10-batches-py/data_batch_1": "c99cafc152244af753f735de768cd75f",
    "cifar-10-batches-py/data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "cifar-10-batches-py/data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "cifar-10-batches-py/data_batch_4": "634d18415352ddfa80567beed471001a",
    "cifar-10-batches-py/data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "cifar-10-batches-py/test_batch": "40351d587109b95175f43aff81a1287e",
    "cifar-10-batches-py/batches.meta": "5ff9c542aee3614f3951f8cda6e48888",
    "MNIST/raw/train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "MNIST/raw/train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
    "MNIST/raw/t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
    "MNIST/raw/t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
}


@pytest.mark.data
@pytest.mark.parametrize("name", PUBLISHED_MD5)
def test_file_has_the_published_digest(data_folder: Path, name: str):
    content = (data_folder / name).read_bytes()
    assert hashlib.md5(content, usedforsecurity=False).hexdigest() == PUBLISHED_MD5[name]


def run_data_tests(**environment: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("GATEWISE_", "PYTEST_"))}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-k",
        "published_digest",
        __file__,
    ]
    return subprocess.run(
        command, env={**kept, **environment}, capture_output=True, text=True, cwd=ROOT
    )


def test_left_out_tests_are_counted_and_the_remedy_is_said():
    run = run_data_tests()
    assert run.returncode == 0, run.stdout
    *_, said, closing = run.stdout.splitlines()
    assert said.startswith(f"{len(PUBLISHED_MD5)} data: to have them, set GATEWISE_DATA")
    assert f"{len(PUBLISHED_MD5)} skipped" in closing


def test_nothing_is_left_out_where_everything_is_required():
    run = run_data_tests(GATEWISE_REQUIRE_ALL="1")
    assert run.returncode == 1
    assert "no test may be left out here" in run.stdout


def test_a_wrong_byte_in_the_data_is_noticed(tmp_path: Path):
    for name in PUBLISHED_MD5:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"not the data")
    run = run_data_tests(GATEWISE_DATA=str(tmp_path))
    assert f"{len(PUBLISHED_MD5)} failed" in run.stdout.splitlines()[-1]
