"""Ask all questions of one model, and collect the answers and the advice."""

import platform
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import metadata
from typing import Any

import torch
from torch import nn

from gatewise.analysis.checkpoint_weights import Checkpoint
from gatewise.analysis.diagnosis.advice import Advice, Case, advise
from gatewise.analysis.diagnosis.checkpoints import find_checkpoints
from gatewise.analysis.diagnosis.context import DiagnosisContext
from gatewise.analysis.diagnosis.inputs import GIB, Inputs, collect
from gatewise.analysis.diagnosis.question import REASONS, Finding, Question
from gatewise.analysis.diagnosis.questions import QUESTIONS
from gatewise.analysis.record import AnalysisResult, plain_values
from gatewise.errors import ArgumentError, NotApplicableError, shorten, unknown_name
from gatewise.graph import (
    cached_readings,
    check_readable,
    example_tensors,
    parameter_count,
    split_example,
    untouched,
)

FORMAT = "gatewise diagnosis 1"
ANSWERED = "answered"
NOT_APPLICABLE = "does not apply"
FAILED = "failed"
FAILED_LINE = "Failed: an error occurred in this analysis."
# The question, how much of it is done, and of how much (None: not known).
Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True)
class Answer(AnalysisResult):
    """What became of one question.

    Attributes:
        name: The name of the question.
        title: The question in words.
        state: ``"answered"``, ``"does not apply"`` or ``"failed"``.
        line: The answer in one or two sentences, or why there is none.
        reason: Why the question does not apply, a value of
            :class:`~gatewise.errors.Limitation`.
        detail: The message of the error, if there is no answer.
        seconds: How long the question took.
        facts: The answer in plain values.
        record: The result of the analysis, to plot or to work with. It is not written to files.
        traceback: The whole traceback of a failure.
    """

    name: str
    title: str
    state: str
    line: str
    reason: str | None = None
    detail: str = ""
    seconds: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)
    record: Any = None
    traceback: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return all but the record as plain values, for a file."""
        values = {name: value for name, value in vars(self).items() if name != "record"}
        return plain_values(values, finite=True)


@dataclass(frozen=True, repr=False)
class Diagnosis(AnalysisResult):
    """The result of :func:`diagnose`. ``diagnosis["pairing"]`` is the answer to one question.

    Attributes:
        name: The name of the model.
        model: Its class and size.
        data: The inputs: how many, their shapes, and whether they are real data.
        answers: One answer for each question, in the order of the page.
        advice: What the answers recommend.
        versions: The versions of gatewise, torch and Python.
        seconds: How long the diagnosis took.
    """

    name: str
    model: dict[str, Any]
    data: dict[str, Any]
    answers: tuple[Answer, ...]
    advice: tuple[Advice, ...]
    versions: dict[str, str]
    seconds: float

    def __getitem__(self, question: str) -> Answer:
        for answer in self.answers:
            if answer.name == question:
                return answer
        raise unknown_name("question", question, [answer.name for answer in self.answers])

    def __iter__(self) -> Iterator[Answer]:
        return iter(self.answers)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for a file or a page."""
        values = {
            "format": FORMAT,
            "name": self.name,
            "model": self.model,
            "data": self.data,
            "questions": self.answers,
            "advice": self.advice,
            "versions": self.versions,
            "seconds": self.seconds,
        }
        return plain_values(values, finite=True)

    def __repr__(self) -> str:
        size = f"{self.model['parameters']:,} parameters"
        lines = [f"{self.name}: {size}, {self.data['examples']:,} inputs"]
        lines += [f"  {answer.name:15} {answer.line}" for answer in self.answers]
        lines += [f"* {advice.text}\n  {advice.command}" for advice in self.advice]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = ""
        for answer in self.answers:
            rows += f"<tr><th>{escape(answer.title)}</th><td>{escape(answer.line)}</td></tr>"
        items = ""
        for advice in self.advice:
            items += f"<li>{escape(advice.text)} <code>{escape(advice.command)}</code></li>"
        return f"<p>{escape(self.name)}</p><ul>{items}</ul><table>{rows}</table>"


