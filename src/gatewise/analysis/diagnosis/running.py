"""Ask all questions of one model, and collect the answers and the advice."""

import copy
import platform
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from html import escape
from importlib import metadata
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

from gatewise.analysis.checkpoint_weights import Checkpoint
from gatewise.analysis.diagnosis.advice import MOST, Advice, Case, Commands, advise, nothing_to_fix
from gatewise.analysis.diagnosis.checkpoints import NONE, find_checkpoints
from gatewise.analysis.diagnosis.context import DiagnosisContext
from gatewise.analysis.diagnosis.input_check import SUSPECT, InputCheck, check_inputs
from gatewise.analysis.diagnosis.inputs import GIB, Inputs, collect, read_calls
from gatewise.analysis.diagnosis.layer_rows import layer_rows
from gatewise.analysis.diagnosis.question import REASONS, Finding, Question
from gatewise.analysis.diagnosis.questions import (
    CountedFinding,
    all_questions,
    counted_findings,
)
from gatewise.analysis.record import AnalysisResult
from gatewise.checks import LARGEST_COUNT, check_count, check_number
from gatewise.devices import find_device
from gatewise.errors import (
    ArgumentError,
    Limitation,
    NotApplicableError,
    shorten,
    unknown_name,
)
from gatewise.extensions import unknown_addition
from gatewise.graph import (
    cached_readings,
    check_readable,
    example_tensors,
    parameter_count,
    split_example,
    untouched,
)

