"""Limits on unacknowledged records, retries and give-up. `test_produce.py` covers sent and rejected records."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from kafka import TopicPartition
from kafka.errors import IllegalStateError, KafkaError, KafkaTimeoutError, NotEnoughReplicasError
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.producer.record_accumulator import RecordAccumulator
from kafka.producer.sender import Sender as KafkaSender

from barnabas.commands import _sending
from barnabas.commands._parser import find, make_parser, parse
from barnabas.commands._records import NewRecord
from barnabas.commands._sending import Sender
from tests.broker_process import COMMAND, BrokerProcess
from tests.typed import present
from tests.unit.barnabas.conftest import Command

LOST = r"barnabas produce: interrupted: [12] of 2 records not acknowledged\n"


@pytest.mark.parametrize(("bound", "value"), [("MAX_PENDING", 1), ("MAX_PENDING_BYTES", 10)])
def test_a_fast_input_waits_for_the_broker_and_nothing_is_lost(
    barnabas: Command, topic: str, monkeypatch: pytest.MonkeyPatch, bound: str, value: int
) -> None:
    monkeypatch.setattr(_sending, bound, value)
    lines = b"".join(b"%d\n" % number for number in range(50))
    assert barnabas("produce", topic, stdin=lines) == (0, "", "")
    assert barnabas("consume", topic, "-e").out.encode() == lines


def test_rejected_records_are_counted_while_sending(
    barnabas: Command, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_sending, "MAX_PENDING", 1)
    barnabas("topic", "create", topic, "-c", "max.message.bytes=100")
    status, _, err = barnabas("produce", topic, stdin=(b"x" * 200 + b"\n") * 3)
    assert status == 1
    assert err.startswith("barnabas produce: 3 records were not acknowledged: ")


def test_too_large_record_is_numbered_and_earlier_records_are_sent(barnabas: Command, topic: str) -> None:
    barnabas("topic", "create", topic, "-c", "max.message.bytes=1000")
    records = [*(b"%d" % number for number in range(30)), b"x" * 2000, b"31"]
    status, _, err = barnabas("produce", topic, stdin=b"".join(record + b"\n" for record in records))
    assert status == 1
    assert err.startswith("barnabas produce: 2 records were not acknowledged: record 31 is too large (a batch of 2070 ")
    assert err.endswith("; later records of its partition failed with it\n")
    assert barnabas("consume", topic, "-e").lines == [str(number) for number in range(30)]


def test_one_metadata_request_is_outstanding_at_a_time() -> None:
    metadata = KafkaConnectionManager(NetworkSelector()).cluster
    woken = []
    metadata._wakeup = SimpleNamespace(notify=lambda: woken.append(1))
    _sending.request_metadata_once(metadata)
    first = metadata.request_update()
    assert metadata.request_update() is first
    assert len(woken) == 1
    first.success(metadata)
    assert metadata.request_update() is not first
    assert len(woken) == 2


def test_producer_with_a_lost_producer_id_gets_a_new_one(shared_broker: BrokerProcess, topic: str) -> None:
    arguments = ["produce", topic, "-b", shared_broker.bootstrap, "-X", "delivery.timeout.ms=31000"]
    options = parse(make_parser(find(arguments)), arguments[1:])
    record = NewRecord(None, b"v", [], topic, None)
    with _sending.sending(options) as sender:
        sender.send(record)
        sender.finish()
        sender._producer._transaction_manager.reset_producer_id()
        sender.send(record)
        sender.finish()


@pytest.mark.parametrize("most", [_sending.MAX_PENDING, 1])
def test_stuck_records_are_reported(barnabas: Command, topic: str, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(_sending, "STALLED_S", 0.2)
    monkeypatch.setattr(_sending, "CLOSE_S", 0.1)
    monkeypatch.setattr(_sending, "MAX_PENDING", most)
    monkeypatch.setattr(KafkaSender, "_send_producer_data", lambda self: 10)
    limits = ["-X", "request.timeout.ms=500", "-X", "delivery.timeout.ms=1000"]
    status, _, err = barnabas("produce", topic, *limits, stdin=b"1\n2\n")
    assert (status, err) == (1, "barnabas produce: 2 records not acknowledged after 1.2 s\n")


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_signal_ends_produce_with_undeliverable_records(tmp_path: Path, number: int, status: int) -> None:
    command = [*COMMAND, "produce", "t", "--tee", "-b"]
    with BrokerProcess(tmp_path) as broker:
        sending = subprocess.Popen(
            [*command, broker.bootstrap],
            text=True,
            bufsize=1,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        present(sending.stdin).write("one\n")
        assert present(sending.stdout).readline() == "one\n"
        broker.kill()
        present(sending.stdin).write("two\n")
        assert present(sending.stdout).readline() == "two\n"
        sending.send_signal(number)
        out, err = sending.communicate(timeout=60)  # delivery.timeout.ms would be 120 s
        assert (out, sending.returncode) == ("", status)
        assert re.fullmatch(r"(barnabas produce: no broker answers: .*\n)?" + LOST, err)


@pytest.mark.parametrize(("number", "lost"), [(1, "1 record"), (2, "2 of 2 records")])
def test_interrupt_reports_the_number_of_unacknowledged_records(
    shared_broker: BrokerProcess,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: int,
    lost: str,
) -> None:
    monkeypatch.setattr(_sending, "CLOSE_S", 0.1)
    monkeypatch.setattr(KafkaSender, "_send_producer_data", lambda self: 10)
    arguments = ["produce", topic, "-b", shared_broker.bootstrap]

    def send_and_be_interrupted() -> None:
        with _sending.sending(parse(make_parser(find(arguments)), arguments[1:])) as sender:
            for _ in range(number):
                sender.send(NewRecord(None, b"v", [], topic, None))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        send_and_be_interrupted()
    assert capsys.readouterr().err == f"barnabas produce: interrupted: {lost} not acknowledged\n"


def test_failing_partition_is_reported_with_its_error_until_it_recovers(
    shared_broker: BrokerProcess, topic: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_sending, "STALLED_S", 0.2)
    send = KafkaSender._send_producer_data
    monkeypatch.setattr(KafkaSender, "_send_producer_data", lambda self: 10)
    arguments = ["produce", topic, "-b", shared_broker.bootstrap]
    with _sending.sending(parse(make_parser(find(arguments)), arguments[1:])) as sender:
        sender.send(NewRecord(None, b"v", [], topic, None))
        ((partition, _),) = sender.deliveries
        batch = SimpleNamespace(topic_partition=TopicPartition(*partition))
        sender._producer._sender._dispatch_error = lambda *_: None  # the sender did not create the batch
        _sending.keep_errors(sender._producer._sender, sender.refuse)
        sender._producer._sender._dispatch_error(batch, NotEnoughReplicasError("1 of 2"), None)
        until(lambda: sender._reported)
        monkeypatch.setattr(KafkaSender, "_send_producer_data", send)
        sender.finish()
        until(lambda: not sender._reported)
    waiting, again = capsys.readouterr().err.splitlines()
    why = rf"{topic}-0: NOT_ENOUGH_REPLICAS for \d+ s \(1 of 2\); 0 of 1 record acknowledged; retrying"
    assert re.fullmatch(f"barnabas produce: {why}", waiting)
    assert again == f"barnabas produce: {topic}-0: records are acknowledged again"


def test_expired_records_are_reported_with_their_last_error(
    barnabas: Command, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_sending, "STALLED_S", 60.0)

    def refused(sender: KafkaSender) -> int:
        for batches in list(sender._accumulator._batches.values()):
            for batch in list(batches):
                sender._dispatch_error(batch, NotEnoughReplicasError(None), None)
                sender._dispatch_error(batch, KafkaTimeoutError("Expiring"), None)
        return 10

    monkeypatch.setattr(KafkaSender, "_can_retry", lambda self, batch, error: error is NotEnoughReplicasError)
    monkeypatch.setattr(RecordAccumulator, "reenqueue", lambda self, batch: None)
    monkeypatch.setattr(KafkaSender, "_send_producer_data", refused)
    status, _, err = barnabas("produce", topic, stdin=b"1\n2\n")
    why = rf"{topic}-0: NOT_ENOUGH_REPLICAS for \d+ s; 0 of [12] records? acknowledged"
    assert status == 1
    assert re.fullmatch(f"barnabas produce: (1 record was|2 records were) not acknowledged: {why}\n", err)


def test_records_dropped_early_because_of_another_partition_are_reported(
    barnabas: Command, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    barnabas("topic", "create", f"{topic}:2")
    monkeypatch.setattr(_sending, "STALLED_S", 60.0)

    def refused(sender: KafkaSender) -> int:
        for partition, batches in list(sender._accumulator._batches.items()):
            for batch in list(batches) if partition.partition == 0 else ():
                sender._dispatch_error(batch, NotEnoughReplicasError(None), None)
                sender._dispatch_error(batch, KafkaTimeoutError("Expiring"), None)
        return 10

    monkeypatch.setattr(KafkaSender, "_can_retry", lambda self, batch, error: error is NotEnoughReplicasError)
    monkeypatch.setattr(RecordAccumulator, "reenqueue", lambda self, batch: None)
    monkeypatch.setattr(KafkaSender, "_send_producer_data", refused)
    lines = b'{"partition": 1, "value": "stays"}\n' * 2 + b'{"partition": 0, "value": "refused"}\n'
    status, _, err = barnabas("produce", topic, "--json", stdin=lines)
    why = rf"{topic}-0: NOT_ENOUGH_REPLICAS for \d+ s; 0 of 1 record acknowledged"
    early = r"; 2 of them given up before delivery\.timeout\.ms"
    assert status == 1
    assert re.fullmatch(f"barnabas produce: 3 records were not acknowledged: {why}{early}\n", err)


def until(happened: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline


def test_batch_acknowledged_during_an_abort_does_not_stop_the_abort(
    barnabas: Command, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    abort, calls = RecordAccumulator.abort_incomplete_batches, []

    def race(accumulator: RecordAccumulator) -> None:
        calls.append(accumulator)
        if len(calls) == 1:
            raise IllegalStateError("Batch has already been completed in final state: 0")
        abort(accumulator)

    monkeypatch.setattr(RecordAccumulator, "abort_incomplete_batches", race)
    assert barnabas("produce", topic, stdin=b"one\n").status == 0
    assert len(calls) > 1


def test_batch_aborted_by_two_threads_ends_neither(
    barnabas: Command, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    abort, seen = RecordAccumulator.abort_incomplete_batches, []
    failures: list[object] = []

    def race(accumulator: RecordAccumulator) -> None:
        if threading.current_thread() not in seen:
            seen.append(threading.current_thread())
            raise IllegalStateError("Batch has already been completed in final state: 0")
        abort(accumulator)

    monkeypatch.setattr(RecordAccumulator, "abort_incomplete_batches", race)
    monkeypatch.setattr(threading, "excepthook", failures.append)
    assert barnabas("produce", topic, stdin=b"one\n") == (0, "", "")
    assert (len(seen), failures) == (2, [])


def test_records_that_wait_for_a_producer_id_are_reported() -> None:
    config = {"delivery_timeout_ms": 1000, "security_protocol": "PLAINTEXT"}
    sender = Sender(SimpleNamespace(config=config, _metadata=None), Namespace(brokers=[], command="produce"))
    late = "Could not execute transactional request for unknown reasons: [Error 7] RequestTimedOutError: late"
    sender._failures = [KafkaError(late)]
    assert str(sender._refused()) == "1 record was not acknowledged: no broker returned a producer id (late)"
    sender._why["t"] = "no controller answers"
    assert str(sender._refused()) == "1 record was not acknowledged: no controller answers"
