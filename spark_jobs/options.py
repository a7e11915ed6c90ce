"""Options of the jobs: frozen dataclasses, whose fields become flags, environment variables and keys of a YAML file.

A flag precedes the variable `BARNABAS_SPARK_<FIELD>`, which precedes the key in the file of `--config`, which precedes
the default. A list replaces the list of a lower level; it is not added to it.

Shared options are the base classes here; those of one job are in its module.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from spark_jobs.errors import JobError

ENVIRONMENT = "BARNABAS_SPARK_"
DEFAULT_BROKERS = "127.0.0.1:9092"
SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
PART = r"(\d+) *(second|minute|hour|day|week)s?\b"

T = TypeVar("T")


def option(
    text: str,
    *flags: str,
    default: Any = dataclasses.MISSING,
    metavar: str | None = None,
    parse: Callable[[str], Any] | None = None,
    choices: Sequence[str] | None = None,
    repeated: bool = False,
) -> Any:
    """Declare a field with its help text.

    Args:
        text: The help; the default is appended to it, unless it is empty.
        flags: Names beside the field's own, such as "-b".
        default: The value without the option; without a default the option is required.
        metavar: The name of the value in the help.
        parse: Convert the text of a value; ValueError or ArgumentTypeError if it is invalid.
        choices: The valid values.
        repeated: Whether the flag may occur several times; the field is then a tuple.

    """
    if repeated and default is dataclasses.MISSING:
        default = ()
    metadata = {
        "help": text,
        "flags": flags,
        "metavar": metavar,
        "parse": parse,
        "choices": choices,
        "repeated": repeated,
    }
    return dataclasses.field(default=default, metadata=metadata)


def key_value(text: str) -> tuple[str, str]:
    """Return the key and value of KEY=VALUE."""
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise argparse.ArgumentTypeError(f"{text!r}: write KEY=VALUE")
    return key, value


def positive(text: str) -> int:
    """Return a number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: write a number of at least 1")
    return int(text)


def seconds(text: str) -> int:
    """Return the length in seconds of an interval of days, hours, minutes and seconds, such as "1 hour 30 minutes"."""
    length = sum(int(number) * SECONDS[unit] for number, unit in re.findall(PART, text))
    if not length or not re.fullmatch(rf"\s*({PART}\s*)+", text):
        raise argparse.ArgumentTypeError(f"{text!r}: write an interval such as '5 minutes'")
    return length


def interval(name: str, text: str) -> int:
    """Return the length in seconds of such an interval, which is of an option; JobError if it is none."""
    try:
        return seconds(text)
    except argparse.ArgumentTypeError as error:
        raise JobError(f"{name}: {error}") from None


def milliseconds(text: str) -> int:
    """Return the length in milliseconds of such an interval."""
    return 1000 * seconds(text)


@dataclass(frozen=True, kw_only=True)
class SessionOptions:
    """The Spark session."""

    master: str | None = option(
        "Spark's master, such as local[2] or spark://HOST:7077 (default: Spark's)", default=None, metavar="URL"
    )
    spark_conf: tuple[tuple[str, str], ...] = option(
        "a setting of Spark, such as spark.sql.shuffle.partitions=8",
        metavar="KEY=VALUE",
        parse=key_value,
        repeated=True,
    )


@dataclass(frozen=True, kw_only=True)
class KafkaOptions:
    """The connection to the brokers."""

    brokers: str = option(
        "addresses of brokers (default: $BARNABAS_BROKERS or %(default)s)",
        "-b",
        default=DEFAULT_BROKERS,
        metavar="HOST:PORT,...",
    )
    kafka: tuple[tuple[str, str], ...] = option(
        "an option of Spark's Kafka source and sink, such as kafka.security.protocol=SSL",
        "-X",
        metavar="KEY=VALUE",
        parse=key_value,
        repeated=True,
    )


