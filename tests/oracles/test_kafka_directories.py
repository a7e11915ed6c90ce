"""Barnabas opens data directories that Apache Kafka wrote, and returns the same responses about them as Kafka.

Kafka left them after a clean shutdown, and after a kill, with indexes of ten megabytes and unsynced files.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from tests.broker_process import BrokerProcess
from tests.oracles.directories import Directories
from tests.oracles.dump_log_segments import dump, dumpable
from tests.oracles.kafka_directory import TOPICS, TRANSACTIONAL
from tests.oracles.read_back import ReadBack, read_back
from tests.oracles.telling import Reported, query

# Nothing must be cleaned before the comparison.
SETTINGS = {"node.id": 1, "log.initial.task.delay.ms": 3_600_000}


class GoneOn(NamedTuple):
    """Kafka's responses about a directory, Barnabas' responses about it, and the directory afterwards."""

    kafkas: dict[str, Reported]
    ours: dict[str, Reported]
    read: ReadBack
    directory: Path
    transaction_indexes: dict[Path, bytes]


@pytest.fixture(scope="module", params=["clean", "killed"])
def gone_on(
    request: pytest.FixtureRequest, directories: Directories, tmp_path_factory: pytest.TempPathFactory
) -> GoneOn:
    """Start Barnabas on a directory of Kafka's, send it every request, and stop it."""
    state = getattr(directories, request.param)
    indexes = {path: path.read_bytes() for path in state.directory.rglob("*.txnindex")}
    broker = BrokerProcess(tmp_path_factory.mktemp("broker"), SETTINGS)
    broker.data_dir = state.directory
    with broker:
        ours = {topic: query(broker.bootstrap, topic) for topic in TOPICS}
        read = read_back(broker.bootstrap, TOPICS)
        assert broker.stop() == 0
        broker.check_log()
    return GoneOn(state.reported, ours, read, state.directory, indexes)


@pytest.mark.parametrize("topic", TOPICS)
def test_batches_are_byte_identical(gone_on: GoneOn, topic: str) -> None:
    kafkas, ours = gone_on.kafkas[topic], gone_on.ours[topic]
    assert (ours.log_start_offset, ours.high_watermark) == (kafkas.log_start_offset, kafkas.high_watermark)
    assert ours.batches == kafkas.batches


@pytest.mark.parametrize("topic", TOPICS)
def test_lookups_by_timestamp_are_equal(gone_on: GoneOn, topic: str) -> None:
    assert gone_on.ours[topic].offsets == gone_on.kafkas[topic].offsets


@pytest.mark.parametrize("topic", TOPICS)
def test_leader_epoch_ends_are_equal(gone_on: GoneOn, topic: str) -> None:
    assert gone_on.ours[topic].epochs == gone_on.kafkas[topic].epochs


@pytest.mark.parametrize("topic", TOPICS)
def test_producer_states_are_equal(gone_on: GoneOn, topic: str) -> None:
    assert gone_on.ours[topic].producers == gone_on.kafkas[topic].producers


@pytest.mark.parametrize("topic", TRANSACTIONAL)
def test_rule_13_last_stable_offset_and_aborted_transactions_are_kafkas(gone_on: GoneOn, topic: str) -> None:
    kafkas, ours = gone_on.kafkas[topic], gone_on.ours[topic]
    assert ours.last_stable_offset == kafkas.last_stable_offset
    assert ours.aborted == kafkas.aborted
    assert any(aborted for _, aborted in ours.aborted.values())


def test_transaction_indexes_stay_as_kafka_wrote_them(gone_on: GoneOn) -> None:
    assert {path: path.read_bytes() for path in gone_on.transaction_indexes} == gone_on.transaction_indexes
    assert len(gone_on.transaction_indexes) >= len(TRANSACTIONAL)


def test_kafkas_tool_reads_the_directory_after_barnabas(gone_on: GoneOn) -> None:
    files = [path for topic in TOPICS for path in dumpable(gone_on.directory / f"{topic}-0") if path.stat().st_size]
    dumped = dump(files)
    # Compaction leaves gaps in offsets; the tool reports them in any log.
    gaps = ("Non-consecutive offsets in ", "is followed by")
    assert [line for line in dumped.complaints if not any(gap in line for gap in gaps)] == []
    assert set(dumped.files) == set(files)


@pytest.mark.parametrize("topic", TOPICS)
def test_kafkas_consumer_reads_the_same_records_from_barnabas(
    gone_on: GoneOn, directories: Directories, topic: str
) -> None:
    for ours, kafkas in zip(gone_on.read, directories.read, strict=True):
        written_later = gone_on.directory is directories.clean.directory
        until = gone_on.ours[topic].last_stable_offset if written_later else 1 << 62
        # A read_uncommitted consumer reads past the last stable offset.
        assert ours[topic]
        assert [one for one in ours[topic] if one.offset < until] == [
            one for one in kafkas[topic] if one.offset < until
        ]
