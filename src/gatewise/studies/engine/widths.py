"""Widths at which a network with another unit costs as much as with the baseline's.

Note [How widths are matched]. A network whose cost is near enough at the widths it has keeps them,
so that its weights start as the baseline's do. Otherwise all widths are scaled by one number, found
by halving; if rounding to whole widths leaves the cost too far off, single widths are moved by one
step, the best move first. A step is 2 where odd widths are refused, as when a unit halves the
filters.
"""

from collections.abc import Callable, Sequence
from typing import Any

from gatewise.errors import ArgumentError
from gatewise.graph import parameter_count
from gatewise.models import get_model
from gatewise.studies.engine.costs import Facts, example_for
from gatewise.surgery import cost as count
from gatewise.surgery import match as nearest
from gatewise.train import RunConfig, build_model, outline

SCALES = (1 / 16, 8.0)  # of the widths that are given
MOVES = 40
ONE_NUMBER = ("scale", "width")  # options of networks that have one number for all their widths

Widths = tuple[int, ...]


def with_matched_widths(
    config: RunConfig, facts: Facts, target: int, *, by: str, within: float
) -> RunConfig:
    """``config`` with widths at which its network costs ``target``.

    An error with the numbers if none do.
    """
    if abs(budget(config, facts, by) / target - 1) <= within:
        return config
    known = get_model(config.model).options
    if "widths" in known:
        given = config.model_options.get("widths", known["widths"].default)
        return _with(
            config, "widths", list(_matched(config, facts, tuple(given), target, by, within))
        )
    for option in ONE_NUMBER:
        if option in known:
            return _with(config, option, _one_number(config, facts, option, target, by, within))
    raise ArgumentError(
        f"match: {config.model} has no option for its width",
        got=f"{budget(config, facts, by):,} {by}",
        allowed=f"{target:,} within {within:.1%}",
        fix='match = "none", or another network',
    )


def _matched(
    config: RunConfig, facts: Facts, given: Widths, target: int, by: str, within: float
) -> Widths:
    tried: dict[Widths, int] = {}

    def cost_of(widths: Widths) -> int:
        if widths not in tried:
            tried[widths] = budget(_with(config, "widths", list(widths)), facts, by)
        return tried[widths]

    def off(widths: Widths) -> float:
        return abs(cost_of(widths) / target - 1)

    step = _step(given, cost_of)
    best = _moved(_scaled_to(given, step, target, cost_of), step, off, within)
    if off(best) > within:
        raise ArgumentError(
            f"match: no widths of {config.model} come within {within:.1%}",
            got=f"{cost_of(best):,} {by} at widths {list(best)}",
            allowed=f"{target:,}",
            fix="a larger match_within",
        )
    return best


def _step(given: Widths, cost_of: Callable[[Widths], int]) -> int:
    """1, or 2 where the network refuses odd widths."""
    try:
        cost_of(tuple(width | 1 for width in given))
    except ArgumentError:
        return 2
    return 1


def _scaled_to(given: Widths, step: int, target: int, cost_of: Callable[[Widths], int]) -> Widths:
    """All widths scaled alike, at the scale whose cost is nearest.

    Costs do not fall as the scale grows.
    """
    low, high = SCALES
    tried = {scaled(given, low, step), scaled(given, high, step)}
    while high - low > 1e-3 * low:
        middle = (low + high) / 2
        widths = scaled(given, middle, step)
        tried.add(widths)
        low, high = (middle, high) if cost_of(widths) <= target else (low, middle)
    return min(tried, key=lambda widths: abs(cost_of(widths) - target))


def _moved(widths: Widths, step: int, off: Callable[[Widths], float], within: float) -> Widths:
    """``widths`` after moves of single ones, each the best there is, until the cost is near enough."""
    for _ in range(MOVES):
        if off(widths) <= within:
            break
        moves = [
            (*widths[:place], width + by, *widths[place + 1 :])
            for place, width in enumerate(widths)
            for by in (-step, step)
            if width + by >= step
        ]
        best = min(moves, key=off)
        if off(best) >= off(widths):
            break
        widths = best
    return widths


def scaled(given: Sequence[int], scale: float, step: int) -> Widths:
    """Every width times ``scale``, as a multiple of ``step``, at least one."""
    return tuple(max(1, round(width * scale / step)) * step for width in given)


def _one_number(
    config: RunConfig, facts: Facts, option: str, target: int, by: str, within: float
) -> float:
    """The value of a network's single width option."""
    default = get_model(config.model).options[option].default
    given = config.model_options.get(option, default)
    low, high = (
        (max(1, given // 8), given * 8)
        if isinstance(given, int)
        else (given * SCALES[0], given * SCALES[1])
    )

    def build(value: float) -> Any:
        return build_model(_with(config, option, value), classes=facts.classes, shape=facts.shape)

    example = example_for(config, facts)
    found = nearest(
        lambda **chosen: build(chosen[option]),
        target,
        example,
        by=by,
        option=option,
        between=(low, high),
        tolerance=within,
    )
    return found.value


def budget(config: RunConfig, facts: Facts, by: str) -> int:
    """Parameters, or operations of a pass over some examples, of the configuration's network."""
    if by == "parameters":
        return parameter_count(outline(config, classes=facts.classes, shape=facts.shape))
    network = build_model(config, classes=facts.classes, shape=facts.shape)
    return count(network.eval(), by, example_for(config, facts))


def _with(config: RunConfig, option: str, value: Any) -> RunConfig:
    return config.model_copy(update={"model_options": {**config.model_options, option: value}})
