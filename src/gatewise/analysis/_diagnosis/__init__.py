"""The parts of :func:`gatewise.analysis.diagnose`: inputs, one file for each kind of question, advice."""
