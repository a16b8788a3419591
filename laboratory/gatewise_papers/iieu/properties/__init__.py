"""Properties of nonlinearities from the IIEU paper."""

from gatewise_papers.iieu.properties.facts import Properties as Properties
from gatewise_papers.iieu.properties.facts import properties as properties
from gatewise_papers.iieu.properties.facts import property_table as property_table
from gatewise_papers.iieu.properties.feature_neutralisation import Neutralisation as Neutralisation
from gatewise_papers.iieu.properties.feature_neutralisation import neutralisation as neutralisation
