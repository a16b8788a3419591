"""What the result of a study says: the same words on the terminal, in JSON and on the page."""

from gatewise.studies.answer.display import Display as Display
from gatewise.studies.answer.display import display_of as display_of
from gatewise.studies.answer.first_line import headline as headline
from gatewise.studies.answer.lines import Line as Line
from gatewise.studies.answer.lines import Part as Part
from gatewise.studies.answer.lines import plain_text as plain_text
from gatewise.studies.answer.orders import beaten_by as beaten_by
from gatewise.studies.answer.orders import reversed_pairs as reversed_pairs
from gatewise.studies.answer.orders import reversed_units as reversed_units
from gatewise.studies.answer.pooling import pooled_rows as pooled_rows
from gatewise.studies.answer.rates import RateCurve as RateCurve
from gatewise.studies.answer.rates import rate_blocks as rate_blocks
from gatewise.studies.answer.rates import rate_curves as rate_curves
from gatewise.studies.answer.sentences import COST_WORDS as COST_WORDS
from gatewise.studies.answer.sentences import answer_lines as answer_lines
from gatewise.studies.answer.sentences import block_names as block_names
from gatewise.studies.answer.sentences import further_lines as further_lines
from gatewise.studies.answer.sentences import level_words as level_words
from gatewise.studies.answer.sentences import unpaired_batches as unpaired_batches
from gatewise.studies.answer.verdicts import difference_words as difference_words
from gatewise.studies.answer.verdicts import new_examples_state as new_examples_state
from gatewise.studies.answer.verdicts import new_examples_words as new_examples_words
from gatewise.studies.answer.verdicts import seeds_words as seeds_words
from gatewise.studies.answer.verdicts import undecided_by_noise as undecided_by_noise
from gatewise.studies.answer.verdicts import verdict_words as verdict_words
