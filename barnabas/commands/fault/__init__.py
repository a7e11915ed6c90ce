"""Faults by rule on brokers that run with the control API, for tests: errors, delays, lost connections."""

SUBCOMMANDS = {
    "add": "add a rule: which requests, and what happens to them",
    "list": "list the rules with their hits",
    "wait": "wait for hits of rules",
    "release": "let requests go on that rules hold",
    "clear": "remove rules",
}
EXAMPLES = """
  barnabas fault add Produce --topic orders --error NOT_LEADER_OR_FOLLOWER --count 3
  barnabas fault wait --hits 3
  barnabas fault clear
"""
