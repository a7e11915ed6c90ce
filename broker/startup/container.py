"""Settings from environment variables in a container, named as in the images of Apache Kafka and Bitnami.

    KAFKA_LOG_RETENTION_HOURS=48      log.retention.hours     apache/kafka, confluentinc/cp-kafka
    KAFKA_CFG_NUM_PARTITIONS=3        num.partitions          bitnami/kafka
    BARNABAS_FSYNC=always             barnabas.fsync
    CLUSTER_ID, KAFKA_CLUSTER_ID, KAFKA_KRAFT_CLUSTER_ID      barnabas.cluster.id

In a name, `_` stands for `.`, `__` for `_` and `___` for `-`. Variables are read only if BARNABAS_CONTAINER is 1, as in
the image; elsewhere they may be meant for other programs. They override the settings file; options override them.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from broker.settings import Option, SettingsError


class Defaults(NamedTuple):
    """The defaults of a start; `advertise` None means the listen address."""

    listen: str = "127.0.0.1:9092"
    advertise: str | None = None
    data_dir: str = "./barnabas-data"


_IN_CONTAINER = Defaults("0.0.0.0:9092", "localhost:9092", "/var/lib/barnabas")
_SWITCH = "BARNABAS_CONTAINER"
_CLUSTER_IDS = ("CLUSTER_ID", "KAFKA_CLUSTER_ID", "KAFKA_KRAFT_CLUSTER_ID")
_BITNAMI = "KAFKA_CFG_"
_KAFKA = "KAFKA_"
_OURS = "BARNABAS_"
# Variables of the images' start scripts and of the commands; not broker settings.
_OTHERS = frozenset(
    {
        "BARNABAS_BROKERS",
        "BARNABAS_COMMAND_CONFIG",
        "BARNABAS_CONTROL",
        "BARNABAS_CONTROL_TOKEN",
        "BARNABAS_LOOP",
        _SWITCH,
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_HEAP_OPTS",
        "KAFKA_HOME",
        "KAFKA_JMX_HOSTNAME",
        "KAFKA_JMX_OPTS",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_LOG4J_LOGGERS",
        "KAFKA_LOG4J_OPTS",
        "KAFKA_LOG4J_ROOT_LOGLEVEL",
        "KAFKA_OPTS",
        "KAFKA_TOOLS_LOG4J_LOGLEVEL",
        "KAFKA_VERSION",
    }
)
# Bitnami's image keeps the underscore in these protocol names.
_PROTOCOLS = (("sasl.ssl", "sasl_ssl"), ("sasl.plaintext", "sasl_plaintext"))


def defaults(environment: Mapping[str, str]) -> Defaults:
    """Return the defaults of a start; in a container, those of the image."""
    return _IN_CONTAINER if _is_container(environment) else Defaults()


def environment_settings(environment: Mapping[str, str]) -> dict[str, Option]:
    """Return the settings in environment variables; none outside a container.

    SettingsError if two variables set the same setting to different values.
    """
    found: dict[str, Option] = {}
    for variable, name in sorted(_named(environment)) if _is_container(environment) else ():
        option = Option(environment[variable], f"environment variable {variable}")
        other = found.setdefault(name, option)
        if other.text != option.text:
            raise SettingsError(f"{other.origin} and {option.origin}: both set {name}; leave one out")
    return found


def over_file(found: Mapping[str, Option], environment: Mapping[str, Option]) -> dict[str, Option]:
    """Return the settings of a file, overridden by those of the environment."""
    directories = {"log.dir", "log.dirs"}
    replaced = directories if directories & environment.keys() else set()
    return {name: option for name, option in found.items() if name not in replaced} | dict(environment)


def _is_container(environment: Mapping[str, str]) -> bool:
    return environment.get(_SWITCH) == "1"


def _named(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield (variable, setting name) for the variables that are settings."""
    for variable in environment:
        if variable in _CLUSTER_IDS:
            yield variable, "barnabas.cluster.id"
        elif variable in _OTHERS:
            continue
        elif variable.startswith(_BITNAMI):
            name = _setting(variable.removeprefix(_BITNAMI))
            for written, meant in _PROTOCOLS:
                name = name.replace(written, meant)
            yield variable, name
        elif variable.startswith(_KAFKA):
            yield variable, _setting(variable.removeprefix(_KAFKA))
        elif variable.startswith(_OURS):
            yield variable, _setting(variable)


def _setting(words: str) -> str:
    return words.lower().replace("_", ".").replace("...", "-").replace("..", "_")
