"""Change a model so that it can be changed back: every replaced object is kept, in order."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from torch import Tensor, nn

from gatewise.errors import ArgumentError
from gatewise.surgery.calls import HOLDER
from gatewise.surgery.propagate import Edit, Setting, edited
from gatewise.surgery.rewrite.classes import RECIPE, Recipe, base_and_recipe, rewritten_class
from gatewise.surgery.rewrite.copies import carry_hooks
from gatewise.surgery.rewrite.trained_weights import WeightsAtSwap

RECORD = "_gatewise_swap"  # on the model: what was done to it
DEPLOYED = "_gatewise_deployed"  # on a deployed model: its receipt


@dataclass(frozen=True)
class Change:
    """``name`` of the module at ``path`` was ``old``."""

    path: str
    name: str
    old: Any
    kind: str  # "parameter", "buffer", "module" or "attribute"

    def take_back(self, model: nn.Module) -> None:
        """Put the old object back where it was."""
        put(model.get_submodule(self.path), self.name, self.old, self.kind)


@dataclass(frozen=True)
class RewrittenCalls:
    """The rewritten calls of a model at one time: recipes and units of each owner, by path."""

    recipes: Mapping[str, Recipe] = field(default_factory=dict)
    units: Mapping[str, nn.Module] = field(default_factory=dict)

    @classmethod
    def of(cls, model: nn.Module) -> "RewrittenCalls":
        """Those that ``model`` has now."""
        owners = rewritten_owners(model)
        recipes = {path: base_and_recipe(type(owner))[1] for path, owner in owners.items()}
        units: dict[str, nn.Module] = {}
        for path, owner in owners.items():
            holder = owner._modules.get(HOLDER)
            if holder is not None:
                units[path] = holder
        return cls(recipes, units)

    def restore(self, model: nn.Module) -> None:
        """Give every owner in ``model`` the class and the holder of units that it had then."""
        for path, owner in rewritten_owners(model).items():
            base = base_and_recipe(type(owner))[0]
            recipe = self.recipes.get(path, ())
            kind = rewritten_class(base, recipe) if recipe else base
            object.__setattr__(owner, "__class__", kind)
            if path in self.units:
                owner._modules[HOLDER] = self.units[path]
            else:
                owner._modules.pop(HOLDER, None)


@dataclass
class SwapRecord:
    """Kept on a changed model: the receipt, and what undoing needs.

    Changes are by path, and recipes are plain data, so a copied or unpickled model can be undone.

    Attributes:
        receipt: of the change.
        changes: replaced parameters, buffers, modules and attributes, in order.
        calls: the rewritten calls before the change.
        units: the names of the swaps that were installed.
        previous: the record of the change before this one.
        plan: the plan that was applied, without its example; ``None`` for other changes.
        weights: the weights directly after the change.
        signs: for tensors of which the swap dropped the second half: what to multiply the first
            half by to get a second half with which the function stays the same.
    """

    receipt: Any
    changes: list[Change] = field(default_factory=list)
    calls: RewrittenCalls = field(default_factory=RewrittenCalls)
    units: tuple[str, ...] = ()
    previous: Optional["SwapRecord"] = None
    plan: Any = None
    weights: WeightsAtSwap = field(default_factory=WeightsAtSwap)
    signs: Mapping[str, int] = field(default_factory=dict)

    @property
    def level(self) -> int:
        """How many changes came before this one."""
        return 0 if self.previous is None else 1 + self.previous.level


@dataclass
class Transaction:
    """Changes made to one model so far.

    Attributes:
        model: the model.
        changes: replaced parameters, buffers, modules and attributes, in order.
        units: the installed units, by site.
        others: undo what is neither in ``changes`` nor a rewritten call.
        calls: the rewritten calls before the changes.
    """

    model: nn.Module
    changes: list[Change] = field(default_factory=list)
    units: dict[str, nn.Module] = field(default_factory=dict)
    others: list[Callable[[], None]] = field(default_factory=list)
    calls: RewrittenCalls = field(init=False)

    def __post_init__(self) -> None:
        self.calls = RewrittenCalls.of(self.model)

    def replace(self, path: str, name: str, new: Any, kind: str) -> None:
        """Put ``new`` in place of ``name`` of the module at ``path``."""
        home = self.model.get_submodule(path)
        old = held(home, name, kind)
        self.changes.append(Change(path, name, old, kind))
        if kind == "module" and isinstance(old, nn.Module) and isinstance(new, nn.Module):
            carry_hooks(old, new)
        put(home, name, new, kind)

    def install(self, site: str, path: str, unit: nn.Module) -> None:
        """Put ``unit`` in place of the module at ``path``, which is the site called ``site``."""
        self.units[site] = unit
        old = self.model.get_submodule(path)
        if hasattr(old, "inplace") and not hasattr(unit, "inplace"):
            vars(unit)["inplace"] = False  # some models read it
        home, _, own_name = path.rpartition(".")
        self.replace(home, own_name, unit.train(old.training), "module")

    def roll_back(self) -> None:
        """Undo everything, the last change first."""
        for take_back in reversed(self.others):
            take_back()
        for change in reversed(self.changes):
            change.take_back(self.model)
        self.calls.restore(self.model)
        self.changes.clear()
        self.others.clear()

    @property
    def level(self) -> int:
        """How many recorded changes the model has had before."""
        record = self.model.__dict__.get(RECORD)
        return 0 if record is None else 1 + record.level


def rewritten_owners(model: nn.Module) -> dict[str, nn.Module]:
    """The modules whose methods are rewritten, by path."""
    owners = {}
    for path, module in model.named_modules():
        if vars(type(module)).get(RECIPE):
            owners[path] = module
    return owners


def held(home: nn.Module, name: str, kind: str) -> Any:
    """What ``home`` holds under ``name``, as it is stored."""
    return getattr(home, name) if kind == "attribute" else _table(home, kind)[name]


def put(home: nn.Module, name: str, value: Any, kind: str) -> None:
    """Store ``value`` under ``name``, in its place in torch's tables, so that no order changes."""
    if kind == "attribute":
        setattr(home, name, value)
    elif value is None and kind == "module":
        _table(home, kind).pop(name, None)
    else:
        _table(home, kind)[name] = value


