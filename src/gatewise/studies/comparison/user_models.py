"""The model of a user with units put in by surgery, ready to be trained and compared.

Note [Where weights come from]. A factory is called anew for every seed, with the global generators
set from that seed, and the model keeps the weights it was made with. A module is taken as it is,
pretrained or not. Units are put in after that, so weights whose shape surgery does not change are
equal under all units. New weights are drawn from the seed.
"""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis import check_weights
from gatewise.batches import ModelCall, find_reader, leaves
from gatewise.checks import check_choice, check_count
from gatewise.errors import (
    ArgumentError,
    ContractError,
    GatewiseError,
    UnknownNameError,
    first_line,
)
from gatewise.files import digest
from gatewise.graph import find_sites, parameter_count, split_example
from gatewise.models import create_model, get_model
from gatewise.studies.comparison.choices import (
    Choices,
    make_training,
    with_metric,
)
from gatewise.studies.comparison.fingerprints import batch_digest
from gatewise.studies.comparison.model_outputs import run_model
from gatewise.studies.comparison.sources import SeededBatches
from gatewise.studies.comparison.user_data import UserData
from gatewise.studies.comparison.user_objective import Training, UserObjective, try_training
from gatewise.surgery import Plan, UnmatchedError, plan
from gatewise.testing import check_activation
from gatewise.train import (
    Recipe,
    RunConfig,
    TrainingSetup,
    all_randomness,
    environment,
    evaluating,
    place_model,
    seed_all,
    stream_seed,
    tensors_digest,
)
from gatewise.units import Unit, is_activation_object, unit_from

ORIGINAL = "original"  # label of the unchanged model
STARTING_INPUTS = 5000  # that a network sees which sets weights by its data before training
MATCHES = ("", "parameters", "flops", "none")
INSIDE = "UNIT"  # the reason of a site that is a part of a unit or layer of this library
SAME = 0.01  # relative difference of parameters that needs no other widths
OTHER_SEEDS = 1_000_003  # between two streams of seeds
EXAMPLES = 2  # inputs on which a swap is planned; the plan is the same for any number

Factory = Callable[[], nn.Module]
UnitRequest = Any  # a name, a table, an nn.Module class or instance, or a function


