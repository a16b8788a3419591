"""The question of complexity: how much more a layer can fit to chance with CReLU than with ReLU."""

from torch import Tensor

from gatewise.analysis._diagnosis.finding import DoesNotApply, Finding
from gatewise.analysis._diagnosis.gates import check_gates
from gatewise.analysis._diagnosis.inputs import first_of
from gatewise.analysis._diagnosis.subject import Subject
from gatewise.analysis._gate_sites import GateSite
from gatewise.analysis._site_stream import SiteStream
from gatewise.analysis.rademacher import rademacher

INPUTS = 100


def ask_complexity(subject: Subject) -> Finding:
    """How much more could the first layer fit to chance with both phases?"""
    check_gates(subject)
    site, responses = _first_responses(subject)
    if responses.shape[1] < 2:
        raise DoesNotApply("too few inputs", "two are needed")
    found = rademacher(responses, width=len(responses))
    ratio = found.crelu / max(found.relu, 1e-300)
    text = f"Behind the filters before {site}, CReLU could fit random signs {ratio:.2f} times as well as ReLU; its "
    text += f"complexity is {found.crelu:.3g}, where the bound says {found.bound:.3g} at most."
    return Finding(text, found.to_dict() | {"site": site, "ratio": ratio}, found)


def _first_responses(subject: Subject) -> tuple[str, Tensor]:
    """The responses (channels, inputs) before the first unit, at the middle of an image."""
    stream = SiteStream("complexity", subject.model)
    found: dict[str, Tensor] = {}

    def tell(site: GateSite, response: Tensor) -> None:
        if not found:
            rows = response.movedim(site.dim, 1).flatten(2) if response.dim() > 2 else response.unsqueeze(-1)
            found[site.name] = rows[:, :, rows.shape[2] // 2].T.double().cpu()

    stream.responses(first_of(subject.inputs.batches[0], INPUTS), tell)
    return next(iter(found.items()))
