"""Units compared in a model that the user has.

Put in by surgery, trained alike, kept and shown as any study.

Note [Where weights come from]. A factory is called anew for every seed, under torch's generator set
from that seed, and keeps whatever it makes; a module is taken as it is, pretrained or not. Units
are put in after that, so that weights whose shape surgery leaves alone are equal under all units;
what surgery adds is drawn from the seed.
"""

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis import check_weights
from gatewise.data import DataSet
from gatewise.errors import ArgumentError, GatewiseError
from gatewise.files import digest
from gatewise.studies.comparison.user_data import fit_classes, own_data
from gatewise.studies.engine import Cost, cost_of, unit_table
from gatewise.surgery import Plan, plan, receipt
from gatewise.train import (
    Recipe,
    check,
    check_outputs,
    evaluating,
    find_recipe,
    own_randomness,
    stream_seed,
    tensors_digest,
)

AS_IT_IS = "as it is"
EXAMPLES = 2  # a swap is planned on so many inputs: it is the same plan for any number

Factory = Callable[[], nn.Module]
UnitGiven = str | Mapping[str, Any]


@dataclass(frozen=True)
class OwnUnit:
    """A unit to be put in, with what surgery is told of it; none for the model as it is."""

    label: str
    name: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class OwnModel:
    """A model, or a factory of one, with the inputs it reads."""

    given: nn.Module | Factory
    name: str
    data: DataSet
    shape: tuple[int, ...]  # of one input, as the model reads it
    recipe: Recipe

    @property
    def drawn(self) -> bool:
        """Whether every seed has weights of its own."""
        return not isinstance(self.given, nn.Module)

    def start(self, seed: int) -> nn.Module:
        """The model before surgery, with the weights that ``seed`` starts from."""
        if isinstance(self.given, nn.Module):
            return copy.deepcopy(self.given)
        with own_randomness():
            torch.default_generator.manual_seed(stream_seed(seed, "build"))
            return _made(self.given)

    def inputs(self, count: int) -> Tensor:
        """The first so many inputs, as the model is given them in training."""
        augment = self.recipe.augmentation().with_normalise(self.data.mean, self.data.std)
        images = augment.plain(self.data.train.images[:count])
        return images if len(self.shape) == 3 else images.reshape(len(images), *self.shape)

    def reading(self, network: nn.Module) -> nn.Module:
        """``network``, made to read batches of images of any form as inputs of its own."""
        if len(self.shape) != 3:
            network.register_forward_pre_hook(_Reshape(self.shape))
        return network


