"""Sending records with kafka-python, tracking the acknowledgement of each.

kafka-python's `send` refuses two things that Kafka allows: a record without key and value, and a header without a
value. To pass its checks, the serializers get a whole record, and set its headers and value themselves; it encodes both
correctly. The records in flight are bounded, however fast the input is.
"""

from __future__ import annotations

import argparse
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from barnabas.commands._client import connect
from barnabas.commands._deliveries import Deliveries, Delivery
from barnabas.commands._output import CommandError, amount_of, complain, explain, plain
from barnabas.commands._records import Headers, NewRecord
from barnabas.commands._rights import needs
from barnabas.commands._silence import TURN_S, Silence, listening, repeating
from barnabas.commands._unserved import STALLED_S, Unserved, why_quiet

if TYPE_CHECKING:
    from kafka import KafkaProducer

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
MAX_PENDING_BYTES = 32 << 20
MAX_PENDING = 10_000
CLOSE_S = 2.0
AGAIN_S = 30.0
"""How often a lasting error of a partition, or its missing leader, is reported again."""
NO_PRODUCER_ID = "Could not execute transactional request"
"""The message of kafka-python 3.0.12 if it gets no producer id, even without a transaction."""
NO_RIGHT_TO_PRODUCE = "ClusterAuthorizationFailedError"
"""In that message: the user has neither WRITE on a topic nor IDEMPOTENT_WRITE on the cluster."""
# No limit here: the broker refuses what is too large.
MAX_REQUEST_BYTES = 2**31 - 1


class _UncountedHeaders(list[tuple[str, bytes | None]]):
    """Headers whose size kafka-python does not compute for its receipt: that fails for a null value."""

    def __bool__(self) -> bool:
        return False


