"""Transcripts of classic groups: one shard's responses, records and timers, with a manual clock.

    join as=A [member=M] [instance=I] [session=10000] [rebalance=60000] [type=consumer] [protocols=(range:x)]
         [old] [skip]
    sync as=A member=M generation=N [instance=I] [protocol=P] [type=T] [assignments=(M:text, ...)]
    heartbeat member=M generation=N [instance=I]
    leave as=A members=(M, ...) | instances=(I, ...)
    commit offset=N [topic=t] [partition=0] [member=M] [instance=I] [generation=-1] [retention=ms] [unknown=old]
    txn-commit producer=N offset=N [epoch=0] [topic=t] [partition=0] [member=M] [instance=I] [generation=-1]
    end-txn producer=N [abort]    the marker of a producer's transaction
    fetch [topic=t] [partition=0]  the committed offset, and whether one is pending, so that it is unstable
    delete-offsets [topic=t] partitions=(N, ...)
    delete-group
    expire               delete offsets older than `offsets.retention.minutes`
    forget-topic [topic=t]
    show                 the groups
    reload               load the shard again from the stored records
    set name=value ...   settings of the coordinator

and those of `tests.scripts.shard_machine`.

Every command uses the group `g` unless it has group=. Member ids are shown as m1, m2 ... in order of appearance. With
`old` the request version does not require a member id first; with `skip` it supports SkipAssignment. Protocol metadata
@t is a consumer subscription to the topic t.
"""

from __future__ import annotations

import random
import re

from broker.coordinator.group.classic_group import read_subscription
from broker.coordinator.group.context import GroupContext, GroupSettings, Join, Joined, Leaving, Left, Sync, Synced
from broker.coordinator.group.records import kind_of, read_group, read_group_key, read_offset, read_offset_key
from broker.coordinator.group.shard import Commit, GroupCoordinatorShard, Offset
from broker.coordinator.runtime.context import ProducerIdAndEpoch
from broker.coordinator.runtime.partition_journal import Marker
from broker.coordinator.runtime.timers import Timers
from protocol.errors import ErrorCode, KafkaError
from tests.scripts.conftest import Script, Step
from tests.scripts.shard_machine import ShardMachine, SilentLog

