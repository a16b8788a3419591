"""The data sets of the catalogue. Importing a module registers its sets."""

from gatewise.data.sets.cifar_batches import read_batch as read_batch
from gatewise.data.sets.decoded_files import decoded as decoded
from gatewise.data.sets.idx import parse_idx as parse_idx
from gatewise.data.sets.mnist_files import mnist as mnist
from gatewise.data.sets.signals import draw_signals as draw_signals
from gatewise.data.sets.svhn import parse_matlab as parse_matlab
