"""Read, check and repair the files of a stopped broker, or a copy of them.

A PATH is a file (not for repair), the directory of a partition, or a data directory, in which --topic and --partition
select logs.
"""

SUBCOMMANDS = {
    "dump": "print batches, records, indexes, snapshots and checkpoints",
    "verify": "check files against their formats and each other; list the findings",
    "repair": "print the repairs that are needed, or make them",
}
EXAMPLES = """
  barnabas log dump data/orders-0/00000000000000000000.log
  barnabas log verify data
  barnabas log repair data --dry-run
"""
