"""Transactions: their states and partitions, and those that hang (KIP-664)."""

SUBCOMMANDS = {
    "list": "list transactional ids with their states",
    "describe": "show the state and the partitions of a transaction",
    "hanging": "find transactions that no coordinator will end",
    "abort": "abort a hanging transaction in one partition",
    "terminate": "abort the transaction of an id, and fence its producer",
}
EXAMPLES = """
  barnabas txn ls --state Ongoing
  barnabas txn describe payments-1
  barnabas txn hanging --topic orders
"""
