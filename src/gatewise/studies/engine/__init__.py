"""The engine of studies: cells, the file of their records, and the processes that run them."""

from gatewise.studies.engine.cell import DIVERGED as DIVERGED
from gatewise.studies.engine.cell import DONE as DONE
from gatewise.studies.engine.cell import FAILED as FAILED
from gatewise.studies.engine.cell import Cell as Cell
from gatewise.studies.engine.cell import CellCall as CellCall
from gatewise.studies.engine.cell import Record as Record
from gatewise.studies.engine.cell import Work as Work
from gatewise.studies.engine.cell import failure as failure
from gatewise.studies.engine.cell import plain as plain
from gatewise.studies.engine.cell import plain_config as plain_config
from gatewise.studies.engine.cell import run_cell as run_cell
from gatewise.studies.engine.cell import without_times as without_times
from gatewise.studies.engine.exchange import StudyRecords as StudyRecords
from gatewise.studies.engine.exchange import export_study as export_study
from gatewise.studies.engine.exchange import import_study as import_study
from gatewise.studies.engine.exchange import read_keyed as read_keyed
from gatewise.studies.engine.exchange import read_study as read_study
from gatewise.studies.engine.exchange import sorted_records as sorted_records
from gatewise.studies.engine.running import Progress as Progress
from gatewise.studies.engine.running import Wanted as Wanted
from gatewise.studies.engine.running import Watch as Watch
from gatewise.studies.engine.running import run as run
from gatewise.studies.engine.study_file import FILE as FILE
from gatewise.studies.engine.study_file import Status as Status
from gatewise.studies.engine.study_file import StudyFile as StudyFile
