"""Faults by rule on brokers that run with the control API, for tests: errors, delays, lost connections."""

SUBCOMMANDS = {
    "add": "add a rule: which requests, and what happens to them",
    "list": "list the rules with their hits",
    "clear": "remove all rules",
}
EXAMPLES = """
  barnabas fault add Produce --topic orders --error NOT_LEADER_OR_FOLLOWER --count 3
  barnabas fault list
  barnabas fault clear
"""