TOPIC_ID = b"t" * 16
MEMBER_ID = re.compile(r"[\w.-]*[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


class Machine(ShardMachine):
    """A shard with its clock, its log, and the deferred responses."""

    def __init__(self) -> None:
        super().__init__()
        self.settings = GroupSettings()
        self.random = random.Random(1)
        self.shard = GroupCoordinatorShard()
        self.names: dict[str, str] = {}

    def run(self, step: Step) -> str:
        try:
            super().run(step)
        except KafkaError as error:
            self.observed.append(error.code.name)
        return MEMBER_ID.sub(lambda match: self.name(match.group()), "\n".join(self.observed))

    def name(self, member_id: str) -> str:
        result: str = self.names.setdefault(member_id, f"m{len(self.names) + 1}")
        return result

    def member(self, name: str) -> str:
        return next((known for known, alias in self.names.items() if alias == name), name)

    def context(self) -> GroupContext:
        return GroupContext(self.now, int(self.now * 1000), self.settings, self.timers, self.random, SilentLog())

    def respond(self, to: object, result: Joined | Left | Synced) -> None:
        self.observed.append(f"{to}: {describe(result)}")

    def describe_record(self, key: bytes, value: bytes | None) -> str:
        return _record(key, value)

    def do_set(self, step: Step) -> None:
        self.settings = self.settings._replace(**{name: int(value) for name, value in step.arguments.items()})

    def do_join(self, step: Step) -> None:
        protocols = step.list("protocols") or ["range:x"]
        request = Join(
            group_id=step.get("group", "g"),
            member_id=self.member(step.get("member")),
            instance_id=step.get("instance") or None,
            client_id=step.get("client", "c"),
            client_host="/127.0.0.1",
            session_timeout_ms=step.int("session", 10_000),
            rebalance_timeout_ms=step.int("rebalance", 60_000),
            protocol_type=step.get("type", "consumer"),
            protocols={name: metadata(text) for name, _, text in (one.partition(":") for one in protocols)},
            reason="",
            needs_member_id=not step.flag("old"),
            can_skip_assignment=step.flag("skip"),
        )
        context = self.context()
        self.shard.join(context, request, step.required("as"))
        self.perform(context)

    def do_sync(self, step: Step) -> None:
        assignments = (one.partition(":") for one in step.list("assignments"))
        request = Sync(
            group_id=step.get("group", "g"),
            member_id=self.member(step.get("member")),
            instance_id=step.get("instance") or None,
            generation=step.int("generation"),
            protocol_type=step.get("type") or None,
            protocol=step.get("protocol") or None,
            assignments={self.member(member): text.encode() for member, _, text in assignments},
        )
        context = self.context()
        self.shard.sync(context, request, step.required("as"))
        self.perform(context)

    def do_heartbeat(self, step: Step) -> None:
        error = self.shard.heartbeat(
            self.timers,
            self.now,
            step.get("group", "g"),
            self.member(step.get("member")),
            step.get("instance") or None,
            step.int("generation"),
        )
        self.observed.append(error.name)

    def do_leave(self, step: Step) -> None:
        leaving = [Leaving(self.member(member), step.get("instance") or None, "") for member in step.list("members")]
        leaving += [Leaving("", instance, "") for instance in step.list("instances")]
        context = self.context()
        self.shard.leave(context, step.get("group", "g"), leaving, step.required("as"))
        self.perform(context)

    def do_commit(self, step: Step) -> None:
        committed_by = Commit(
            step.get("group", "g"),
            self.member(step.get("member")),
            step.get("instance") or None,
            step.int("generation", -1),
        )
        offset = Offset(step.get("topic", "t"), TOPIC_ID, step.int("partition", 0), step.int("offset"), -1, "")
        records, errors, *_ = self.shard.commit(
            self.context(),
            committed_by,
            [offset],
            retention_ms=step.int("retention", -1),
            reports_unknown_group=step.get("unknown") != "old",
        )
        self.write(records)
        self.observed += [error.name for error in errors]

    def do_txn_commit(self, step: Step) -> None:
        producer = ProducerIdAndEpoch(step.int("producer"), step.int("epoch", 0))
        committed_by = Commit(
            step.get("group", "g"),
            self.member(step.get("member")),
            step.get("instance") or None,
            step.int("generation", -1),
        )
        offset = Offset(step.get("topic", "t"), TOPIC_ID, step.int("partition", 0), step.int("offset"), -1, "")
        result = self.shard.commit_transactional(self.context(), committed_by, producer, [offset])
        assert result.producer == producer
        self.write(result.records, producer)
        self.observed += [error.name for error in result.response]

    def do_end_txn(self, step: Step) -> None:
        marker = Marker(ProducerIdAndEpoch(step.int("producer"), 0), not step.flag("abort"))
        self.shard.replay_end_transaction_marker(*marker)
        self.log.append(marker)

    def do_fetch(self, step: Step) -> None:
        topic, partition = step.get("topic", "t"), step.int("partition", 0)
        committed = self.shard.fetch("g", topic, TOPIC_ID, partition)
        unstable = " unstable" if self.shard.offsets.is_pending(("g", topic, partition)) else ""
        self.observed.append(f"{'none' if committed is None else committed.offset}{unstable}")

    def do_delete_offsets(self, step: Step) -> None:
        partitions = [(step.get("topic", "t"), int(partition)) for partition in step.list("partitions")]
        records, errors, *_ = self.shard.delete_offsets(step.get("group", "g"), partitions)
        self.write(records)
        self.observed += [error.name for error in errors]

    def do_delete_group(self, step: Step) -> None:
        self.write(self.shard.delete_group(step.get("group", "g")).records)

    def do_expire(self, step: Step) -> None:
        for records in self.shard.expire(self.context()):
            self.write(records)

    def do_forget_topic(self, step: Step) -> None:
        for records in self.shard.forget_topics([(step.get("topic", "t"), TOPIC_ID)]):
            self.write(records)

    def write(self, records: list[tuple[bytes, bytes | None]], producer: ProducerIdAndEpoch | None = None) -> None:
        for key, value in records:
            suffix = "" if producer is None else f" by producer {producer.producer_id}"
            self.observed.append(f"append {_record(key, value)}{suffix}")
            self.shard.replay(int(self.now * 1000), len(self.log), key, value, producer)
            self.log.append((key, value) if producer is None else (key, value, producer))

    def do_reload(self, step: Step) -> None:
        self.timers = Timers()
        self.shard = GroupCoordinatorShard()
        for offset, stored in enumerate(self.log):
            if isinstance(stored, Marker):
                self.shard.replay_end_transaction_marker(*stored)
            else:
                self.shard.replay(int(self.now * 1000), offset, *stored)
        context = self.context()
        self.shard.loaded(context)
        self.perform(context)

    def do_show(self, step: Step) -> None:
        for group in self.shard.groups.values():
            self.observed.append(
                f"{group.group_id}: {group.state} generation={group.generation} type={group.protocol_type} "
                f"protocol={group.protocol} leader={group.leader}"
            )
            for member in group.members.values():
                waits = "join" if member.awaiting_join else "sync" if member.awaiting_sync else "-"
                instance = f" instance={member.instance_id}" if member.instance_id else ""
                assignment = member.assignment.decode() or "-"
                self.observed.append(f"  {member.member_id}{instance} assignment={assignment} awaits={waits}")
            self.observed += [f"  {member_id} pending" for member_id in group.pending]
            for topic, partitions in self.shard.offsets.of_group(group.group_id).items():
                self.observed += [f"  {topic}-{index} at {offset.offset}" for index, offset in partitions.items()]


def metadata(text: str) -> bytes:
    if not text.startswith("@"):
        return text.encode()
    topic = text.removeprefix("@").encode()
    return b"\0\0" + (1).to_bytes(4, "big") + len(topic).to_bytes(2, "big") + topic


def readable(metadata: bytes) -> str:
    topics = read_subscription(metadata)
    return metadata.decode() if topics is None else f"@{','.join(topics)}"


def describe(result: Joined | Left | Synced) -> str:
    words = [result.error.name]
    if isinstance(result, Joined):
        words += [f"member={result.member_id}"] if result.member_id else []
        if result.error == ErrorCode.NONE:
            words += [f"generation={result.generation}", f"protocol={result.protocol}", f"leader={result.leader}"]
            words += ["skip"] if result.skip_assignment else []
            members = (f"{one.member_id}:{readable(one.metadata)}" for one in result.members)
            words += [f"members=({', '.join(members)})"] if result.members else []
    elif isinstance(result, Synced):
        words += [f"assignment={result.assignment.decode() or '-'}"] if result.error == ErrorCode.NONE else []
    elif isinstance(result, Left):
        words += [error.name for error in result.members]
    return " ".join(words)


def _record(key: bytes, value: bytes | None) -> str:
    if kind_of(key) == 1:
        group_id, topic, partition = read_offset_key(key)
        committed = "deleted" if value is None else read_offset(value, -1).offset
        return f"offset {group_id} {topic}-{partition} {committed}"
    group_id = read_group_key(key)
    if value is None:
        return f"group {group_id} deleted"
    group = read_group(group_id, value, 0)
    members = ", ".join(f"{one.member_id}:{one.assignment.decode()}" for one in group.members.values())
    return f"group {group_id} generation={group.generation} protocol={group.protocol} members=({members})"


def test_transcript(script: Script) -> None:
    script.run(Machine().run)