class _Reshape:
    """Batches hold (n, c, 1, 1); a model reads what it was written for."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape

    def __call__(self, module: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
        return (inputs[0].reshape(len(inputs[0]), *self.shape),)


@dataclass(frozen=True)
class Variant:
    """The model with one unit in it, planned and tried."""

    unit: OwnUnit
    plan: Plan | None  # without the example, so that it is not proved again for every seed
    receipt: Mapping[str, Any] | None
    cost: Cost

    def build(self, model: OwnModel, seed: int) -> nn.Module:
        """The network that ``seed`` trains; see Note [Where weights come from]."""
        network = model.start(seed)
        if self.plan is None:
            return model.reading(network)
        with own_randomness():
            torch.default_generator.manual_seed(stream_seed(seed, "surgery"))
            network = self.plan.apply(network)
        return model.reading(network)

    @property
    def identity(self) -> dict[str, Any]:
        """What tells this variant from others of the same model."""
        return {} if self.plan is None else {"plan_sha256": digest(self.plan.to_json().encode())}


def own_model(
    given: nn.Module | Factory, data: Any, recipe: Recipe, name: str | None = None
) -> OwnModel:
    """The model with its data, checked together."""
    network = given if isinstance(given, nn.Module) else _made(given)
    if not any(each.requires_grad for each in network.parameters()):
        raise ArgumentError("model: nothing in it can be trained", got=type(network).__name__)
    check_weights("model", network)
    found, shape = own_data(data)
    model = OwnModel(given, name or type(network).__name__, found, shape, recipe)
    outputs = _outputs(network, model.inputs(EXAMPLES))
    model = replace(model, data=fit_classes(found, outputs.shape[1]))
    check_outputs(recipe.loss, outputs, model.data.train.labels[:EXAMPLES], model.data.classes)
    return model


def variants(
    model: OwnModel, units: Sequence[OwnUnit], options: Mapping[str, Any]
) -> list[Variant]:
    """Every unit planned, put in and proved once.

    All that cannot be put in is said at once, before anything is run.
    """
    example = model.inputs(EXAMPLES)
    start, made, problems = model.start(0), [], []
    for unit in units:
        try:
            made.append(_variant(unit, start, example, options))
        except GatewiseError as problem:
            problems.append(f"{unit.label}: {problem}")
    if problems:
        raise ArgumentError(
            f"units: {len(problems)} of {len(units)} cannot be put in: " + " | ".join(problems)
        )
    return made


def model_digest(model: OwnModel) -> str:
    """What tells one model from another.

    Its weights, or those of the factory's first seed, and what it computes.

    Outputs are rounded, so that the last bits, which depend on the number of threads, have no say.
    """
    network = model.start(0)
    outputs = _outputs(network, model.inputs(EXAMPLES)).round(decimals=3)
    return tensors_digest(
        {**{name: each.cpu() for name, each in network.state_dict().items()}, " outputs": outputs}
    )


def read_units(units: Sequence[UnitGiven], baseline: str | None) -> tuple[list[OwnUnit], str]:
    """The units with their labels, the baseline first; and its label."""
    if isinstance(units, str) or not units:
        raise ArgumentError(
            "units: a list of units is needed", got=units, allowed='such as ["relu", "crelu"]'
        )
    found = [_read_unit(each) for each in units]
    if baseline is None:
        found.insert(0, OwnUnit(AS_IT_IS))
    elif baseline not in [each.label for each in found]:
        found.insert(0, OwnUnit(AS_IT_IS) if baseline == AS_IT_IS else _read_unit(baseline))
    labels = [each.label for each in found]
    twice = {label for label in labels if labels.count(label) > 1}
    if twice:
        raise ArgumentError(
            "units: there twice", got=sorted(twice)[0], fix="give one of them another label"
        )
    return found, baseline or AS_IT_IS


def read_recipe(recipe: str | Recipe, epochs: int | None) -> Recipe:
    """The recipe of that name, or the one given, for so many epochs."""
    if isinstance(recipe, Recipe):
        changes = {} if epochs is None else {"epochs": epochs}
        return check(Recipe, recipe.model_dump(exclude_unset=True) | changes, "recipe")
    return find_recipe(recipe, changes=[] if epochs is None else [f"epochs = {json.dumps(epochs)}"])


def _read_unit(given: UnitGiven) -> OwnUnit:
    if isinstance(given, str):
        return OwnUnit(given, given)
    if not isinstance(given, Mapping) or not isinstance(given.get("name"), str):
        allowed = "'crelu', {'name': 'crelu', 'width': 'half', 'label': ...}"
        raise ArgumentError(
            "units: a name, or a table with a name, is needed", got=given, allowed=allowed
        )
    found = unit_table(given)
    if not isinstance(found["label"], str) or not 1 <= len(found["label"]) <= 100:
        raise ArgumentError("units: a label has 1 to 100 letters", got=found["label"])
    return OwnUnit(found["label"], found["name"], found.get("options", {}))


def _variant(
    unit: OwnUnit, start: nn.Module, example: Tensor, options: Mapping[str, Any]
) -> Variant:
    if unit.name is None:
        return Variant(unit, None, None, cost_of(copy.deepcopy(start), example))
    found = plan(start, unit.name, example, **{**options, **unit.options})
    tried = found.apply(start, inplace=False)
    about = receipt(tried).to_dict()
    return Variant(unit, Plan.from_json(found.to_json()), about, cost_of(tried, example))


def _made(factory: Factory) -> nn.Module:
    if not callable(factory):
        raise ArgumentError(
            "model: a module, or a function that makes one, is needed", got=type(factory).__name__
        )
    try:
        network = factory()
    except GatewiseError:
        raise
    except Exception as problem:
        got = f"{type(problem).__name__}: {problem}"
        raise ArgumentError(
            "model: the function that makes it failed", got=got, allowed="no arguments"
        ) from problem
    if not isinstance(network, nn.Module):
        raise ArgumentError(
            "model: what the function makes is no module", got=type(network).__name__
        )
    return network


def _outputs(network: nn.Module, inputs: Tensor) -> Tensor:
    """What the model gives for the inputs, (n, outputs), as in a test."""
    with _own_error(inputs), evaluating(network):
        found = network(inputs)
    if not isinstance(found, Tensor) or found.dim() != 2:
        got = f"shape {tuple(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
        raise ArgumentError(
            "model: a vector for each example is needed", got=got, allowed="a tensor (N, K)"
        )
    return found.detach().cpu()


@contextmanager
def _own_error(inputs: Tensor) -> Iterator[None]:
    try:
        yield
    except GatewiseError:
        raise
    except Exception as problem:
        form, said = (
            f"{tuple(inputs.shape)} {str(inputs.dtype).removeprefix('torch.')}",
            str(problem).split("\n")[0],
        )
        raise ArgumentError(
            "model: it cannot read these inputs",
            got=f"{form} ({said})",
            fix="give data of the shape that the model reads, and a model in float32",
        ) from problem