class Sender:
    """Sends records, counts those not acknowledged, and reports on standard error why records wait."""

    def __init__(self, producer: KafkaProducer, options: argparse.Namespace) -> None:
        """Send through `producer`, which `sending` made with `options`."""
        self.deliveries = Deliveries()
        self.handed = 0  # records passed to `send`, including those without a partition yet
        self._producer = producer
        self._options = options
        self._silence = Silence(options, producer, producer._metadata)
        self._patience_s = producer.config["delivery_timeout_ms"] / 1000 + STALLED_S
        self._pending: deque[tuple[Any, int]] = deque()
        self._pending_bytes = 0
        self._failures: list[Exception] = []
        self._too_large: list[int] = []  # record numbers, from 1
        self._sending_to: tuple[str, int | None] | None = None
        self._sending_s = 0.0
        self._reported: dict[str, tuple[str | None, float]] = {}
        self._why: dict[str, str] = {}
        self._unserved: Unserved | None = None

    def send(self, record: NewRecord) -> None:
        """Send a record; wait if too much is in flight. Raise `Unserved` if it can never be acknowledged."""
        from kafka.errors import KafkaTimeoutError, MessageSizeTooLargeError

        self._end_if_in_vain()
        self.handed += 1
        self._sending_s, self._sending_to = time.monotonic(), (str(record.topic), record.partition)
        try:
            sent = self._producer.send(
                record.topic,
                value=record,
                key=record.key,
                headers=_UncountedHeaders(),
                partition=record.partition,
                timestamp_ms=record.timestamp_ms,
            )
        except (ValueError, TypeError) as error:  # an invalid topic name or partition
            self.handed -= 1
            raise CommandError(str(error)) from error
        except MessageSizeTooLargeError as error:
            most = self._producer.config["max_request_size"]
            raise CommandError(f"larger than the {most:,} bytes of -X message.max.bytes (max.request.size)") from error
        except KafkaTimeoutError as error:
            why = self._why.get(str(record.topic)) or f"no broker returned its partitions ({plain(str(error))})"
            raise Unserved(f"{record.topic}: {why}") from error
        finally:
            self._sending_to = None
        delivery = self.deliveries.of(*sent._produce_future.topic_partition)
        delivery.send()
        sent.add_callback(lambda _: delivery.acknowledge())
        sent.add_errback(partial(self._failed, delivery, self.handed))
        size = len(record.value or b"") + len(record.key or b"")
        self._pending.append((sent, size))
        self._pending_bytes += size
        while self._pending_bytes > MAX_PENDING_BYTES or len(self._pending) > MAX_PENDING:
            self._wait_for_oldest()

    def finish(self) -> None:
        """Wait until everything is acknowledged; raise `CommandError` for failed records, or `Unserved`."""
        from kafka.errors import KafkaTimeoutError

        try:
            self._wait(self._producer.flush, lambda: False)
        except KafkaTimeoutError as error:
            raise self._stuck() from error
        if self._failures:
            raise self._refused()

    def check(self) -> None:
        """Report why records wait, once they have for a while; runs in a separate thread."""
        waits = bool(self.deliveries.waiting) or self._sending_to is not None
        self._silence.check(waits)
        if self._silence.silent:
            return
        unknown: dict[str, set[int]] = {}
        for (topic, partition), delivery in self.deliveries:
            if delivery.stalled_s() < STALLED_S:
                if self._reported.pop(delivery.name, None) and not delivery.failed:
                    complain(self._options.command, f"{delivery.name}: records are acknowledged again")
            elif self._is_news(delivery.name, delivery.error):
                unknown.setdefault(topic, set()).add(partition)
                if delivery.error is not None:
                    complain(self._options.command, f"{delivery}; retrying")
        for topic, partitions in unknown.items():
            named = [self.deliveries.of(topic, one) for one in partitions]
            self._diagnose(topic, partitions, silently=all(one.error for one in named))
        sending = self._sending_to
        if sending and time.monotonic() - self._sending_s >= STALLED_S and self._is_news(sending[0], None):
            # kafka-python gets no metadata while it waits for a producer id, which takes the controller.
            topic, index = sending
            self._diagnose(topic, None if index is None else {index}, blocked=True)

    def refuse(self, batch: Any, error: Exception) -> None:
        """Record an error that a broker returned for a batch."""
        from kafka.errors import BrokerResponseError

        if isinstance(error, BrokerResponseError):
            leader = self._producer._metadata.leader_for_partition(batch.topic_partition)
            delivery = self.deliveries.of(*batch.topic_partition)
            detail = plain(str(error.args[0])) if error.args and error.args[0] else None
            delivery.refuse(type(error).message, detail, leader)

    def _failed(self, delivery: Delivery, number: int, error: Exception) -> None:
        from kafka.errors import MessageSizeTooLargeError

        delivery.failed += 1
        if isinstance(error, MessageSizeTooLargeError):
            self._too_large.append(number)
        self._failures.append(error)

    def _refused(self) -> CommandError:
        """Return the error: how many records were not acknowledged, and why, per partition."""
        from kafka.errors import KafkaTimeoutError, MessageSizeTooLargeError, TopicAuthorizationFailedError

        first, number = self._failures[0], len(self._failures)
        records = f"{amount_of(number, 'record')} {'was' if number == 1 else 'were'}"
        why = explain(first) or str(first)
        if isinstance(first, KafkaTimeoutError):  # kafka-python's own, after all retries
            why = self.deliveries.refused() or "; ".join(self._why.values()) or "no response within delivery.timeout.ms"
        elif isinstance(first, TopicAuthorizationFailedError):  # of Produce, or of Metadata that would create the topic
            why = self._needs_write(", and CREATE if it does not exist", "--producer")
        elif NO_RIGHT_TO_PRODUCE in str(first):
            why = self._needs_write()
        elif NO_PRODUCER_ID in str(first):  # from InitProducerId, for which a broker may need the controller
            why = "; ".join(self._why.values()) or f"no broker returned a producer id ({why})"
        elif isinstance(first, MessageSizeTooLargeError):
            # An idempotent producer fails the following records with the same error.
            behind = "; later records of its partition failed with it" if number > 1 else ""
            why = f"record {self._too_large[0]:,} is too large ({why}){behind}"
        return CommandError(f"{records} not acknowledged: {why}")

    def _needs_write(self, note: str = "", option: str = "") -> str:
        topics = sorted({topic for (topic, _), delivery in self.deliveries if delivery.failed})
        return needs(self._producer.config, "WRITE", "topic", topics, note, option)

    def _wait_for_oldest(self) -> None:
        from kafka.errors import KafkaError

        oldest, size = self._pending[0]
        try:
            self._wait(oldest.get, lambda: bool(oldest.is_done))
        except KafkaError as error:
            if not oldest.is_done:
                raise self._stuck() from error  # other errors are counted already
        self._pending.popleft()
        self._pending_bytes -= size

    def _wait(self, wait: Callable[..., object], is_done: Callable[[], bool]) -> None:
        """Wait for acknowledgements as long as they can arrive; `is_done` returns whether `wait` itself timed out."""
        from kafka.errors import KafkaTimeoutError, UnknownError

        deadline_s = time.monotonic() + self._patience_s
        while True:
            try:
                wait(timeout=TURN_S)
            except KafkaTimeoutError:
                self._end_if_in_vain()
                if is_done() or time.monotonic() >= deadline_s:
                    raise
            except UnknownError:
                # kafka-python 3.0.12: `flush` waits for a batch that was too large and was split.
                if is_done() or time.monotonic() >= deadline_s:
                    raise
            else:
                return

    def _end_if_in_vain(self) -> None:
        """Raise `Unserved` if nothing can be acknowledged, or a record has waited for `delivery.timeout.ms`."""
        from kafka.errors import IllegalStateError, KafkaTimeoutError

        if self._unserved is not None:
            raise self._unserved
        if any(isinstance(failure, KafkaTimeoutError) for failure in self._failures):
            # Each waiting batch would be retried for as long again.
            _give_up_batches(self._producer)
            given_up = sum(isinstance(failure, IllegalStateError) for failure in self._failures)
            early = f"; {given_up:,} of them given up before delivery.timeout.ms" if given_up else ""
            raise Unserved(f"{self._refused()}{early}")

    def _stuck(self) -> Unserved:
        """Return the error for records that kafka-python 3.0.12 neither sends nor fails, after others failed."""
        waiting = sum(not sent.is_done for sent, _ in self._pending)
        return Unserved(f"{amount_of(waiting, 'record')} not acknowledged after {self._patience_s:g} s")

    def _is_news(self, name: str, error: str | None) -> bool:
        """Return whether an error of a partition or topic (None: no error) is to be reported now."""
        reported, reported_s = self._reported.get(name, ("", 0.0))
        if reported == error and time.monotonic() - reported_s < AGAIN_S:
            return False
        self._reported[name] = error, time.monotonic()
        return True

    def _diagnose(self, topic: str, partitions: set[int] | None, silently: bool = False, blocked: bool = False) -> None:
        """Query the cluster for the reason why records wait; report it unless `silently`."""
        try:
            why = why_quiet(self._options, [topic], partitions, controller_first=blocked)
        except Unserved as error:
            self._unserved = error
        else:
            if why and (blocked or partitions is None or self._waits(topic, partitions)):
                self._why[topic] = why
                if not silently:
                    complain(self._options.command, f"{why}; retrying")

    def _waits(self, topic: str, partitions: set[int]) -> bool:
        return any(self.deliveries.of(topic, partition).waiting for partition in partitions)


