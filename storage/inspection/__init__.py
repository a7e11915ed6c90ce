"""The contents of a data directory, and what is wrong with them, for `barnabas log`.

    findings    a problem: file, position, field, description
    layouts     the fields of the binary formats, with offset and size
    kinds       the kind of a file by its name, and where the files of a directory are
    pieces      a `.log` file as batches and the bytes between them
    checks      the checks of batches against each other, the indexes and the transactions
    partition   the checks of all files of one log
    directory   the checks of a data directory and of every log in it
    decoders    keys and values of the internal topics' records
    rows        files as rows of a dump
    repair      the changes that make a log valid again: listed first, then made

No running broker uses these modules: it recovers from crashes by `storage/log/recovery.py`. They are for damage that no
crash explains. Only `repair` writes.
"""
