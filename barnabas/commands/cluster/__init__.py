"""The cluster: its brokers, features, metadata quorum and log directories."""

DEFAULT = "info"
SUBCOMMANDS = {
    "info": "show brokers, controller, features and partitions (what `barnabas cluster` does; --watch goes on)",
    "quorum": "show who votes on metadata, and how far each has got",
    "log-dirs": "show how much lies in which directory",
}
EXAMPLES = """
  barnabas cluster                          brokers, controllers and partitions
  barnabas cluster quorum
  barnabas cluster log-dirs --by topic
"""
