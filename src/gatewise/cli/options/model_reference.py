"""Build the model that a command names: from a library, a configuration or a factory.

Note [Whose code runs]. Only the name of a factory imports a module or runs a file, as the user
explicitly asks, like ``python file.py``. A configuration is read as data: the names in it are
looked up among the classes of its library. No weights are downloaded. The weights of a folder are
read from safetensors files only.
"""

import importlib
import importlib.util
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from gatewise.errors import ArgumentError, FileError, MissingExtraError, closest_name, install_extra

if TYPE_CHECKING:
    from torch import nn

FORMS = (
    "a name of `gatewise list models`, timm:NAME, torchvision:NAME, hf:CONFIG.json, hf:FOLDER, "
    "package.module:FUNCTION or file.py:FUNCTION"
)
SWAPS_FILE = "gatewise_swaps.json"  # in the folder of a swapped model
FITTING_VERSIONS = (
    "install versions of the library and its dependencies that fit the installed torch"
)
LARGEST_CONFIG = 10_000_000  # bytes
BYTES = 256  # token numbers of a model that reads text as bytes


def load_model(reference: str, options: Mapping[str, Any] | None = None) -> "nn.Module":
    """Build the model that ``reference`` names.

    Its weights are random unless the reference is a folder or a factory that loads some.

    Args:
        reference: A reference in one of the forms ``FORMS``.
        options: Arguments of the constructor.
    """
    from torch import nn

    kind = split_reference(reference)[0]
    build = _BUILDERS.get(kind, _from_factory)
    model = build(reference, options or {})
    if not isinstance(model, nn.Module):
        raise ArgumentError(
            "model: the function does not return a model",
            got=type(model).__name__,
            allowed="a torch.nn.Module",
        )
    return model


def split_reference(reference: str) -> tuple[str, str]:
    """Return kind and name of a reference. A name alone is that of a network of gatewise.

    Args:
        reference: A reference in one of the forms ``FORMS``.
    """
    kind, colon, name = reference.rpartition(":")
    known: list[str] = []
    if not colon:
        from gatewise.models import list_models

        known = list_models()
        if name in known:
            return "gatewise", name
    if not kind or not name:
        near = closest_name(name, known)
        if reference.endswith(".py"):
            near = f"{reference}:FUNCTION"
        raise ArgumentError(
            "model: not a reference to a model",
            got=reference,
            allowed=FORMS,
            fix=f"did you mean {near!r}?" if near else None,
        )
    return kind, name


def default_shape(reference: str, model: "nn.Module") -> tuple[int, ...] | None:
    """Return the shape of a batch of two inputs, if the model's library tells it."""
    kind, name = split_reference(reference)
    if kind == "gatewise":
        from gatewise.models import get_model

        return (2, *get_model(name).reads)
    if kind == "timm":
        size = (getattr(model, "default_cfg", None) or {}).get("input_size")
        return (2, *size) if size else None
    if kind == "torchvision":
        return (2, 3, 224, 224)
    return None


def reads_tokens(reference: str) -> bool:
    """Return whether the model is a language model of gatewise, which reads token numbers."""
    kind, name = split_reference(reference)
    if kind != "gatewise":
        return False
    from gatewise.models import get_model

    return get_model(name).tokens > 0


def vocabulary(model: Any) -> int | None:
    """Return how many tokens a language model of Hugging Face or gatewise knows, if it says so.

    Args:
        model: The model.
    """
    config = getattr(model, "config", None)
    embedding = getattr(model, "tokens", None)
    return getattr(config, "vocab_size", getattr(embedding, "num_embeddings", None))


def reads_bytes(reference: str, model: Any) -> bool:
    """Return whether the model is a language model of gatewise whose tokens are bytes.

    Args:
        reference: The argument ``MODEL``.
        model: The model.
    """
    return reads_tokens(reference) and vocabulary(model) == BYTES


