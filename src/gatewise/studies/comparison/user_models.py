"""The model of a user with units put in by surgery, ready to be trained and compared.

Note [Where weights come from]. A factory is called anew for every seed, with the global generators
set from that seed, and the model keeps the weights it was made with. A module is taken as it is,
pretrained or not. Units are put in after that, so weights whose shape surgery does not change are
equal under all units. New weights are drawn from the seed.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis import check_weights
from gatewise.errors import ArgumentError, ContractError, GatewiseError, first_line
from gatewise.files import digest
from gatewise.graph import find_sites, split_example
from gatewise.studies.comparison.batch_forms import batch_digest, leaves
from gatewise.studies.comparison.choices import (
    Choices,
    make_training,
    optimiser_factory,
    with_metric,
)
from gatewise.studies.comparison.model_calls import ModelCall, find_reader, run_model
from gatewise.studies.comparison.sources import SeededBatches
from gatewise.studies.comparison.user_data import UserData
from gatewise.studies.comparison.user_objective import Training, UserObjective, try_training
from gatewise.studies.engine import Cost, cost_of, unit_table
from gatewise.surgery import Plan, plan, receipt
from gatewise.testing import check_activation
from gatewise.train import (
    Recipe,
    RunConfig,
    TrainingSetup,
    all_randomness,
    environment,
    evaluating,
    make_optimiser,
    place_model,
    seed_all,
    stream_seed,
    tensors_digest,
)
from gatewise.units import Unit, is_activation_object, unit_from

AS_IT_IS = "as it is"  # label of the unchanged model
EXAMPLES = 2  # inputs on which a swap is planned; the plan is the same for any number

Factory = Callable[[], nn.Module]
UnitRequest = Any  # a name, a table, an nn.Module class or instance, or a function


@dataclass(frozen=True)
class UserUnit:
    """A unit to put in, with the options of surgery; no name for the unchanged model."""

    label: str
    name: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    own: Unit | None = None  # if it is not in the catalogue


@dataclass(frozen=True)
class UserModel:
    """A model, or a factory of one, with its data and the way it is trained."""

    source: nn.Module | Factory
    name: str
    data: UserData
    recipe: Recipe
    training: Training
    example: Any  # the arguments of one call, as gw.plan takes them
    optimiser: Callable[..., torch.optim.Optimizer] = make_optimiser

    @property
    def drawn(self) -> bool:
        """Whether every seed has weights of its own."""
        return not isinstance(self.source, nn.Module)

    def start(self, seed: int) -> nn.Module:
        """Return the model before surgery, with the weights that ``seed`` starts from."""
        return start_model(self.source, seed)

    def setup(self, variant: "Variant", config: RunConfig, device: torch.device) -> TrainingSetup:
        """Return what a run trains, on which batches, judged by what.

        Args:
            variant: the model with one unit in it.
            config: of the run.
            device: where it is trained.
        """
        train, evaluated = self.data.for_run(config.hold_out)
        recipe = config.recipe
        objective = UserObjective(
            self.training,
            evaluated,
            device,
            precision=recipe.precision,
            channels_last=recipe.channels_last,
        )
        network = variant.build(self, config.seed)
        return TrainingSetup(
            config=config,
            model=place_model(network, device, channels_last=recipe.channels_last),
            batches=SeededBatches(train, config.seed),
            objective=objective,
            identity={"config": config.digest, "data": self.data.digest},
            environment=environment(device=device),
            device=device,
            optimiser=self.optimiser,
        )


@dataclass(frozen=True)
class Variant:
    """The model with one unit in it, planned and tested."""

    unit: UserUnit
    plan: Plan | None  # without the example, so that it is not proved again for every seed
    receipt: Mapping[str, Any] | None
    cost: Cost
    checked: str = ""  # the report on a unit that is not in the catalogue

    def build(self, model: UserModel, seed: int) -> nn.Module:
        """Return the network that ``seed`` trains; see Note [Where weights come from]."""
        network = model.start(seed)
        if self.plan is None:
            return network
        if self.unit.own is not None:
            unit_from(self.unit.own)  # another process does not know it yet
        with all_randomness():
            seed_all(stream_seed(seed, "surgery"))
            return self.plan.apply(network)

    @property
    def identity(self) -> dict[str, Any]:
        """What distinguishes this variant from others of the same model."""
        if self.plan is None:
            return {}
        words = {"plan_sha256": digest(self.plan.to_json().encode())}
        if self.unit.own is not None:
            words["unit_sha256"] = self.unit.own.fingerprint
        return words


def start_model(source: nn.Module | Factory, seed: int) -> nn.Module:
    """Return a copy of a module, or what a factory makes for ``seed``, on the processor."""
    if isinstance(source, nn.Module):
        return _on_processor(copy.deepcopy(source))
    with all_randomness():
        seed_all(stream_seed(seed, "build"))
        return _on_processor(_call_factory(source))


def _on_processor(network: nn.Module) -> nn.Module:
    """Move a network to the processor, or raise an error if it has no weights to move."""
    if any(parameter.is_meta for parameter in network.parameters()):
        raise ArgumentError(
            "model: its weights are on the meta device, which holds no numbers",
            got=type(network).__name__,
            fix="make the model on the processor",
        )
    return network.cpu()


def user_model(
    source: nn.Module | Factory,
    data: UserData,
    recipe: Recipe,
    choices: Choices | None = None,
    *,
    name: str | None = None,
    example: Any = None,
) -> UserModel:
    """Return the model with its data, after checking that it can be trained on them.

    Args:
        source: a module, or a function that makes one.
        data: of the user.
        recipe: how it is trained.
        choices: of task, loss, metric and so on.
        name: of the model; its class if not given.
        example: arguments of one call of the model; taken from the data if not given.
    """
    choices = choices or Choices()
    network = start_model(source, 0)
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise ArgumentError("model: it has no trainable parameters", got=type(network).__name__)
    check_weights("model", network)
    with all_randomness():
        training = make_training(choices, network, data, recipe)
        if example is None:
            example = _example(network, data)
        else:
            _check_example(network, example)
        returned = try_training(training, copy.deepcopy(network), data.train, data.test)
    training = with_metric(training, choices, returned)
    model = UserModel(
        source,
        name or type(network).__name__,
        data,
        recipe,
        training,
        example=example,
    )
    if callable(choices.optimiser):
        model = replace(model, optimiser=optimiser_factory(choices.optimiser))
        model.optimiser(network, recipe)
    return model


def variants(
    model: UserModel,
    units: Sequence[UserUnit],
    options: Mapping[str, Any],
) -> list[Variant]:
    """Plan, apply and test every unit once, before anything is trained.

    Args:
        model: of the user.
        units: to put in.
        options: of :func:`gatewise.plan`, for all units.

    Raises:
        ArgumentError: naming all units that cannot be put in.
    """
    start = model.start(0)
    built: list[Variant] = []
    problems: list[str] = []
    for unit in units:
        try:
            with all_randomness():
                built.append(_variant(unit, start, model.example, options))
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
    args, kwargs = split_example(model.example)
    with all_randomness(), evaluating(network):
        seed_all(0)
        outputs = run_model(network, ModelCall(args, kwargs, None))
    tensors = {}
    for name, tensor in network.state_dict().items():
        if isinstance(tensor, Tensor):
            tensors[name] = tensor.cpu()
    words = [tensors_digest(tensors), batch_digest(_tensors_in(outputs), decimals=3)]
    return digest(" ".join(words).encode())


def read_units(units: Sequence[UnitRequest], baseline: Any) -> tuple[list[UserUnit], str]:
    """Return the units with their labels, the baseline first, and its label.

    Args:
        units: names, tables or activations.
        baseline: a label or a unit; None for the unchanged model.
    """
    if isinstance(units, str) or not isinstance(units, Sequence) or not units:
        raise ArgumentError(
            "units: a list of units is needed",
            got=units,
            allowed='such as ["relu", "crelu"]',
        )
    choices = [_read_unit(unit) for unit in units]
    labels = [unit.label for unit in choices]
    if baseline is not None and not isinstance(baseline, str):
        first = _read_unit(baseline)
        baseline = first.label
        if baseline not in labels:
            choices.insert(0, first)
            labels.insert(0, baseline)
    base = baseline or AS_IT_IS
    if base not in labels:
        first = UserUnit(AS_IT_IS) if base == AS_IT_IS else _read_unit(base)
        choices.insert(0, first)
        labels.insert(0, first.label)
    repeated = sorted({label for label in labels if labels.count(label) > 1})
    if repeated:
        raise ArgumentError(
            "units: one appears twice",
            got=repeated[0],
            fix="give one of them another label",
        )
    return choices, base


def _read_unit(unit: UnitRequest) -> UserUnit:
    """Return a unit from its name, its table or an activation of the user."""
    if isinstance(unit, str):
        return UserUnit(unit, unit)
    if is_activation_object(unit):
        return _own_unit(unit, {})
    if isinstance(unit, Mapping) and is_activation_object(unit.get("unit")):
        rest = {key: value for key, value in unit.items() if key != "unit"}
        return _own_unit(unit["unit"], rest)
    if not isinstance(unit, Mapping) or not isinstance(unit.get("name"), str):
        raise ArgumentError(
            "units: a name, an activation or a table is needed",
            got=unit,
            allowed="'crelu', MyUnit, {'name': 'crelu', 'width': 'half', 'label': ...}, "
            "{'unit': MyUnit, 'label': ...}",
        )
    table = unit_table(dict(unit))
    _check_label(table["label"])
    return UserUnit(table["label"], table["name"], table.get("options", {}))


def _own_unit(activation: Any, table: Mapping[str, Any]) -> UserUnit:
    """Return the unit of an activation of the user; the table holds its label and options."""
    unit = unit_from(activation)
    label = table.get("label", unit.title if unit.make else unit.name)
    _check_label(label)
    options = {key: value for key, value in table.items() if key != "label"}
    return UserUnit(label, unit.name, options, unit if unit.make else None)


def _check_label(label: Any) -> None:
    """Raise an error for a label that is not a short text."""
    if not isinstance(label, str) or not 1 <= len(label) <= 100:
        raise ArgumentError("units: a label has 1 to 100 letters", got=label)


def _variant(unit: UserUnit, start: nn.Module, example: Any, options: Mapping[str, Any]) -> Variant:
    """Plan, apply and test one unit, and count its cost."""
    if unit.name is None:
        return Variant(unit, None, None, cost_of(copy.deepcopy(start), example))
    checked = _check_own(unit, start, example) if unit.own else ""
    choices = {"preserve": False, **options, **unit.options}
    swap = plan(start, unit.name, example, **choices)
    network = swap.apply(start, inplace=False)
    changes = receipt(network).to_dict()
    cost = cost_of(network, example)
    return Variant(unit, Plan.from_json(swap.to_json()), changes, cost, checked)


def _check_own(unit: UserUnit, start: nn.Module, example: Any) -> str:
    """Check an activation of the user by the contract, at the shape of its first place."""
    sites = [site for site in find_sites(start, example) if site.shape]
    if not sites:
        return ""
    first = sites[0]
    shape = list(first.shape)
    for place, size in enumerate(shape):
        if place != first.dim:
            shape[place] = 2 if place == 0 else min(size, 4)
    values = {"channels": first.channels, "dim": first.dim}
    try:
        return str(check_activation(unit.name or "", tuple(shape), **values))
    except ContractError as problem:
        words = "; ".join(line.strip() for line in str(problem).splitlines())
        raise ArgumentError(f"units: {unit.label} does not keep the contract: {words}") from None


def _example(network: nn.Module, data: UserData) -> Any:
    """Return the arguments of a call of the model on a few examples."""
    batch = data.train.first(EXAMPLES)
    call = find_reader(network, batch).read(batch, without_target=True)
    with evaluating(network):
        run_model(network, call)
    return call.example


def _check_example(network: nn.Module, example: Any) -> None:
    """Raise an error for an example that the model cannot read."""
    args, kwargs = split_example(example)
    with evaluating(network):
        run_model(network, ModelCall(args, kwargs, None))


def _tensors_in(outputs: Any) -> list[Tensor]:
    """Return the floating-point tensors among the outputs of a model."""
    found = [leaf for leaf in leaves(outputs) if isinstance(leaf, Tensor)]
    if not found:  # an object with attributes
        found = [value for value in vars(outputs).values() if isinstance(value, Tensor)]
    return [tensor for tensor in found if tensor.is_floating_point()]


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
            got=f"{type(problem).__name__}: {first_line(problem)}",
            allowed="no arguments",
        ) from problem
    if not isinstance(network, nn.Module):
        raise ArgumentError(
            "model: the function did not return a module", got=type(network).__name__
        )
    return network
