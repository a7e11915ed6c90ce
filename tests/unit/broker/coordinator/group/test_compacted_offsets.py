"""`__consumer_offsets` is compacted: the loaded state is the same before and after compaction."""

from __future__ import annotations

from broker.coordinator.runtime.context import ProducerIdAndEpoch
from controller.topic_names import CONSUMER_OFFSETS
from storage.log.log import Log
from tests.compacted import compact
from tests.unit.broker.group_node import PARTITIONS, GroupNode

GROUPS = [f"group-{number}" for number in range(12)]


def logs(node: GroupNode) -> list[Log]:
    return [node.node.partition(CONSUMER_OFFSETS, index).log for index in range(PARTITIONS)]


def loaded(node: GroupNode) -> dict[str, object]:
    """Return the loaded state of each group."""
    found: dict[str, object] = {}
    for name in GROUPS:
        shard = node.call("committed_shard", name)
        group = shard.groups.get(name)
        members = group and {
            member_id: (member.instance_id, member.protocols, member.assignment)
            for member_id, member in group.members.items()
        }
        offsets = {topic: dict(partitions) for topic, partitions in shard.offsets.of_group(name).items()}
        found[name] = (group and (group.state, group.generation, group.leader), members, offsets)
    return found


def test_groups_loaded_from_a_compacted_log_are_equal(group_node: GroupNode) -> None:
    node = group_node.host()
    for log in logs(node):
        log.config = log.config._replace(cleanup_policy=frozenset({"compact"}), segment_bytes=3000)
    for times in range(6):
        for number, name in enumerate(GROUPS):
            if number % 3 == 0 and times == 0:
                node.stable_member(name, instance="i")
            if number % 3 == 1:
                member = node.stable_member(name)
                node.wait(node.leave(member, group=name))
            for partition in range(3):
                if number % 3:
                    node.wait(node.commit(10 * times + partition, f"t{partition}", partition, group=name))
    node.call("delete_group", GROUPS[1])
    node.restart()
    node.settle()
    before = loaded(node)
    assert any(known != (None, None, {}) for known in before.values())
    sizes = [log.size_bytes for log in logs(node)]
    for log in logs(node):
        compact(log)
        compact(log, cleaned_to=log.cleaned_to, now_ms=node.node.now_ms() + 2 * log.config.delete_retention_ms)
    assert all(log.size_bytes < size / 2 for log, size in zip(logs(node), sizes, strict=True))
    node.restart()
    node.settle()
    assert loaded(node) == before


def test_transactional_offsets_loaded_from_a_compacted_log_are_equal(group_node: GroupNode) -> None:
    """Committed, aborted and pending ones, each overtaken by plain commits or not."""
    node = group_node.host()
    for log in logs(node):
        log.config = log.config._replace(cleanup_policy=frozenset({"compact"}), segment_bytes=2000)
    for times in range(20):
        for partition in range(4):
            node.wait(node.commit(times, "t", partition))
        for number, committed in enumerate((True, False)):
            producer = ProducerIdAndEpoch(number, 0)
            for partition in (number, number + 2):
                node.wait(node.txn_commit(100 * (number + 1) + times, "t", partition, producer=producer))
            if number:
                node.wait(node.commit(1000 + times, "t", 2))
            node.wait(node.end_transaction(committed, producer=producer))
    opened = ProducerIdAndEpoch(9, 0)
    node.wait(node.txn_commit(300, "t", 0, producer=opened))
    for times in range(100):
        node.wait(node.commit(2000 + times, "t", 1))
    log = node.node.partition(CONSUMER_OFFSETS, node.groups.runtime.partition_of("g")).log
    expected = {0: 119, 1: 2099, 2: 1019, 3: 19}
    size = log.size_bytes
    for horizon_ms in (0, 2 * log.config.delete_retention_ms):
        compact(log, cleaned_to=log.cleaned_to, now_ms=node.node.now_ms() + horizon_ms)
        node.restart()
        node.settle()
        assert {partition: node.offset(partition=partition) for partition in range(4)} == expected
        assert [node.is_pending(partition=partition) for partition in range(4)] == [True, False, False, False]
    assert log.size_bytes < size / 2
    node.wait(node.end_transaction(producer=opened))
    assert node.offset() == 300
    compact(log, cleaned_to=log.cleaned_to, now_ms=node.node.now_ms())
    node.restart()
    node.settle()
    assert node.offset() == 300
