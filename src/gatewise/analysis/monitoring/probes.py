"""Run a model on its probe and measure the activity of its sites.

Note [Probe]. All records are measured on the same inputs, in eval mode, so that they differ only by
what training changed. The graph of the model is read once: every site counts, whether a module, a
function or a call in place. Where no graph can be read, activation modules are watched by hooks
during the run. Functional activations are not seen then, and the monitor says so.
"""

from typing import Any, Protocol

import torch
from torch import Tensor, nn

from gatewise.analysis.gating import GateSite, SiteStream, rule_of_module
from gatewise.analysis.monitoring.site_activity import ActivitySums
from gatewise.devices import move
from gatewise.errors import Limitation, NotApplicableError
from gatewise.graph import Example, split_example, untouched

CONVOLUTIONS = nn.modules.conv._ConvNd
SPATIAL_NORMS = nn.modules.batchnorm._BatchNorm
# Readings that are tried one after the other have these reasons to fail.
NOT_READABLE = (Limitation.UNREADABLE_MODEL, Limitation.NO_GATES)


class ActivityProbe(Protocol):
    """Measures the activity of all sites.

    Attributes:
        reading: ``"graph"`` or ``"modules"``.
        notes: Sentences about sites that are not measured.
    """

    reading: str
    notes: tuple[str, ...]

    def measure(self) -> list[ActivitySums]:
        """Run the model once and return the sums of each site."""
        ...


class GraphProbe:
    """Measures every site that the graph of the model has.

    Args:
        model: The model.
        example: Its inputs.
    """

    reading = "graph"

    def __init__(self, model: nn.Module, example: Example) -> None:
        self.stream = SiteStream("GateMonitor", model)
        self.model = model
        self.example = example
        graph = self.stream.readings.of(_inputs(model, example))
        self.stream.sites(graph)
        self.notes = tuple(map(str, self.stream.left_out))

    def measure(self) -> list[ActivitySums]:
        """Run the graph once and return the sums of each site."""
        sums: dict[str, ActivitySums] = {}

        def add_response(site: GateSite, response: Tensor) -> None:
            sums[site.name] = ActivitySums(site.name, site.unit, site.dim, site.rule, response)

        def add_gate(site: GateSite, gate: Tensor) -> None:
            sums[site.name].add_gate(gate)

        def add_output(site: GateSite, output: Tensor) -> None:
            sums[site.name].add_output(output)

        self.stream.run(_inputs(self.model, self.example), add_gate, add_output, add_response)
        return list(sums.values())


class ModuleProbe:
    """Measures the activation modules of a model that no graph can be read of.

    Channels are along dimension 1 after a convolution or batch norm, and along the last dimension
    after a linear layer, whichever ran last before the activation.

    Args:
        model: The model.
        example: Its inputs.
        reason: Why there is no graph, for the notes.

    Raises:
        NotApplicableError: The model has no activation module.
    """

    reading = "modules"

    def __init__(self, model: nn.Module, example: Example, reason: str) -> None:
        self.model = model
        self.example = example
        self.notes = (
            f"the graph of the model cannot be read ({reason}): only activation modules are "
            "measured, functional activations are not",
        )
        self.modules = {
            path: module
            for path, module in model.named_modules()
            if rule_of_module(module, -1) is not None
        }
        if not self.modules:
            raise NotApplicableError(
                Limitation.NO_GATES,
                "GateMonitor: the graph of the model cannot be read, and it has no activation "
                "modules",
                got=reason,
            )

    def measure(self) -> list[ActivitySums]:
        """Run the model once and return the sums of each call of an activation module."""
        run = _WatchedRun()
        args, kwargs = split_example(_inputs(self.model, self.example))
        # Hooks that are added inside are gone afterwards.
        with torch.no_grad(), untouched(self.model):
            self.model.eval()
            for module in self.model.modules():
                if isinstance(module, nn.Linear | CONVOLUTIONS | SPATIAL_NORMS):
                    module.register_forward_hook(run.after_layer)
            for path, module in self.modules.items():
                module.register_forward_pre_hook(run.before_activation(path))
                module.register_forward_hook(run.after_activation(path))
            self.model(*args, **kwargs)
        return list(run.sums.values())


class _WatchedRun:
    """The hooks of one run."""

    def __init__(self) -> None:
        self.dim = 1
        self.sums: dict[str, ActivitySums] = {}
        self.responses: dict[str, Tensor] = {}
        self.busy = False  # computing gates, which calls the activation again

    def after_layer(self, module: nn.Module, args: Any, output: Any) -> None:
        self.dim = -1 if isinstance(module, nn.Linear) else 1

    def before_activation(self, path: str) -> Any:
        def keep(module: nn.Module, args: tuple[Any, ...]) -> None:
            if not self.busy:
                self.responses[path] = args[0].clone()  # the activation may write into it

        return keep

    def after_activation(self, path: str) -> Any:
        def add(module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
            if not self.busy:
                self.busy = True
                self._add(path, module, self.responses.pop(path), output)
                self.busy = False

        return add

    def _add(
        self,
        path: str,
        module: nn.Module,
        response: Tensor,
        output: Tensor,
    ) -> None:
        dim = self.dim % response.dim()
        found = rule_of_module(module, dim)
        assert found is not None  # noqa: S101  one of the modules of ModuleProbe
        unit, rule = found
        name = path
        call = 0
        while name in self.sums:
            call += 1
            name = f"{path}@{call}"
        sums = ActivitySums(name, unit, dim, rule, response)
        sums.add_gate(rule.gate(response, output) if rule.needs_output else rule.gate(response))
        sums.add_output(output)
        self.sums[name] = sums


def make_probe(model: nn.Module, example: Example) -> ActivityProbe:
    """Return the probe that measures most: by the graph, or by modules where there is none."""
    try:
        return GraphProbe(model, example)
    except NotApplicableError as problem:
        if problem.limitation not in NOT_READABLE:
            raise
        return ModuleProbe(model, example, str(problem))


def _inputs(model: nn.Module, example: Example) -> Any:
    """Return the example on the device of the model, which may have moved."""
    parameter = next(model.parameters(), None)
    return example if parameter is None else move(example, parameter.device)
