"""Properties of nonlinearities from the IIEU paper."""

from gatewise_papers.iieu.unit_properties.facts import Properties as Properties
from gatewise_papers.iieu.unit_properties.facts import properties as properties
from gatewise_papers.iieu.unit_properties.facts import property_table as property_table
from gatewise_papers.iieu.unit_properties.feature_neutralisation import (
    Neutralisation as Neutralisation,
)
from gatewise_papers.iieu.unit_properties.feature_neutralisation import (
    neutralisation as neutralisation,
)
from gatewise_papers.iieu.unit_properties.term_s import TermSRange as TermSRange
from gatewise_papers.iieu.unit_properties.term_s import UnitTermS as UnitTermS
from gatewise_papers.iieu.unit_properties.term_s import term_s_range as term_s_range