def diagnose(
    model: nn.Module,
    batches: object,
    *,
    questions: Sequence[str] | None = None,
    examples: int = 1000,
    memory: int = 2 * GIB,
    seconds: float = 15.0,
    checkpoints: Iterable[Checkpoint] | None = None,
    real: bool = True,
    about: str = "",
    name: str | None = None,
    reference: str = "MODEL",
    progress: Progress | None = None,
) -> Diagnosis:
    """Analyse what the activation functions of a model do on some inputs, and give advice.

    The model is analysed in eval mode and left unchanged. A question that does not apply is listed
    with the reason. A question that fails is listed with its error and traceback. The other
    questions are answered all the same.

    Args:
        model: Any module.
        batches: A tensor of inputs, or an iterable such as a data loader. Its items are tensors,
            pairs of inputs and labels, tuples of arguments, or dicts of keyword arguments. All
            inputs have one shape.
        questions: Names from ``gatewise diagnose --help``. All questions by default.
        examples: How many inputs are used, the first of ``batches``.
        memory: Bytes that one question may use.
        seconds: How long a question that can stop early may run. The others use as many inputs as
            fit.
        checkpoints: Earlier weights of this model, the earliest first: state dicts, models, or
            safetensors files. ``flips`` and ``film`` compare each with the next, and the last
            with the model as it is.
        real: Whether the inputs are data. With ``False``, for random numbers, the questions that
            need data are not asked.
        about: A description of the inputs, for the page.
        name: The name of the model on the page. Its class by default.
        reference: How the commands in the advice name the model.
        progress: Called with the question, how much of it is done, and of how much if that is
            known.

    Raises:
        ArgumentError: The model cannot be read, an input cannot be used, or an argument is wrong.

    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> diagnose(model, torch.randn(20, 4))["sites"].line
    '1 activation layer: 1 relu.'
    """
    check_readable(model)
    asked = _asked(questions)
    _check_limits(examples, memory, seconds)
    started = time.monotonic()
    # Analyses compute gradients, which inference mode of the caller would forbid.
    with cached_readings(), untouched(model), torch.inference_mode(False):
        model.eval()
        inputs = collect(model, batches, examples, memory, real=real)
        context = DiagnosisContext(
            model=model,
            inputs=inputs,
            memory=memory,
            seconds=seconds,
            progress=lambda done, total: None,
            checkpoints=find_checkpoints(model, checkpoints),
        )
        answers = tuple(_ask(question, context, progress) for question in asked)
        findings = {}
        for answer in answers:
            if answer.state == ANSWERED:
                findings[answer.name] = Finding(answer.line, answer.facts, answer.record)
        advice = advise(Case(findings, context, reference))
    return Diagnosis(
        name=name or type(model).__name__,
        model=_about_model(model),
        data=_about_inputs(inputs, about),
        answers=answers,
        advice=advice,
        versions=_versions(),
        seconds=round(time.monotonic() - started, 3),
    )


def _asked(questions: Sequence[str] | None) -> list[Question]:
    """Return the questions with these names, in the order of the page."""
    if questions is None:
        return list(QUESTIONS.values())
    for name in questions:
        if name not in QUESTIONS:
            raise unknown_name("question", name, QUESTIONS)
    if not questions:
        raise ArgumentError(
            "diagnose: questions is an empty list",
            allowed=", ".join(QUESTIONS),
            fix="leave questions out to ask all",
        )
    return [question for question in QUESTIONS.values() if question.name in questions]


def _ask(question: Question, context: DiagnosisContext, progress: Progress | None) -> Answer:
    """Return the answer to one question. No exception of an analysis leaves this function."""

    def report(done: int, total: int | None) -> None:
        if progress is not None:
            progress(question.name, done, total)

    context.progress = report
    report(0, None)
    began = time.monotonic()
    try:
        finding = question.answer(context)
        outcome: dict[str, Any] = {"state": ANSWERED, **vars(finding)}
    except NotApplicableError as problem:
        outcome = {
            "state": NOT_APPLICABLE,
            "line": REASONS[problem.limitation],
            "reason": problem.limitation.value,
            "detail": str(problem),
        }
    except Exception as problem:  # a fault of the analysis or of the model's own code
        outcome = {
            "state": FAILED,
            "line": FAILED_LINE,
            "detail": shorten(f"{type(problem).__name__}: {problem}", 500),
            "traceback": traceback.format_exc(),
        }
    seconds = round(time.monotonic() - began, 3)
    return Answer(question.name, question.title, seconds=seconds, **outcome)


def _check_limits(examples: int, memory: int, seconds: float) -> None:
    """Check that the limits are positive numbers."""
    for name, value in (("examples", examples), ("memory", memory)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ArgumentError(
                f"diagnose: {name} must be a whole number", got=value, allowed="1 or more"
            )
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not number or not 0 < seconds < float("inf"):
        raise ArgumentError(
            "diagnose: seconds must be a duration", got=seconds, allowed="a number above 0"
        )


def _about_model(model: nn.Module) -> dict[str, Any]:
    return {
        "class": type(model).__name__,
        "parameters": parameter_count(model),
        "modules": len(list(model.modules())),
    }


def _about_inputs(inputs: Inputs, about: str) -> dict[str, Any]:
    tensors = example_tensors(split_example(inputs.batches[0]))
    return {
        "real": inputs.real,
        "about": about or f"{inputs.count:,} inputs",
        "examples": inputs.count,
        "shapes": [list(tensor.shape[1:]) for tensor in tensors],
        "classes": None if inputs.labels is None else len(inputs.labels.unique()),
    }


def _versions() -> dict[str, str]:
    try:
        version = metadata.version("gatewise")
    except metadata.PackageNotFoundError:
        version = "0+not.installed"
    return {"gatewise": version, "torch": torch.__version__, "python": platform.python_version()}
