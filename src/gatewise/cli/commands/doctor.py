"""``gatewise doctor``: check the installation, and print how to install what is missing."""

import os
import platform
import re
import subprocess
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import typer

from gatewise.cli.error_group import CHECK_FAILED
from gatewise.cli.options import Json
from gatewise.cli.output import print_error, print_json, print_rich, table
from gatewise.errors import install_extra

_REQUIREMENT = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*\(?([^;)]*)\)?")
_EXTRA = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")
NOT_EXTRAS = ("all",)  # a collection of the others
# A part of a module that is imported when it is first used, and that users need.
IMPORTED_LATER = {"transformers": "BertForSequenceClassification"}
# Imports each module that is named, as MODULE or MODULE:PART, and prints the module's name with the
# error that was raised first, if any.
_IMPORT_EACH = """
import contextlib, importlib, io, sys
for words in sys.argv[1:]:
    name, _, part = words.partition(":")
    error = ""
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            module = importlib.import_module(name)
            if part:
                getattr(module, part)
        except BaseException as raised:
            while raised.__cause__ is not None:
                raised = raised.__cause__
            error = f"{type(raised).__name__}: {raised}"
            error = " ".join([*error.split(), *([f"(in {part})"] if part else [])])
    print(f"{name}\\t{error}", flush=True)
"""
# The C sources, and the library that is used if they cannot be compiled.
FALLBACKS = {
    "split": "numpy",
    "gram": "torch",
    "iieu": "torch",
    "sparse_rows": "torch",
}


@dataclass(frozen=True)
class Package:
    """A required or optional package: the installed version, the wanted one, and if it imports."""

    name: str
    wanted: str
    found: str | None
    import_error: str | None = None

    @property
    def ok(self) -> bool:
        """Whether the package is installed, not too old, and can be imported."""
        is_new = self.found is not None and _is_new_enough(self.found, self.wanted)
        return is_new and self.import_error is None


@dataclass(frozen=True)
class Findings:
    """Everything that the command checked."""

    versions: dict[str, str]
    machine: dict[str, Any]
    data: dict[str, Any]
    core: list[Package]
    extras: dict[str, list[Package]]
    problems: list[str]


def doctor(json: Json = False) -> None:
    """Check the installation: versions, threads and optional packages (extras).

    For everything that is missing, the command that installs it is printed. The exit code is 1 if a
    required package is missing. A missing extra is not a failure.

    Example: `gatewise doctor --json`
    """
    findings = examine()
    if json:
        print_json(_record(findings))
    else:
        print_rich(*_page(findings))
    for problem in findings.problems:
        print_error(problem)
    if findings.problems:
        raise typer.Exit(CHECK_FAILED)


def own_version() -> str:
    """Return the installed version of gatewise."""
    return _version("gatewise") or "0+not.installed"


def machine() -> str:
    """Return the versions of Python and torch, and the processor, in one line."""
    facts = _machine()
    versions = f"Python {platform.python_version()}, torch {_version('torch')}"
    return f"{versions}, {facts['system']}, {facts['cpu_capability']}"


def examine() -> Findings:
    """Check everything. Nothing is changed."""
    core, extras = _packages()
    data = _data_folder()
    problems = [_missing(package) for package in core if not package.ok]
    if data["set"] and not data["is_folder"]:
        problems.append(
            f"GATEWISE_DATA is not a folder; got: {data['path']}; "
            "fix: create the folder, or unset the variable"
        )
    versions = {
        "gatewise": own_version(),
        "python": platform.python_version(),
        "torch": _version("torch") or "missing",
    }
    return Findings(versions, _machine(), data, core, extras, problems)


