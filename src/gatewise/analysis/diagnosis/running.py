"""All questions asked of one model, and what they advise."""

import platform
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from importlib import metadata
from typing import Any

import torch
from torch import nn

from gatewise.analysis.checkpoint_weights import Checkpoint
from gatewise.analysis.diagnosis.advice import Advice, Case, advise
from gatewise.analysis.diagnosis.checkpoints import find_moments
from gatewise.analysis.diagnosis.context import Subject
from gatewise.analysis.diagnosis.finding import REASONS, Finding, Question, is_refusal, reason_of
from gatewise.analysis.diagnosis.inputs import GIB, Inputs, collect
from gatewise.analysis.diagnosis.plain import plain
from gatewise.analysis.diagnosis.questions import QUESTIONS
from gatewise.errors import ArgumentError, shorten, unknown_name
from gatewise.graph import (
    cached_readings,
    check_readable,
    example_tensors,
    parameter_count,
    split_example,
    untouched,
)

FORMAT = "gatewise diagnosis 1"
ANSWERED, NOT_APPLICABLE, FAILED = "answered", "does not apply", "failed"
Progress = Callable[
    [str, int, int | None], None
]  # question, how much is done, of how much (None: not known)


@dataclass(frozen=True)
class Answer:
    """What became of one question."""

    name: str
    title: str
    state: str  # "answered", "does not apply" or "failed"
    line: str  # the answer in one line, or why there is none
    reason: str | None  # a word of the closed list of reasons, where the question does not apply
    detail: str  # what the question itself said, where there is no answer
    seconds: float
    facts: dict[str, Any]  # plain values
    record: Any  # of the analysis: to plot, or to go on with

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return plain({name: value for name, value in self.__dict__.items() if name != "record"})


