"""kill -9 during an idempotent librdkafka producer's run, repeated on one data directory.

Some kills come during a cleaner pass, some right after one, and some as soon as enough records are acknowledged. A
refused start fails all tests. ``BARNABAS_TEST_KILLS`` is the number of kills; the default fits into everyday runs. The
producer and the reader are in `survival.py`.
"""

import itertools
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests import proofs
from tests.broker_process import COMMAND, BrokerProcess
from tests.chaos.survival import SILENT, Partition, Stored, Workload, key_of, read_all
from tests.oracles.dump_log_segments import dump, dumpable

KILLS = int(os.environ.get("BARNABAS_TEST_KILLS", "5"))
ACKNOWLEDGED_BETWEEN_KILLS = 1000
RETENTION_BYTES = 20_000
# Small segments roll between two kills, so that recovery meets closed segments, their indexes and snapshots too.
SMALL = {"internal.segment.bytes": "4096", "index.interval.bytes": "512", "file.delete.delay.ms": "100"}
SURVIVORS = [Partition("survivors", number) for number in range(3)]
LATEST = Partition("latest", 0)
RECENT = Partition("recent", 0)
PARTITIONS = [*SURVIVORS, LATEST, RECENT]
TOPICS = [
    NewTopic("survivors", 3, 1, config=SMALL),
    NewTopic("latest", 1, 1, config={**SMALL, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}),
    NewTopic("recent", 1, 1, config={**SMALL, "retention.bytes": str(RETENTION_BYTES)}),
]
# The cleaner always runs, and so slowly that a kill meets it.
SETTINGS = {
    "log.cleaner.backoff.ms": 0,
    "log.cleaner.io.max.bytes.per.second": 200_000,
    "log.retention.check.interval.ms": 100,
}


class Killed(NamedTuple):
    """The result of many kills: a directory whose broker has shut down cleanly, and the records read before that."""

    data_dir: Path
    workload: Workload
    stored: Stored
    amid_passes: int


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killed]:
    """Kill and restart a broker KILLS times under a workload; finish the workload, read all, and stop the broker."""
    amid_passes = 0
    with BrokerProcess(tmp_path_factory.mktemp("kill9"), SETTINGS) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap} | SILENT)  # type: ignore[arg-type]  # a dict's values are invariant
        for created in admin.create_topics(TOPICS).values():
            created.result(30)
        moments = itertools.cycle([during_pass, after_pass, at_once])
        with Workload(broker.bootstrap, PARTITIONS) as workload:
            for moment in itertools.islice(moments, KILLS):
                workload.wait_for_acknowledged(ACKNOWLEDGED_BETWEEN_KILLS)
                moment(broker.data_dir)
                broker.kill()
                amid_passes += unfinished(broker.data_dir)
                broker.start()
                proofs.count("kills of a broker amid a producer's run")
            workload.wait_for_acknowledged(ACKNOWLEDGED_BETWEEN_KILLS)
            workload.finish()
        stored = read_all(broker.bootstrap, PARTITIONS)
        vanished = len(workload.acknowledged[LATEST]) - len(stored.numbers[LATEST])
        proofs.count("kills of a broker amid a pass of compaction", amid_passes)
        proofs.count("records that compaction took between kills", vanished)
        assert broker.stop() == 0
        broker.check_log()
        yield Killed(broker.data_dir, workload, stored, amid_passes)


def unfinished(data_dir: Path) -> bool:
    """Return whether the cleaner has started a file that has not yet replaced others."""
    return any(data_dir.glob("latest-0/*.cleaned"))


def at_once(data_dir: Path) -> None:
    pass


def during_pass(data_dir: Path) -> None:
    wait_until(lambda: unfinished(data_dir))


def after_pass(data_dir: Path) -> None:
    checkpoint = data_dir / "cleaner-offset-checkpoint"
    before = checkpoint.read_bytes() if checkpoint.exists() else b""
    wait_until(lambda: checkpoint.exists() and checkpoint.read_bytes() != before)


def wait_until(condition: Callable[[], bool], timeout_s: float = 30) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "compaction is not at work"
        time.sleep(0.001)


@pytest.mark.parametrize("partition", SURVIVORS, ids=lambda partition: partition.number)
def test_every_acknowledged_record_is_stored_once_and_in_order(killed: Killed, partition: Partition) -> None:
    stored = killed.stored.numbers[partition]
    assert stored == killed.workload.acknowledged[partition]
    assert list(stored.values()) == killed.workload.sent[partition]
    assert list(stored) == list(range(len(stored)))


def test_compacted_log_keeps_last_record_of_each_key_at_its_offset(killed: Killed) -> None:
    acknowledged, stored = killed.workload.acknowledged[LATEST], killed.stored.numbers[LATEST]
    last = {key_of(acknowledged[offset]): offset for offset in sorted(acknowledged)}
    assert set(last.values()) <= stored.keys()
    assert stored.items() <= acknowledged.items()
    assert killed.workload.sent[LATEST] == [acknowledged[offset] for offset in sorted(acknowledged)]


def test_cleaner_ran_between_and_during_kills(killed: Killed) -> None:
    assert len(killed.stored.numbers[LATEST]) < len(killed.workload.acknowledged[LATEST])
    assert killed.amid_passes > 0


def test_log_with_retention_keeps_all_acknowledged_records_from_its_start(killed: Killed) -> None:
    acknowledged, stored = killed.workload.acknowledged[RECENT], killed.stored.numbers[RECENT]
    start, end = killed.stored.log_starts[RECENT], len(killed.workload.sent[RECENT])
    assert start > 0
    kept = {offset: stored.get(offset) for offset in range(start, end)}
    assert kept == {offset: number for offset, number in acknowledged.items() if offset >= start}
    assert stored.items() <= acknowledged.items()


def test_retention_by_size_keeps_retention_bytes(killed: Killed) -> None:
    logs = (killed.data_dir / "recent-0").glob("*.log")
    assert sum(path.stat().st_size for path in logs) >= RETENTION_BYTES


def test_inspection_finds_no_error_in_directory(killed: Killed) -> None:
    command = [*COMMAND, "log", "verify", str(killed.data_dir)]
    verified = subprocess.run(command, capture_output=True, text=True, check=False)
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_apache_kafka_reads_all_surviving_records(killed: Killed) -> None:
    files = dumpable(killed.data_dir)
    segments = {file for file in files if file.suffix == ".log"}
    with_gaps = {file for file in segments if file.parent.name == "latest-0"}
    dumped, compacted = dump(file for file in files if file not in with_gaps), dump(with_gaps)
    assert dumped.complaints == []
    gaps = ("Non-consecutive offsets in ", "is followed by")
    assert [line for line in compacted.complaints if not any(gap in line for gap in gaps)] == []
    survivors = [file for file in segments if file.parent.name.startswith("survivors-")]
    records = sum(len(dumped.records(file)) for file in survivors)
    assert records == sum(len(killed.workload.acknowledged[partition]) for partition in SURVIVORS)