def _machine() -> dict[str, Any]:
    """Return facts about the computer and what torch uses of it."""
    facts: dict[str, Any] = {
        "system": f"{platform.system()} {platform.machine()}",
        "processors": os.cpu_count(),
        "compiled_code": "; ".join(f"{name}: {_compiled_state(name)}" for name in FALLBACKS),
    }
    try:
        import torch
    except ImportError:
        return facts | {"cpu_capability": "unknown without torch", "threads": None, "cuda": None}
    return facts | {
        "threads": torch.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "bfloat16": _bfloat16_state(),
        "cuda": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def _bfloat16_state() -> str:
    """Return whether products of bfloat16 matrices work."""
    from gatewise.devices import INSTRUCTIONS_VARIABLE, WITHOUT_TILES, bfloat16_kills

    if not bfloat16_kills():
        return "works"
    return (
        "a matrix product ends the process with this build of torch on this processor; "
        f"start Python with {INSTRUCTIONS_VARIABLE}={WITHOUT_TILES} in the environment"
    )


def _compiled_state(name: str) -> str:
    """Return whether a C source is used. They are optional and only make some results faster."""
    from gatewise.native import library

    compiled = library(name)
    fallback = FALLBACKS[name]
    if compiled.handle is None:
        return f"not compiled, {fallback} is used ({compiled.reason})"
    is_quick = getattr(compiled.handle, f"gw_{name}_is_quick", None)
    if is_quick is not None and not is_quick():
        return f"{compiled.reason}, but {fallback} is used because AVX-512 is missing"
    return compiled.reason


def _data_folder() -> dict[str, Any]:
    """Return the state of the environment variable GATEWISE_DATA."""
    path = os.environ.get("GATEWISE_DATA", "")
    return {
        "set": bool(path),
        "path": path or None,
        "is_folder": bool(path) and Path(path).is_dir(),
    }


def _packages() -> tuple[list[Package], dict[str, list[Package]]]:
    """Return the packages that the metadata requires, and those of each extra."""
    core: list[Package] = []
    extras: dict[str, list[Package]] = {}
    for line in _requirements():
        package, extra = _parse(line)
        if extra is None:
            core.append(package)
        elif extra not in NOT_EXTRAS and package.name != "gatewise":
            extras.setdefault(extra, []).append(package)
    every = [*core, *(package for packages in extras.values() for package in packages)]
    checked = {package.name: package for package in _with_import_errors(every)}
    core = [checked[package.name] for package in core]
    return core, {name: [checked[p.name] for p in packages] for name, packages in extras.items()}


def _with_import_errors(packages: list[Package]) -> list[Package]:
    """Return the packages with the error of importing each one that is installed.

    A child process imports them, so that a package that ends the process is named, too.
    """
    from importlib import metadata

    modules = {}
    for module, distributions in metadata.packages_distributions().items():
        for name in distributions:
            is_closer = module.replace("_", "-") == name or name not in modules
            if is_closer and not module.startswith("_"):
                modules[name] = module
    wanted = {p.name: modules[p.name] for p in packages if p.found and p.name in modules}
    errors: dict[str, str | None] = {}
    imports = [f"{module}:{IMPORTED_LATER.get(module, '')}" for module in wanted.values()]
    command = [sys.executable, "-W", "ignore", "-c", _IMPORT_EACH, *imports]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    found = dict(line.split("\t", 1) for line in done.stdout.splitlines() if "\t" in line)
    for name, module in wanted.items():
        error = found.get(module, "importing it ended the process")
        errors[name] = _explained(error) if error else None
    return [replace(package, import_error=errors.get(package.name)) for package in packages]


def _explained(error: str) -> str:
    """Return the error of an import, with the cause where it is known."""
    if "torchvision" in error:
        return f"{error}; the installed torchvision does not match torch"
    return error


def _requirements() -> list[str]:
    """Return the requirements in the metadata of the installed package."""
    from importlib import metadata

    try:
        return metadata.requires("gatewise") or []
    except metadata.PackageNotFoundError:
        return ["torch>=2.6"]


def _parse(line: str) -> tuple[Package, str | None]:
    """Return package and extra of a requirement such as ``timm>=1.0; extra == "timm"``."""
    head, _, marker = line.partition(";")
    name = head.strip()
    wanted = ""
    requirement = _REQUIREMENT.match(name)
    if requirement:
        name = requirement[1]
        wanted = requirement[2].strip()
    extra = _EXTRA.search(marker)
    return Package(name, wanted, _version(name)), extra[1] if extra else None


def _version(name: str) -> str | None:
    """Return the installed version of a package, if any."""
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _is_new_enough(version: str, wanted: str) -> bool:
    """Whether ``version`` satisfies the ``>=`` in ``wanted``. Other conditions are left to pip."""
    least = re.search(r">=\s*([0-9][0-9.]*)", wanted)
    return least is None or _numbers(version) >= _numbers(least[1])


def _numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: ``2.6.0+cpu`` as ``(2, 6, 0)``."""
    leading = re.match(r"[0-9.]*", version)
    return tuple(int(part) for part in (leading[0] if leading else "").split(".") if part)


def _missing(package: Package) -> str:
    """Return the message for a package that is missing or too old."""
    if package.import_error:
        return f"{package.name} cannot be imported: {package.import_error}"
    state = f"too old: {package.found}" if package.found else "not installed"
    wanted = package.wanted or "any version"
    fix = f"pip install '{package.name}{package.wanted}'"
    return f"{package.name} is {state}; allowed: {wanted}; fix: {fix}"


def _record(findings: Findings) -> dict[str, Any]:
    """Return the findings for ``--json``."""
    record = asdict(findings)
    record["core"] = [asdict(package) | {"ok": package.ok} for package in findings.core]
    for name, packages in findings.extras.items():
        record["extras"][name] = _extra_record(name, packages)
    return record | {"ok": not findings.problems}


def _extra_record(name: str, packages: list[Package]) -> dict[str, Any]:
    """Return the state of one extra for ``--json``."""
    missing = [package.name for package in packages if not package.ok]
    return {
        "present": not missing,
        "missing": missing,
        "packages": [asdict(p) for p in packages],
        "add": install_extra(name) if missing else None,
    }


def _page(findings: Findings) -> list[Any]:
    """Return the findings as tables."""
    rows = table("item", "state")
    for name, value in {**findings.versions, **findings.machine}.items():
        rows.add_row(name.replace("_", " "), "none" if value is None else str(value))
    rows.add_row("GATEWISE_DATA", _data_in_words(findings.data))
    for package in findings.core:
        if package.name not in findings.versions:
            rows.add_row(package.name, package.found or "missing")
    summary = "" if findings.problems else "All required packages are installed."
    return [rows, _extras_table(findings.extras), summary]


def _data_in_words(data: dict[str, Any]) -> str:
    """Return the state of GATEWISE_DATA in words."""
    if not data["set"]:
        return "not set (only needed for data sets that gatewise does not contain)"
    return data["path"] if data["is_folder"] else f"{data['path']} (not a folder)"


MATCHING = "a torchvision that was built for this torch"


def _extras_table(extras: dict[str, list[Package]]) -> Any:
    """Return the table of extras, with the command that installs each."""
    if not extras:
        return "Extras: unknown, because gatewise is not installed. Run: pip install -e .\n"
    rows = table("extra", "state", "install with", whole=["extra", "install with"])
    for name, packages in extras.items():
        missing = ", ".join(package.name for package in packages if not package.ok)
        broken = [package for package in packages if package.import_error]
        if broken:
            errors = "; ".join(f"{p.name} cannot be imported: {p.import_error}" for p in broken)
            is_mismatch = all("torchvision" in str(package.import_error) for package in broken)
            rows.add_row(name, errors, MATCHING if is_mismatch else install_extra(name))
        elif missing:
            rows.add_row(name, f"missing {missing}", install_extra(name))
        else:
            rows.add_row(name, "installed", "")
    return rows
