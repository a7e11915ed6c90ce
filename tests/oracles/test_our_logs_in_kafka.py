"""Apache Kafka opens logs that our storage wrote: same records, same offsets, for its consumer too."""

from __future__ import annotations

import pytest

from storage.log.log import Log
from storage.steps import finish
from tests.logs import content
from tests.oracles.directories import Directories
from tests.oracles.our_logs import TOPICS
from tests.oracles.read_back import records_in
from tests.oracles.telling import EARLIEST, LATEST, MAX_TIMESTAMP, Aborted, Reported


@pytest.fixture(params=TOPICS)
def topic(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def log(directories: Directories, topic: str) -> Log:
    return directories.logs[topic]


@pytest.fixture
def reported(directories: Directories, topic: str) -> Reported:
    return directories.reported[topic]


def test_kafka_has_byte_identical_batches(log: Log, reported: Reported) -> None:
    assert (reported.log_start_offset, reported.high_watermark) == (log.log_start_offset, log.log_end_offset)
    assert reported.batches == content(log)


def test_kafka_returns_the_same_offsets_for_timestamps(log: Log, reported: Reported) -> None:
    ends = {EARLIEST: (-1, log.log_start_offset), LATEST: (-1, log.log_end_offset)}
    for timestamp, answer in reported.offsets.items():
        if timestamp in ends:
            assert answer == ends[timestamp]
            continue
        search = log.max_timestamp_offset() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
        found = finish(search)
        if answer == (-1, -1) and found is not None:
            # Kafka searches one segment only: the first with such a timestamp, though the record may be a deleted one.
            first = log.segments[0]
            assert first.base_offset < log.log_start_offset
            assert first.max_timestamp[0] >= timestamp
            continue
        assert answer == (found[:2] if found is not None else (-1, -1))


def test_kafka_knows_the_leader_epoch_in_which_we_wrote(log: Log, reported: Reported) -> None:
    assert reported.epochs == {0: (0, log.log_end_offset)}


def test_kafka_knows_the_producers_of_our_snapshots(log: Log, reported: Reported) -> None:
    assert reported.producers == {
        producer_id: (
            entry.epoch,
            entry.batches[-1].last_sequence if entry.batches else -1,
            entry.last_timestamp,
            entry.coordinator_epoch,
            entry.txn_first_offset,
        )
        for producer_id, entry in log.producers.producers.items()
    }
    assert reported.producers


def test_rule_13_kafka_returns_the_aborted_transactions_of_our_indexes(log: Log, reported: Reported) -> None:
    assert reported.last_stable_offset == log.last_stable_offset
    entries = [entry for segment in log.segments for entry in segment.transaction_index.entries]
    for start, (end, aborted) in reported.aborted.items():
        amid = [one for one in entries if one.last_offset >= start and one.first_offset < end]
        assert aborted == {Aborted(one.producer_id, one.first_offset) for one in amid}


def test_kafkas_consumer_reads_every_record(directories: Directories, log: Log, topic: str) -> None:
    assert directories.read.everything[topic] == list(records_in(content(log), start=log.log_start_offset))


def test_kafkas_read_committed_consumer_skips_aborted_and_open_transactions(
    directories: Directories, log: Log, topic: str
) -> None:
    everything, committed = (read[topic] for read in directories.read)
    entries = [entry for segment in log.segments for entry in segment.transaction_index.entries]
    assert [record for record in everything if record in committed] == committed
    assert all(record.offset < log.last_stable_offset for record in committed)
    if topic == "ours-transactions":
        assert entries
        assert 0 < len(committed) < len([one for one in everything if one.offset < log.last_stable_offset])
    else:
        assert committed == everything
