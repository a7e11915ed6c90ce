"""Consumer groups: who reads, how far they are behind, and where they go on."""

SUBCOMMANDS = {
    "list": "list groups with their states",
    "describe": "show members, offsets and lag",
    "seek": "move what a group has committed",
    "delete": "delete groups, or what they have committed for a topic",
}
EXAMPLES = """
  barnabas group ls
  barnabas group describe readers
  barnabas group seek readers --to start --dry-run
"""