@contextmanager
def sending(options: argparse.Namespace) -> Iterator[Sender]:
    """Yield a `Sender`; records not acknowledged 2 s after the end of the block are given up.

    kafka-python's `close` retries for two minutes and more, whatever its timeout. An interrupt reports how many records
    were not acknowledged.
    """
    from kafka.errors import KafkaTimeoutError

    producer = _make_producer(options)
    sender = Sender(producer, options)
    keep_errors(producer._sender, sender.refuse)
    try:
        with listening(sender._silence), repeating(sender.check):
            yield sender
    except KeyboardInterrupt:
        _close(producer)
        if lost := sender.handed - sender.deliveries.acknowledged:
            with contextlib.suppress(OSError):  # the terminal may be closed
                of = f"{lost:,} of " if sender.handed > 1 else ""
                records = amount_of(sender.handed, "record")
                complain(options.command, f"interrupted: {of}{records} not acknowledged")
        raise
    finally:
        with contextlib.suppress(KafkaTimeoutError):
            _close(producer)


def _close(producer: KafkaProducer) -> None:
    from kafka.errors import KafkaTimeoutError, UnknownError

    if producer._closed:
        return
    try:
        with contextlib.suppress(KafkaTimeoutError, UnknownError):
            producer.flush(CLOSE_S)
    finally:
        _give_up_batches(producer)
        producer.close(CLOSE_S)


