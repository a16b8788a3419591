"""The networks of the CReLU paper."""

from gatewise_papers.crelu.networks import all_cnn as all_cnn
from gatewise_papers.crelu.networks import convpool_cnn as convpool_cnn
from gatewise_papers.crelu.networks import vgg_cifar as vgg_cifar
