"""Print the values of settings, with --verbose their sources and documentation too."""

import argparse
import sys
import textwrap

from barnabas._arguments import did_you_mean
from barnabas.commands._client import add_common_options, admin
from barnabas.commands._configs import Setting, describe_configs, resource
from barnabas.commands._output import complain_of, print_facts, print_table, show_json

EXAMPLES = """
  barnabas config get topic/orders retention.ms
  barnabas config get topic/orders retention.ms cleanup.policy --verbose
  barnabas config get broker/1 log.retention.hours
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("resource", type=resource, metavar="KIND/NAME")
    parser.add_argument("name", nargs="+", metavar="SETTING")
    parser.add_argument("-v", "--verbose", action="store_true", help="show where it is set, and its documentation")
    add_common_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print each setting; return 1 if one does not exist."""
    with admin(options) as client:
        known = {setting.name: setting for setting in describe_configs(client, options.resource, documentation=True)}
    found = [known[name] for name in options.name if name in known]
    if options.json:
        show_json([setting._asdict() for setting in found])
    elif options.verbose:
        for number, setting in enumerate(found):
            sys.stdout.write("\n" if number else "")
            _print(setting)
    else:
        for setting in found:
            name = f"{setting.name}=" if len(options.name) > 1 else ""
            sys.stdout.write(f"{name}{'' if setting.value is None else setting.value}\n")
    problems = [
        f"{options.resource} has no setting {name!r}{did_you_mean(name, known)}"
        for name in options.name
        if name not in known
    ]
    return complain_of(options.command, problems)


def _print(setting: Setting) -> None:
    facts = {"setting": setting.name, "value": setting.value, "source": setting.source, "type": setting.type}
    print_facts({**facts, "read_only": setting.read_only})
    if setting.documentation:
        sys.stdout.write(textwrap.fill(setting.documentation, 100, initial_indent="  ", subsequent_indent="  ") + "\n")
    if len(setting.synonyms) > 1:
        print_table(("name", "value", "source"), setting.synonyms, indent="  ")
