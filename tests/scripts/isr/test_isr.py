"""Transcripts of a partition's high watermark on its leader.

metadata replicas=(1,2,3) isr=(1,2) leader=1 epoch=0 [min=2]   the committed partition; this is broker 1
append [acks=-1] [records=1]                                   a Produce request
ack broker=2 end=3                                             a follower fetches from that offset
write end=3                                                    the result of an acks=all write that ends there
latest                                                         the latest offset that a consumer gets
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from broker.monitoring.topic_stats import BrokerTopicMetrics
from broker.replication.partition import LATEST, Isolation, Partition
from controller.image import PartitionImage
from protocol.errors import KafkaError
from protocol.record_batch import build_batch
from storage.disk import OsDisk
from storage.log.config import LogConfig
from storage.log.loader import open_log
from storage.log_directory import LogDirectory
from storage.steps import finish

if TYPE_CHECKING:
    from tests.scripts.conftest import Script, Step

US = 1


class Machine:
    """Broker 1's replica."""

    def __init__(self, data: str) -> None:
        disk = OsDisk()
        directory = LogDirectory(disk, data)
        directory.open()
        log = open_log(disk, directory, "t", 0, LogConfig(), now_ms=0, topic_id=b"t" * 16)
        self.partition = Partition(US, "t", b"t" * 16, 0, log, BrokerTopicMetrics())
        self.partition_epoch = 0

    def __call__(self, step: Step) -> str:
        try:
            return str(getattr(self, step.command)(step))
        except KafkaError as error:
            return f"{error.code.name}, {self.state()}"

    def state(self) -> str:
        log = self.partition.log
        return f"high watermark {log.high_watermark} of {log.log_end_offset}"

    def metadata(self, step: Step) -> str:
        replicas = tuple(map(int, step.list("replicas")))
        self.partition_epoch += 1
        log = self.partition.log
        log.config = log.config._replace(min_insync_replicas=step.int("min", log.config.min_insync_replicas))
        image = PartitionImage(
            partition=0,
            replicas=replicas,
            isr=tuple(map(int, step.list("isr"))),
            leader=step.int("leader"),
            leader_epoch=step.int("epoch"),
            partition_epoch=self.partition_epoch,
            directories=(bytes(16),) * len(replicas),
        )
        if image.leader == US:
            self.partition.lead(image, 0)
        else:
            self.partition.follow(image)
        return self.state()

    def append(self, step: Step) -> str:
        batch = build_batch([(None, b"v")] * step.int("records", 1), timestamp_ms=0)
        self.partition.append_as_leader(memoryview(batch), step.int("acks", -1), 0, lambda: 0)
        return self.state()

    def ack(self, step: Step) -> str:
        broker = step.int("broker")
        self.partition.check_follower(broker, step.int("epoch", -1))
        self.partition.update_follower_fetch_state(broker, step.int("end"), 0, 0)
        return self.state()

    def write(self, step: Step) -> str:
        outcome = self.partition.committed(step.int("end"))
        return "waits" if outcome is None else outcome.name

    def latest(self, _: Step) -> Any:
        return finish(self.partition.find_offset(LATEST, Isolation.READ_UNCOMMITTED)).offset


def test_isr(script: Script, tmp_path: Path) -> None:
    script.run(Machine(str(tmp_path)))
