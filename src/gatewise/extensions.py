"""Additions of other packages, found by the entry points of what is installed.

A package names one function for each kind of addition under the group ``gatewise.extensions``::

    [project.entry-points."gatewise.extensions"]
    models = "my_package.registered:networks"

The function registers the additions, with what gatewise's own ones use. It is called once, when a
name of its kind is not known or when all names are listed.

==============  ============================================================================
kind            what its function registers with
==============  ============================================================================
``units``       :func:`gatewise.units.unit`, :func:`gatewise.models.phase_layers`
``swaps``       a subclass of :class:`gatewise.surgery.Swap`
``models``      :func:`gatewise.models.network`
``data``        :func:`gatewise.data.register_data_set`
``tasks``       :func:`gatewise.train.register_task`
``recipes``     :func:`gatewise.train.add_recipes`, ``gatewise.data.AUGMENT_STEPS``
``questions``   :func:`gatewise.analysis.ask`, :func:`gatewise.report.show_question`
==============  ============================================================================

Commands are entry points of the group ``gatewise.commands``: the name of the command, and a
function that typer can run.
"""

from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points

from gatewise.errors import UnknownNameError, unknown_name

GROUP = "gatewise.extensions"
COMMANDS = "gatewise.commands"
# What gatewise_papers adds, so that an error can say where a name is.
PAPERS: dict[str, tuple[str, ...]] = {
    "units": ("low_rank_psc", "static_psc"),
    "models": (
        "all_cnn",
        "all_cnn_crelu",
        "convpool_cnn",
        "deep_gated_cnn",
        "deep_gated_mlp",
        "large_cnn",
        "mobilenet_v2",
        "resnet",
        "resnet_cifar",
        "resnet_segmenter",
        "retinanet",
        "shufflenet_v2",
        "vgg_cifar",
        "wide_resnet",
    ),
    "data": (
        "abs_line",
        "coco_detection",
        "fashion_mnist",
        "hard_pair",
        "imagenet",
        "kitti_materials",
        "mnist",
        "one_point",
        "random_labels",
        "random_plane",
        "same_input",
        "shapes_detection",
        "shapes_segmentation",
        "svhn",
    ),
    "recipes": (
        "crelu_cifar",
        "crelu_imagenet_adam",
        "crelu_imagenet_sgd",
        "deep_gated_adam",
        "deep_gated_rmsprop",
        "iieu_cfg_1",
        "iieu_cfg_2",
        "iieu_cfg_3",
        "iieu_cfg_c",
        "iieu_cfg_l",
        "iieu_cifar",
        "materials_adamw",
        "retinanet_1x",
    ),
    "tasks": ("detection", "segmentation"),
    "questions": ("properties",),
    "commands": ("reproduce",),
}
INSTALL_PAPERS = (
    "it is in gatewise_papers, which is not installed: pip install -e laboratory in a clone of "
    "gatewise"
)
_LOADED: set[str] = set()


def load_extensions(kind: str) -> None:
    """Call the functions that installed packages name for a kind of addition, once.

    Args:
        kind: a kind of the table above.
    """
    if kind in _LOADED:
        return
    _LOADED.add(kind)
    for point in entry_points(group=GROUP, name=kind):
        point.load()()


def extension_commands() -> dict[str, EntryPoint]:
    """Return the commands of installed packages by name; none is imported."""
    return {point.name: point for point in entry_points(group=COMMANDS)}


def in_papers(kind: str, name: object) -> bool:
    """Return whether gatewise_papers adds something of that kind and name."""
    return isinstance(name, str) and name in PAPERS.get(kind, ())


def unknown_addition(kind: str, words: str, name: object, known: Iterable[str]) -> UnknownNameError:
    """Return the error for a name that neither gatewise nor an installed package has.

    Args:
        kind: a kind of the table above.
        words: what the table lists, e.g. ``"unit"``.
        name: the name that was given.
        known: all names that are there.
    """
    if in_papers(kind, name):
        return UnknownNameError(
            f"there is no {words} of that name", got=repr(name), fix=INSTALL_PAPERS
        )
    return unknown_name(words, name, known)
