"""The log directories of a broker: ownership, loading, assignments, moves, compaction, maintenance and failures."""
