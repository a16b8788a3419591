"""Safe files: atomic writes, digests, sealed JSON and tensors, a journal, path confinement.

Note [Guarantees]

* A write replaces the whole file or leaves the old one. After any error, kill or power cut a reader
  gets one of the two, never a mix, and gets the new one if the call had returned.
* Files written by ``write_json`` and ``write_tensors`` and every line of a :class:`Journal` hold a
  sha256 over all their bytes. A changed, cut or foreign file raises
  :class:`gatewise.errors.DamagedFileError` and is never used.
* Reading never runs code. There is no pickle here but for weights of ``torch.save``, which are
  read only on request, see ``pickled_weights``. A seal proves that bytes are as they were
  written, not who wrote them. So every file is also read as if it were hostile: sizes, depth, names
  and offsets are checked.
* Temporary files of a writer that died remain under a name that :func:`is_temporary` recognises.
"""

from gatewise.files.atomic import held as held
from gatewise.files.atomic import is_temporary as is_temporary
from gatewise.files.atomic import list_folder as list_folder
from gatewise.files.atomic import make_folder as make_folder
from gatewise.files.atomic import remove_file as remove_file
from gatewise.files.atomic import remove_temporaries as remove_temporaries
from gatewise.files.atomic import replace_file as replace_file
from gatewise.files.atomic import write_bytes as write_bytes
from gatewise.files.atomic import write_text as write_text
from gatewise.files.confinement import confine as confine
from gatewise.files.disk import Disk as Disk
from gatewise.files.envelope import ROOM as ROOM
from gatewise.files.envelope import find_record as find_record
from gatewise.files.envelope import read_json as read_json
from gatewise.files.envelope import read_record as read_record
from gatewise.files.envelope import write_json as write_json
from gatewise.files.envelope import write_record as write_record
from gatewise.files.failure import explained as explained
from gatewise.files.failure import show as show
from gatewise.files.journal import Journal as Journal
from gatewise.files.journal_lines import read_lines as read_lines
from gatewise.files.journal_lines import write_line as write_line
from gatewise.files.mapped import map_tensors as map_tensors
from gatewise.files.pickled_weights import PICKLED as PICKLED
from gatewise.files.pickled_weights import read_pickled_weights as read_pickled_weights
from gatewise.files.plain_json import DEEPEST as DEEPEST
from gatewise.files.plain_json import LARGEST as LARGEST
from gatewise.files.plain_json import decode as decode
from gatewise.files.plain_json import encode as encode
from gatewise.files.seal import digest as digest
from gatewise.files.tensors import DTYPES as DTYPES
from gatewise.files.tensors import read_tensors as read_tensors
from gatewise.files.tensors import write_tensors as write_tensors
