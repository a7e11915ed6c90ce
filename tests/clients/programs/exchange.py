"""The common interface of the client programs of this folder: their command line and JSON lines.

    PROGRAM produce BOOTSTRAP TOPIC CODEC           sends the records of standard input; ends when all are stored
    PROGRAM consume BOOTSTRAP TOPIC COUNT           prints the first COUNT records of the topic
    PROGRAM member  BOOTSTRAP TOPIC GROUP ASSIGNOR [INSTANCE]
                                                    prints records as they come; on SIGTERM commits and leaves
    PROGRAM admin   BOOTSTRAP TOPIC                 creates, describes, alters, deletes TOPIC; prints the results
    PROGRAM transactions BOOTSTRAP ID TIMEOUT_MS GROUP INPUT
                                                    runs the steps of standard input with a transactional producer, and
                                                    prints {"done": result} or {"error": text} after each

A step of a transaction is a JSON list:

    ["init"], ["begin"], ["commit"], ["abort"]
    ["send", TOPIC, PARTITION, VALUE]               sends a record; done when it is stored
    ["pipe", COUNT, TOPIC]                          as a member of GROUP, reads COUNT records of INPUT, sends their
                                                    values to TOPIC and the offsets to the transaction; the result is
                                                    the values

A record is one line of JSON: ``key`` and ``value`` are text or null, ``headers`` is a list of pairs of text,
``timestamp`` is in milliseconds; a consumed record also has its ``partition`` and ``offset``. The programs in
Go and JavaScript have the same interface. A program uses its client as the client's documentation shows first, with
short timeouts.
"""

import json
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Protocol

SESSION_TIMEOUT_MS = 1500
# A static member must return before its session ends; otherwise its partitions are reassigned.
STATIC_SESSION_TIMEOUT_MS = 20_000
HEARTBEAT_INTERVAL_MS = 300


RETENTION_CREATED_MS = "86400000"
RETENTION_ALTERED_MS = "604800000"


def encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def records_from_stdin() -> Iterator[tuple[bytes | None, bytes | None, list[tuple[str, bytes]], int]]:
    for line in sys.stdin:
        record = json.loads(line)
        headers = [(name, value.encode()) for name, value in record["headers"]]
        yield encoded(record["key"]), encoded(record["value"]), headers, record["timestamp"]


def print_record(
    partition: int,
    offset: int,
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[str, bytes]] | None,
) -> None:
    record = {
        "partition": partition,
        "offset": offset,
        "timestamp": timestamp,
        "key": None if key is None else key.decode(),
        "value": None if value is None else value.decode(),
        "headers": [[name, content.decode()] for name, content in headers or ()],
    }
    print(json.dumps(record), flush=True)


class Stop:
    """True after SIGTERM."""

    def __init__(self) -> None:
        self.requested = False
        signal.signal(signal.SIGTERM, self._query)

    def _query(self, *_: object) -> None:
        self.requested = True

    def __bool__(self) -> bool:
        return self.requested


class Transactions(Protocol):
    """The steps of a transactional producer."""

    def init(self) -> None: ...
    def begin(self) -> None: ...
    def send(self, topic: str, partition: int, value: str) -> None: ...
    def pipe(self, count: int, topic: str) -> list[str]: ...
    def commit(self) -> None: ...
    def abort(self) -> None: ...
    def close(self) -> None: ...


def run_steps(transactions: Transactions) -> None:
    """Run the steps of standard input, and print the result of each."""
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        try:
            answer = {"done": getattr(transactions, name)(*arguments)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)
    transactions.close()


def main(
    produce: Callable[..., None],
    consume: Callable[..., None],
    member: Callable[..., None],
    admin: Callable[..., dict[str, object]],
    transactions: Callable[[str, str, int, str, str], Transactions],
) -> None:
    """Run the command of the command line."""
    command, *arguments = sys.argv[1:]
    if command == "consume":
        bootstrap, topic, count = arguments
        consume(bootstrap, topic, int(count))
    elif command == "admin":
        print(json.dumps(admin(*arguments)))
    elif command == "transactions":
        bootstrap, transactional_id, timeout_ms, group, topic = arguments
        run_steps(transactions(bootstrap, transactional_id, int(timeout_ms), group, topic))
    else:
        {"produce": produce, "member": member}[command](*arguments)
