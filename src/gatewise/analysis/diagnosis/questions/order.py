"""The questions of a diagnosis, in the order of the page."""

from gatewise.analysis.diagnosis.finding import Question
from gatewise.analysis.diagnosis.questions.complexity import ask_complexity
from gatewise.analysis.diagnosis.questions.gate_activity import (
    ask_gates,
    ask_invariance,
    ask_overlap,
)
from gatewise.analysis.diagnosis.questions.layers import ask_reconstruction, ask_sites
from gatewise.analysis.diagnosis.questions.maps import ask_kernel, ask_templates
from gatewise.analysis.diagnosis.questions.measured_cost import ask_cost
from gatewise.analysis.diagnosis.questions.regions import ask_partition
from gatewise.analysis.diagnosis.questions.training import ask_film, ask_flips
from gatewise.analysis.diagnosis.questions.unit_properties import ask_properties
from gatewise.analysis.diagnosis.questions.weights import ask_orthogonality, ask_pairing, ask_prior

QUESTIONS = {
    each.name: each
    for each in (
        Question("sites", "Where are the nonlinearities?", ask_sites),
        Question("gates", "Which gates are ever on, always on, or alike?", ask_gates),
        Question("overlap", "Which gates do two inputs have in common?", ask_overlap),
        Question("pairing", "Do filters come in pairs of opposite phase?", ask_pairing),
        Question(
            "reconstruction",
            "What does the first layer still know of the image?",
            ask_reconstruction,
        ),
        Question("invariance", "Do filters mind when the image moves?", ask_invariance),
        Question("orthogonality", "How far are filters from orthogonal?", ask_orthogonality),
        Question(
            "prior", "How probable is each active region before any input is seen?", ask_prior
        ),
        Question("templates", "Which affine map is the network at an input?", ask_templates),
        Question("partition", "Into which regions is the input space cut?", ask_partition),
        Question("flips", "Which gates still moved between checkpoints?", ask_flips),
        Question("film", "How did the regions change over the checkpoints?", ask_film),
        Question("kernel", "How well conditioned is the kernel it learns with?", ask_kernel),
        Question(
            "complexity",
            "How much more could its first layer fit with both phases?",
            ask_complexity,
        ),
        Question("properties", "Which properties do its units have?", ask_properties),
        Question("cost", "What do the nonlinearities cost?", ask_cost),
    )
}
