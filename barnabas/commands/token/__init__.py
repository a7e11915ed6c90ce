"""Delegation tokens: short-lived credentials of a user for programs that should not have its password (KIP-48).

A token has an id, which is no secret, and an HMAC, with which its bearer logs in by SCRAM. Log in by another mechanism
to manage tokens, for example with --command-config.
"""

SUBCOMMANDS = {
    "list": "list the tokens that the user owns, may renew or may see",
    "create": "create a token, and print what its bearer logs in with",
    "renew": "let tokens expire later",
    "expire": "let tokens expire soon, or at once",
}
EXAMPLES = """
  barnabas token ls
  barnabas token create --max-lifetime 7d --renewer User:scheduler
  barnabas token renew FvuC4cOIR9qWUvQ8yQ2SKg --period 1d
  barnabas token expire FvuC4cOIR9qWUvQ8yQ2SKg
"""
