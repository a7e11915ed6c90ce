"""Read, check and mend the files of a broker: those of one that is stopped, or a copy of them.

A PATH is a file (not for repair), the directory of a partition, or a data directory, in which --topic and --partition
choose.
"""

SUBCOMMANDS = {
    "dump": "print batches, records, indexes, snapshots and checkpoints",
    "verify": "check everything against its format and the rest; list what is wrong",
    "repair": "print what would repair it, or repair it",
}
EXAMPLES = """
  barnabas log dump data/orders-0/00000000000000000000.log
  barnabas log verify data
  barnabas log repair data --dry-run
"""
