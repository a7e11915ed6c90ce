"""Candidates of shell completion for `barnabas serve`, and setting names, for `barnabas complete`.

options          each option of `serve`, and its help text after a tab
values OPTION    the option's possible values; nothing if any value is possible
settings KIND    the settings of a broker, topic, group or client-metrics, each followed by an equals sign
"""

import sys
from collections.abc import Iterator, Sequence

from broker.startup.command_line import options
from controller.configs import BROKER_CONFIGS, TOPIC_CONFIGS
from controller.configs.client_metrics import CLIENT_METRICS_CONFIGS
from controller.configs.group import GROUP_CONFIGS

_KINDS = {
    "broker": BROKER_CONFIGS,
    "topic": TOPIC_CONFIGS,
    "group": GROUP_CONFIGS,
    "client-metrics": CLIENT_METRICS_CONFIGS,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Print the candidates; return 0."""
    _, *words = sys.argv[1:] if argv is None else argv
    sys.stdout.writelines(f"{line}\n" for line in candidates(*words))
    return 0


def candidates(what: str, which: str = "") -> Iterator[str]:
    """Yield the candidates, each with a tab and its description if it has one."""
    if what == "settings":
        for name, definition in sorted(_KINDS.get(which, {}).items()):
            yield f"{name}=\t{definition.documentation.partition('. ')[0].rstrip('.')}"
        return
    if what == "options":
        yield from (f"{name}\t{about}" for name, (about, _) in options().items() if len(name) > 2)
    elif which == "-D":
        yield from candidates("settings", "broker")
    elif which in (known := options()):
        yield from known[which][1]
