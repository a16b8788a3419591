"""Every network of the catalogue: importing this file fills it."""

from types import MappingProxyType

from gatewise.models import all_cnn as all_cnn
from gatewise.models import convpool_cnn as convpool_cnn
from gatewise.models import deep_gated as deep_gated
from gatewise.models import large_cnn as large_cnn
from gatewise.models import mobilenet_v2 as mobilenet_v2
from gatewise.models import resnet as resnet
from gatewise.models import resnet_cifar as resnet_cifar
from gatewise.models import shufflenet_v2 as shufflenet_v2
from gatewise.models import small as small
from gatewise.models import vgg_cifar as vgg_cifar
from gatewise.models import wide_resnet as wide_resnet
from gatewise.models._catalogue import CATALOGUE

MODELS = MappingProxyType(CATALOGUE)
