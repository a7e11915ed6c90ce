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
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any, TypeVar

from spark_jobs.errors import JobError, unread_text, yaml_text
from spark_jobs.source_options import begins_elsewhere, source_option

ENVIRONMENT = "BARNABAS_SPARK_"
# Variables that are no options: those of `jars`, and what Kubernetes sets for a service of the name barnabas-spark.
NO_OPTIONS = re.compile(rf"{ENVIRONMENT}(?:JARS|CONNECTOR|SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT(?:_\d+_\w+)?)")
DEFAULT_BROKERS = "127.0.0.1:9092"
SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
PART = r"(\d+) *(second|minute|hour|day|week)s?\b"
MICROSECONDS = {"microsecond": 1, "millisecond": 1000} | {unit: 1_000_000 * length for unit, length in SECONDS.items()}
# An interval as Spark reads it; only seconds may have a fraction.
SPARK_PART = rf"(\d+|\d+\.\d+(?=\s+second))\s+({'|'.join(MICROSECONDS)})s?\b"
SPARK_INTERVAL = re.compile(rf"\s*(?:interval\s+)?(?:{SPARK_PART}\s*)+", re.IGNORECASE)
# As Kafka's client reads it.
ADDRESS = re.compile(r"(?:[a-zA-Z][a-zA-Z\d+.-]*://)?\[?[0-9a-zA-Z\-%._:]+\]?:\d{1,5}")

# As Spark 4 reads it; 0 threads would do nothing.
THREADS = r"(?:\*|[1-9]\d*)"
MASTER = re.compile(
    rf"local(?:\[{THREADS}(?:\s*,\s*[1-9]\d*)?\])?|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]|yarn|k8s://.+"
    r"|spark://[^\s,:/]+:\d{1,5}(?:,[^\s,:/]+:\d{1,5})*|spark://\[[\da-fA-F:.]+\]:\d{1,5}"
)

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


def not_negative(text: str) -> int:
    """Return a number of at least 0."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}: write a number of at least 0")
    return int(text)


def above_zero(text: str) -> float:
    """Return a number above 0."""
    with suppress(ValueError):
        if 0 < (found := float(text)) < float("inf"):
            return found
    raise argparse.ArgumentTypeError(f"{text!r}: write a number above 0, such as 0.5 or 60")


def given(text: str) -> str:
    """Return a text that is not empty, as that of a variable which is not set."""
    if not text.strip():
        raise argparse.ArgumentTypeError("the value is empty: write one")
    return text


def addresses(text: str) -> str:
    """Return the addresses of brokers, which are separated by commas."""
    if not all(ADDRESS.fullmatch(one.strip()) for one in text.split(",")):
        raise argparse.ArgumentTypeError(f"{text!r}: write HOST:PORT, several with commas")
    return text


def master_url(text: str) -> str:
    """Return the URL of a master that Spark knows."""
    if not MASTER.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{text!r}: write a master of Spark, such as local[2], spark://HOST:7077, k8s://https://HOST:PORT or yarn"
        )
    return text


def spark_setting(text: str) -> tuple[str, str]:
    """Return the key and value of a setting of Spark."""
    key, value = key_value(text)
    if key == "spark.master":
        master_url(value)
    return key, value


def java_pattern(text: str) -> str:
    """Return a regular expression of Java, without the errors that are seen without Java's compiler."""
    if fault := _fault_of_pattern(given(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not one of Java's regular expressions: {fault}")
    return text


def _fault_of_pattern(pattern: str) -> str | None:
    """Return what Java's compiler refuses: unclosed groups and classes, a lone backslash, a quantifier of nothing."""
    if re.search(r"\(\?[a-zA-Z-]*x", pattern):
        return None  # brackets in comments count for nothing
    groups = 0
    classes: list[bool] = []  # whether each open class has members: a `]` before them is one
    before = ""
    for word in re.findall(r"\\Q.*?(?:\\E|$)|\\.|\(\?|\[\^?|.", pattern, re.DOTALL):
        if word == "\\":
            return "a backslash at its end"
        if word[0] == "[":
            if classes:
                classes[-1] = True
            classes.append(False)
        elif classes:
            if word == "]" and classes[-1]:
                classes.pop()
            else:
                classes[-1] = True
        elif word[0] == "(":
            groups += 1
        elif word == ")":
            groups -= 1
            if groups < 0:
                return "a ')' without its '('"
        elif word in ("*", "+", "?") and before in ("", "(", "|"):
            return f"nothing before {word!r}"
        before = word
    return "a '[' without its ']'" if classes else "a '(' without its ')'" if groups else None


def time_ms(text: str) -> int:
    """Return an ISO 8601 time, in UTC unless it has a zone, in ms since 1970; ValueError otherwise."""
    time = datetime.fromisoformat(text)
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


def beginning(text: str) -> str:
    """Return a text that is earliest, latest, or an ISO 8601 time."""
    if text not in ("earliest", "latest"):
        try:
            time_ms(text)
        except ValueError:
            raise argparse.ArgumentTypeError(
                f"{text!r}: write earliest, latest, or a time such as 2026-01-31T12:00"
            ) from None
    return text


def microseconds(text: str) -> int:
    """Return the length of an interval that Spark reads; it may be 0."""
    if not SPARK_INTERVAL.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r}: write an interval such as '5 minutes'")
    parts = re.findall(SPARK_PART, text.lower())
    return sum(round(float(number) * MICROSECONDS[unit]) for number, unit in parts)


def duration(text: str) -> str:
    """Return a text that is an interval for Spark; it may be 0."""
    microseconds(text)
    return text


def length(text: str) -> str:
    """Return a text that is an interval for Spark, longer than 0."""
    if not microseconds(text):
        raise argparse.ArgumentTypeError(f"{text!r}: write an interval such as '5 minutes', longer than 0")
    return text


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
        "Spark's master, such as local[2] or spark://HOST:7077 (default: Spark's)",
        default=None,
        metavar="URL",
        parse=master_url,
    )
    spark_conf: tuple[tuple[str, str], ...] = option(
        "a setting of Spark, such as spark.sql.shuffle.partitions=8; may be repeated",
        metavar="KEY=VALUE",
        parse=spark_setting,
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
        parse=addresses,
    )
    kafka: tuple[tuple[str, str], ...] = option(
        "an option of Spark's Kafka source and sink, such as kafka.security.protocol=SSL; may be repeated",
        "-X",
        metavar="KEY=VALUE",
        parse=source_option,
        repeated=True,
    )


