"""Which activation function is this really: recognise the function at each site by its values."""

from gatewise.analysis.identify.configurations import CONFIG_NAMES as CONFIG_NAMES
from gatewise.analysis.identify.configurations import configured_activation as configured_activation
from gatewise.analysis.identify.functions import Recognised as Recognised
from gatewise.analysis.identify.functions import recognise as recognise
from gatewise.analysis.identify.model_functions import Identification as Identification
from gatewise.analysis.identify.model_functions import SiteFunction as SiteFunction
from gatewise.analysis.identify.model_functions import identify as identify
