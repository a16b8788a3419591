"""A callback that measures the gates of a model every few training steps."""

import inspect
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from torch import Tensor, nn

from gatewise.analysis.monitoring.destinations import close_all, make_destinations
from gatewise.analysis.monitoring.probes import ActivityProbe, make_probe
from gatewise.analysis.monitoring.site_activity import MonitorRecord
from gatewise.analysis.record import new_axes
from gatewise.checks import check_count, check_number
from gatewise.errors import ArgumentError, Limitation, NotApplicableError
from gatewise.graph import Example, check_dense, example_tensors, split_example

# Keyword arguments from which Hugging Face models compute their loss.
FOR_THE_LOSS = ("labels", "num_items_in_batch")


class GateMonitor:
    """Measures dead, always-on, dormant and saturated units and on-rates while a model trains.

    Call :meth:`step` after every training step, or pass :meth:`lightning_callback` or
    :meth:`trainer_callback` to the trainer of Lightning or Hugging Face. Every ``every`` steps the
    model runs once more, in eval mode and without gradients, on the *probe*: the same inputs every
    time. Model, gradients and random numbers are as before afterwards, so training is the same with
    a monitor and without.

    Cost: one forward pass on the probe, about a third of a training step with as many inputs, every
    ``every`` steps. A record that would take the share of the time above ``budget`` is left out and
    counted in ``skipped``; the printed monitor says so. The last step is recorded in any case, when
    the monitor closes. :attr:`share` is the measured share. Before the first record the graph of
    the model is read once, which takes seconds for a large model (``setup_seconds``).

    A unit is *dead* if its output is the same for the whole probe and its slope is zero there:
    nothing passes, forward or backward. It is *always off* if it is never on and not dead, and
    *dormant* if its mean absolute output is at most ``dormant_below`` times the mean over its site
    (Sokar et al., 2023, arXiv:2302.12902). A dead unit can be on for other inputs: use a probe of
    many inputs.

    Use it as a context manager, or call :meth:`close` at the end.

    Attributes:
        records: The records so far, each a :class:`gatewise.analysis.MonitorRecord`.
        skipped: How many records were left out because of the budget.
        setup_seconds: The time that reading the graph took.
        reading: ``"graph"`` where the graph of the model was read and every site counts,
            ``"modules"`` where only activation modules are measured; ``None`` before the first
            record.
        notes: Sentences about sites that are not measured.
    """

    def __init__(
        self,
        model: nn.Module,
        example: Example | None = None,
        *,
        every: int = 100,
        to: Any = (),
        budget: float | None = 0.02,
        inputs: int = 32,
        dormant_below: float = 0.025,
    ) -> None:
        """Create a monitor.

        Args:
            model: the model that is trained.
            example: the probe: a tensor, a tuple of positional arguments or a dict of keyword
                arguments. By default the first inputs of the model's next call.
            every: the number of steps from one record to the next.
            to: ``"FILE.jsonl"``, ``"FILE.csv"``, a folder for TensorBoard, an object with
                ``add_scalar``, a function that is called with each record, or a list of these.
            budget: the largest share of the time; ``None`` for no limit.
            inputs: how many inputs of the next call become the probe.
            dormant_below: the share of the mean absolute output up to which a unit is dormant.
        """
        if not isinstance(model, nn.Module):
            raise ArgumentError(
                "GateMonitor: model must be a module", got=type(model).__name__, allowed="nn.Module"
            )
        check_count("GateMonitor", "every", every)
        check_count("GateMonitor", "inputs", inputs)
        check_number("GateMonitor", "dormant_below", dormant_below, above=0, most=1)
        if budget is not None:
            check_number("GateMonitor", "budget", budget, above=0, most=1)
        if example is not None:
            check_dense("GateMonitor: example", split_example(example))
        self.model = model
        self.every = every
        self.budget = budget
        self.inputs = inputs
        self.dormant_below = dormant_below
        self.records: list[MonitorRecord] = []
        self.skipped = 0
        self.setup_seconds = 0.0
        self.reading: str | None = None
        self.notes: tuple[str, ...] = ()
        self.steps = 0
        self._example = example
        self._probe: ActivityProbe | None = None
        self._destinations = make_destinations(to)
        self._spent = 0.0
        self._started: float | None = None
        self._ended: float | None = None
        self._hook: Any = None
        if example is not None:
            self._ready_probe()  # a model that cannot be measured is an error now, not later
        else:
            self._hook = model.register_forward_pre_hook(self._take_example, with_kwargs=True)

    def step(self, number: int | None = None) -> MonitorRecord | None:
        """Count one training step, and measure if a record is due.

        Args:
            number: the number of steps done, where the training loop counts them. By default the
                monitor counts its calls.

        Returns:
            The new record, ``None`` if there is none.
        """
        self._check_open()
        before = self.steps
        self.steps = before + 1 if number is None else number
        if self._started is None:
            self._started = time.perf_counter()
        if self.steps == before or self.steps % self.every or self._example is None:
            return None
        if self._exceeds_budget():
            self.skipped += 1
            return None
        return self.measure()

    def measure(self) -> MonitorRecord:
        """Measure now, and return the record.

        Raises:
            ArgumentError: the model was given without an example and was not called since.
            NotApplicableError: the model has no unit whose gates are known.
        """
        self._check_open()
        probe = self._ready_probe()
        if self._started is None:
            self._started = time.perf_counter()
        started = time.perf_counter()
        problem = None
        sites = []
        try:
            sites = [sums.result(self.dormant_below) for sums in probe.measure()]
        except NotApplicableError as error:
            if error.limitation is not Limitation.NOT_FINITE:
                raise
            problem = str(error)  # training goes on; the record says why it is empty
        seconds = time.perf_counter() - started
        record = MonitorRecord(self.steps, tuple(sites), seconds, problem)
        self.records.append(record)
        for destination in self._destinations:
            destination.add(record)
        self._spent += time.perf_counter() - started
        return record

    @property
    def share(self) -> float:
        """The share of the time since the first step that records took, without the setup."""
        if self._started is None:
            return 0.0
        now = time.perf_counter() if self._ended is None else self._ended
        return self._spent / max(now - self._started, 1e-9)

    def close(self, *, last: bool = True) -> None:
        """Record the last step, finish the files and forget the probe. The records stay.

        Args:
            last: whether the last step is recorded if it was not yet.
        """
        if self._ended is None:
            recorded = self.records[-1].step if self.records else 0
            if last and self.steps > recorded and self._example is not None:
                self.measure()
            self._ended = time.perf_counter()
            self._remove_hook()
            self._probe = None
            close_all(self._destinations)

    def lightning_callback(self) -> Any:
        """Return a callback for ``lightning.Trainer(callbacks=[...])``."""
        from gatewise.analysis.monitoring.lightning_monitor import LightningMonitor

        return LightningMonitor(self)

    def trainer_callback(self) -> Any:
        """Return a callback for ``transformers.Trainer(callbacks=[...])``."""
        from gatewise.analysis.monitoring.transformers_monitor import TransformersMonitor

        return TransformersMonitor(self)

    def plot(self, axes: Any = None) -> Any:
        """Draw the share of dead units by step, one line for each site; return matplotlib's axes.

        Args:
            axes: The matplotlib axes to draw on. A new figure is created by default.
        """
        axes = new_axes((5, 3.6)) if axes is None else axes
        lines: dict[str, tuple[list[int], list[float]]] = {}
        for record in self.records:
            for site in record.sites:
                steps, shares = lines.setdefault(site.name, ([], []))
                steps.append(record.step)
                shares.append(site.scalars()["dead"])
        for name, (steps, shares) in lines.items():
            axes.plot(steps, shares, label=name)
        axes.set(xlabel="steps", ylabel="share of dead units", ylim=(-0.02, 1.02))
        axes.legend(frameon=False, fontsize=6)
        return axes

    def __enter__(self) -> "GateMonitor":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close(last=error is None)

    def __repr__(self) -> str:
        read = self.reading or "not read yet"
        lines = [
            f"GateMonitor of {type(self.model).__name__} ({read}): {len(self.records)} records, "
            f"{100 * self.share:.2g} % of the time"
        ]
        if self.skipped and self.budget is not None:
            lines.append(
                f"{self.skipped} records left out: one takes {self.records[-1].seconds:.2g} s, and "
                f"the budget is {100 * self.budget:.3g} % of the time; budget=None keeps all"
            )
        lines += [f"not measured: {note}" for note in self.notes]
        if self.records:
            lines.append(repr(self.records[-1]))
        return "\n".join(lines)

    def _ready_probe(self) -> ActivityProbe:
        if self._example is None:
            raise ArgumentError(
                "GateMonitor: there is nothing to run the model on",
                got="no example, and the model was not called yet",
                fix="GateMonitor(model, example), or call the model first",
            )
        if self._probe is None:
            started = time.perf_counter()
            self._probe = make_probe(self.model, self._example)
            self.reading = self._probe.reading
            self.notes = self._probe.notes
            self.setup_seconds = time.perf_counter() - started
            if self._started is not None:
                self._started += self.setup_seconds  # not part of the time of the steps
        return self._probe

    def _exceeds_budget(self) -> bool:
        """Whether one more record would take more than the budget. The first one is taken."""
        if self.budget is None or not self.records or self._started is None:
            return False
        elapsed = time.perf_counter() - self._started
        return self._spent + self.records[-1].seconds > self.budget * elapsed

    def _check_open(self) -> None:
        if self._ended is not None:
            raise ArgumentError("GateMonitor: it is closed", fix="create a new monitor")

    def _remove_hook(self) -> None:
        if self._hook is not None:
            self._hook.remove()
            self._hook = None

    def _take_example(
        self, model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        """Keep the first inputs of a call as the probe; a hook that removes itself."""
        self._remove_hook()
        named = {name: value for name, value in kwargs.items() if name not in FOR_THE_LOSS}
        if args and named:  # an example is either a tuple or a dict
            named = dict(inspect.signature(model.forward).bind(*args, **named).arguments)
            args = ()
        rows = {len(tensor) for tensor in example_tensors((args, named)) if tensor.dim()}
        most = self.inputs if len(rows) == 1 else None
        if args:
            self._example = tuple(_first(value, most) for value in args)
        else:
            self._example = {name: _first(value, most) for name, value in named.items()}


def _first(value: Any, most: int | None) -> Any:
    """Return a copy of the first rows of a tensor; other values as they are."""
    if not isinstance(value, Tensor):
        return value
    return value.detach()[:most].clone() if value.dim() else value.detach().clone()
