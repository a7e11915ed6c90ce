"""Effects of metadata changes on a broker's replicas, and leadership notifications for the coordinator."""

from __future__ import annotations

import errno
import re
from pathlib import Path

import pytest

from protocol.errors import ErrorCode, KafkaError
from protocol.records.metadata import ConfigRecord, PartitionChangeRecord
from storage.log.config import LogConfig
from tests.disks import FaultyDisk
from tests.unit.broker.node import METADATA_LOG, NODE_ID, Node


def directories(tmp_path: Path) -> set[str]:
    """Return the names of the topics' partition directories on disk, without those being deleted."""
    names = {path.name for path in (tmp_path / "data").iterdir() if path.is_dir() and not path.name.endswith("-delete")}
    return names - {METADATA_LOG}


class TestPlacement:
    def test_new_partitions_are_created_and_led(self, node: Node, tmp_path: Path) -> None:
        topic_id = node.create("t", partitions=3)
        assert directories(tmp_path) == {"t-0", "t-1", "t-2"}
        assert [(p.index, p.is_leader, p.leader_epoch) for p in node.replicas.partitions] == [
            (0, True, 0),
            (1, True, 0),
            (2, True, 0),
        ]
        assert node.partition("t").log.topic_id == topic_id

    def test_leader_epoch_starts_at_log_end_before_first_append(self, node: Node) -> None:
        node.create("t")
        node.elect("t", 1)
        assert node.partition("t").log.leader_epochs.entries == ((1, 0),)

    def test_partitions_of_other_brokers_are_not_created(self, node: Node, tmp_path: Path) -> None:
        node.create("t", replicas=(2, 3), leader=2)
        assert directories(tmp_path) == set()
        with pytest.raises(KafkaError) as refused:
            node.partition("t")
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_partitions_not_yet_created_return_retriable_error(self, stopped_node: Node) -> None:
        def found(index: int) -> ErrorCode:
            try:
                assert stopped_node.partition("t", index).is_leader
            except KafkaError as error:
                return error.code
            return ErrorCode.NONE

        steps = stopped_node.watch_steps(lambda: [found(index) for index in (0, 1)])
        stopped_node.start()
        stopped_node.create("t", partitions=2)
        assert steps == [[ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER], [ErrorCode.NONE, ErrorCode.NONE]]

    def test_partitions_that_do_not_exist_are_unknown(self, node: Node) -> None:
        node.create("t")
        for topic, index in (("t", 1), ("u", 0)):
            with pytest.raises(KafkaError) as refused:
                node.partition(topic, index)
            assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_deleted_topics_logs_are_deleted(self, node: Node, tmp_path: Path) -> None:
        node.create("t", partitions=2)
        node.create("u")
        node.remove("t")
        assert directories(tmp_path) == {"u-0"}
        assert [repr(partition) for partition in node.replicas.partitions] == ["u-0"]

    def test_topic_recreated_in_one_batch_starts_empty(self, node: Node) -> None:
        node.create("t", topic_id=b"1" * 16)
        node.append("t")
        node.remove("t")
        node.create("t", topic_id=b"2" * 16)
        assert node.stored("t") == []
        assert node.replicas.topic_name(b"1" * 16) is None
        assert node.replicas.topic_name(b"2" * 16) == "t"

    def test_recreated_topic_never_uses_log_whose_deletion_failed(self, tmp_path: Path) -> None:
        disk = FaultyDisk(spared=METADATA_LOG)
        node = Node(str(tmp_path / "full"), disk)
        node.start()
        node.create("t", topic_id=b"1" * 16)
        node.append("t")
        disk.arm("rename", errno.ENOSPC)
        node.remove("t")
        assert disk.disarm("rename")
        node.create("t", topic_id=b"2" * 16)
        stored = node.stored("t")
        node.stop()
        assert stored == []

    def test_a_topics_configuration_reaches_its_logs(self, node: Node) -> None:
        node.create("t", partitions=2, config=LogConfig(segment_bytes=100_000))
        node.create("u")
        assert node.partition("t", 1).log.config.segment_bytes == 100_000
        node.configure("t", segment_bytes=200_000)
        assert [node.partition("t", index).log.config.segment_bytes for index in (0, 1)] == [200_000] * 2
        assert node.partition("u").log.config == LogConfig()

    def test_changed_default_config_reaches_all_logs(self, node: Node) -> None:
        node.create("t")
        for broker, name in ((2, "log.retention.ms"), (NODE_ID, "max.connections")):
            node.commit(ConfigRecord(resource_type=4, resource_name=str(broker), name=name, value="5"))
            assert node.partition("t").log.config == LogConfig()
        node.commit(ConfigRecord(resource_type=4, resource_name="", name="log.retention.ms", value="5"))
        assert node.partition("t").log.config.retention_ms == 5

    def test_configs_of_many_topics_change_one_topic_per_step(self, stopped_node: Node) -> None:
        stopped_node.create("t", partitions=2)
        stopped_node.create("u")
        steps = stopped_node.watch_steps(
            lambda: [partition.log.config.retention_ms == 5 for partition in stopped_node.replicas.partitions]
        )
        stopped_node.start()
        steps.clear()
        stopped_node.commit(
            *(
                ConfigRecord(resource_type=4, resource_name="", name=name, value="5")
                for name in ("log.retention.ms", "log.roll.ms")
            )
        )
        assert steps == [[True, True, False], [True, True, True]]

    def test_lower_min_isr_commits_waiting_records(self, node: Node) -> None:
        node.create("t", replicas=(1, 2), config=LogConfig(min_insync_replicas=2))
        node.shrink("t", [1])
        node.append("t")
        assert node.partition("t").high_watermark == 0
        node.configure("t", min_insync_replicas=1)
        assert node.partition("t").high_watermark == 1


