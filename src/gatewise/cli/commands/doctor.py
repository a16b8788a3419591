"""``gatewise doctor``: what is installed, what is missing, and the command that adds it."""

import os
import platform
import re
import sys
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer

from gatewise.cli.error_group import CHECK_FAILED
from gatewise.cli.output import print_error, print_json, print_rich, table
from gatewise.native import library

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]

_REQUIREMENT = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*\(?([^;)]*)\)?")
_EXTRA = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")
NOT_EXTRAS = ("all",)  # a collection of the others
TWINS = {
    "split": "numpy",
    "gram": "torch",
    "few_rows": "torch",
    "tiles": "torch",
    "elementwise": "torch",
}  # the C sources, and what does their work where they cannot be used


@dataclass(frozen=True)
class Package:
    """A package that we need or can use: which version is there, and which is wanted."""

    name: str
    wanted: str
    found: str | None

    @property
    def ok(self) -> bool:
        """Whether it is there and not too old."""
        return self.found is not None and _is_new_enough(self.found, self.wanted)


@dataclass(frozen=True)
class Findings:
    """All that the doctor looked at."""

    versions: dict[str, str]
    machine: dict[str, Any]
    data: dict[str, Any]
    core: list[Package]
    extras: dict[str, list[Package]]
    problems: list[str]


def doctor(json: Json = False) -> None:
    """Look at this installation: versions, threads, extras.

    Say what is missing and the command that adds it.

    Exit 1 if something that gatewise cannot do without is missing. A missing extra is not a
    failure.

    Example: `gatewise doctor --json`
    """
    found = examine()
    if json:
        print_json(_record(found))
    else:
        print_rich(*_page(found))
    for problem in found.problems:
        print_error(problem)
    if found.problems:
        raise typer.Exit(CHECK_FAILED)


def own_version() -> str:
    """The version of gatewise that is installed."""
    try:
        return metadata.version("gatewise")
    except metadata.PackageNotFoundError:
        return "0+not.installed"


def machine() -> str:
    """Python, torch and processor in a few words."""
    found = _machine()
    return f"Python {platform.python_version()}, torch {_version('torch')}, {found['system']}, {found['cpu_capability']}"


def examine() -> Findings:
    """Look at everything, change nothing."""
    core, extras = _packages()
    data = _data_folder()
    problems = [_missing(package) for package in core if not package.ok]
    if sys.version_info < (3, 10):  # noqa: UP036 (a source tree can be run by any Python)
        problems.append(
            f"Python is too old; got: {platform.python_version()}; allowed: 3.10 or newer"
        )
    if data["set"] and not data["is_folder"]:
        problems.append(
            f"GATEWISE_DATA is not a folder; got: {data['path']}; fix: make it, or unset the variable"
        )
    versions = {
        "gatewise": own_version(),
        "python": platform.python_version(),
        "torch": _version("torch") or "missing",
    }
    return Findings(versions, _machine(), data, core, extras, problems)


