r"""Write records to a topic: each line of standard input, each file as a whole, or each line of JSON.

Values are sent unchanged: every byte between two delimiters. The exit status is 0 only if every record was
acknowledged.
"""

import argparse
import itertools
import os
import sys

from barnabas.commands._client import add_broker_options, number, pair, positive
from barnabas.commands._format import unescape
from barnabas.commands._input import STANDARD_INPUT, Input
from barnabas.commands._internal_topics import is_internal, not_written
from barnabas.commands._output import CommandError, WrongCall, amount_of, complain
from barnabas.commands._progress import Progress
from barnabas.commands._records import Headers, NewRecord, from_json
from barnabas.commands._sending import CODECS, sending
from barnabas.commands._unserved import Unserved

EXAMPLES = r"""
  printf 'one\ntwo\n' | barnabas produce letters
  printf 'de:Hallo\n' | barnabas produce greetings -K :             a key before each value
  barnabas produce letters -k key -H source=cli -z zstd < lines
  barnabas produce pictures -p 0 one.png two.png                    each file is one record
  barnabas produce letters -l lines.txt                             each line of the file is one record
  printf 'key:\n' | barnabas produce greetings -K : -Z              a tombstone: null, not empty
  barnabas consume orders -e --json | barnabas produce copy --json  a copy, with keys, headers and timestamps
  barnabas produce --json records.jsonl                             each to its own topic and partition
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options, named as kcat's users know them."""
    parser.add_argument("topic", nargs="?", metavar="TOPIC", help="may be omitted with --json")
    parser.add_argument("file", nargs="*", metavar="FILE", help="default: -, standard input, record by record")
    parser.add_argument("-l", "--lines", action="store_true", help="read files record by record, as standard input")
    parser.add_argument("-J", "--json", action="store_true", help="read records as `consume --json` prints them")
    parser.add_argument(
        "-p", "--partition", type=number, metavar="N", help="default: -1, by key, or spread if there is no key"
    )
    parser.add_argument("-k", "--key", metavar="TEXT", help="the key of records without one")
    parser.add_argument(
        "-K",
        "--key-delimiter",
        type=unescape,
        metavar="TEXT",
        help="a record is KEY TEXT VALUE; one without TEXT is a value, its key that of -k or null",
    )
    parser.add_argument(
        "-D", "--delimiter", type=unescape, metavar="TEXT", default="\\n", help="the end of a record (default: \\n)"
    )
    parser.add_argument(
        "-H", "--header", type=pair, action="append", default=[], metavar="NAME=VALUE", help="a header of every record"
    )
    parser.add_argument("-Z", "--null", action="store_true", help="empty keys and values are null")
    parser.add_argument("-T", "--tee", action="store_true", help="print the sent records to standard output")
    parser.add_argument("-c", "-n", "--count", "--num", type=positive, metavar="N", help="stop after N records")
    parser.add_argument("-z", "--compression", choices=CODECS, default="none", help="default: none")
    parser.add_argument("-a", "--acks", choices=("0", "1", "all", "-1"), default="all", help="default: all")
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="show no progress and no final count, even on a terminal"
    )
    add_broker_options(parser)


def run(options: argparse.Namespace) -> int:
    """Send every record; return the exit status, 1 if any was not acknowledged."""
    if options.json and not options.file and _is_file(options.topic):
        options.topic, options.file = None, [options.topic]
    elif options.file == [STANDARD_INPUT]:
        options.file = []
    if options.topic is None and not options.json:
        raise WrongCall("TOPIC is missing; only with --json it may be omitted")
    if is_internal(options.topic):
        raise CommandError(not_written(options.topic))
    if options.partition is not None and options.partition < -1:
        raise WrongCall(f"--partition {options.partition}: there is no such partition")
    for name, delimiter in (("--key-delimiter", options.key_delimiter), ("--delimiter", options.delimiter)):
        if delimiter == b"":
            raise WrongCall(f"{name}: a delimiter has at least one byte")
    whole = bool(options.file) and not (options.lines or options.json)
    source = Input(options.file, b"\n" if options.json else options.delimiter, whole)
    progress = Progress(source.size_bytes, "byte", hidden=options.quiet or options.tee or not source.size_bytes)
    with sending(options) as sender, progress:
        for message in itertools.islice(source, options.count):
            try:
                sender.send(_record(message, options))
            except Unserved:
                raise
            except CommandError as error:
                sender.finish()
                raise CommandError(f"record {source.number} of {source.name}: {error}") from error
            progress.advance(len(message))
            if options.tee:
                sys.stdout.buffer.write(message if whole else message + source.delimiter)
                sys.stdout.buffer.flush()
        sender.finish()
    if sys.stderr.isatty() and not options.quiet:
        complain(options.command, f"{amount_of(sender.deliveries.acknowledged, 'record')} written")
    return 0


def _is_file(topic: str | None) -> bool:
    """Return whether WORD in `produce --json WORD` is a file; raise `WrongCall` if it could be a topic too.

    Standard input could be the input for a topic that has the same name as a file here.
    """
    if topic is None or "/" in topic:
        return topic is not None
    if not os.path.isfile(topic):
        return False
    if sys.stdin is not None and sys.stdin.isatty():
        return True
    raise WrongCall(f"{topic} is also a file: write `{topic} -` for the topic, ./{topic} for the file")


def _record(message: bytes, options: argparse.Namespace) -> NewRecord:
    """Return the record of a message.

    Options override its topic and partition and add headers; `--key` applies to records without a key.
    """
    partition = None if options.partition in (None, -1) else options.partition
    key = None if options.key is None else options.key.encode("utf-8", "surrogateescape")
    headers: Headers = [(name, value.encode("utf-8", "surrogateescape")) for name, value in options.header]
    if options.json:
        record = from_json(message)
        return record._replace(
            key=key if record.key is None else record.key,
            headers=record.headers + headers,
            topic=_named(options.topic or record.topic),
            partition=record.partition if options.partition is None else partition,
        )
    value: bytes | None = message
    if options.key_delimiter is not None:
        own, found, rest = message.partition(options.key_delimiter)
        if found:
            key, value = own, rest
    if options.null:
        key, value = key or None, value or None
    return NewRecord(key, value, headers, options.topic, partition)


def _named(topic: str | None) -> str:
    if topic is None:
        raise CommandError("no topic in the record or on the command line")
    if is_internal(topic):
        raise CommandError(not_written(topic))
    return topic
