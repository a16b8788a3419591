"""The data sets of the catalogue. Importing a module registers its sets."""

from gatewise.data.sets.cifar_batches import read_batch as read_batch
from gatewise.data.sets.decoded_files import decoded as decoded
from gatewise.data.sets.signals import draw_signals as draw_signals
