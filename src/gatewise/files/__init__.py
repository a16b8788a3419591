"""Files that are written completely or not at all: text, JSON, tensors, and a journal of lines.

Note [Guarantees]

* A write replaces the whole file or leaves the old one. After an error or a kill a reader gets one
  of the two, never a mix, and gets the new one if the call had returned.
* Reading never runs code. There is no pickle here but for weights of ``torch.save``, which are
  read only on request, see ``pickled_weights``. A file that cannot be read as what it should be
  raises :class:`gatewise.errors.DamagedFileError`.
* Temporary files of a writer that was killed remain under a name that :func:`is_temporary`
  recognises.
"""

from gatewise.files.atomic import digest as digest
from gatewise.files.atomic import held as held
from gatewise.files.atomic import is_temporary as is_temporary
from gatewise.files.atomic import list_folder as list_folder
from gatewise.files.atomic import make_folder as make_folder
from gatewise.files.atomic import read_bytes as read_bytes
from gatewise.files.atomic import remove_file as remove_file
from gatewise.files.atomic import remove_temporaries as remove_temporaries
from gatewise.files.atomic import write_bytes as write_bytes
from gatewise.files.atomic import write_text as write_text
from gatewise.files.confinement import confine as confine
from gatewise.files.failure import explained as explained
from gatewise.files.failure import show as show
from gatewise.files.journal import Journal as Journal
from gatewise.files.pickled_weights import PICKLED as PICKLED
from gatewise.files.pickled_weights import read_pickled_weights as read_pickled_weights
from gatewise.files.plain_json import decode_json as decode_json
from gatewise.files.plain_json import find_json as find_json
from gatewise.files.plain_json import read_json as read_json
from gatewise.files.plain_json import write_json as write_json
from gatewise.files.tensors import map_tensors as map_tensors
from gatewise.files.tensors import read_tensors as read_tensors
from gatewise.files.tensors import write_tensors as write_tensors
