"""The networks of the catalogue, one file each. Importing a file registers its networks."""

from gatewise.models.networks import decoder as decoder
from gatewise.models.networks import fast_cifar as fast_cifar
from gatewise.models.networks import signal_cnn as signal_cnn
from gatewise.models.networks import small as small
