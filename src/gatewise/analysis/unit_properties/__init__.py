"""Properties of nonlinearities from the IIEU paper."""

from gatewise.analysis.unit_properties.facts import Properties as Properties
from gatewise.analysis.unit_properties.facts import properties as properties
from gatewise.analysis.unit_properties.facts import property_table as property_table
from gatewise.analysis.unit_properties.feature_neutralisation import (
    Neutralisation as Neutralisation,
)
from gatewise.analysis.unit_properties.feature_neutralisation import (
    neutralisation as neutralisation,
)
