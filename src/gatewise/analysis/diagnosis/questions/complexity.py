"""The question of complexity: how much more a layer can fit to chance with CReLU than with ReLU."""

from torch import Tensor

from gatewise.analysis.diagnosis.context import Subject
from gatewise.analysis.diagnosis.finding import DoesNotApply, Finding
from gatewise.analysis.diagnosis.inputs import first_of
from gatewise.analysis.diagnosis.questions.gate_activity import check_gates
from gatewise.analysis.diagnosis.words import all_called, plural
from gatewise.analysis.filters import rademacher
from gatewise.analysis.gating import GateSite, SiteStream

INPUTS = 100


def ask_complexity(subject: Subject) -> Finding:
    """How much more could the first layer fit to chance with both phases?"""
    check_gates(subject)
    site = next((each for each in subject.gates if subject.layers_before(each)), None)
    if site is None:
        raise DoesNotApply("no layer")
    responses = _responses(subject, site)
    if responses.shape[1] < 2:
        raise DoesNotApply("too few inputs", "two are needed")
    found = rademacher(responses, width=len(responses))
    ratio = found.crelu / max(found.relu, 1e-300)
    layer = all_called(subject.layers_before(site))
    text = f"Behind {layer}, CReLU could follow random signs on {plural(found.samples, 'input')} {ratio:.2f} times as "
    text += f"well as ReLU; its complexity is {found.crelu:.3g}, where the bound says {found.bound:.3g} at most."
    return Finding(
        text, found.to_dict() | {"site": site.name, "layer": layer, "ratio": ratio}, found
    )


def _responses(subject: Subject, wanted: GateSite) -> Tensor:
    """The responses (channels, inputs) before a unit, at the middle of an image."""
    found: list[Tensor] = []

    def tell(site: GateSite, response: Tensor) -> None:
        if site.name == wanted.name and not found:
            rows = (
                response.movedim(site.dim, 1).flatten(2)
                if response.dim() > 2
                else response.unsqueeze(-1)
            )
            found.append(rows[:, :, rows.shape[2] // 2].T.double().cpu())

    SiteStream("complexity", subject.model).responses(
        first_of(subject.inputs.batches[0], INPUTS), tell
    )
    return found[0]
