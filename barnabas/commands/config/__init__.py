"""Settings of topics, brokers and groups.

The resource is written KIND/NAME: topic/orders, broker/1, group/readers, client-metrics/NAME, broker-logger/1;
`brokers` is the default of all brokers.
"""

SUBCOMMANDS = {
    "get": "print the value of settings",
    "list": "list settings and their sources, or the resources that have any",
    "set": "set settings, or add to and remove from lists",
    "reset": "set settings back to their defaults",
}
EXAMPLES = """
  barnabas config ls topic/orders
  barnabas config set topic/orders retention.ms=86400000
  barnabas config get broker/1 num.partitions
"""
