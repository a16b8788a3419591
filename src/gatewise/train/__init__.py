"""One run that survives anything: recipes as data, one loop, checkpoints that resume to the same bits."""

from gatewise.train.checkpoint import Progress as Progress
from gatewise.train.config import HoldOut as HoldOut
from gatewise.train.config import RunConfig as RunConfig
from gatewise.train.config import StopRule as StopRule
from gatewise.train.config import run_config as run_config
from gatewise.train.evaluate import Score as Score
from gatewise.train.evaluate import evaluate as evaluate
from gatewise.train.evaluate import outputs as outputs
from gatewise.train.interrupt import StopSignal as StopSignal
from gatewise.train.keep_weights import KeepWeights as KeepWeights
from gatewise.train.keep_weights import kept_weights as kept_weights
from gatewise.train.loop import Pace as Pace
from gatewise.train.reading import find_recipe as find_recipe
from gatewise.train.reading import read_recipe as read_recipe
from gatewise.train.reading import recipes as recipes
from gatewise.train.recipe import Recipe as Recipe
from gatewise.train.result import Result as Result
from gatewise.train.result import read_result as read_result
from gatewise.train.run import check_run as check_run
from gatewise.train.run import train as train
from gatewise.train.streams import generator as generator
from gatewise.train.streams import initialise as initialise
from gatewise.train.watch import AtEpochs as AtEpochs
from gatewise.train.watch import Watcher as Watcher
