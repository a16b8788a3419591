"""The model of a user with units put in by surgery, ready to be trained and compared.

Note [Where weights come from]. A factory is called anew for every seed, with torch's generator set
from that seed, and the model keeps the weights it was made with. A module is taken as it is,
pretrained or not. Units are put in after that, so weights whose shape surgery does not change are
equal under all units. New weights are drawn from the seed.
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
from gatewise.studies.comparison.user_data import fit_classes, read_data
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

AS_IT_IS = "as it is"  # label of the unchanged model
EXAMPLES = 2  # inputs on which a swap is planned; the plan is the same for any number

Factory = Callable[[], nn.Module]
UnitRequest = str | Mapping[str, Any]


@dataclass(frozen=True)
class UserUnit:
    """A unit to put in, with the options of surgery; no name for the unchanged model."""

    label: str
    name: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class UserModel:
    """A model, or a factory of one, with the data it reads."""

    source: nn.Module | Factory
    name: str
    data: DataSet
    shape: tuple[int, ...]  # of one input, as the model reads it
    recipe: Recipe

    @property
    def drawn(self) -> bool:
        """Whether every seed has weights of its own."""
        return not isinstance(self.source, nn.Module)

    def start(self, seed: int) -> nn.Module:
        """Return the model before surgery, with the weights that ``seed`` starts from."""
        if isinstance(self.source, nn.Module):
            return copy.deepcopy(self.source)
        with own_randomness():
            torch.default_generator.manual_seed(stream_seed(seed, "build"))
            return _call_factory(self.source)

    def inputs(self, count: int) -> Tensor:
        """Return the first ``count`` inputs, as the model reads them in training."""
        augment = self.recipe.augmentation().with_normalise(self.data.mean, self.data.std)
        images = augment.plain(self.data.train.images[:count])
        return images if len(self.shape) == 3 else images.reshape(len(images), *self.shape)

    def reading(self, network: nn.Module) -> nn.Module:
        """Return ``network``, changed to accept batches of images in place of its own inputs."""
        if len(self.shape) != 3:
            network.register_forward_pre_hook(_Reshape(self.shape))
        return network


class _Reshape:
    """A pre-hook: batches hold (n, c, 1, 1), and the model reads its own shape."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape

    def __call__(self, module: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
        return (inputs[0].reshape(len(inputs[0]), *self.shape),)


@dataclass(frozen=True)
class Variant:
    """The model with one unit in it, planned and tested."""

    unit: UserUnit
    plan: Plan | None  # without the example, so that it is not proved again for every seed
    receipt: Mapping[str, Any] | None
    cost: Cost

    def build(self, model: UserModel, seed: int) -> nn.Module:
        """Return the network that ``seed`` trains; see Note [Where weights come from]."""
        network = model.start(seed)
        if self.plan is None:
            return model.reading(network)
        with own_randomness():
            torch.default_generator.manual_seed(stream_seed(seed, "surgery"))
            network = self.plan.apply(network)
        return model.reading(network)

    @property
    def identity(self) -> dict[str, Any]:
        """What distinguishes this variant from others of the same model."""
        return {} if self.plan is None else {"plan_sha256": digest(self.plan.to_json().encode())}


def user_model(
    source: nn.Module | Factory, data: Any, recipe: Recipe, name: str | None = None
) -> UserModel:
    """Return the model with its data, after checking that it can be trained on them.

    Args:
        source: a module, or a function that makes one.
        data: as :func:`gatewise.compare` takes it.
        recipe: how it is trained.
        name: of the model; its class if not given.
    """
    network = source if isinstance(source, nn.Module) else _call_factory(source)
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise ArgumentError("model: it has no trainable parameters", got=type(network).__name__)
    check_weights("model", network)
    dataset, shape = read_data(data)
    model = UserModel(source, name or type(network).__name__, dataset, shape, recipe)
    outputs = _outputs(network, model.inputs(EXAMPLES))
    model = replace(model, data=fit_classes(dataset, outputs.shape[1]))
    check_outputs(recipe.loss, outputs, model.data.train.labels[:EXAMPLES], model.data.classes)
    return model


def variants(
    model: UserModel, units: Sequence[UserUnit], options: Mapping[str, Any]
) -> list[Variant]:
    """Plan, apply and test every unit once, before anything is trained.

    Args:
        model: of the user.
        units: to put in.
        options: of :func:`gatewise.plan`, for all units.

    Raises:
        ArgumentError: naming all units that cannot be put in.
    """
    example = model.inputs(EXAMPLES)
    start = model.start(0)
    built: list[Variant] = []
    problems: list[str] = []
    for unit in units:
        try:
            built.append(_variant(unit, start, example, options))
        except GatewiseError as problem:
            problems.append(f"{unit.label}: {problem}")
    if problems:
        raise ArgumentError(
            f"units: {len(problems)} of {len(units)} cannot be put in: " + " | ".join(problems)
        )
    return built


def model_digest(model: UserModel) -> str:
    """Return a digest of the weights (those of seed 0 for a factory) and of what it computes.

    Outputs are rounded, because their last bits depend on the number of threads.
    """
    network = model.start(0)
    outputs = _outputs(network, model.inputs(EXAMPLES)).round(decimals=3)
    tensors = {name: tensor.cpu() for name, tensor in network.state_dict().items()}
    return tensors_digest({**tensors, " outputs": outputs})


def read_units(units: Sequence[UnitRequest], baseline: str | None) -> tuple[list[UserUnit], str]:
    """Return the units with their labels, the baseline first, and its label.

    Args:
        units: names or tables.
        baseline: a label; None for the unchanged model.
    """
    if isinstance(units, str) or not units:
        raise ArgumentError(
            "units: a list of units is needed", got=units, allowed='such as ["relu", "crelu"]'
        )
    choices = [_read_unit(unit) for unit in units]
    labels = [unit.label for unit in choices]
    base = baseline or AS_IT_IS
    if baseline is None or baseline not in labels:
        first = UserUnit(AS_IT_IS) if base == AS_IT_IS else _read_unit(base)
        choices.insert(0, first)
        labels.insert(0, first.label)
    repeated = sorted({label for label in labels if labels.count(label) > 1})
    if repeated:
        raise ArgumentError(
            "units: one appears twice", got=repeated[0], fix="give one of them another label"
        )
    return choices, base


def read_recipe(recipe: str | Recipe, epochs: int | None) -> Recipe:
    """Return the recipe, or the recipe of that name.

    Args:
        recipe: itself, or its name.
        epochs: in place of the recipe's.
    """
    if isinstance(recipe, Recipe):
        changes = {} if epochs is None else {"epochs": epochs}
        return check(Recipe, recipe.model_dump(exclude_unset=True) | changes, "recipe")
    return find_recipe(recipe, changes=[] if epochs is None else [f"epochs = {json.dumps(epochs)}"])


def _read_unit(unit: UnitRequest) -> UserUnit:
    """Return a unit from its name or table."""
    if isinstance(unit, str):
        return UserUnit(unit, unit)
    if not isinstance(unit, Mapping) or not isinstance(unit.get("name"), str):
        raise ArgumentError(
            "units: a name, or a table with a name, is needed",
            got=unit,
            allowed="'crelu', {'name': 'crelu', 'width': 'half', 'label': ...}",
        )
    table = unit_table(unit)
    if not isinstance(table["label"], str) or not 1 <= len(table["label"]) <= 100:
        raise ArgumentError("units: a label has 1 to 100 letters", got=table["label"])
    return UserUnit(table["label"], table["name"], table.get("options", {}))


def _variant(
    unit: UserUnit, start: nn.Module, example: Tensor, options: Mapping[str, Any]
) -> Variant:
    """Plan, apply and test one unit, and count its cost."""
    if unit.name is None:
        return Variant(unit, None, None, cost_of(copy.deepcopy(start), example))
    swap = plan(start, unit.name, example, **{**options, **unit.options})
    network = swap.apply(start, inplace=False)
    changes = receipt(network).to_dict()
    return Variant(unit, Plan.from_json(swap.to_json()), changes, cost_of(network, example))


def _call_factory(factory: Factory) -> nn.Module:
    """Call the function of the user and check that it returns a module."""
    if not callable(factory):
        raise ArgumentError(
            "model: a module, or a function that makes one, is needed", got=type(factory).__name__
        )
    try:
        network = factory()
    except GatewiseError:
        raise
    except Exception as problem:
        raise ArgumentError(
            "model: the function that makes it failed",
            got=f"{type(problem).__name__}: {problem}",
            allowed="no arguments",
        ) from problem
    if not isinstance(network, nn.Module):
        raise ArgumentError(
            "model: the function did not return a module", got=type(network).__name__
        )
    return network


def _outputs(network: nn.Module, inputs: Tensor) -> Tensor:
    """Return the outputs (n, outputs) in evaluation mode."""
    with _input_errors(inputs), evaluating(network):
        outputs = network(inputs)
    if not isinstance(outputs, Tensor) or outputs.dim() != 2:
        is_tensor = isinstance(outputs, Tensor)
        got = f"shape {tuple(outputs.shape)}" if is_tensor else type(outputs).__name__
        raise ArgumentError(
            "model: a vector for each example is needed", got=got, allowed="a tensor (N, K)"
        )
    return outputs.detach().cpu()


@contextmanager
def _input_errors(inputs: Tensor) -> Iterator[None]:
    """Turn any error of the model into one that names its inputs."""
    try:
        yield
    except GatewiseError:
        raise
    except Exception as problem:
        dtype = str(inputs.dtype).removeprefix("torch.")
        message = str(problem).split("\n")[0]
        raise ArgumentError(
            "model: it cannot read these inputs",
            got=f"{tuple(inputs.shape)} {dtype} ({message})",
            fix="give data of the shape that the model reads, and a model in float32",
        ) from problem