def _machine() -> dict[str, Any]:
    found: dict[str, Any] = {
        "system": f"{platform.system()} {platform.machine()}",
        "processors": os.cpu_count(),
    }
    found["compiled_code"] = _compiled_code()
    try:
        import torch
    except ImportError:
        return found | {"cpu_capability": "unknown without torch", "threads": None, "cuda": None}
    return found | {
        "threads": torch.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "cuda": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def _compiled_code() -> str:
    """Whether each C source can be used: they are optional, and only make some answers faster."""
    return "; ".join(f"{name}: {_use_of(name)}" for name in TWINS)


def _use_of(name: str) -> str:
    found = library(name)
    if found.handle is None:
        return f"none, {TWINS[name]} instead ({found.reason})"
    is_quick = getattr(found.handle, f"gw_{name}_is_quick", None)
    if is_quick is not None and not is_quick():
        return f"{found.reason}, but {TWINS[name]} is used, for want of AVX-512"
    return found.reason


def _data_folder() -> dict[str, Any]:
    path = os.environ.get("GATEWISE_DATA", "")
    return {
        "set": bool(path),
        "path": path or None,
        "is_folder": bool(path) and Path(path).is_dir(),
    }


def _packages() -> tuple[list[Package], dict[str, list[Package]]]:
    """What the installed metadata asks for: always, and by extra."""
    core: list[Package] = []
    extras: dict[str, list[Package]] = {}
    for line in filter(_applies, _requirements()):
        package, extra = _parse(line)
        if extra is None:
            core.append(package)
        elif extra not in NOT_EXTRAS and package.name != "gatewise":
            extras.setdefault(extra, []).append(package)
    return core, extras


def _requirements() -> list[str]:
    try:
        return metadata.requires("gatewise") or []
    except metadata.PackageNotFoundError:
        return ["torch>=2.6"]


def _applies(line: str) -> bool:
    """Whether this Python needs the package.

    One that only older ones need says so in its marker.
    """
    older = re.search(r"""python_version\s*<\s*['"](\d+)\.(\d+)['"]""", line)
    return older is None or sys.version_info < (int(older[1]), int(older[2]))


def _parse(line: str) -> tuple[Package, str | None]:
    """``timm>=1.0; extra == "timm"``: the package and the extra it belongs to."""
    head, _, marker = line.partition(";")
    found, extra = _REQUIREMENT.match(head.strip()), _EXTRA.search(marker)
    name, wanted = (found[1], found[2].strip()) if found else (head.strip(), "")
    return Package(name, wanted, _version(name)), extra[1] if extra else None


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _is_new_enough(found: str, wanted: str) -> bool:
    """Whether ``found`` reaches the ``>=`` in ``wanted``; other conditions are pip's business."""
    least = re.search(r">=\s*([0-9][0-9.]*)", wanted)
    return least is None or _numbers(found) >= _numbers(least[1])


def _numbers(version: str) -> tuple[int, ...]:
    leading = re.match(r"[0-9.]*", version)
    return tuple(int(part) for part in (leading[0] if leading else "").split(".") if part)


def _missing(package: Package) -> str:
    state = f"too old: {package.found}" if package.found else "not installed"
    wanted = package.wanted or "any version"
    return f"{package.name} is {state}; allowed: {wanted}; fix: pip install '{package.name}{package.wanted}'"


def _record(found: Findings) -> dict[str, Any]:
    whole = asdict(found)
    whole["core"] = [asdict(package) | {"ok": package.ok} for package in found.core]
    whole["extras"] = {
        name: _extra_record(name, packages) for name, packages in found.extras.items()
    }
    return whole | {"ok": not found.problems}


def _extra_record(name: str, packages: list[Package]) -> dict[str, Any]:
    missing = [package.name for package in packages if not package.ok]
    return {
        "present": not missing,
        "missing": missing,
        "packages": [asdict(p) for p in packages],
        "add": _add(name) if missing else None,
    }


def _add(extra: str) -> str:
    return f"pip install 'gatewise[{extra}]'"


def _page(found: Findings) -> list[Any]:
    rows = table("what", "found")
    for name, value in {**found.versions, **found.machine}.items():
        rows.add_row(name.replace("_", " "), "none" if value is None else str(value))
    rows.add_row("GATEWISE_DATA", _data_in_words(found.data))
    for package in found.core:
        if package.name not in found.versions:
            rows.add_row(package.name, package.found or "missing")
    return [
        rows,
        _extras_table(found.extras),
        "All that gatewise needs is here." if not found.problems else "",
    ]


def _data_in_words(data: dict[str, Any]) -> str:
    if not data["set"]:
        return "not set: commands that need data sets say so"
    return data["path"] if data["is_folder"] else f"{data['path']} (not a folder)"


def _extras_table(extras: dict[str, list[Package]]) -> Any:
    if not extras:
        return "Extras: unknown, for gatewise runs from a source tree; pip install -e . records them.\n"
    rows = table("extra", "state", "add it with", whole=["extra", "add it with"])
    for name, packages in extras.items():
        missing = ", ".join(package.name for package in packages if not package.ok)
        rows.add_row(
            name, f"missing {missing}" if missing else "there", _add(name) if missing else ""
        )
    return rows
