"""The clocks of brokers that run with the control API, for tests: show and advance them."""

SUBCOMMANDS = {
    "show": "show the time of each broker",
    "advance": "advance the time of all brokers",
}
DEFAULT = "show"
EXAMPLES = """
  barnabas clock show
  barnabas clock advance 25h
"""
