"""Apache Kafka reads the metadata log that our controller writes: DumpLogSegments prints every record of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from controller.commands.producer_ids import allocate_producer_ids
from protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from protocol.primitives import uuid_text
from tests.oracles.dump_log_segments import Dump, dump, dumpable, field
from tests.unit.broker.metadata.raft_rig import RaftRig
from tests.unit.broker.topics import create


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield a data directory after two runs, with snapshots."""
    path = tmp_path_factory.mktemp("data")
    node = RaftRig(str(path))
    for run in range(2):
        node.start({"metadata.log.max.record.bytes.between.snapshots": "3000"})
        for number in range(10):
            create(node, f"t{run}.{number}", 3, configs={"retention.ms": "5"})
        block = AllocateProducerIdsRequest(broker_id=1, broker_epoch=node.image.brokers[1].epoch)
        node.wait(node.raft.submit(partial(allocate_producer_ids, request=block)))
        node.stop()
    yield path
    node.close()


@pytest.fixture(scope="module")
def read(data: Path) -> Dump:
    return dump(dumpable(data), "--cluster-metadata-decoder")


def payloads(read: Dump, kind: str) -> list[dict[str, Any]]:
    """Return the metadata records of the log's segments, as the tool decodes them."""
    lines = [line for file in read.files if file.suffix == ".log" for line in read.records(file)]
    found = [json.loads(line.partition(" payload: ")[2]) for line in lines if " payload: " in line]
    return [record["data"] for record in found if record["type"] == kind]


def test_metadata_log_is_read_without_errors(read: Dump) -> None:
    assert read.complaints == []
    assert {file.suffix for file in read.files} >= {".log", ".index", ".checkpoint"}


def test_every_topic_and_its_partitions_are_there(read: Dump) -> None:
    topics = payloads(read, "TOPIC_RECORD")
    assert [topic["name"] for topic in topics] == [f"t{run}.{number}" for run in range(2) for number in range(10)]
    partitions = payloads(read, "PARTITION_RECORD")
    assert len(partitions) == 60
    assert {tuple(partition["directories"]) for partition in partitions} == {(uuid_text(b"\x01" * 16),)}
    assert {tuple(partition["isr"]) for partition in partitions} == {(1,)}


def test_every_epoch_begins_with_its_leader(read: Dump) -> None:
    control = [
        line for file in read.files if file.suffix == ".log" for line in read.records(file) if "LeaderChange" in line
    ]
    assert [json.loads(line.partition("LeaderChange: ")[2])["leaderId"] for line in control] == [1, 1]
    registrations = payloads(read, "REGISTER_BROKER_RECORD")
    assert [record["fenced"] for record in registrations] == [True, True]
    assert registrations[0]["brokerEpoch"] < registrations[1]["brokerEpoch"]


def test_every_snapshot_is_complete(read: Dump) -> None:
    snapshots = {file: read.records(file) for file in read.files if file.suffix == ".checkpoint"}
    assert len(snapshots) > 4
    for file, records in snapshots.items():
        assert "SnapshotHeader" in records[0], file
        assert "SnapshotFooter" in records[-1], file
        assert [int(field(record, "offset")) for record in records] == list(range(len(records)))
        assert ("KRaftVoters" in records[2]) == (file.name != "bootstrap.checkpoint")
