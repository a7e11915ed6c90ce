"""What a crash amid a swap left in a log's directory, put right before the segments are opened.

`.cleaned` files are of a segment that was not complete: they go, and with them `.swap` files from the lowest of their
offsets on, which were being renamed. Any other `.swap` segment is complete and in the place of the segments from its
base to its last offset: those go, should they be there still, and it is renamed. Twice is as once, and it is the same
for swaps of Apache Kafka. The order of a swap is told in `segment_swap.py`.
"""

from storage.disk import Disk
from storage.log.batch_scanner import valid_batches
from storage.log.segment import CLEANED_SUFFIX, LOG_SUFFIX, SEGMENT_SUFFIXES, SWAP_SUFFIX, segment_path


def is_leftover(name: str) -> bool:
    """Tell whether a file of this name is of an unfinished swap."""
    return name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX)) and name[:20].isdigit()


def finish_swaps(disk: Disk, directory: str) -> None:
    """Complete the swaps in `directory`, or undo those that were not committed."""
    names = set(disk.list_dir(directory))
    cleaned = sorted(name for name in names if is_leftover(name) and name.endswith(CLEANED_SUFFIX))
    swaps = sorted(name for name in names if is_leftover(name) and name.endswith(SWAP_SUFFIX))
    undone = [name for name in swaps if cleaned and name[:20] >= cleaned[0][:20]]
    # The swaps first: with the others gone, they would pass for committed.
    for name in (*undone, *cleaned):
        disk.remove(f"{directory}/{name}")
    swaps = [name for name in swaps if name not in undone]
    for name in swaps:
        if name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
            _remove_replaced(disk, directory, int(name[:20]), names)
    if swaps:
        # Nothing of what was replaced comes back beside what replaces it.
        disk.sync_dir(directory)
    # The log first, which so tells which of them are its own.
    for name in sorted(swaps, key=lambda name: not name.endswith(LOG_SUFFIX + SWAP_SUFFIX)):
        disk.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP_SUFFIX)}")


def _remove_replaced(disk: Disk, directory: str, base: int, names: set[str]) -> None:
    """Delete the segments behind `base` that the one there has the batches of; its own files are renamed over.

    But not the indexes of which there is none now: of transactions, or where the power went. The start makes them anew.
    """
    for kind in SEGMENT_SUFFIXES:
        own = segment_path(directory, base, kind)
        if kind != LOG_SUFFIX and own.rpartition("/")[2] + SWAP_SUFFIX not in names:
            disk.remove(own)
    path = segment_path(directory, base, LOG_SUFFIX) + SWAP_SUFFIX
    last_offset = max(
        (header.last_offset for header in valid_batches(disk.open_file(path), disk.file_size(path))), default=-1
    )
    for name in sorted(names):
        stem, dot, suffix = name.partition(".")
        if len(stem) == 20 and stem.isdigit() and dot + suffix in SEGMENT_SUFFIXES and base < int(stem) <= last_offset:
            disk.remove(f"{directory}/{name}")
