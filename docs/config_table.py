"""Write CONFIG.md from the definitions of the settings, and the list of those without effect in COMPAT.md.

python -m docs.config_table            rewrites both pages
python -m docs.config_table --check    exits with 1 if a page is not up to date
"""

import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from controller.configs import BROKER_CONFIGS, TOPIC_CONFIGS, ConfigDef, UpdateMode
from controller.configs.client_metrics import CLIENT_METRICS_CONFIGS
from controller.configs.group import GROUP_CONFIGS
from controller.configs.topic import BROKER_SYNONYMS
from docs.generated import Generated

FOLDER = Path(__file__).parent
BEGIN = "<!-- written by python -m docs.config_table -->\n"
END = "<!-- end of what docs.config_table writes -->\n"

_ALTERED = {UpdateMode.READ_ONLY: "no", UpdateMode.PER_BROKER: "per broker", UpdateMode.CLUSTER_WIDE: "yes"}


def reference() -> str:
    """Return a table for each kind of resource that has settings."""
    brokers = [
        "| Name | Type | Default | Dynamic | Effect | Description |\n",
        "|---|---|---|---|---|---|\n",
    ]
    brokers += [_row(one, _ALTERED[one.update_mode]) for one in _shown(BROKER_CONFIGS.values())]
    topics = [
        "| Name | Type | Default | Broker's setting | Effect | Description |\n",
        "|---|---|---|---|---|---|\n",
    ]
    topics += [
        _row(one, ", ".join(f"`{name}`" for name in BROKER_SYNONYMS.get(one.name, ())))
        for one in _shown(TOPIC_CONFIGS.values())
    ]
    return (
        "## Topics\n\n"
        + "".join(topics)
        + "\n## Brokers\n\n"
        + "".join(brokers)
        + "\n## Groups\n\n"
        + _short(GROUP_CONFIGS.values())
        + "\n## Client metrics subscriptions\n\n"
        + _short(CLIENT_METRICS_CONFIGS.values())
    )


def without_effect() -> str:
    """Return a table of the reasons why settings have no effect, each with its settings."""
    by_reason: dict[str, list[str]] = defaultdict(list)
    for kind, definitions in (("topic's ", TOPIC_CONFIGS), ("", BROKER_CONFIGS), ("group's ", GROUP_CONFIGS)):
        for one in _shown(definitions.values()):
            if not one.effective:
                by_reason[one.without_effect].append(f"{kind}`{one.name}`")
    rows = [f"| {why[0].upper()}{why[1:]} | {', '.join(names)} |\n" for why, names in by_reason.items()]
    return "| Why | Configurations that are accepted and described, and have no effect |\n|---|---|\n" + "".join(rows)


def _shown(definitions: Iterable[ConfigDef]) -> list[ConfigDef]:
    return sorted((one for one in definitions if not one.internal), key=lambda one: one.name)


def _short(definitions: Iterable[ConfigDef]) -> str:
    rows = [_row(one) for one in _shown(definitions)]
    return "| Name | Type | Default | Effect | Description |\n|---|---|---|---|---|\n" + "".join(rows)


def _row(one: ConfigDef, *more: str) -> str:
    default = "" if one.default is None else f"`{one.default}`" if one.default else "empty"
    effect = "yes" if one.effective else f"no: {one.without_effect}"
    cells = (f"`{one.name}`", one.type.name.lower(), default, *more, effect, one.documentation)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


REFERENCE = Generated(FOLDER / "CONFIG.md", BEGIN, END, reference)
WITHOUT_EFFECT = Generated(FOLDER / "COMPAT.md", BEGIN, END, without_effect)


if __name__ == "__main__":
    sys.exit(max(page.main(sys.argv[1:], "python -m docs.config_table") for page in (REFERENCE, WITHOUT_EFFECT)))