def _give_up_batches(producer: KafkaProducer) -> None:
    """Fail all records that are not acknowledged."""
    producer._sender.force_close()
    producer._accumulator.abort_incomplete_batches()


def abort_once(accumulator: Any) -> None:
    """Make aborting incomplete batches safe against concurrent aborts by this thread and the producer's.

    kafka-python 3.0.12 raises IllegalStateError in the later thread if the other one aborts or completes a batch at
    that moment; a retry succeeds.
    """
    from kafka.errors import IllegalStateError

    abort_incomplete_batches, lock = accumulator.abort_incomplete_batches, threading.Lock()

    def abort() -> None:
        deadline_s = time.monotonic() + CLOSE_S
        with lock:
            while time.monotonic() < deadline_s:
                with contextlib.suppress(IllegalStateError):
                    abort_incomplete_batches()
                    break

    accumulator.abort_incomplete_batches = abort


def keep_errors(sender: Any, keep: Callable[[Any, Exception], None]) -> None:
    """Call `keep` with each refused batch and its error, also if the batch is retried."""
    dispatch_error = sender._dispatch_error

    def dispatch(batch: Any, exception: Exception, partition_response: Any) -> None:
        keep(batch, exception)
        dispatch_error(batch, exception, partition_response)

    sender._dispatch_error = dispatch


def _make_producer(options: argparse.Namespace) -> KafkaProducer:
    """Return a producer of `NewRecord` values with the options' compression, acks and connection."""
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
        reconnect_backoff_max_ms=1000,
        max_request_size=MAX_REQUEST_BYTES,
    )
    request_metadata_once(producer._metadata)
    abort_once(producer._accumulator)
    if producer._transaction_manager is not None:
        renew_producer_id(producer._transaction_manager)
    return producer


def renew_producer_id(manager: Any) -> None:
    """Make a producer that has lost its producer id request another.

    kafka-python 3.0.12 drops the id after it has given up a batch that was sent, but then behaves as if it needed none,
    and never sends anything again.
    """
    from kafka.producer.transaction_manager import TransactionState

    reset_producer_id = manager.reset_producer_id

    def reset() -> None:
        with manager._lock:
            reset_producer_id()
            manager._current_state = TransactionState.UNINITIALIZED

    manager.reset_producer_id = reset


def request_metadata_once(metadata: Any) -> None:
    """Suppress metadata requests while one is pending.

    kafka-python 3.0.12 sends them in a busy loop, on a whole core, while a record waits for a partition's leader.
    """
    request_update = metadata.request_update

    def request_once() -> Any:
        pending = metadata._future
        return pending if metadata.need_update and pending and not pending.is_done else request_update()

    metadata.request_update = request_once