class TestRestart:
    def test_restart_recovers_records_and_high_watermark(self, node: Node, tmp_path: Path) -> None:
        node.create("t", replicas=(1, 2))
        for _ in range(3):
            node.append("t")
        node.follower_fetch(node.partition("t"), 2, 2, 0)
        node.reopen()
        node.start()
        assert len(node.stored("t")) == 3
        node.elect("t", NODE_ID, isr=[1, 2])  # the controller fenced this broker until its new registration
        assert node.partition("t").high_watermark == 2
        assert node.partition("t").is_leader

    def test_logs_of_deleted_topics_are_marked_stray(self, node: Node, tmp_path: Path) -> None:
        node.create("t")
        node.append("t")
        node.reopen()
        node.remove("t")
        node.start()
        [aside] = directories(tmp_path)
        assert re.fullmatch(r"t-0\.[0-9a-f]{32}-stray", aside)
        assert (tmp_path / "data" / aside / "00000000000000000000.log").stat().st_size > 0
        assert list(node.replicas.partitions) == []

    def test_topic_recreated_before_restart_starts_empty(self, node: Node, tmp_path: Path) -> None:
        node.create("t", topic_id=b"1" * 16)
        node.append("t")
        node.reopen()
        node.remove("t")
        node.create("t", topic_id=b"2" * 16)
        node.start()
        assert node.stored("t") == []
        assert node.partition("t").log.topic_id == b"2" * 16

    def test_missing_topic_id_of_log_is_restored_from_metadata(self, node: Node, tmp_path: Path) -> None:
        node.create("t")
        node.append("t")
        node.end()
        (tmp_path / "data/t-0/partition.metadata").unlink()
        node.reopen()
        node.start()
        assert len(node.stored("t")) == 1
        assert (tmp_path / "data/t-0/partition.metadata").exists()

    def test_log_without_topic_id_after_unclean_stop_is_marked_stray(self, node: Node, tmp_path: Path) -> None:
        node.create("t")
        node.append("t")
        node.end()
        (tmp_path / "data/t-0/partition.metadata").unlink()
        (tmp_path / "data/.kafka_cleanshutdown").unlink()
        node.reopen()
        node.start()
        assert node.stored("t") == []
        assert sorted(name.endswith("-stray") for name in directories(tmp_path)) == [False, True]

    def test_replicated_log_without_topic_id_is_marked_stray_and_starts_empty(self, node: Node, tmp_path: Path) -> None:
        node.create("t", replicas=(1, 2))
        node.append("t")
        node.end()
        (tmp_path / "data/t-0/partition.metadata").unlink()
        node.reopen()
        node.elect("t", 2, isr=[2])
        node.start()
        assert node.stored("t") == []
        assert sorted(name.endswith("-stray") for name in directories(tmp_path)) == [False, True]

    def test_logs_of_replicas_reassigned_before_restart_are_marked_stray(self, node: Node, tmp_path: Path) -> None:
        topic_id = node.create("t", replicas=(1, 2))
        node.reopen()
        node.commit(PartitionChangeRecord(partition_id=0, topic_id=topic_id, replicas=[2], isr=[2], leader=2))
        node.start()
        assert [name.endswith("-stray") for name in directories(tmp_path)] == [True]

    def test_topics_created_before_restart_are_served(self, node: Node, tmp_path: Path) -> None:
        node.reopen()
        node.create("t")
        node.start()
        assert node.append("t") == 0

    def test_configs_are_applied_to_recovered_logs(self, node: Node, tmp_path: Path) -> None:
        node.create("t", config=LogConfig(retention_ms=5))
        node.reopen()
        node.start()
        assert node.partition("t").log.config.retention_ms == 5


class TestLeadership:
    @pytest.fixture
    def reported(self, node: Node) -> list[tuple[int, int | None]]:
        reported: list[tuple[int, int | None]] = []
        node.replicas.on_leadership("t", lambda index, epoch: reported.append((index, epoch)))
        return reported

    def test_gaining_and_losing_leadership_is_notified(
        self, node: Node, reported: list[tuple[int, int | None]]
    ) -> None:
        node.create("t", partitions=2)
        node.elect("t", 2)
        node.elect("t", 1)
        assert reported == [(0, 0), (1, 0), (0, None), (0, 2)]

    def test_new_epoch_of_same_leader_is_notified(self, node: Node, reported: list[tuple[int, int | None]]) -> None:
        node.create("t")
        node.elect("t", 1)
        assert reported == [(0, 0), (0, 1)]

    def test_isr_change_alone_is_not_notified(self, node: Node, reported: list[tuple[int, int | None]]) -> None:
        node.create("t", replicas=(1, 2))
        node.shrink("t", [1])
        assert reported == [(0, 0)]

    def test_topic_deletion_ends_leadership(self, node: Node, reported: list[tuple[int, int | None]]) -> None:
        node.create("t")
        node.remove("t")
        assert reported == [(0, 0), (0, None)]

    def test_leadership_of_other_topics_is_not_notified(
        self, node: Node, reported: list[tuple[int, int | None]]
    ) -> None:
        node.create("u")
        assert reported == []

    def test_late_subscriber_is_notified_of_present_leaderships(self, node: Node) -> None:
        node.create("t", partitions=2)
        node.elect("t", 2)
        reported: list[tuple[int, int | None]] = []
        node.replicas.on_leadership("t", lambda index, epoch: reported.append((index, epoch)))
        assert reported == [(1, 0)]
