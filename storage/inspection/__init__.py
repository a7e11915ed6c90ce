"""Contents and checks of a data directory's files, for `barnabas log`.

    findings        a problem: file, position, field, description
    layouts         the fields of the binary formats, with offset and size
    kinds           the kind of a file by its name
    pieces          a `.log` file as batches and the bytes between them
    checks          the checks of batches against each other, leader epochs and producers
    indexes         the checks of a segment's indexes against its batches
    partition       the checks of all files of one log
    metadata_files  the checks of metadata snapshots and `quorum-state`
    directory       the checks of a data directory and of every log in it
    decoders        keys and values of the internal topics' records
    rows            files as rows of a dump
    repair          the changes that make a log valid again: listed first, then made

A running broker does not use these modules: `storage/log/recovery.py` recovers from crashes, these find and repair
damage that a crash does not cause. Only `repair` writes.
"""