@dataclass(frozen=True)
class BuiltIn:
    """A function that builds a network of the catalogue, in any process.

    Attributes:
        name: of the network.
        options: of the network.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, **options: Any) -> nn.Module:
        """Build the network.

        Args:
            **options: in place of those that are kept.
        """
        return create_model(self.name, **{**self.options, **options})

    def fitting(self, data: UserData) -> "BuiltIn":
        """Return the network for these data: classes and sizes are theirs unless they are given.

        Args:
            data: of the comparison.
        """
        known = get_model(self.name).options
        if not data.shape:
            return self
        if len(data.shape) == 1:
            facts = {"classes": data.classes, "length": data.shape[0]}
        else:
            facts = {
                "classes": data.classes or 1,
                "channels": data.shape[0],
                "features": math.prod(data.shape),
            }
        given = {name: value for name, value in facts.items() if name in known}
        return BuiltIn(self.name, {**given, **self.options})


@dataclass(frozen=True)
class UserUnit:
    """A unit to put in.

    Attributes:
        label: its name in tables.
        name: of the unit; None for the unchanged model.
        options: of surgery and of the unit.
        own: the unit, if it is not in the catalogue.
        match: the cost that widths are matched to: ``"parameters"``, ``"flops"`` or ``"none"``;
            empty for parameters where that is possible.
        stream: of seeds; units of one stream share weights and batches.
        model: options of the network for this unit alone.
    """

    label: str
    name: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    own: Unit | None = None
    match: str = ""
    stream: int = 0
    model: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class UserModel:
    """A model, or a factory of one, with its data and the way it is trained."""

    source: nn.Module | Factory
    name: str
    data: UserData
    recipe: Recipe
    training: Training
    example: Any  # the arguments of one call, as gw.plan takes them

    @property
    def drawn(self) -> bool:
        """Whether every seed has weights of its own."""
        return not isinstance(self.source, nn.Module)

    def start(self, seed: int, options: Mapping[str, Any] | None = None) -> nn.Module:
        """Return the model before surgery, as :func:`start_model` does."""
        return start_model(self.source, seed, self.data, options)

    def setup(self, variant: "Variant", config: RunConfig, device: torch.device) -> TrainingSetup:
        """Return what a run trains, on which batches, judged by what.

        Args:
            variant: the model with one unit in it.
            config: of the run.
            device: where it is trained.
        """
        recipe = config.recipe
        network = variant.build(self, config.seed)
        return TrainingSetup(
            config=config,
            model=place_model(network, device, channels_last=recipe.channels_last),
            batches=SeededBatches(self.data.train, config.seed),
            objective=UserObjective(self.training, self.data.evaluated, device, recipe),
            identity={"config": config.digest, "data": self.data.digest},
            environment=environment(device=device),
            device=device,
        )


@dataclass(frozen=True)
class Variant:
    """The model with one unit in it, planned and tested."""

    unit: UserUnit
    plan: Plan | None  # without the example, so that it is not proved again for every seed
    parameters: int
    matched: str = ""  # how widths were matched, in words
    checked: str = ""  # the report on a unit that is not in the catalogue

    def build(self, model: UserModel, seed: int) -> nn.Module:
        """Return the network that ``seed`` trains; see Note [Where weights come from]."""
        network = model.start(seed, self.unit.model)
        if self.plan is None:
            return network
        if self.unit.own is not None:
            unit_from(self.unit.own)  # another process does not know it yet
        with all_randomness():
            seed_all(stream_seed(seed, "surgery"))
            return self.plan.apply(network)

    @property
    def keeps_units(self) -> bool:
        """Whether every site gets the activation that it has, by name."""
        if self.plan is None:
            return True
        return not self.unit.options and all(
            entry.op == self.unit.name for entry in self.plan.swapped
        )

    @property
    def identity(self) -> dict[str, Any]:
        """What distinguishes this variant from others of the same model."""
        words: dict[str, Any] = {"unit": self.unit.label}
        if self.unit.model:
            words["model_options"] = dict(self.unit.model)
        if self.plan is None:
            return words
        words["plan_sha256"] = digest(self.plan.to_json().encode())
        if self.unit.own is not None:
            words["unit_sha256"] = self.unit.own.fingerprint
        return words


@dataclass(frozen=True)
class LeftOut:
    """A unit that is not compared, and why."""

    unit: str
    reason: str


def start_model(
    source: nn.Module | Factory,
    seed: int,
    data: UserData,
    options: Mapping[str, Any] | None = None,
) -> nn.Module:
    """Return a copy of a module, or what a factory makes for ``seed``, on the processor.

    A network with a method ``start_from_data(images)`` is shown training images, for example to
    whiten its inputs.

    Args:
        source: the module, or a function that makes one.
        seed: of the weights.
        data: of the user.
        options: with which the function is called.
    """
    if isinstance(source, nn.Module):
        return _on_processor(copy.deepcopy(source))
    with all_randomness():
        seed_all(stream_seed(seed, "build"))
        network = _on_processor(_call_factory(source, options or {}))
    see = getattr(network, "start_from_data", None)
    if callable(see):
        see(data.train.first(STARTING_INPUTS)[0])
    return network


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
) -> UserModel:
    """Return the model with its data, after checking that it can be trained on them.

    Args:
        source: a module, or a function that makes one.
        data: of the user.
        recipe: how it is trained.
        choices: of task, loss, metric and so on.
        name: of the model; its class if not given.
    """
    choices = choices or Choices()
    network = start_model(source, 0, data)
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise ArgumentError("model: it has no trainable parameters", got=type(network).__name__)
    check_weights("model", network)
    with all_randomness():
        training = make_training(choices, network, data, recipe)
        example = _example(network, data)
        returned = try_training(training, copy.deepcopy(network), data.train, data.test)
    training = with_metric(training, choices, returned)
    return UserModel(
        source,
        name or type(network).__name__,
        data,
        recipe,
        training,
        example=example,
    )


def variants(
    model: UserModel, units: Sequence[UserUnit], baseline: str
) -> tuple[list[Variant], list[LeftOut]]:
    """Plan, apply and test every unit once, before anything is trained.

    Args:
        model: of the user.
        units: to put in.
        baseline: the label of the unit that all are compared with.

    Returns:
        Those that can be compared, and the others with their reasons.

    Raises:
        ArgumentError: if nothing is left to compare.
    """
    built: list[Variant] = []
    left: list[LeftOut] = []
    for unit in units:
        try:
            with all_randomness():
                built.append(make_variant(unit, model))
        except UnknownNameError:
            raise  # a name that was misspelt
        except GatewiseError as problem:
            left.append(LeftOut(unit.label, " ".join(str(problem).split())))
    labels = [variant.unit.label for variant in built]
    if baseline in labels:
        base = built[labels.index(baseline)]
        for variant in [each for each in built if each is not base]:
            if _is_repeated(variant, base, model):
                built.remove(variant)
                left.append(LeftOut(variant.unit.label, f"the same network as {baseline}"))
    if baseline not in labels or len(built) < 2:
        refused = [each for each in left if each.unit != baseline]
        whose = f"{len(refused)} of {len(units) - 1}" if baseline in labels else "the baseline"
        raise ArgumentError(
            f"units: {whose} cannot be put in, and nothing is left to compare: "
            + " | ".join(f"{each.unit}: {each.reason}" for each in left)
        )
    return built, left


def model_digest(model: UserModel) -> str:
    """Return a digest of the weights (those of seed 0 for a factory) and of what it computes.

    Outputs are rounded, because their last bits depend on the number of threads.
    """
    network = model.start(0)
    args, kwargs = split_example(model.example)
    with all_randomness(), evaluating(network):
        seed_all(0)
        outputs = run_model(network, ModelCall(args, kwargs))
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
    base = baseline or ORIGINAL
    if base not in labels:
        first = _read_unit(base)
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
    if isinstance(unit, Mapping):
        table = dict(unit)
    else:
        table = {"unit" if is_activation_object(unit) else "name": unit}
    activation, name = table.pop("unit", None), table.pop("name", None)
    label = table.pop("label", None)
    own = None
    if is_activation_object(activation):
        own = unit_from(activation)
        name = own.name
        if label is None:
            label = own.title if own.make else name
    elif not isinstance(name, str):
        raise ArgumentError(
            "units: a name, an activation or a table is needed",
            got=unit,
            allowed="'crelu', MyUnit, {'name': 'crelu', 'width': 'half', 'label': ...}, "
            "{'unit': MyUnit, 'label': ...}",
        )
    if label is None:
        plain = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
        label = " ".join([name, *(f"{key}={value}" for key, value in plain.items())])[:100]
    if not isinstance(label, str) or not 1 <= len(label) <= 100:
        raise ArgumentError("units: a label has 1 to 100 letters", got=label)
    model = table.pop("model", {})
    if not isinstance(model, Mapping):
        raise ArgumentError("units: model holds options of the network", got=model)
    return UserUnit(
        label=label,
        name=None if name == ORIGINAL else name,
        own=own if own and own.make else None,
        match=check_choice("units", "match", table.pop("match", ""), MATCHES),
        stream=check_count("units", "stream", table.pop("stream", 0), least=0, most=1000),
        model=dict(model),
        options=table,
    )


def make_variant(unit: UserUnit, model: UserModel) -> Variant:
    """Plan, apply and test one unit, and count its parameters.

    Args:
        unit: to put in.
        model: of the user.

    Raises:
        GatewiseError: if a site is refused, or the unit does not keep the contract.
    """
    start = model.start(0, unit.model)
    if unit.name is None:
        return Variant(unit, None, parameter_count(start))
    checked = _check_own(unit, start, model.example) if unit.own else ""
    swap, matched = _matched_plan(unit, start, model.example)
    refused = [entry for entry in swap.refused if entry.reason != INSIDE]
    if refused:
        reasons = sorted({entry.why for entry in refused})
        raise ArgumentError(
            f"{len(refused)} of {len(refused) + len(swap.swapped)} sites are refused",
            got="; ".join(reasons)[:500],
            fix="name the sites with where=, or another unit",
        )
    count = parameter_count(swap.apply(start, inplace=False))
    return Variant(unit, Plan.from_json(swap.to_json()), count, matched, checked)


def _is_repeated(variant: Variant, base: Variant, model: UserModel) -> bool:
    """Return whether a variant trains the network of the baseline on the same batches.

    So does ReLU in a model that has ReLU. On another stream of seeds it is a control.
    """
    one, other = variant.unit, base.unit
    if (one.stream, one.model) != (other.stream, other.model):
        return False
    if not (variant.keeps_units and base.keeps_units):
        return False
    args, kwargs = split_example(model.example)
    outputs = []
    for each in (variant, base):
        network = each.build(model, 0)
        with all_randomness(), evaluating(network):
            seed_all(0)
            outputs.append(run_model(network, ModelCall(args, kwargs)))
    digests = [batch_digest(_tensors_in(each)) for each in outputs]
    return digests[0] == digests[1]


def _matched_plan(unit: UserUnit, start: nn.Module, example: Any) -> tuple[Plan, str]:
    """Return the plan with widths at which the network costs as much as before, where possible.

    Returns:
        The plan, and in words what was matched or why it could not be.
    """
    options = {"preserve": False, **unit.options}
    first = None
    if unit.match in ("", "none"):
        first = plan(start, unit.name, example, **options)
        count = parameter_count(first.apply(start, inplace=False))
        if unit.match or abs(count / parameter_count(start) - 1) <= SAME:
            return first, ""
    wanted = unit.match or "parameters"
    try:
        made = plan(start, unit.name, example, match=wanted, **options)
    except UnmatchedError as problem:
        return problem.nearest, f"{wanted} matched as closely as the widths allow"
    except GatewiseError as problem:
        if first is None:  # the user asked for it
            raise
        return first, f"{wanted} not matched: {first_line(problem)}"
    return made, f"{wanted} matched"


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
    call = find_reader(network).read(batch, without_target=True)
    with evaluating(network):
        run_model(network, call)
    return call.example


def _tensors_in(outputs: Any) -> list[Tensor]:
    """Return the floating-point tensors among the outputs of a model."""
    found = [leaf for leaf in leaves(outputs) if isinstance(leaf, Tensor)]
    if not found:  # an object with attributes
        found = [value for value in vars(outputs).values() if isinstance(value, Tensor)]
    return [tensor for tensor in found if tensor.is_floating_point()]


def _call_factory(factory: Factory, options: Mapping[str, Any]) -> nn.Module:
    """Call the function of the user and check that it returns a module."""
    if not callable(factory):
        raise ArgumentError(
            "model: a module, or a function that makes one, is needed", got=type(factory).__name__
        )
    try:
        network = factory(**options)
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
