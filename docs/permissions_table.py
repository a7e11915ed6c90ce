"""Write the table of what each API needs in SECURITY.md.

python -m docs.permissions_table            rewrites the page
python -m docs.permissions_table --check    exits with 1 if the page is not up to date
"""

import sys
from pathlib import Path

from broker.authorization.requirement import Requirement, Requirements
from broker.routes import ROUTES
from controller.acls.acl import AclResourceType
from docs.generated import Generated
from protocol.api import APIS

PAGE = Path(__file__).with_name("SECURITY.md")
BEGIN = "<!-- written by python -m docs.permissions_table -->\n"
END = "<!-- end of what docs.permissions_table writes -->\n"

_ON = {
    AclResourceType.TOPIC: "topic",
    AclResourceType.GROUP: "group",
    AclResourceType.CLUSTER: "the cluster",
    AclResourceType.TRANSACTIONAL_ID: "transactional id",
    AclResourceType.DELEGATION_TOKEN: "the token",
    AclResourceType.USER: "another owner",
}


def table() -> str:
    """Return the table, with a row for each API that needs something."""
    rows = []
    for key, route in ROUTES.items():
        needed = _list(route.requires)
        if route.requires_on_controller:
            needed = f"{needed}{'; ' if needed else ''}on a controller: {_list(route.requires_on_controller)}"
        if needed:
            rows.append(f"| {APIS[key].name} | {needed} |{' controller' if route.forwarded else ''} |\n")
    return "| API | Operations | Forwarded to |\n|---|---|---|\n" + "".join(rows)


def _list(requirements: Requirements) -> str:
    return ", ".join(_text(one) for one in requirements)


def _text(one: Requirement) -> str:
    instead = "" if one.or_on_cluster is None else f" (or {one.or_on_cluster.name} on the cluster)"
    return f"{one.operation.name} on {_ON[one.resource_type]}{instead}"


GENERATED = Generated(PAGE, BEGIN, END, table)


if __name__ == "__main__":
    sys.exit(GENERATED.main(sys.argv[1:], "python -m docs.permissions_table"))