@dataclass(frozen=True, kw_only=True)
class TopicOptions(KafkaOptions):
    """The topics that a job reads."""

    topic: tuple[str, ...] = option(
        "a topic to read; may be repeated", "-t", metavar="NAME", parse=given, repeated=True
    )
    topic_pattern: str | None = option(
        "read the topics that this Java pattern matches, also those created later",
        default=None,
        metavar="PATTERN",
        parse=java_pattern,
    )


@dataclass(frozen=True, kw_only=True)
class SourceOptions(TopicOptions):
    """Where and how a job reads its topics."""

    start: str = option(
        "where a job without a checkpoint begins: earliest, latest, or an ISO 8601 time",
        default="earliest",
        metavar="WHERE",
        parse=beginning,
    )
    min_partitions: int | None = option(
        "read with at least so many Spark tasks (default: one a partition)", default=None, metavar="N", parse=positive
    )


@dataclass(frozen=True, kw_only=True)
class StreamOptions(SessionOptions, SourceOptions):
    """A streaming query."""

    checkpoint: str = option("directory of the query's progress; each query has its own", metavar="DIR", parse=given)
    available_now: bool = option("read what the topics have now, then stop", default=False)
    trigger: str = option("start a micro-batch so often", default="1 second", metavar="INTERVAL", parse=duration)
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

    lateness: str = option(
        "how much later than the latest a record may be", default="1 minute", metavar="INTERVAL", parse=duration
    )


