import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from broker.coordinator.group.context import GroupContext, GroupSettings
from broker.coordinator.group.shard import GroupCoordinatorShard
from broker.coordinator.runtime.context import ProducerIdAndEpoch
from broker.coordinator.runtime.partition_journal import Marker, PartitionJournal, Reading, Stored
from broker.coordinator.runtime.shard_host import ShardHost
from broker.coordinator.runtime.timers import Timers
from controller.topic_names import CONSUMER_OFFSETS
from protocol.checksum import crc32c
from protocol.compression import Compression
from protocol.errors import ErrorCode, KafkaError
from protocol.record_batch import ControlType, build_batch, control_record_key, read_header
from storage.log.config import LogConfig
from tests.disks import FaultyDisk
from tests.unit.broker.conftest import NewNode
from tests.unit.broker.node import NODE_ID, Node

FOLLOWER_ID = 2
RECORDS = [(b"k1", b"v1"), (b"k2", None)]


def journal(node: Node, compression: Compression = Compression.NONE, load_bytes: int = 1 << 20) -> PartitionJournal:
    return PartitionJournal(
        node.replicas,
        node.partition(CONSUMER_OFFSETS),
        compression=compression,
        timeout_ms=5_000,
        load_bytes=load_bytes,
        now_ms=node.now_ms,
    )


def records(reading: Reading) -> Iterator[Stored | Marker]:
    """Yield the records; run each blocking step at once."""
    answer = None
    with suppress(StopIteration):
        while True:
            stored = reading.send(answer)
            answer = None
            if isinstance(stored, (Stored, Marker)):
                yield stored
            else:
                answer = stored()


def everything(of: PartitionJournal) -> list[Stored | Marker]:
    return list(records(of.read()))


@pytest.fixture
def alone(node: Node) -> Node:
    node.create(CONSUMER_OFFSETS)
    return node


@pytest.fixture
def replicated(node: Node) -> Node:
    node.create(CONSUMER_OFFSETS, replicas=(NODE_ID, FOLLOWER_ID), config=LogConfig(min_insync_replicas=2))
    return node


def test_appended_records_are_read_back_with_their_offsets(alone: Node) -> None:
    written = journal(alone)
    assert (written.append(RECORDS), written.append([(b"k3", b"v3")]), written.end_offset) == (0, 2, 3)
    assert everything(written) == [
        Stored(0, b"k1", b"v1", None),
        Stored(1, b"k2", None, None),
        Stored(2, b"k3", b"v3", None),
    ]


def test_the_log_is_read_in_pieces(alone: Node) -> None:
    for number in range(5):
        journal(alone).append([(b"k%d" % number, bytes(100))])
    keys = [stored.key for stored in everything(journal(alone, load_bytes=350)) if isinstance(stored, Stored)]
    assert keys == [b"k0", b"k1", b"k2", b"k3", b"k4"]


def test_batches_are_decompressed_one_at_a_time(alone: Node) -> None:
    journal(alone).append(RECORDS)
    broken = bytearray(build_batch(RECORDS, base_offset=2, leader_epoch=0, timestamp_ms=alone.now_ms()))
    broken[-1] ^= 1  # the header count of the last record
    broken[17:21] = crc32c(broken[21:]).to_bytes(4, "big")
    log = alone.partition(CONSUMER_OFFSETS).log
    log.append_as_follower(broken, 0, alone.now_ms())
    read = records(journal(alone).read())
    assert [next(read), next(read)] == [Stored(0, b"k1", b"v1", None), Stored(1, b"k2", None, None)]
    with pytest.raises(KafkaError, match="INVALID_RECORD"):
        list(read)


def test_cold_read_is_yielded_as_a_function_to_run_elsewhere(new_node: NewNode) -> None:
    disk = FaultyDisk()
    node = new_node(disk)
    node.start()
    node.create(CONSUMER_OFFSETS)
    journal(node).append(RECORDS)
    disk.cold = True
    reading = journal(node).read()
    step = next(reading)
    assert callable(step)
    assert reading.send(step()) == Stored(0, b"k1", b"v1", None)


def test_batch_larger_than_a_piece_is_read(alone: Node) -> None:
    journal(alone).append([(b"k", bytes(1_000))])
    assert len(everything(journal(alone, load_bytes=10))) == 1


