"""CRC-32C, the checksum of record batches and producer snapshots; only this module imports its library.

The library's package imports `argparse` and `importlib.metadata` for its command line, which takes 80 ms of the 300 ms
allowed for a start, so the extension module in it is loaded directly.
"""

from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:

    def crc32c(data: bytes | bytearray | memoryview, value: int = 0) -> int:
        """Return the CRC-32C of `data`, continuing from `value`; no copy is made."""

else:

    def _load():
        package = PathFinder.find_spec("crc32c")
        if package is not None and package.submodule_search_locations:
            found = PathFinder.find_spec("_crc32c", list(package.submodule_search_locations))
            if found is not None and found.loader is not None:
                module = module_from_spec(found)
                found.loader.exec_module(module)
                return module.crc32c
        import crc32c as library

        return library.crc32c

    crc32c = _load()
