"""C sources and their loader. They are optional: each function has a Python form, too.

The sources use neither Python nor torch. A source is compiled when it is first needed, in a second
or two, into a folder that only the user can write to. The name of the file has a digest of the
source, the compiler's options and the machine, and one of its own bytes. A compiled file is used
also when the compiler is gone. ``GATEWISE_NATIVE=0`` switches all of it off.
"""

from gatewise.native.allocator import is_allocator_tuned as is_allocator_tuned
from gatewise.native.allocator import tune_allocator as tune_allocator
from gatewise.native.loader import COMPILERS as COMPILERS
from gatewise.native.loader import HERE as HERE
from gatewise.native.loader import Library as Library
from gatewise.native.loader import compiled_library as compiled_library
from gatewise.native.loader import handle_or_warning as handle_or_warning
from gatewise.native.loader import is_switched_off as is_switched_off
from gatewise.native.loader import library as library
from gatewise.native.loader import vector_library as vector_library
from gatewise.native.structures import COUNT as COUNT
from gatewise.native.structures import NUMBER as NUMBER
from gatewise.native.structures import POINTER as POINTER
from gatewise.native.structures import struct_fields as struct_fields