def _from_gatewise(reference: str, options: Mapping[str, Any]) -> Any:
    """Build a network of gatewise."""
    from gatewise.models import create_model

    return create_model(split_reference(reference)[1], **options)


def _from_timm(reference: str, options: Mapping[str, Any]) -> Any:
    """Build a model of timm, without pretrained weights unless they are asked for."""
    timm = _library("timm", "timm")
    name = reference.partition(":")[2]
    if not timm.is_model(name):
        raise ArgumentError(
            "model: timm has no model of that name",
            got=name,
            fix="timm.list_models('*part*') lists them",
        )
    return _built(reference, lambda: timm.create_model(name, **{"pretrained": False, **options}))


def _from_torchvision(reference: str, options: Mapping[str, Any]) -> Any:
    """Build a model of torchvision, without pretrained weights unless they are asked for."""
    models = _library("torchvision.models", "timm")
    name = reference.partition(":")[2]
    if name not in models.list_models():
        fix = "torchvision.models.list_models() lists them"
        raise ArgumentError("model: torchvision has no model of that name", got=name, fix=fix)
    return _built(reference, lambda: models.get_model(name, **{"weights": None, **options}))


def _from_hugging_face(reference: str, options: Mapping[str, Any]) -> Any:
    """Build a Hugging Face model from a configuration file, or load a folder with its weights."""
    transformers = _library("transformers", "hf")
    path = Path(reference.partition(":")[2])
    if path.is_dir():
        return _from_folder(reference, path, options)
    config = {**_read_config(path), **options}
    kind = config.pop("model_type", None)
    names = config.pop("architectures", None) or []
    config.pop("auto_map", None)  # it would run code from elsewhere
    settings = _built(reference, lambda: transformers.AutoConfig.for_model(kind, **config))
    if hasattr(settings, "use_cache"):
        settings.use_cache = False
    if not names:
        return _built(reference, lambda: transformers.AutoModel.from_config(settings))
    architecture = _architecture(transformers, names[0])
    return _built(reference, lambda: architecture(settings))


def _from_folder(reference: str, folder: Path, options: Mapping[str, Any]) -> Any:
    """Load what ``save_pretrained`` wrote, swapped or not, without code from it."""
    transformers = _library("transformers", "hf")
    if not any(folder.glob("*.safetensors")):
        raise FileError(
            "model: the folder holds no weights",
            got=str(folder),
            allowed="config.json and files of type .safetensors, as save_pretrained writes them",
            fix=f"hf:{folder}/config.json builds the model with random weights",
        )
    names = _read_config(folder / "config.json").get("architectures") or []
    kind = _architecture(transformers, names[0]) if names else transformers.AutoModel
    given = {**options, "local_files_only": True, "use_safetensors": True}
    if (folder / SWAPS_FILE).is_file():
        from gatewise.surgery import from_pretrained

        return _built(reference, lambda: from_pretrained(folder, model_class=kind, **given))
    model = _built(reference, lambda: kind.from_pretrained(folder, **given))
    model.config.use_cache = False
    return model


def _architecture(transformers: Any, name: Any) -> Any:
    """Return the class of a model that a configuration names."""
    architecture = _member(transformers, str(name))
    base = _member(transformers, "PreTrainedModel")
    if not isinstance(architecture, type) or not issubclass(architecture, base):
        raise ArgumentError(
            "model: transformers has no such architecture",
            got=name,
            fix="correct `architectures` in the configuration",
        )
    return architecture


def _read_config(path: Path) -> dict[str, Any]:
    """Read a Hugging Face configuration, which must name its model type."""
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
            "model: the configuration cannot be read",
            got=str(path),
            fix="name a config.json",
        ) from problem
    except (ValueError, RecursionError) as problem:
        raise ArgumentError(
            f"model: the configuration is not JSON ({problem})", got=str(path)
        ) from None
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        raise ArgumentError("model: the configuration names no model_type", got=str(path))
    return config


