"""Completes or reverts a swap that a crash interrupted, before the segments of a log are opened (Kafka: `LogLoader`).

A `.cleaned` segment was not complete: its files are deleted, and so are `.swap` files at or above the lowest `.cleaned`
base offset: not all files of that swap had been renamed. Any other `.swap` segment is complete and replaces the
segments from its base to its last offset: those are deleted if they still exist, and it is renamed. The procedure is
idempotent, and applies to swaps of Apache Kafka too. `segment_swap.py` has the order of a swap.
"""

from storage.disk import Disk
from storage.log.batch_scanner import valid_batches
from storage.log.segment import CLEANED_SUFFIX, LOG_SUFFIX, SEGMENT_SUFFIXES, SWAP_SUFFIX, segment_path


def is_leftover(name: str) -> bool:
    """Return whether a file of this name belongs to an unfinished swap."""
    return name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX)) and name[:20].isdigit()


def finish_swaps(disk: Disk, directory: str) -> None:
    """Complete the swaps in `directory`, or revert those that were not committed."""
    names = set(disk.list_dir(directory))
    cleaned = sorted(name for name in names if is_leftover(name) and name.endswith(CLEANED_SUFFIX))
    swaps = sorted(name for name in names if is_leftover(name) and name.endswith(SWAP_SUFFIX))
    undone = [name for name in swaps if cleaned and name[:20] >= cleaned[0][:20]]
    # `.swap` files first: without the `.cleaned` files they would count as complete.
    for name in (*undone, *cleaned):
        disk.remove(f"{directory}/{name}")
    swaps = [name for name in swaps if name not in undone]
    for name in swaps:
        if name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
            _remove_replaced(disk, directory, int(name[:20]), names)
    if swaps:
        # A power cut must not restore a replaced segment beside its replacement.
        disk.sync_dir(directory)
    # The `.log` file first: while it has the suffix `.swap`, a restart deletes indexes at its base without it.
    for name in sorted(swaps, key=lambda name: not name.endswith(LOG_SUFFIX + SWAP_SUFFIX)):
        disk.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP_SUFFIX)}")


def _remove_replaced(disk: Disk, directory: str, base: int, names: set[str]) -> None:
    """Delete the segments above `base` that the swap segment at `base` replaces; renaming replaces the one at `base`.

    Also delete indexes at `base` without a `.swap` file (no transaction index, or lost in a power failure); they would
    be stale. The start rebuilds missing indexes.
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
