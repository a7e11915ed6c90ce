"""Apache Kafka, started twice: data directories that it wrote, and logs of ours that it appended to.

First Kafka fills its topics and is stopped cleanly; the directory is copied, and the segments of our logs replace the
empty segments of Kafka's topics of the same names. Then Kafka starts again, writes more to its own topics, and is
killed, so that its indexes keep their preallocated size. All topics are read before each stop.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

from storage.checkpoint import format_offsets, parse_offsets
from storage.log.log import Log
from tests.oracles import kafka_directory, our_logs
from tests.oracles.kafka_server import KafkaServer
from tests.oracles.read_back import ReadBack, read_back
from tests.oracles.telling import Reported, query, wait_for_leaders

LOG_STARTS = "log-start-offset-checkpoint"
KAFKAS_OWN = "partition.metadata"


class State(NamedTuple):
    """A data directory of Kafka's, and what Kafka returned about its topics."""

    directory: Path
    reported: dict[str, Reported]


class Directories(NamedTuple):
    """Kafka's directories after a stop and a kill; our logs, with what Kafka returned and its consumer read last."""

    clean: State
    killed: State
    logs: dict[str, Log]
    reported: dict[str, Reported]
    read: ReadBack


def make(folder: Path) -> Directories:
    """Let Apache Kafka and our storage write all of it; takes half a minute."""
    logs = our_logs.write_all(folder / "ours")
    kafka = KafkaServer(folder / "kafka", kafka_directory.SETTINGS, kafka_directory.FEATURES)
    try:
        kafka.wait()
        kafka_directory.create_topics(kafka.bootstrap, kafka_directory.TOPICS | our_logs.TOPICS)
        kafka_directory.write(kafka.bootstrap, kafka.data_dir)
        reported = {topic: query(kafka.bootstrap, topic) for topic in kafka_directory.TOPICS}
        kafka.close()
        shutil.copytree(kafka.data_dir, folder / "clean")
        for log in logs.values():
            _replace(kafka.data_dir, log)
        kafka.start()
        kafka.wait()
        wait_for_leaders(kafka.bootstrap, [*logs, *kafka_directory.TOPICS])
        of_ours = {topic: query(kafka.bootstrap, topic) for topic in logs}
        kafka_directory.write_more(kafka.bootstrap)
        later = {topic: query(kafka.bootstrap, topic) for topic in kafka_directory.TOPICS}
        read = read_back(kafka.bootstrap, [*logs, *kafka_directory.TOPICS])
    finally:
        kafka.stop()
    clean, killed = State(folder / "clean", reported), State(kafka.data_dir, later)
    return Directories(clean, killed, logs, of_ours, read)


def _replace(data_dir: Path, log: Log) -> None:
    """Replace the files of Kafka's log of the same topic with those of ours, except partition.metadata."""
    target = data_dir / str(log)
    for path in target.iterdir():
        if path.name != KAFKAS_OWN:
            path.unlink()
    for path in Path(log.directory).iterdir():
        if path.name != KAFKAS_OWN:
            shutil.copy(path, target)
    starts = parse_offsets((data_dir / LOG_STARTS).read_text(), LOG_STARTS)
    starts[log.topic, log.partition] = log.log_start_offset
    (data_dir / LOG_STARTS).write_text(format_offsets(starts))
