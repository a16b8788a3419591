"""gatewise.train.run."""

from gatewise.train.run.keep_weights import KeepWeights as KeepWeights
from gatewise.train.run.keep_weights import kept_weights as kept_weights
from gatewise.train.run.one_run import METRICS as METRICS
from gatewise.train.run.one_run import WEIGHTS as WEIGHTS
from gatewise.train.run.one_run import check_run as check_run
from gatewise.train.run.one_run import find_result as find_result
from gatewise.train.run.one_run import records as records
from gatewise.train.run.one_run import train as train
from gatewise.train.run.progress import ProgressLine as ProgressLine
from gatewise.train.run.progress import clock as clock
from gatewise.train.run.sinks import make_sink as make_sink
from gatewise.train.run.timing import seconds_per_run as seconds_per_run
