"""Set quotas of a user, a client id, both together, or an address; or the defaults of one of these.

Rates are per second and broker: producer_byte_rate and consumer_byte_rate in bytes, connection_creation_rate (of
addresses) in connections. request_percentage is a percentage of a broker's time. controller_mutation_rate limits the
partitions per second that are created and deleted, in the whole cluster.
"""

import argparse
import math

from barnabas.commands._client import add_common_options, admin
from barnabas.commands._output import Report, complain
from barnabas.commands._quotas import (
    add_entity_options,
    alter_quotas,
    check_quota,
    check_value,
    describe_quotas,
    entity,
    value_text,
)
from barnabas.commands._rights import check_cluster
from barnabas.commands._unserved import controller_awaited
from barnabas.commands._users import principal_warning

EXAMPLES = """
  barnabas quota set --user alice producer_byte_rate=1048576 consumer_byte_rate=2097152
  barnabas quota set --user alice --client-id app request_percentage=25
  barnabas quota set --client-id-defaults controller_mutation_rate=10 --dry-run
  barnabas quota set --ip 10.0.0.7 connection_creation_rate=20
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_entity_options(parser)
    parser.add_argument("change", nargs="+", type=_change, metavar="QUOTA=VALUE")
    parser.add_argument("-d", "--dry-run", action="store_true", help="validate only")
    add_common_options(parser)


def run(options: argparse.Namespace) -> int:
    """Set all of the quotas, or none if one is refused."""
    of = entity(options)
    changes = dict(options.change)
    for name, value in changes.items():
        check_quota(name, of)
        check_value(name, value)
    if warning := principal_warning(options.user or ""):
        complain(options.command, warning)
    report = Report(options)
    with admin(options) as client, controller_awaited(options):
        check_cluster(client, "ALTER_CONFIGS")
        before = describe_quotas(client, of, strict=True).get(of, {})
        problem = alter_quotas(client, of, changes, validate_only=options.dry_run)
    if problem is not None:
        report.failed(str(of), problem)
        return report.end()
    did = "would set" if options.dry_run else "set"
    for name, value in changes.items():
        was = f" (was {value_text(before[name])})" if name in before else ""
        report.done(did, f"{name}={value_text(value)} of {of}{was}", quota=name, value=value, **of.row)
    return report.end()


def _change(text: str) -> tuple[str, float]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise argparse.ArgumentTypeError(f"{text!r}: write QUOTA=VALUE, such as producer_byte_rate=1048576")
    try:
        parsed = float(value)
    except ValueError:
        parsed = math.nan
    if not math.isfinite(parsed):
        raise argparse.ArgumentTypeError(f"{text!r}: {value!r} is not a number")
    if value.isdecimal() and parsed > int(value):  # brokers store a double, and not each large integer is one
        parsed = math.nextafter(parsed, 0)
    return name, parsed
