"""Bytes on disc, safely: atomic writes, digests, sealed JSON and tensors, a journal, path confinement.

Note [What survives what]

* A write replaces the whole file or leaves the old one: after any error, kill or power cut a reader finds one of the
  two, never a mix, and finds the new one if the call had returned.
* Files written by ``write_json`` and ``write_tensors`` and every line of a :class:`Journal` carry a sha256 over all
  their bytes, so a changed, cut or foreign file is a :class:`gatewise.errors.DamagedFileError`, never used.
* Reading never runs code: there is no pickle here. A seal proves that bytes are as written, not who wrote them, so
  every file is also read as if it were hostile: sizes, depth, names and offsets are checked.
* Temporary files of a writer that died stay behind under a name :func:`is_temporary` recognises.
"""

from gatewise.files._atomic import held as held
from gatewise.files._atomic import is_temporary as is_temporary
from gatewise.files._atomic import list_folder as list_folder
from gatewise.files._atomic import make_folder as make_folder
from gatewise.files._atomic import remove_file as remove_file
from gatewise.files._atomic import remove_temporaries as remove_temporaries
from gatewise.files._atomic import write_bytes as write_bytes
from gatewise.files._atomic import write_text as write_text
from gatewise.files._confine import confine as confine
from gatewise.files._envelope import find_record as find_record
from gatewise.files._envelope import read_json as read_json
from gatewise.files._envelope import read_record as read_record
from gatewise.files._envelope import write_json as write_json
from gatewise.files._envelope import write_record as write_record
from gatewise.files._envelope import write_record_once as write_record_once
from gatewise.files._journal import Journal as Journal
from gatewise.files._mapped import map_tensors as map_tensors
from gatewise.files._seal import digest as digest
from gatewise.files._tensors import read_tensors as read_tensors
from gatewise.files._tensors import write_tensors as write_tensors
