"""gatewise.analysis.diagnosis.questions."""

from gatewise.analysis.diagnosis.questions.order import QUESTIONS as QUESTIONS
from gatewise.analysis.diagnosis.questions.weights import SURE as SURE
