"""Errors of Spark, Kafka and the file system as one sentence each, which says what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class JobError(Exception):
    """A problem that the user can solve; its text is one sentence that says how."""


class NotInstalled(JobError):  # noqa: N818 - a state of the machine
    """A package that the options need is missing: the options themselves are right."""


class Remedy(NamedTuple):
    """What to do about errors whose text `pattern` matches; `{line}` in the advice is the line, `{match}` the match."""

    pattern: str
    advice: str


NO_START = "Spark did not start, as its lines above say; it needs Java 17 or 21, of $JAVA_HOME or on the PATH"
REMEDIES: Sequence[Remedy] = (
    Remedy(
        r"No space left on device|Disk quota exceeded",
        "a disk is full: free space, then start the job again; it goes on where it stopped",
    ),
    Remedy(
        r"UnknownTopicOrPartitionException|Topic \S+ not present in metadata",
        "a topic does not exist: create it, or correct its name",
    ),
    Remedy(
        r"TopicAuthorizationException|GroupAuthorizationException|ClusterAuthorizationException|Not authorized",
        "the brokers refuse access: {line}",
    ),
    Remedy(
        r"(?<=SaslAuthenticationException: ).+?(?= SQLSTATE|\n|$)",
        "the brokers refuse the login ({match}): correct -X kafka.sasl.jaas.config",
    ),
    Remedy(r"SaslAuthenticationException|SslAuthenticationException|SSLHandshake", "the login was refused: {line}"),
    Remedy(
        r"RecordTooLargeException",
        "a record is larger than the topic or the producer allows: raise max.message.bytes of the topic, and "
        "-X kafka.max.request.size=BYTES: {line}",
    ),
    Remedy(
        r"InvalidTopicException|InvalidReplicationFactorException|PolicyViolationException|TopicExistsException",
        "the brokers refuse the topic: {line}",
    ),
    Remedy(
        r"No resolvable bootstrap urls|Timed out waiting for a node|DisconnectException|BrokerNotAvailable"
        r"|apache\.kafka\.common\.errors\.TimeoutException",
        "no broker answers at the address of --brokers; start one, or correct the address, then start the job again",
    ),
    Remedy(
        r"apache\.kafka\.common\.config\.ConfigException|No enum constant org\.apache\.kafka\.",
        "Kafka's client refuses an option of -X: {line}",
    ),
    Remedy(
        r"offset was changed from|KAFKA_DATA_LOSS|OffsetOutOfRangeException|may have been missed",
        "records were deleted before they were read: continue without them by -X failOnDataLoss=false, or begin anew "
        "with another --checkpoint",
    ),
    Remedy(
        r"should provide the same topic partitions in pre-fetched offset",
        "a topic gained partitions while a batch was unfinished: start the job without --available-now until that "
        "batch is done",
    ),
    Remedy(
        r"(?:Detected change in|There are \[.*\] sources in the checkpoint|STREAMING_STATEFUL_OPERATOR_NOT_MATCH"
        r"|STATE_STORE_\w*SCHEMA_NOT_COMPATIBLE|STATE_STORE_VALUE_ROW_FORMAT|Provided schema doesn't match"
        r"|INVALID_LOG_VERSION)",
        "the checkpoint is of another query: choose another --checkpoint",
    ),
    Remedy(
        r"(?:Multiple streaming queries are concurrently using|ConcurrentModificationException|CONCURRENT_STREAM_LOG)",
        "another process runs with the same --checkpoint: stop it, or choose another directory",
    ),
    Remedy(r"Permission denied|AccessDeniedException|AccessControlException", "no permission: {line}"),
    Remedy(
        r"Mkdirs failed to create|ParentNotDirectoryException|Parent path is not a directory|Not a directory",
        "a directory cannot be created: {line}; correct its path, or the permissions",
    ),
    Remedy(r"No suitable driver|ClassNotFoundException: \S*[Dd]river", "the database's driver is missing: {line}"),
    Remedy(
        r"PSQLException|SQLSyntaxErrorException|SQLNonTransientConnection", "the database refuses the statement: {line}"
    ),
    Remedy(
        r"\[PARSE_SYNTAX_ERROR\]|\[INVALID_SCHEMA|\[UNSUPPORTED_DATATYPE\]|CANNOT_PARSE_INTERVAL|INVALID_INTERVAL",
        "an option is not valid SQL: {line}",
    ),
    Remedy(r"PatternSyntaxException", "a pattern is not one of Java's regular expressions: {line}"),
    Remedy(r"DATA_SOURCE_NOT_FOUND|Failed to find data source", "a connector is missing: run `barnabas spark jars`"),
    Remedy(r"JAVA_GATEWAY_EXITED", NO_START),
    Remedy(
        r"Cannot call methods on a stopped SparkContext",
        "Spark ended, as it does if a standalone master does not answer or removes the job: correct --master, or start "
        "the master, then start the job again",
    ),
)


# A JobError of a micro-batch or of an executor, as the text of Spark's error has it.
RAISED = re.compile(rf"\b(?:{JobError.__name__}|{NotInstalled.__name__}): (.+)")


def remedy_of(error: BaseException) -> str | None:
    """Return a sentence that says what to do about an error, None if the error is not known."""
    if isinstance(error, JobError):
        return str(error)
    text = str(error)
    if raised := RAISED.search(text):
        return raised[1]
    for pattern, advice in REMEDIES:
        if found := re.search(pattern, text):
            lines = (line.strip().lstrip(": ") for line in text.splitlines() if re.search(pattern, line))
            return advice.format(line=next(lines, first_line(error)), match=found[0])
    return None


def unread_text(error: OSError | UnicodeDecodeError) -> str:
    """Return why a text file cannot be read."""
    return (error.strerror or str(error)) if isinstance(error, OSError) else f"not UTF-8: {error.reason}"


def yaml_text(error: Exception) -> str:
    """Return what is wrong in a YAML document, and where if that is known."""
    problem, mark = getattr(error, "problem", None), getattr(error, "problem_mark", None)
    if problem is None or mark is None:
        return " ".join(str(error).split())
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}"


def absent_text(topics: Iterable[str]) -> str:
    """Return the sentence about topics that do not exist."""
    return f"the topic {', '.join(sorted(topics))} does not exist: create it, or correct --topic"


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, of the Java exception if there is one."""
    java = getattr(error, "java_exception", None)
    return (str(java.toString()) if java is not None else str(error)).partition("\n")[0]
