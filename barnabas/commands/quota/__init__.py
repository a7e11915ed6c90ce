"""Client quotas: how much users, client ids and addresses may use of each broker.

The most specific quota applies to a client: of the user with the client id, of the user, of the client id, and then the
defaults. A client above its quota is not refused, but waits.
"""

SUBCOMMANDS = {
    "list": "list all quotas, or those of some users, client ids or addresses",
    "describe": "show which quotas apply to a client or an address",
    "set": "set quotas",
    "remove": "remove quotas",
}
EXAMPLES = """
  barnabas quota ls
  barnabas quota set --user alice producer_byte_rate=1048576 consumer_byte_rate=2097152
  barnabas quota describe --user alice --client-id app
  barnabas quota rm --user alice --dry-run
"""
