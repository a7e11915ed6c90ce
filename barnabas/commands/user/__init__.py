"""SCRAM users, and the mechanism with which each may log in (KIP-554).

Passwords are salted and hashed here, as by `kafka-configs.sh`; brokers never receive them. Users of other mechanisms
(PLAIN, client certificates) are not listed.
"""

SUBCOMMANDS = {
    "list": "list users and their mechanisms",
    "describe": "show the mechanisms and iterations of users",
    "add": "add a user, or change the password",
    "delete": "delete users",
}
EXAMPLES = """
  barnabas user ls
  barnabas user add alice                                 asks for the password
  barnabas user add alice --password-file secret.txt --mechanism SCRAM-SHA-256
  barnabas user rm alice --dry-run
"""
