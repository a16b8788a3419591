"""A diagnosis: all questions about one model, their answers, and advice."""

from gatewise.analysis.diagnosis.advice import Advice as Advice
from gatewise.analysis.diagnosis.advice import Commands as Commands
from gatewise.analysis.diagnosis.checkpoints import MOST as MOST
from gatewise.analysis.diagnosis.checkpoints import find_checkpoints as find_checkpoints
from gatewise.analysis.diagnosis.context import DiagnosisContext as DiagnosisContext
from gatewise.analysis.diagnosis.input_check import InputCheck as InputCheck
from gatewise.analysis.diagnosis.input_check import is_untrained as is_untrained
from gatewise.analysis.diagnosis.question import REASONS as REASONS
from gatewise.analysis.diagnosis.question import Finding as Finding
from gatewise.analysis.diagnosis.question import Question as Question
from gatewise.analysis.diagnosis.questions import QUESTIONS as QUESTIONS
from gatewise.analysis.diagnosis.questions import all_questions as all_questions
from gatewise.analysis.diagnosis.questions import ask as ask
from gatewise.analysis.diagnosis.running import Answer as Answer
from gatewise.analysis.diagnosis.running import Diagnosis as Diagnosis
from gatewise.analysis.diagnosis.running import DiagnosisInterrupted as DiagnosisInterrupted
from gatewise.analysis.diagnosis.running import diagnose as diagnose
from gatewise.analysis.diagnosis.saving import crelu_savings as crelu_savings
from gatewise.analysis.diagnosis.words import plural as plural
