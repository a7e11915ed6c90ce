"""Topics: create, list, describe, alter, trim and delete them."""

SUBCOMMANDS = {
    "create": "create topics",
    "list": "list topics with their partitions",
    "describe": "show partitions, offsets and settings",
    "alter": "set or reset settings, or add partitions",
    "add-partitions": "add partitions",
    "trim": "delete the records before an offset or a time",
    "delete": "delete topics with their records",
}
EXAMPLES = """
  barnabas topic create orders:6
  barnabas topic ls                         ls is list, rm is delete
  barnabas topic describe orders
  barnabas topic rm orders --dry-run
"""
