"""The cluster: its brokers, features, metadata quorum and log directories."""

DEFAULT = "info"
SUBCOMMANDS = {
    "info": "show brokers, controller, features and partitions (the default)",
    "quorum": "show the voters of the metadata quorum, and their log ends",
    "log-dirs": "show the log directories and their sizes",
}
EXAMPLES = """
  barnabas cluster                          brokers, controllers and partitions
  barnabas cluster quorum
  barnabas cluster log-dirs --by topic
"""
