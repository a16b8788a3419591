"""Which model a command is about, from its reference.

A name in a library, a configuration, or a factory.

Note [Whose code runs]. Naming a factory is the user's explicit wish to import that module or run
that file, as ``python file.py`` would be. Nothing else does: a configuration is read as data, names
in it are looked up among the classes of the library it is for, and no weights are fetched from
anywhere.
"""

import importlib
import importlib.util
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from gatewise.errors import ArgumentError, FileError, MissingExtraError

if TYPE_CHECKING:
    from torch import nn

FORMS = "gatewise:NAME, timm:NAME, torchvision:NAME, hf:CONFIG.json, package.module:factory or file.py:factory"
LARGEST_CONFIG = 10_000_000


def load_model(reference: str, options: Mapping[str, Any] | None = None) -> "nn.Module":
    """The model that ``reference`` names, built with ``options``.

    It is not trained unless its factory makes it so.
    """
    from torch import nn

    kind, _, name = reference.rpartition(":")
    if not kind or not name:
        raise ArgumentError("model: is no reference to one", got=reference, allowed=FORMS)
    build = _BUILDERS.get(kind, _from_factory)
    model = build(reference, options or {})
    if not isinstance(model, nn.Module):
        raise ArgumentError(
            "model: what was made is not one", got=type(model).__name__, allowed="a torch.nn.Module"
        )
    return model


def default_shape(reference: str, model: "nn.Module") -> tuple[int, ...] | None:
    """The shape of an example for the model, a batch of two, where its home tells it."""
    kind, _, name = reference.rpartition(":")
    if kind == "gatewise":
        from gatewise.models import get_model

        return (2, *get_model(name).reads)
    if kind == "timm":
        size = (getattr(model, "default_cfg", None) or {}).get("input_size")
        return (2, *size) if size else None
    return (2, 3, 224, 224) if kind == "torchvision" else None


def _from_gatewise(reference: str, options: Mapping[str, Any]) -> Any:
    from gatewise.models import create_model

    return create_model(reference.partition(":")[2], **options)


def _from_timm(reference: str, options: Mapping[str, Any]) -> Any:
    timm = _library("timm", "timm")
    name = reference.partition(":")[2]
    if not timm.is_model(name):
        raise ArgumentError(
            "model: timm has none of that name",
            got=name,
            fix="timm.list_models('*part*') lists them",
        )
    return _built(reference, lambda: timm.create_model(name, **{"pretrained": False, **options}))


def _from_torchvision(reference: str, options: Mapping[str, Any]) -> Any:
    models = _library("torchvision.models", "timm")
    name = reference.partition(":")[2]
    if name not in models.list_models():
        fix = "torchvision.models.list_models() lists them"
        raise ArgumentError("model: torchvision has none of that name", got=name, fix=fix)
    return _built(reference, lambda: models.get_model(name, **{"weights": None, **options}))


def _from_config(reference: str, options: Mapping[str, Any]) -> Any:
    """A model of Hugging Face's from a configuration file.

    Its classes by name, no code and no weights from it.
    """
    transformers = _library("transformers", "hf")
    config = {**_read_config(Path(reference.partition(":")[2])), **options}
    kind, names = config.pop("model_type", None), config.pop("architectures", None) or []
    config.pop("auto_map", None)  # code of other places
    made = _built(reference, lambda: transformers.AutoConfig.for_model(kind, **config))
    if hasattr(made, "use_cache"):
        made.use_cache = False
    if not names:
        return _built(reference, lambda: transformers.AutoModel.from_config(made))
    architecture = _member(transformers, str(names[0]))
    if not isinstance(architecture, type) or not issubclass(
        architecture, _member(transformers, "PreTrainedModel")
    ):
        raise ArgumentError(
            "model: transformers has no such architecture",
            got=names[0],
            fix="correct `architectures`",
        )
    return _built(reference, lambda: architecture(made))


def _read_config(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > LARGEST_CONFIG:
            raise ArgumentError(
                "model: the configuration is too large",
                got=str(path),
                allowed=f"{LARGEST_CONFIG} bytes",
            )
        config = json.loads(path.read_text("utf-8"))
    except OSError as problem:
        raise FileError(
            "model: the configuration cannot be read", got=str(path), fix="name a config.json"
        ) from problem
    except (ValueError, RecursionError) as problem:
        raise ArgumentError(
            f"model: the configuration is not JSON ({problem})", got=str(path)
        ) from None
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        raise ArgumentError("model: the configuration names no model_type", got=str(path))
    return config


def _from_factory(reference: str, options: Mapping[str, Any]) -> Any:
    """See Note [Whose code runs]."""
    home, _, name = reference.rpartition(":")
    module = _from_file(Path(home)) if home.endswith(".py") else _library(home, None)
    factory = getattr(module, name, None)
    if not callable(factory):
        known = [
            each
            for each, value in vars(module).items()
            if callable(value) and not each.startswith("_")
        ]
        raise ArgumentError(
            f"model: {home} has no factory of that name", got=name, allowed=", ".join(known[:20])
        )
    return _built(reference, lambda: factory(**options))


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise FileError("model: there is no such file", got=str(path), allowed=FORMS)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise FileError("model: the file cannot be imported", got=str(path))
    module = importlib.util.module_from_spec(spec)
    _built(str(path), lambda: spec.loader and spec.loader.exec_module(module))
    return module


def _library(name: str, extra: str | None) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as problem:
        if extra is None:
            got, file = f"{name}: {_reason(problem)}", Path(f"{name}.py")
            fix = f"did you mean {file}:...?" if file.is_file() else None
            raise ArgumentError(
                "model: the module cannot be imported", got=got, allowed=FORMS, fix=fix
            ) from problem
        fix = f'pip install "gatewise[{extra}]"'
        raise MissingExtraError(
            f"model: {name} is not installed", got=_reason(problem), fix=fix
        ) from problem
    except Exception as problem:  # a library built for another torch fails in ways of its own
        raise _not_imported(name, problem) from problem


def _member(library: Any, name: str) -> Any:
    """One that is imported when it is asked for; ``None`` where there is none of that name."""
    try:
        return getattr(library, name, None)
    except Exception as problem:
        raise _not_imported(f"{library.__name__}'s {name}", problem) from problem


def _not_imported(name: str, problem: BaseException) -> ArgumentError:
    while problem.__cause__ is not None:  # what libraries say of it is that it happened
        problem = problem.__cause__
    fix = "install versions of it, and of what it imports, that go with the torch that is here"
    return ArgumentError(f"model: {name} cannot be imported", got=_reason(problem), fix=fix)


def _built(reference: str, build: Callable[[], Any]) -> Any:
    try:
        return build()
    except Exception as problem:  # whatever a factory raises
        fix = (
            "its options are given with --set NAME=VALUE"
            if isinstance(problem, TypeError)
            else None
        )
        raise ArgumentError(
            f"model: cannot be built ({_reason(problem)})", got=reference, fix=fix
        ) from problem


def _reason(problem: BaseException) -> str:
    return f"{type(problem).__name__}: {(str(problem).strip().splitlines() or [''])[0]}"


_BUILDERS: dict[str, Callable[[str, Mapping[str, Any]], Any]] = {
    "gatewise": _from_gatewise,
    "timm": _from_timm,
    "torchvision": _from_torchvision,
    "hf": _from_config,
}