FORMAT = "gatewise diagnosis 2"
ALL = "all"
ANSWERED = "answered"
NOT_APPLICABLE = "does not apply"
FAILED = "failed"
NOT_ASKED = "not asked"
NOT_ASKED_LINE = "Not asked yet: the diagnosis was interrupted."
FAILED_LINE = "Failed: an error occurred in this analysis."
# The question, how much of it is done, and of how much (None: not known).
Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True)
class Answer(AnalysisResult):
    """What became of one question.

    Attributes:
        name: The name of the question.
        title: The question in words.
        state: ``"answered"``, ``"does not apply"``, ``"failed"``, or ``"not asked"`` after an
            interruption.
        reads_inputs: Whether the answer depends on the inputs, and not on the weights alone.
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
    reads_inputs: bool = True
    reason: str | None = None
    detail: str = ""
    seconds: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)
    record: Any = None
    traceback: str = ""

    _omitted = ("record",)
    _finite = True

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Answer":
        """Return the answer that :meth:`to_dict` wrote, without its record."""
        known = {item.name for item in fields(cls)} - {"record"}
        return cls(**{name: value for name, value in values.items() if name in known})


@dataclass(frozen=True)
class Diagnosis(AnalysisResult):
    """The result of :func:`diagnose`. ``diagnosis["pairing"]`` is the answer to one question.

    Attributes:
        name: The name of the model.
        model: Its class and size.
        data: The inputs: how many, their shapes, and whether they are real data.
        answers: One answer for each question, in the order of the page.
        advice: What the answers recommend, the most useful first. At most three.
        held_back: What they would recommend if the inputs could be trusted.
        more_advice: What they recommend besides, with less effect.
        nothing_to_fix: What was looked for and is small or absent.
        input_check: Whether the inputs look as in training.
        layers: One row for each activation: the layer before it, its cost, its place among parallel
            branches, and the numbers of all answers about it.
        versions: The versions of gatewise, torch and Python.
        seconds: How long the diagnosis took.
        ask_all: The call or command that asks all questions.
        commands: How calls are named. Not written to files.
    """

    name: str
    model: dict[str, Any]
    data: dict[str, Any]
    answers: tuple[Answer, ...]
    advice: tuple[Advice, ...]
    held_back: tuple[Advice, ...]
    more_advice: tuple[Advice, ...]
    nothing_to_fix: tuple[str, ...]
    input_check: InputCheck
    layers: tuple[dict[str, Any], ...]
    versions: dict[str, str]
    seconds: float
    ask_all: str = ""
    commands: Commands = field(default_factory=Commands, repr=False, compare=False)

    _renamed = MappingProxyType({"answers": "questions"})
    _properties = ("findings",)
    _omitted = ("commands",)
    _finite = True

    def __getitem__(self, question: str) -> Answer:
        for answer in self.answers:
            if answer.name == question:
                return answer
        raise unknown_name("question", question, [answer.name for answer in self.answers])

    def __iter__(self) -> Iterator[Answer]:
        return iter(self.answers)

    @property
    def more(self) -> tuple[str, ...]:
        """The names of questions that were not asked."""
        asked = {answer.name for answer in self.answers}
        return tuple(name for name in all_questions() if name not in asked)

    @property
    def findings(self) -> tuple[CountedFinding, ...]:
        """Counts of dead, always-on and alike channels and of opposite filters, and the cost."""
        facts = {answer.name: answer.facts for answer in self.answers}
        return counted_findings(facts, self.commands)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for a file or a page."""
        more = {name: all_questions()[name].title for name in self.more}
        return {"format": FORMAT, **super().to_dict(), "more": more}

    def __str__(self) -> str:
        size = f"{self.model['parameters']:,} parameters"
        lines = [f"{self.name}: {size}, {self.data['examples']:,} inputs", self.input_check.line]
        lines += [f"  {each.line}" for each in self.findings]
        lines += [f"  {answer.name:15} {answer.line}" for answer in self.answers]
        lines += [f"* {advice.text}\n  {advice.command}" for advice in self.advice]
        if self.more:
            lines.append(f"more analyses, not computed: {', '.join(self.more)}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = ""
        for answer in self.answers:
            rows += f"<tr><th>{escape(answer.title)}</th><td>{escape(answer.line)}</td></tr>"
        items = ""
        for advice in self.advice:
            items += f"<li>{escape(advice.text)} <code>{escape(advice.command)}</code></li>"
        return f"<p>{escape(self.name)}</p><ul>{items}</ul><table>{rows}</table>"


class DiagnosisInterrupted(KeyboardInterrupt):
    """A diagnosis was interrupted from the keyboard.

    Attributes:
        diagnosis: The diagnosis with the questions that were answered until then. Its answers
            can be passed as ``finished`` to ask only the others.
    """

    def __init__(self, diagnosis: Diagnosis) -> None:
        super().__init__()
        self.diagnosis = diagnosis


def diagnose(
    model: nn.Module,
    batches: object,
    *,
    questions: Sequence[str] | str | None = None,
    examples: int = 1000,
    memory: int = 2 * GIB,
    seconds: float = 15.0,
    checkpoints: Iterable[Checkpoint] | None = None,
    device: str | None = None,
    real: bool = True,
    about: str = "",
    preprocessing: str = "",
    preprocessing_known: bool = True,
    name: str | None = None,
    commands: Commands | None = None,
    progress: Progress | None = None,
    finished: Sequence[Answer] = (),
    on_answer: Callable[[Answer], None] | None = None,
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
        questions: Names of :func:`gatewise.analysis.all_questions`, or ``"all"``. By default
            those of the first page: dead, always-on and alike channels, opposite filters, cost,
            and changes between checkpoints. The result names the others in ``more``.
        examples: How many inputs are used, the first of ``batches``.
        memory: Bytes that one question may use.
        seconds: How long a question that can stop early may run. The others use as many inputs as
            fit.
        checkpoints: Earlier weights of this model, the earliest first: state dicts, models, or
            safetensors files. ``flips`` and ``film`` compare each with the next, and the last
            with the model as it is.
        device: Where to compute: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"`` or ``"auto"``. A
            copy of the model is analysed there. By default the device of the model.
        real: Whether the inputs are data. With ``False``, for random numbers, the questions that
            need data are not asked.
        about: A description of the inputs, for the page.
        preprocessing: How the inputs were prepared, in words, for the page.
        preprocessing_known: Whether they are known to be prepared as in training. If not, the page
            says so first.
        name: The name of the model on the page. Its class by default.
        commands: How the advice says what to do. By default as calls of Python.
        progress: Called with the question, how much of it is done, and of how much if that is
            known.
        finished: Answers of an interrupted diagnosis of the same model and inputs, which are not
            asked again.
        on_answer: Called with each new answer, e.g. to keep it.

    Raises:
        ArgumentError: The model cannot be read, an input cannot be used, or an argument is wrong.
        DiagnosisInterrupted: Ctrl-C was pressed. It has the answers until then.

    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> diagnose(model, torch.randn(20, 4))["sites"].line
    '1 activation layer: 1 relu.'
    """
    check_readable(model)
    commands = commands or Commands()
    if isinstance(checkpoints, list | tuple) and not checkpoints:
        checkpoints = None
    if device is not None:
        model = copy.deepcopy(model).to(find_device(device))
    asked = _asked(questions, checkpoints is not None)
    _check_limits(examples, memory, seconds)
    started = time.monotonic()
    calls = read_calls(model, batches, examples)
    known = {answer.name: answer for answer in finished}
    # Analyses compute gradients, which inference mode of the caller would forbid.
    with cached_readings(), untouched(model), torch.inference_mode(False):
        model.eval()
        inputs = collect(model, calls, examples, memory, real=real)
        context = DiagnosisContext(
            model=model,
            inputs=inputs,
            memory=memory,
            seconds=seconds,
            progress=lambda done, total: None,
            checkpoints=NONE if checkpoints is None else find_checkpoints(model, checkpoints),
        )
        answers: list[Answer] = []
        interrupted = False
        for question in asked:
            if question.name in known:
                answers.append(known[question.name])
                continue
            try:
                answer = _not_asked(question) if interrupted else _ask(question, context, progress)
            except KeyboardInterrupt:
                interrupted = True
                answer = _not_asked(question)
            answers.append(answer)
            if on_answer is not None and answer.state != NOT_ASKED:
                on_answer(answer)
        findings = {}
        for answer in answers:
            if answer.state == ANSWERED:
                findings[answer.name] = Finding(answer.line, answer.facts, answer.record)
        rows = _rows(context, findings)
        check = check_inputs(context, findings)
        advice = advise(Case(findings, context, rows, commands))
    trusted, held_back = _held_back(advice, check)
    diagnosis = Diagnosis(
        name=name or type(model).__name__,
        model=_about_model(model),
        data=_about_inputs(inputs, about)
        | {"preprocessing": preprocessing, "preprocessing_known": preprocessing_known},
        answers=tuple(answers),
        advice=trusted[:MOST],
        held_back=held_back,
        more_advice=trusted[MOST:],
        nothing_to_fix=nothing_to_fix(findings, advice) if check.state != SUSPECT else (),
        input_check=check,
        layers=tuple(rows),
        versions=_versions(),
        seconds=round(time.monotonic() - started, 3),
        ask_all=commands.diagnose(questions="all"),
        commands=commands,
    )
    if interrupted:
        raise DiagnosisInterrupted(diagnosis)
    return diagnosis


def _rows(context: DiagnosisContext, findings: Mapping[str, Finding]) -> list[dict[str, Any]]:
    """Return the rows of the layers; none if the model cannot be read, as the answers then say."""
    try:
        return layer_rows(context, findings)
    except (NotApplicableError, ArgumentError):
        return []


def _held_back(
    advice: Sequence[Advice], check: InputCheck
) -> tuple[tuple[Advice, ...], tuple[Advice, ...]]:
    """Divide advice into what holds, and what depends on inputs that are suspect."""
    trusted = []
    held_back = []
    for item in advice:
        suspect = check.state == SUSPECT and all_questions()[item.question].reads_inputs
        (held_back if suspect else trusted).append(item)
    return tuple(trusted), tuple(held_back)


def _asked(questions: Sequence[str] | str | None, has_checkpoints: bool) -> list[Question]:
    """Return the questions with these names, in the order of the page."""
    known = all_questions()
    if questions is None:
        first = []
        for question in known.values():
            if question.first or (question.compares_checkpoints and has_checkpoints):
                first.append(question)
        return first
    if questions in (ALL, [ALL]):
        return list(known.values())
    names = [questions] if isinstance(questions, str) else questions
    for name in names:
        if name not in known:
            raise unknown_addition("questions", "question", name, known)
    if not names:
        raise ArgumentError(
            "diagnose: questions is an empty list",
            allowed=", ".join((ALL, *known)),
            fix='questions="all" asks all',
        )
    return [question for question in known.values() if question.name in names]


def _ask(question: Question, context: DiagnosisContext, progress: Progress | None) -> Answer:
    """Return the answer to one question. No exception of an analysis leaves this function."""

    def report(done: int, total: int | None) -> None:
        if progress is not None:
            progress(question.name, done, total)

    context.progress = report
    report(0, None)
    began = time.monotonic()
    try:
        if question.compares_checkpoints and len(context.checkpoints.names) < 2:
            raise NotApplicableError(Limitation.NO_CHECKPOINTS)
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
    reads = question.reads_inputs
    return Answer(question.name, question.title, seconds=seconds, reads_inputs=reads, **outcome)


def _not_asked(question: Question) -> Answer:
    """Return the answer to a question that an interrupted diagnosis did not reach."""
    reads = question.reads_inputs
    return Answer(question.name, question.title, NOT_ASKED, NOT_ASKED_LINE, reads_inputs=reads)


def _check_limits(examples: int, memory: int, seconds: float) -> None:
    """Check that the limits are positive numbers."""
    check_count("diagnose", "examples", examples)
    check_count("diagnose", "memory", memory, most=LARGEST_COUNT)
    check_number("diagnose", "seconds", seconds, above=0)


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
