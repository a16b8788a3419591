"""Swapped Hugging Face models: ``save_pretrained`` and ``from_pretrained``.

Note [How transformers is followed]. Once a Hugging Face model is swapped in a process, the method
``save_pretrained`` of transformers' base class is wrapped, since any model may hold a swapped one:
otherwise its swaps would be lost without a word. It writes the file of swaps beside the weights.
Models without swaps pass through. :func:`from_pretrained` applies the swaps after the model was
built, usually on the meta device, and before its weights are loaded, so that all of transformers'
own options hold.

Note [Without gatewise]. If a field of the configuration says what the swap did, it is saved with
its new value, and transformers alone loads the right model. Otherwise ``transformers_weights``, the
field that names the file of weights, is saved as a sentence instead of a file name: transformers
alone then refuses the folder with an error that shows the sentence. It would otherwise ignore what
it does not know, such as second weights, and return another model.
"""

import copy
import functools
import importlib
import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import nn

from gatewise.checks import check_path
from gatewise.errors import ArgumentError, SavedSwapWarning
from gatewise.files import make_folder, remove_file, write_text
from gatewise.surgery.saving.config_fields import fields_for, get_fields, set_fields
from gatewise.surgery.saving.loaded_records import settle
from gatewise.surgery.saving.swapped_parts import all_plans, mark_parts, pretrained_class
from gatewise.surgery.saving.swaps_file import SavedSwaps, plans_of

FILE = "gatewise_swaps.json"
WEIGHTS_FIELD = "transformers_weights"
NOTICE = "this model was swapped: load the folder with gatewise.from_pretrained"
_WRAPPED = "_gatewise_wrapped"


def from_pretrained(folder: Any, *, model_class: Any = None, **options: Any) -> nn.Module:
    """Load a swapped Hugging Face model from a folder that ``save_pretrained`` wrote.

    The model is built from its configuration, the swaps are applied, then the weights are loaded.

    Args:
        folder: a folder on this machine.
        model_class: the class of the model; by default the one that was saved, from transformers.
        **options: those of transformers' ``from_pretrained``, such as ``dtype``.

    Returns:
        The swapped model, in evaluation mode. Its receipt says that nothing was proved, since
        nothing was run.

    Raises:
        ArgumentError: the folder holds no swapped model, or its class is not known.
    """
    path = check_path("from_pretrained", "folder", folder)
    if not (path / FILE).is_file():
        raise ArgumentError(
            "from_pretrained: the folder holds no swapped model",
            got=str(folder),
            fix="for other models use from_pretrained of transformers",
        )
    base = importlib.import_module("transformers.modeling_utils").PreTrainedModel
    _wrap(base)
    kind = model_class or _saved_class(path)
    if not isinstance(kind, type) or not issubclass(kind, base):
        raise ArgumentError(
            "from_pretrained: model_class is not a class of transformers",
            got=kind,
            fix="pass the class of the model, such as transformers.BertForMaskedLM",
        )
    return _load(kind, path, options)


def follow_transformers(model: nn.Module) -> None:
    """Let transformers save and load swapped models, if ``model`` is one of its models."""
    base = pretrained_class()
    if base is not None and any(isinstance(module, base) for module in model.modules()):
        _wrap(base)
        mark_parts(model)


def _saved_class(folder: Path) -> Any:
    transformers = importlib.import_module("transformers")
    config = json.loads((folder / "config.json").read_text())
    names = config.get("architectures") or [""]
    kind = getattr(transformers, names[0], None) if names[0] else None
    if kind is None:
        raise ArgumentError(
            "from_pretrained: transformers has no class of the saved model's name",
            got=names[0],
            fix="pass the class: gw.from_pretrained(folder, model_class=...)",
        )
    return kind


def _wrap(base: Any) -> None:
    """Wrap a method of transformers' base class, once. See Note [How transformers ...]."""
    if getattr(base.save_pretrained, _WRAPPED, False):
        return
    save = base.save_pretrained

    @functools.wraps(save)
    def save_pretrained(self: nn.Module, save_directory: Any, *args: Any, **options: Any) -> Any:
        main = options.get("is_main_process", args[0] if args else True)
        writing = _writing(self, Path(save_directory), write=bool(main))
        with writing:
            return save(self, save_directory, *args, **options)

    setattr(save_pretrained, _WRAPPED, True)
    base.save_pretrained = save_pretrained


@contextmanager
def _writing(model: nn.Module, folder: Path, *, write: bool) -> Iterator[None]:
    """Write the swaps of ``model``, and let its configuration be saved with the fields for them."""
    if folder.is_file() or not write:
        yield
        return
    file = folder / FILE
    if not all_plans(model):
        if file.is_file():  # of a swapped model that was saved to this folder before
            remove_file(file)
        yield
        return
    config: Any = model.config
    fields: dict[str, Any] | None = None
    try:
        saved = SavedSwaps(plans_of(model))
    except ArgumentError as problem:
        saved = None
        if file.is_file():  # of another model
            remove_file(file)
        message = f"gatewise cannot save how this model was changed: {problem}"
    else:
        fields = fields_for(model, saved.plans)
        if fields is not None:
            saved = SavedSwaps(saved.plans, get_fields(config, fields))
        message = (
            "No field of the configuration names what was swapped, so transformers alone refuses "
            f"to load {folder}. Load it with gatewise.from_pretrained."
        )
    if saved is not None:
        make_folder(folder)
        saved.write(file)
    if fields is None:
        warnings.warn(message, SavedSwapWarning, stacklevel=4)
        yield
        _put_notice(folder / "config.json")
        return
    before = get_fields(config, fields)
    set_fields(config, fields)
    try:
        yield
    finally:
        set_fields(config, before)


def _put_notice(file: Path) -> None:
    """Let transformers alone refuse the folder. See Note [Without gatewise]."""
    if file.is_file():
        config = json.loads(file.read_text())
        config[WEIGHTS_FIELD] = NOTICE
        write_text(file, json.dumps(config, indent=2) + "\n")


def _load(cls: Any, folder: Path, options: dict[str, Any]) -> Any:
    """Load a folder with transformers, and apply the swaps when the model was built."""
    saved = SavedSwaps.read(folder / FILE)
    config = options.get("config")
    if config is None or isinstance(config, str | Path):
        options[WEIGHTS_FIELD] = None  # overrides the field of the file
    elif getattr(config, WEIGHTS_FIELD, None) == NOTICE:
        options["config"] = copy.deepcopy(config)
        setattr(options["config"], WEIGHTS_FIELD, None)

    def build(self: Any, config: Any, *args: Any, **options: Any) -> None:
        set_fields(config, saved.config)
        options.pop(WEIGHTS_FIELD, None)  # left over if the configuration does not have the field
        if getattr(config, WEIGHTS_FIELD, None) is None:
            vars(config).pop(WEIGHTS_FIELD, None)
        cls.__init__(self, config, *args, **options)
        object.__setattr__(self, "__class__", cls)
        if len(all_plans(self)) != len(saved.plans):  # a class may swap its models itself
            saved.apply(self, cls.base_model_prefix)

    names = {key: getattr(cls, key) for key in ("__module__", "__qualname__", "__doc__")}
    kind = type(cls)(cls.__name__, (cls,), {"__init__": build, **names})
    loaded = kind.from_pretrained(folder, **options)
    settle(loaded[0] if isinstance(loaded, tuple) else loaded)
    return loaded