def parser_of(options: type[Any], prog: str, description: str, example: str) -> argparse.ArgumentParser:
    """Return the parser of a dataclass of options."""
    import configargparse
    import yaml

    wrong = configargparse.ConfigFileParserException

    class YamlFile(configargparse.YAMLConfigFileParser):  # type: ignore[misc]
        """The file of --config: a key that is no option is an error, with the most similar option."""

        def parse(self, stream: Any) -> Any:
            text = stream.read()
            try:
                options = yaml.safe_load(text)
            except yaml.YAMLError as error:
                raise wrong(f"{stream.name} is not YAML: {yaml_text(error)}") from None
            if not isinstance(options, dict):
                raise wrong(f"{stream.name}: write an option a line, such as 'window: 5 minutes'")
            for key in map(str, options):
                if key not in (names := _long_flags(parser)):
                    raise wrong(f"{stream.name}: there is no option {key!r}{did_you_mean(key, names)}")
            return super().parse(StringIO(text))

    def opened(path: str) -> StringIO:
        try:
            made = StringIO(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            parser.error(f"the file {path} cannot be read: {unread_text(error)}; correct --config")
        made.name = path
        return made

    parser: argparse.ArgumentParser = configargparse.ArgumentParser(
        prog=prog,
        description=description,
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        auto_env_var_prefix=ENVIRONMENT,
        config_file_parser_class=YamlFile,
        config_file_open_func=opened,
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
    elsewhere: Callable[[], Iterable[type[Any]]] = lambda: (),
) -> T:
    """Return the options; exit with status 2 and a message if they are invalid.

    `environment` is the process's unless it is given; it may have variables of the options `elsewhere`, and empty ones
    count as unset. Names of flags and variables are checked first: a misspelt one is not reported as the absence of
    what it should be.
    """
    given_variables = os.environ if environment is None else environment
    environment = {name: value for name, value in given_variables.items() if value}
    _check_flags(parser, arguments)
    _check_variables(parser, options, environment, elsewhere)
    if "BARNABAS_BROKERS" in environment:
        parser.set_defaults(brokers=environment["BARNABAS_BROKERS"])
    known, left = parser.parse_known_args(list(arguments), env_vars=environment)  # type: ignore[call-overload]
    if left:
        kind = "option" if left[0].startswith("-") else "argument"
        parser.error(f"there is no {kind} {left[0]}: put quotes around a value with spaces")
    parsed = vars(known)
    values = {
        field.name: tuple(parsed[field.name] or ()) if field.metadata["repeated"] else parsed[field.name]
        for field in dataclasses.fields(options)  # type: ignore[arg-type]
    }
    if values.get("start", "earliest") != "earliest":
        for key, _ in values.get("kafka", ()):
            if begins_elsewhere(key):
                parser.error(f"choose --start or -X {key}, not both")
    return options(**values)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean X?" for the known name closest to `name`, or "" if none is close."""
    from difflib import get_close_matches  # only where something is wrong

    close = get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def variable(field: dataclasses.Field[Any]) -> str:
    """Return the environment variable of an option."""
    return ENVIRONMENT + field.name.rstrip("_").upper()


def _long_flags(parser: argparse.ArgumentParser) -> list[str]:
    """Return the long names of all options, without the dashes."""
    flags = (flag for action in parser._actions for flag in action.option_strings)
    return [flag.removeprefix("--") for flag in flags if flag.startswith("--")]


def _check_flags(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> None:
    known = [f"--{name}" for name in _long_flags(parser)]
    for word in arguments:
        flag = word.partition("=")[0]
        if word == "--":
            return
        if word.startswith("--") and " " not in flag and flag not in known:
            parser.error(f"there is no option {flag}{did_you_mean(flag, known)}")


def _check_variables(
    parser: argparse.ArgumentParser,
    options: type[Any],
    environment: Mapping[str, str],
    elsewhere: Callable[[], Iterable[type[Any]]],
) -> None:
    """Exit if a variable is similar to that of an option, but is that of none; warn of others that are of none."""
    known = {variable(field) for field in dataclasses.fields(options)} | {f"{ENVIRONMENT}CONFIG"}
    unknown = {name for name in environment if name.startswith(ENVIRONMENT) and not NO_OPTIONS.fullmatch(name)} - known
    if unknown:
        unknown -= {variable(field) for other in elsewhere() for field in dataclasses.fields(other)}
    for name in sorted(unknown):
        # Their common beginning would make all of them similar.
        similar = did_you_mean(name.removeprefix(ENVIRONMENT), (one.removeprefix(ENVIRONMENT) for one in known))
        if similar:
            parser.error(f"there is no variable {name}{similar.replace('mean ', f'mean {ENVIRONMENT}')}")
        sys.stderr.write(f"ignored: the variable {name} is of no option\n")


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
