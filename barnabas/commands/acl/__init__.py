"""Access control entries (ACLs): which principal may do what, with which resources, from where.

The options have the meaning that they have for `kafka-acls.sh`. The cluster needs an authorizer
(`authorizer.class.name`).
"""

SUBCOMMANDS = {
    "list": "list entries",
    "add": "allow or deny operations",
    "remove": "remove entries",
}
EXAMPLES = """
  barnabas acl ls --topic orders --pattern match          what applies to a topic
  barnabas acl add --allow-principal User:alice --consumer --topic orders --group readers
  barnabas acl rm --topic orders --dry-run
"""
