"""Which activation function is this really: recognise the function at each site by its values."""

from gatewise.analysis.identification.configurations import CONFIG_NAMES as CONFIG_NAMES
from gatewise.analysis.identification.configurations import (
    configured_activation as configured_activation,
)
from gatewise.analysis.identification.functions import Recognised as Recognised
from gatewise.analysis.identification.functions import recognise as recognise
from gatewise.analysis.identification.model_functions import Identification as Identification
from gatewise.analysis.identification.model_functions import SiteFunction as SiteFunction
from gatewise.analysis.identification.model_functions import identify as identify
