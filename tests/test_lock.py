"""The lock of the tested set: complete, and the same versions as the constraints."""

import re
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parent.parent


def pins(name: str) -> dict[str, str]:
    """The pinned versions of a file, by the normal form of the package's name."""
    found = {}
    for line in (ROOT / name).read_text().splitlines():
        pin = re.match(r"([\w.-]+)==([^\s;]+)", line)
        if pin:
            found[re.sub(r"[-_.]+", "-", pin[1]).lower()] = pin[2]
    return found


def test_the_lock_has_the_versions_of_the_constraints():
    lock = pins("requirements.lock")
    constraints = pins("constraints.txt")
    assert len(constraints) > 30
    assert {name: lock.get(name) for name in constraints} == constraints


def test_the_lock_has_what_its_packages_need():
    lock = pins("requirements.lock")
    for line in metadata.requires("gatewise") or []:
        name = re.match(r"[\w.-]+", line)
        if name and "extra ==" not in line and "python_version <" not in line:
            assert re.sub(r"[-_.]+", "-", name[0]).lower() in lock, line


def test_the_lock_names_no_place():
    text = (ROOT / "requirements.lock").read_text()
    assert not re.search(r"://| @ |/(?!/)\w+/", text)
