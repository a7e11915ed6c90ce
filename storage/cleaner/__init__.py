"""Log compaction: a log keeps the last record of each key, at its original offset (Kafka: `LogCleaner`, KIP-58).

    cleaner_manager.py  compares all logs and selects the next one to clean
    cleanable_range.py  computes the range of one log that can be cleaned, and its cleanable ratio
    cleaner_pass.py     cleans one log, as a generator of short steps:
      offset_map.py       maps each key of the dirty range to its last offset; the pass ends where the map is full
      batch_cleaner.py    removes from each batch the records that a later record of their key replaces
      segment_swap.py     replaces the old segments by the new one, through `.cleaned` and `.swap`
    swap_recovery.py    completes or reverts a swap that a crash interrupted

Reads and appends continue during a pass, and retention is paused. A truncation, a deletion, a move to another data
directory or a changed configuration aborts the pass and leaves the log as it was. KIP-354 has the maximum lag, KIP-534
the delete horizon.
"""
