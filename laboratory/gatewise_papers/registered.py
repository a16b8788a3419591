"""What these packages add to gatewise, by kind: the functions of the entry points."""

from pathlib import Path

HERE = Path(__file__).parent


def units() -> None:
    """Register phase selective layers that stand in place of a unit."""
    from gatewise_papers.psc import phase_names  # noqa: F401


def swaps() -> None:
    """Register the swap to static phase selective layers."""
    from gatewise_papers.psc import static_swap  # noqa: F401


def models() -> None:
    """Register the networks of the papers."""
    import gatewise_papers.crelu.networks
    import gatewise_papers.deep_gated.networks
    import gatewise_papers.iieu.networks
    import gatewise_papers.maso.networks  # noqa: F401


def data() -> None:
    """Register the data sets."""
    import gatewise_papers.data
    import gatewise_papers.iieu.data  # noqa: F401


def tasks() -> None:
    """Register segmentation and detection."""
    import gatewise_papers.iieu.objectives  # noqa: F401


def recipes() -> None:
    """Add the folders of recipes, one a paper, and the augmentation that some of them have."""
    from gatewise.train import add_recipes
    from gatewise_papers.data import rand_augment  # noqa: F401

    for folder in sorted(HERE.glob("*/recipes")):
        add_recipes(folder)


def questions() -> None:
    """Register the question which properties the units of a model have, and its section."""
    import gatewise_papers.iieu.unit_properties.question
    import gatewise_papers.iieu.unit_properties.section  # noqa: F401
