"""Compaction: a log keeps the last record of each key, at the offset that it always had.

A pass over one log has four parts, each a module:

    filth.py           which log, and up to where: not the active segment, nothing past the last stable offset
    offset_map.py      of each key in the dirty part the last offset; when the memory is full, the pass ends there
    batch_cleaner.py   each batch up to there, without the records that a later one replaces; groups.py says which
                       segments become one
    swap.py            the new segment takes the place of the old ones, through `.cleaned` and `.swap`

`compaction.py` is the pass, in steps between which the event loop serves clients; `compactor.py` chooses the next
log; `leftovers.py` puts right what a crash left. Reads and appends go on meanwhile, and retention waits; a truncation,
a deletion, a move to another directory or a change of the settings ends the pass, and the log is as it was. The rules
are Apache Kafka's: KIP-58 (lag), KIP-354 (largest lag), KIP-534 (delete horizon).
"""