def _from_factory(reference: str, options: Mapping[str, Any]) -> Any:
    """Call a function that returns the model. See Note [Whose code runs]."""
    factory = load_function(reference)
    return _built(reference, lambda: factory(**options))


def load_function(reference: str) -> Callable[..., Any]:
    """Return the function that ``file.py:NAME`` or ``package.module:NAME`` names.

    See Note [Whose code runs].
    """
    home, _, name = reference.rpartition(":")
    module = _from_file(Path(home)) if home.endswith(".py") else _library(home, None)
    function = getattr(module, name, None)
    if not callable(function):
        names = [key for key, value in vars(module).items() if callable(value)]
        known = [key for key in names if not key.startswith("_")]
        raise ArgumentError(
            f"model: {home} has no function of that name",
            got=name,
            allowed=", ".join(known[:20]),
        )
    return function


def _from_file(path: Path) -> ModuleType:
    """Run a Python file as a module. See Note [Whose code runs]."""
    if not path.is_file():
        raise FileError("model: there is no such file", got=str(path), allowed=FORMS)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise FileError("model: the file cannot be imported", got=str(path))
    module = importlib.util.module_from_spec(spec)
    _built(str(path), lambda: spec.loader and spec.loader.exec_module(module))
    return module


def _library(name: str, extra: str | None) -> Any:
    """Import a module. ``extra`` is the extra of gatewise that installs it."""
    try:
        return importlib.import_module(name)
    except ImportError as problem:
        if extra is None:
            file = Path(f"{name}.py")
            raise ArgumentError(
                "model: the module cannot be imported",
                got=f"{name}: {_reasons(problem)}",
                allowed=FORMS,
                fix=f"did you mean {file}:...?" if file.is_file() else None,
            ) from problem
        fix = install_extra(extra)
        raise MissingExtraError(
            f"model: {name} is not installed",
            got=_reason(problem),
            fix=fix,
        ) from problem
    except Exception as problem:  # a library built for another version of torch may raise anything
        raise _not_imported(name, problem) from problem


def _member(library: Any, name: str) -> Any:
    """Return an attribute that the library may import on access, or ``None``."""
    try:
        return getattr(library, name, None)
    except Exception as problem:
        raise _not_imported(f"{library.__name__}'s {name}", problem) from problem


def _not_imported(name: str, problem: BaseException) -> ArgumentError:
    """Return the error for a library that fails while it is imported."""
    reason = _reason(_root_cause(problem))
    return ArgumentError(f"model: {name} cannot be imported", got=reason, fix=FITTING_VERSIONS)


def _built(reference: str, build: Callable[[], Any]) -> Any:
    """Call ``build``. Whatever it raises becomes one error that names the model."""
    try:
        return build()
    except Exception as problem:  # a factory may raise anything
        fix = None
        if isinstance(problem, TypeError):
            fix = "pass arguments with --set NAME=VALUE"
        elif isinstance(problem, ImportError) and problem.__cause__ is not None:
            fix = FITTING_VERSIONS
        raise ArgumentError(
            f"model: cannot be built ({_reasons(problem)})", got=reference, fix=fix
        ) from problem


def _root_cause(problem: BaseException) -> BaseException:
    """Return the error that was raised first, which names the reason."""
    while problem.__cause__ is not None:
        problem = problem.__cause__
    return problem


def _reasons(problem: BaseException) -> str:
    """Return the reason of an error, and of the one that caused it, if any."""
    cause = _root_cause(problem)
    reason = _reason(problem)
    return reason if cause is problem else f"{reason} Cause: {_reason(cause)}"


def _reason(problem: BaseException) -> str:
    """Return the type of an error and the first line of its text."""
    first, _, _ = str(problem).strip().partition("\n")
    return f"{type(problem).__name__}: {first}"


_BUILDERS: dict[str, Callable[[str, Mapping[str, Any]], Any]] = {
    "gatewise": _from_gatewise,
    "timm": _from_timm,
    "torchvision": _from_torchvision,
    "hf": _from_hugging_face,
}