@dataclass(frozen=True, kw_only=True)
class TopicOptions(KafkaOptions):
    """The topics that a job reads."""

    topic: tuple[str, ...] = option("a topic to read", "-t", metavar="NAME", repeated=True)
    topic_pattern: str | None = option(
        "read the topics that this Java pattern matches, also those created later", default=None, metavar="PATTERN"
    )


@dataclass(frozen=True, kw_only=True)
class SourceOptions(TopicOptions):
    """Where and how a job reads its topics."""

    start: str = option(
        "where a job without a checkpoint begins: earliest, latest, or an ISO 8601 time",
        default="earliest",
        metavar="WHERE",
    )
    min_partitions: int | None = option(
        "read with at least so many Spark tasks (default: one a partition)", default=None, metavar="N", parse=positive
    )


@dataclass(frozen=True, kw_only=True)
class StreamOptions(SessionOptions, SourceOptions):
    """A streaming query."""

    checkpoint: str = option("directory of the query's progress; each query has its own", metavar="DIR")
    available_now: bool = option("read what the topics have now, then stop", default=False)
    trigger: str = option("start a micro-batch so often", default="1 second", metavar="INTERVAL")
    max_offsets_per_trigger: int | None = option(
        "read at most so many records in a micro-batch", default=None, metavar="N", parse=positive
    )
    group: str | None = option(
        "consumer group that shows the query's progress (default: spark-NAME of the job; '' for none)",
        default=None,
        metavar="GROUP",
    )


@dataclass(frozen=True, kw_only=True)
class WatermarkOptions:
    """The bound of the state of a streaming query."""

    lateness: str = option("how much later than the latest a record may be", default="1 minute", metavar="INTERVAL")


def parser_of(options: type[Any], prog: str, description: str, example: str) -> argparse.ArgumentParser:
    """Return the parser of a dataclass of options."""
    import configargparse

    parser: argparse.ArgumentParser = configargparse.ArgumentParser(
        prog=prog,
        description=description,
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        auto_env_var_prefix=ENVIRONMENT,
        config_file_parser_class=configargparse.YAMLConfigFileParser,
        args_for_setting_config_path=["--config"],
        config_arg_help_message="a YAML file of options, named as the flags",
        add_config_file_help=False,
        add_env_var_help=False,
        allow_abbrev=False,
    )
    for field in dataclasses.fields(options):
        _add(parser, field)
    return parser


def parse(
    options: type[T],
    parser: argparse.ArgumentParser,
    arguments: Sequence[str],
    environment: Mapping[str, str] | None = None,
) -> T:
    """Return the options; exit with status 2 and a message if they are invalid.

    `environment` is the process's unless it is given.
    """
    environment = os.environ if environment is None else environment
    if "BARNABAS_BROKERS" in environment:
        parser.set_defaults(brokers=environment["BARNABAS_BROKERS"])
    parsed = vars(parser.parse_args(list(arguments), env_vars=dict(environment)))  # type: ignore[call-overload]
    values = {
        field.name: tuple(parsed[field.name] or ()) if field.metadata["repeated"] else parsed[field.name]
        for field in dataclasses.fields(options)  # type: ignore[arg-type]
    }
    return options(**values)


def _add(parser: argparse.ArgumentParser, field: dataclasses.Field[Any]) -> None:
    declared = field.metadata
    # A field may end in an underscore, where its name is a word of Python.
    flags = (*declared["flags"], "--" + field.name.rstrip("_").replace("_", "-"))
    text = declared["help"]
    required = field.default is dataclasses.MISSING
    if field.default is False:
        parser.add_argument(*flags, action="store_true", help=text)
        return
    if not required and field.default not in (None, (), "") and "default:" not in text:
        text += " (default: %(default)s)"
    parser.add_argument(
        *flags,
        action="append" if declared["repeated"] else "store",
        default=None if declared["repeated"] or required else field.default,
        required=required,
        dest=field.name,
        type=declared["parse"] or str,
        choices=declared["choices"],
        metavar=declared["metavar"],
        help=text,
    )
