"""Sending records with kafka-python, and hearing of each whether it was acknowledged.

kafka-python's `send` refuses two things that Kafka allows: a record without key and value, and a header without a
value. Both get past its checks, and it encodes both well: its serializers are handed a record, and put its headers and
its value in place. What is on its way is bounded, however fast the input is.
"""

from __future__ import annotations

import argparse
import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from barnabas.commands._client import connect
from barnabas.commands._output import CommandError, complain, count_of, explain
from barnabas.commands._records import Headers, NewRecord
from barnabas.commands._unserved import QUIET_S, Unserved, why_quiet

if TYPE_CHECKING:
    from kafka import KafkaProducer

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
MAX_PENDING_BYTES = 32 << 20
MAX_PENDING = 10_000
CLOSE_S = 2.0
# The broker says what is too large for it.
MAX_REQUEST_BYTES = 2**31 - 1


class _UncountedHeaders(list[tuple[str, bytes | None]]):
    """Headers whose lengths kafka-python does not add up for its receipt, where the length of a null would fail."""

    def __bool__(self) -> bool:
        return False


class Sender:
    """Sends records and counts the ones that the broker refuses."""

    def __init__(self, producer: KafkaProducer, options: argparse.Namespace) -> None:
        """Send through this producer, which `sending` has made for these options."""
        self._producer = producer
        self._options = options
        self._patience_s = producer.config["delivery_timeout_ms"] / 1000 + QUIET_S
        self._asked = False
        self._pending: deque[tuple[Any, int]] = deque()
        self._pending_bytes = 0
        self._failures: list[Exception] = []

    def send(self, record: NewRecord) -> None:
        """Send a record; wait if too much is on its way already. `Unserved` if that waits for what cannot be served."""
        try:
            sent = self._producer.send(
                record.topic,
                value=record,
                key=record.key,
                headers=_UncountedHeaders(),
                partition=record.partition,
                timestamp_ms=record.timestamp_ms,
            )
        except (ValueError, TypeError) as error:  # what kafka-python says of a name or a partition that cannot be
            raise CommandError(str(error)) from error
        sent.add_errback(self._failures.append)
        size = len(record.value or b"") + len(record.key or b"")
        self._pending.append((sent, size))
        self._pending_bytes += size
        while self._pending_bytes > MAX_PENDING_BYTES or len(self._pending) > MAX_PENDING:
            self._wait_for_oldest()

    def finish(self) -> None:
        """Wait until everything is acknowledged; raise a `CommandError` if anything was refused, or is `Unserved`."""
        from kafka.errors import KafkaTimeoutError

        try:
            self._wait(self._producer.flush)
        except KafkaTimeoutError as error:
            raise self._stuck() from error
        if self._failures:
            first = self._failures[0]
            number = len(self._failures)
            records = "1 record was" if number == 1 else f"{number} records were"
            raise CommandError(f"{records} not acknowledged: {explain(first) or first}")

    def _wait_for_oldest(self) -> None:
        from kafka.errors import KafkaError

        oldest, size = self._pending[0]
        try:
            self._wait(oldest.get)
        except KafkaError as error:
            if not oldest.is_done:
                raise self._stuck() from error  # any other is counted already
        self._pending.popleft()
        self._pending_bytes -= size

    def _wait(self, wait: Callable[..., object]) -> None:
        """Wait for acknowledgements; after a while, ask once whether they can come at all."""
        from kafka.errors import KafkaTimeoutError

        if not self._asked:
            try:
                wait(timeout=QUIET_S)
            except KafkaTimeoutError:
                self._asked = True
                self._ask()
            else:
                return
        wait(timeout=self._patience_s)

    def _stuck(self) -> Unserved:
        """Tell of records that kafka-python neither sends nor gives up: 3.0.12 may after it has given up others."""
        waiting = sum(not sent.is_done for sent, _ in self._pending)
        return Unserved(f"{count_of(waiting, 'record')} not acknowledged after {self._patience_s:g} s")

    def _ask(self) -> None:
        waiting: dict[str, set[int]] = {}
        for sent, _ in self._pending:
            if not sent.is_done:
                topic, partition = sent._produce_future.topic_partition
                waiting.setdefault(topic, set()).add(partition)
        for topic, partitions in waiting.items():
            if why := why_quiet(self._options, [topic], partitions):
                complain(self._options.command, f"{why}; it is tried again")


@contextmanager
def sending(options: argparse.Namespace) -> Iterator[Sender]:
    """Send for the length of a `with` block; whatever is not acknowledged two seconds after its end is given up.

    kafka-python's `close` tries again for two minutes and more, whatever it is told.
    """
    from kafka.errors import KafkaTimeoutError

    producer = _make_producer(options)
    try:
        yield Sender(producer, options)
    finally:
        try:
            with contextlib.suppress(KafkaTimeoutError):
                producer.flush(CLOSE_S)
        finally:
            producer._sender.force_close()
            producer._accumulator.abort_incomplete_batches()
            producer.close(CLOSE_S)


def _make_producer(options: argparse.Namespace) -> KafkaProducer:
    """Connect a producer of `NewRecord` values, as `--compression`, `--acks` and the common options say."""
    from kafka import KafkaProducer
    from kafka.serializer import Serializer

    class RecordSerializer(Serializer):  # type: ignore[misc]
        def serialize(self, topic: str, headers: Headers, data: NewRecord) -> bytes | None:  # noqa: ARG002
            headers.extend(data.headers)
            return data.value

    acks = "all" if options.acks in ("all", "-1") else int(options.acks)
    producer: KafkaProducer = connect(
        KafkaProducer,
        options,
        value_serializer=RecordSerializer(),
        acks=acks,
        enable_idempotence=acks == "all",
        compression_type=None if options.compression == "none" else options.compression,
        linger_ms=5,
        max_request_size=MAX_REQUEST_BYTES,
    )
    ask_once(producer._metadata)
    if producer._transaction_manager is not None:
        ask_again(producer._transaction_manager)
    return producer


def ask_again(manager: Any) -> None:
    """Have a producer that has lost its producer id ask for another.

    kafka-python 3.0.12 forgets the id once it has given up a batch that had been sent, but takes its state for one that
    needs none, and sends nothing ever after.
    """
    from kafka.producer.transaction_manager import TransactionState

    reset_producer_id = manager.reset_producer_id

    def reset() -> None:
        with manager._lock:
            reset_producer_id()
            manager._current_state = TransactionState.UNINITIALIZED

    manager.reset_producer_id = reset


def ask_once(metadata: Any) -> None:
    """Have metadata that has been asked for not be asked for again before it is there.

    kafka-python 3.0.12 does so without pause, on a whole core, while a record waits for a partition to have a leader.
    """
    request_update = metadata.request_update

    def request_once() -> Any:
        asked = metadata._future
        return asked if metadata.need_update and asked and not asked.is_done else request_update()

    metadata.request_update = request_once