def test_an_empty_log_has_no_records(alone: Node) -> None:
    assert everything(journal(alone)) == []


def test_records_are_compressed_with_the_configured_codec(alone: Node) -> None:
    journal(alone, Compression.LZ4).append(RECORDS)
    log = alone.partition(CONSUMER_OFFSETS).log
    (part,) = log.read(0, 1 << 20, limit_offset=log.log_end_offset).slices
    assert read_header(part.read(0, part.size_bytes)).compression is Compression.LZ4
    assert [stored.key for stored in everything(journal(alone)) if isinstance(stored, Stored)] == [b"k1", b"k2"]


def test_transactional_records_have_the_producer_id_and_end_with_a_marker(alone: Node) -> None:
    of_producer: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}
    alone.append(CONSUMER_OFFSETS, (b"k", b"v"), base_sequence=0, **of_producer)
    log = alone.partition(CONSUMER_OFFSETS).log
    commit = (control_record_key(ControlType.COMMIT), bytes(6))
    marker = build_batch(
        [commit], base_offset=1, leader_epoch=0, timestamp_ms=alone.now_ms(), is_control=True, **of_producer
    )
    log.append_as_follower(marker, 0, alone.now_ms())
    assert everything(journal(alone)) == [
        Stored(0, b"k", b"v", ProducerIdAndEpoch(7, 0)),
        Marker(ProducerIdAndEpoch(7, 0), True),
    ]


def test_append_on_a_single_replica_is_committed_at_once(alone: Node) -> None:
    written = journal(alone)
    written.append(RECORDS)
    assert written.outcome(written.end_offset) is ErrorCode.NONE


def test_outcome_is_unknown_until_records_are_replicated(replicated: Node) -> None:
    written = journal(replicated)
    written.append(RECORDS)
    assert written.outcome(2) is None
    later = written.await_outcome(2)
    replicated.follower_fetch(replicated.partition(CONSUMER_OFFSETS), FOLLOWER_ID, 2, 0)
    assert replicated.wait(later) == [ErrorCode.NONE]
    assert written.outcome(2) is ErrorCode.NONE


def test_wait_for_replication_times_out(replicated: Node) -> None:
    written = journal(replicated)
    written.append(RECORDS)
    assert replicated.wait(written.await_outcome(2)) == [ErrorCode.REQUEST_TIMED_OUT]


def test_append_below_min_isr_is_refused(replicated: Node) -> None:
    replicated.elect(CONSUMER_OFFSETS, NODE_ID, isr=[NODE_ID])
    written = journal(replicated)
    with pytest.raises(KafkaError) as error:
        written.append(RECORDS)
    assert error.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert written.end_offset == 0


def test_closed_shard_host_appends_nothing_after_re_election(alone: Node) -> None:
    written = journal(alone)
    context = GroupContext(0, 0, GroupSettings(), Timers(), alone.random, logging.getLogger("test"))
    name, shard = f"{CONSUMER_OFFSETS}-0", GroupCoordinatorShard()
    host = ShardHost(name, shard, written, 0, alone.loop, lambda _: context, lambda _: None, lambda: None)
    host.serve()
    host.close()
    alone.elect(CONSUMER_OFFSETS, FOLLOWER_ID)
    alone.elect(CONSUMER_OFFSETS, NODE_ID)
    outcomes: list[ErrorCode] = []
    context.append(RECORDS, lambda _, error: outcomes.append(error))
    host.perform(context)
    assert outcomes == [ErrorCode.NOT_COORDINATOR]
    assert written.end_offset == 0


@pytest.mark.parametrize("at", [7, 25, -1], ids=["offset", "timestamp", "value"])
def test_damaged_batch_raises_corrupt_message(alone: Node, at: int) -> None:
    for number in range(3):
        journal(alone).append([(b"k%d" % number, b"v"), (b"x", b"y")])
    log = alone.partition(CONSUMER_OFFSETS).log
    file = next(Path(log.directory).glob("*.log"))
    data = bytearray(file.read_bytes())
    second = data[len(data) // 3 : 2 * len(data) // 3]
    second[at] = 1 if at == 7 else second[at] ^ 1
    file.write_bytes(data[: len(data) // 3] + second + data[2 * len(data) // 3 :])
    with pytest.raises(KafkaError) as caught:
        everything(journal(alone))
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
