"""The parts of :func:`gatewise.analysis.diagnosis.running`.

Inputs, one file for each kind of question, advice.
"""

from gatewise.analysis.diagnosis.advice import Advice as Advice
from gatewise.analysis.diagnosis.checkpoints import MOST as MOST
from gatewise.analysis.diagnosis.checkpoints import find_moments as find_moments
from gatewise.analysis.diagnosis.finding import REASONS as REASONS
from gatewise.analysis.diagnosis.finding import DoesNotApply as DoesNotApply
from gatewise.analysis.diagnosis.finding import Question as Question
from gatewise.analysis.diagnosis.questions import QUESTIONS as QUESTIONS
from gatewise.analysis.diagnosis.running import Answer as Answer
from gatewise.analysis.diagnosis.running import Diagnosis as Diagnosis
from gatewise.analysis.diagnosis.running import diagnose as diagnose
from gatewise.analysis.diagnosis.saving import crelu_savings as crelu_savings
from gatewise.analysis.diagnosis.words import plural as plural
