"""What is in the files of a data directory, and what is wrong with them: `barnabas log` reads by it.

    findings    what is wrong: file, position, field, problem
    layouts     the fields of the binary formats, each with its offset and size
    kinds       which kind of file a name says, and where the files of a directory are
    pieces      a `.log` file as batches, and as stretches that are none
    checks      what batches say of each other, of the indexes and of the transactions, batch by batch
    partition   everything in the directory of one log, checked against each other
    directory   the files of a data directory, and every log in it
    decoders    the keys and values of the records that brokers write themselves
    rows        files as rows, for somebody to read
    repair      what would make it right again, said first and then done

Nothing here is used by a broker that runs. A broker recovers what a crash leaves (`storage/recovery.py`); this is for
damage that no crash explains. Except `repair`, nothing here writes.
"""