@dataclass(frozen=True)
class Diagnosis:
    """The answer of :func:`diagnose`: ``diagnosis["pairing"]`` is one question's."""

    name: str  # of the model
    model: dict[str, Any]
    data: dict[str, Any]
    answers: tuple[Answer, ...]
    advice: tuple[Advice, ...]
    versions: dict[str, str]
    seconds: float

    def __getitem__(self, question: str) -> Answer:
        asked = {each.name: each for each in self.answers}
        if question not in asked:
            raise unknown_name("question", question, asked)
        return asked[question]

    def __iter__(self) -> Iterator[Answer]:
        return iter(self.answers)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for a file or a page."""
        return {
            "format": FORMAT,
            "name": self.name,
            "model": plain(self.model),
            "data": plain(self.data),
            "questions": [each.to_dict() for each in self.answers],
            "advice": [each.to_dict() for each in self.advice],
            "versions": self.versions,
            "seconds": self.seconds,
        }

    def __repr__(self) -> str:
        lines = [
            f"{self.name}: {self.model['parameters']:,} parameters, {self.data['examples']:,} inputs"
        ]
        lines += [f"  {each.name:15} {each.line}" for each in self.answers]
        lines += [f"* {each.text}\n  {each.command}" for each in self.advice]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{escape(each.title)}</th><td>{escape(each.line)}</td></tr>"
            for each in self.answers
        )
        items = "".join(
            f"<li>{escape(each.text)} <code>{escape(each.command)}</code></li>"
            for each in self.advice
        )
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
    """Ask ``model`` every question that applies, on some inputs, and say what can be done about the answers.

    The model is looked at in eval mode and left as it was. A question that does not apply is named with the reason, and
    one that fails with its error: neither loses the others.

    Args:
        model: any module. batches: a tensor of inputs, or an iterable, such as a loader, of tensors, of pairs of inputs
            and labels, of tuples of arguments or of dicts of keyword arguments; inputs of one shape.
        questions: some of the names in ``gatewise diagnose --help``; all unless given. examples: inputs that are used,
            the first of ``batches``. memory: bytes that one question may take. seconds: how long a question that can
            stop early may go on; the others take inputs to fit.
        checkpoints: the weights of this model at earlier moments of its training, the earliest first: state dicts,
            models, or safetensors files. ``flips`` and ``film`` go from one to the next, and then to the model as it
            is.
        real: whether the inputs are data; random numbers say nothing about gates, and questions that need data are then
            left out. about: the inputs, in words. name: of the model, for the page. reference: what stands for the
            model in the commands of the advice. progress: told the question, how much of it is done, and of how much.

    >>> found = diagnose(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), torch.randn(20, 4))
    >>> found["sites"].line
    '1 activation site: 1 relu.'
    """
    check_readable(model)
    asked = _asked(questions)
    _check_numbers(examples, memory, seconds)
    started = time.monotonic()
    with cached_readings(), untouched(model), torch.inference_mode(False):
        model.eval()
        inputs = collect(model, batches, examples, memory, real=real)
        moments = find_moments(model, checkpoints)
        subject = Subject(model, inputs, memory, seconds, lambda done, total: None, moments)
        answers = tuple(_ask(question, subject, progress) for question in asked)
        findings = {
            each.name: Finding(each.line, each.facts, each.record)
            for each in answers
            if each.state == ANSWERED
        }
        advice = advise(Case(findings, subject, reference))
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
    names = list(QUESTIONS) if questions is None else list(questions)
    for each in names:
        if each not in QUESTIONS:
            raise unknown_name("question", each, QUESTIONS)
    if not names:
        raise ArgumentError("diagnose: questions are none", allowed=", ".join(QUESTIONS))
    return [each for each in QUESTIONS.values() if each.name in names]


def _ask(question: Question, subject: Subject, progress: Progress | None) -> Answer:
    """The answer, whatever happens: a question's failure is its own."""
    tell = progress or (lambda question, done, total: None)
    subject.count = lambda done, total: tell(question.name, done, total)
    subject.count(0, None)
    began = time.monotonic()
    state, line, reason, detail, facts, record = FAILED, "", None, "", {}, None
    try:
        found = question.answer(subject)
        state, line, facts, record = ANSWERED, found.line, found.facts, found.record
    except Exception as problem:
        detail = shorten(f"{type(problem).__name__}: {problem}", 500)
        line = f"Failed: {detail}"
        if is_refusal(problem):
            state, (reason, detail) = NOT_APPLICABLE, reason_of(problem)
            line = f"Does not apply: {REASONS[reason]}."
    taken = round(time.monotonic() - began, 3)
    return Answer(question.name, question.title, state, line, reason, detail, taken, facts, record)


def _check_numbers(examples: int, memory: int, seconds: float) -> None:
    for name, value in (("examples", examples), ("memory", memory)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ArgumentError(
                f"diagnose: {name} must be a whole number", got=value, allowed="1 or more"
            )
    if (
        isinstance(seconds, bool)
        or not isinstance(seconds, int | float)
        or not 0 < seconds < float("inf")
    ):
        raise ArgumentError(
            "diagnose: seconds must be a time", got=seconds, allowed="a number above 0"
        )


def _about_model(model: nn.Module) -> dict[str, Any]:
    return {
        "class": type(model).__name__,
        "parameters": parameter_count(model),
        "modules": len(list(model.modules())),
    }


def _about_inputs(inputs: Inputs, about: str) -> dict[str, Any]:
    shapes = [list(each.shape[1:]) for each in example_tensors(split_example(inputs.batches[0]))]
    classes = None if inputs.labels is None else len(inputs.labels.unique())
    about = about or f"{inputs.count:,} inputs"
    return {
        "real": inputs.real,
        "about": about,
        "examples": inputs.count,
        "shapes": shapes,
        "classes": classes,
    }


def _versions() -> dict[str, str]:
    try:
        own = metadata.version("gatewise")
    except metadata.PackageNotFoundError:
        own = "0+not.installed"
    return {"gatewise": own, "torch": torch.__version__, "python": platform.python_version()}