def _table(home: nn.Module, kind: str) -> dict[str, Any]:
    return getattr(
        home, {"parameter": "_parameters", "buffer": "_buffers", "module": "_modules"}[kind]
    )


def apply_edits(work: Transaction, edits: Iterable[Edit], settings: Iterable[Setting]) -> None:
    """Edit parameters and buffers, each under every name it has, then sizes that modules keep."""
    names = names_of_tensors(work.model)
    for name, changes in by_name(edits).items():
        kind, old = _tensor(work.model, name)
        value = edited(old, changes)
        if kind == "parameter":
            value = nn.Parameter(value, requires_grad=old.requires_grad)
        for alias in names[id(old)]:
            path, _, own_name = alias.rpartition(".")
            work.replace(path, own_name, value, kind)
    for setting in settings:
        work.replace(setting.path, setting.attribute, setting.after, "attribute")


def names_of_tensors(model: nn.Module) -> dict[int, list[str]]:
    """Every name of each parameter and buffer, by its id."""
    names: dict[int, list[str]] = {}
    for name, value in (
        *model.named_parameters(remove_duplicate=False),
        *model.named_buffers(remove_duplicate=False),
    ):
        names.setdefault(id(value), []).append(name)
    return names


def by_name(edits: Iterable[Edit]) -> dict[str, tuple[Edit, ...]]:
    """The edits of each parameter."""
    grouped: dict[str, tuple[Edit, ...]] = {}
    for edit in edits:
        grouped[edit.name] = (*grouped.get(edit.name, ()), edit)
    return grouped


def _tensor(model: nn.Module, name: str) -> tuple[str, Tensor]:
    """Kind and value of the parameter or buffer called ``name``."""
    path, _, own_name = name.rpartition(".")
    home = model.get_submodule(path)
    kind = "parameter" if own_name in home._parameters else "buffer"
    value = _table(home, kind).get(own_name)
    if value is None:
        raise ArgumentError(
            "plan: the model has no such parameter", got=name, fix="plan again for this model"
        )
    return kind, value


def check_not_swapped(model: nn.Module) -> None:
    """An error, if units were put into ``model`` already."""
    if isinstance(model, nn.Module) and RECORD in model.__dict__:
        raise ArgumentError(
            "model: units were put into it already",
            got=str(model.__dict__[RECORD].receipt.unit),
            fix="gw.undo(model) first",
        )
