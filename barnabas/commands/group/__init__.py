"""Consumer groups: members, lag and committed offsets."""

SUBCOMMANDS = {
    "list": "list groups with their states",
    "describe": "show members, offsets and lag",
    "seek": "change a group's committed offsets",
    "delete": "delete groups, or their committed offsets of a topic",
}
EXAMPLES = """
  barnabas group ls
  barnabas group describe readers
  barnabas group seek readers --to start --dry-run
"""
