"""Save and load swapped models: the plans travel with the weights."""

from gatewise.surgery.saving.loading import load_swaps as load_swaps
from gatewise.surgery.saving.pretrained import follow_transformers as follow_transformers
from gatewise.surgery.saving.pretrained import from_pretrained as from_pretrained
from gatewise.surgery.saving.swapped_parts import TRANSFORMERS as TRANSFORMERS
from gatewise.surgery.saving.swapped_parts import mark_parts as mark_parts
from gatewise.surgery.saving.swaps_file import save_swaps as save_swaps
