"""Transcripts of transactional ids: one shard's responses, records and markers, with a manual clock.

    init as=A [id=t] [timeout=60000] [producer=N epoch=N] [keep=yes]
    add as=A partitions=(topic-0, ...) [id=t] [producer=N] [epoch=N] [version=2]
    verify partitions=(topic-0, ...) [id=t] [producer=N] [epoch=N]
    commit as=A [id=t] [producer=N] [epoch=N] [version=2]
    abort as=A [id=t] [producer=N] [epoch=N] [version=2]
    markers [id=t]       all markers are written
    time-outs            abort the transactions that are open for too long
    expire               remove the ids that are unused for too long
    show                 the transactional ids
    reload               load the shard again from the stored records
    set name=value ...   settings of the coordinator; `version`: the finalized transaction.version
    epoch [id=t] at=N    give the id this epoch, as after many transactions; of a kept transaction, its client
    no-producer-ids      the controller allocates no producer ids from now on

and those of `tests.scripts.shard_machine`.

`version` of a request is the transaction.version that its client uses. Without producer= and epoch= a request has those
of the latest response that gave some. Producer ids are 1000, 1001 ...
"""

from __future__ import annotations

import random

from broker.coordinator.runtime.context import ProducerIdAndEpoch
from broker.coordinator.runtime.timers import Timers
from broker.coordinator.transaction.context import (
    EndTransaction,
    InitProducerId,
    MarkersWritten,
    ProducerResult,
    TransactionContext,
    TransactionSettings,
)
from broker.coordinator.transaction.records import read_transaction, read_transactional_id
from broker.coordinator.transaction.shard import TransactionCoordinatorShard
from broker.coordinator.transaction.transaction_metadata import (
    TransactionalId,
    TransactionMetadata,
)
from broker.coordinator.transaction.transaction_partitions import TransactionPartitions
from protocol.errors import ErrorCode
from storage.checkpoint import TopicPartition
from tests.scripts.conftest import Script, Step
from tests.scripts.shard_machine import ShardMachine, SilentLog


class Machine(ShardMachine):
    """A shard with its clock, its log, and the deferred responses."""

    def __init__(self) -> None:
        super().__init__()
        self.settings = TransactionSettings()
        self.version = 2
        self.shard = TransactionCoordinatorShard()
        self.next_producer_id: int | None = 1000
        self.producer = ProducerIdAndEpoch(-1, -1)

    def context(self) -> TransactionContext:
        return TransactionContext(
            self.now,
            round(self.now * 1000),
            self.timers,
            random.Random(1),
            SilentLog(),
            settings=self.settings,
            transaction_version=self.version,
            take_producer_id=self.take_producer_id,
            send_markers=self.send_markers,
        )

    def take_producer_id(self) -> int | None:
        taken = self.next_producer_id
        if taken is not None:
            self.next_producer_id = taken + 1
        return taken

    def send_markers(self, one: TransactionalId) -> None:
        metadata = one.metadata
        what = "commit" if metadata.state.name == "PREPARE_COMMIT" else "abort"
        self.observed.append(
            f"send {what} of {metadata.producer_id}/{metadata.producer_epoch} v{metadata.client_transaction_version} "
            f"to ({describe_partitions(metadata)})"
        )

    def describe_record(self, key: bytes, value: bytes | None) -> str:
        return _record(key, value)

    def respond(self, to: object, result: ProducerResult | ErrorCode) -> None:
        if isinstance(result, ErrorCode):
            self.observed.append(f"{to}: {result.name}")
            return
        given = ""
        if result.producer_id >= 0:
            self.producer = ProducerIdAndEpoch(result.producer_id, result.producer_epoch)
            given = f" {result.producer_id}/{result.producer_epoch}"
        if result.ongoing_producer_id >= 0:
            given += f" ongoing={result.ongoing_producer_id}/{result.ongoing_producer_epoch}"
        self.observed.append(f"{to}: {result.error.name}{given}")

    def producer_of(self, step: Step) -> ProducerIdAndEpoch:
        return ProducerIdAndEpoch(
            step.int("producer", self.producer.producer_id), step.int("epoch", self.producer.epoch)
        )

    # Commands

    def do_set(self, step: Step) -> None:
        values = {name: int(value) for name, value in step.arguments.items()}
        self.version = values.pop("version", self.version)
        self.settings = self.settings._replace(**values)  # type: ignore[arg-type]

    def do_no_producer_ids(self, _step: Step) -> None:
        self.next_producer_id = None

    def do_init(self, step: Step) -> None:
        context = self.context()
        request = InitProducerId(
            step.get("id", "t"),
            step.int("timeout", 60_000),
            step.int("producer", -1),
            step.int("epoch", -1),
            keep_prepared=step.get("keep", "no") == "yes",
        )
        self.shard.init_producer_id(context, request, step.required("as"))
        self.perform(context)

    def do_add(self, step: Step) -> None:
        context = self.context()
        self.shard.add_partitions(
            context,
            step.get("id", "t"),
            self.producer_of(step),
            TransactionPartitions.of(partitions_of(step)),
            step.int("version", 2),
            step.required("as"),
        )
        self.perform(context)

    def do_verify(self, step: Step) -> None:
        errors = self.shard.verify_partitions(step.get("id", "t"), self.producer_of(step), partitions_of(step))
        self.observed += [f"{topic}-{index} {error.name}" for (topic, index), error in errors.items()]

    def do_commit(self, step: Step) -> None:
        self.end(step, commit=True)

    def do_abort(self, step: Step) -> None:
        self.end(step, commit=False)

    def end(self, step: Step, *, commit: bool) -> None:
        context = self.context()
        request = EndTransaction(step.get("id", "t"), *self.producer_of(step), commit, step.int("version", 2))
        self.shard.end(context, request, step.required("as"))
        self.perform(context)

    def do_markers(self, step: Step) -> None:
        context = self.context()
        self.shard.fire(context, MarkersWritten(step.get("id", "t")))
        self.perform(context)

    def do_time_outs(self, _step: Step) -> None:
        context = self.context()
        self.shard.abort_timed_out(list(self.shard.ids), context)
        self.perform(context)

    def do_expire(self, _step: Step) -> None:
        context = self.context()
        self.shard.expire(list(self.shard.ids), context)
        self.perform(context)

    def do_reload(self, _step: Step) -> None:
        self.timers = Timers()
        self.shard = TransactionCoordinatorShard()
        for offset, (key, value) in enumerate(self.log):
            self.shard.replay(round(self.now * 1000), offset, key, value)
        context = self.context()
        self.shard.loaded(context)
        self.perform(context)

    def do_epoch(self, step: Step) -> None:
        one = self.shard.ids[step.get("id", "t")]
        field = "next_producer_epoch" if one.metadata.is_kept else "producer_epoch"
        one.metadata = one.metadata._replace(**{field: step.int("at")})
        self.producer = one.metadata.client

    def do_show(self, _step: Step) -> None:
        for one in self.shard.ids.values():
            metadata, pending = one.metadata, one.pending
            target = "" if pending is None else f" -> {pending.state.display_name}"
            self.observed.append(f"{one.name}: {describe(metadata)} last={metadata.last_producer_epoch}{target}")


def partitions_of(step: Step) -> list[TopicPartition]:
    split = (one.rpartition("-") for one in step.list("partitions"))
    return [(topic, int(index)) for topic, _, index in split]


def describe_partitions(metadata: TransactionMetadata) -> str:
    return ", ".join(f"{topic}-{index}" for topic, index in sorted(metadata.partitions))


def describe(metadata: TransactionMetadata) -> str:
    words = [metadata.state.display_name, f"{metadata.producer_id}/{metadata.producer_epoch}"]
    if metadata.partitions:
        words.append(f"({describe_partitions(metadata)})")
    if metadata.start_ms >= 0:
        words.append(f"since={metadata.start_ms}")
    if metadata.previous_producer_id not in (-1, metadata.producer_id):
        words.append(f"previous={metadata.previous_producer_id}")
    if metadata.next_producer_id >= 0:
        epoch = metadata.next_producer_epoch
        words.append(f"next={metadata.next_producer_id}" + (f"/{epoch}" if epoch >= 0 else ""))
    return " ".join(words)


def _record(key: bytes, value: bytes | None) -> str:
    name = read_transactional_id(key)
    if value is None:
        return f"{name} deleted"
    return f"{name} v{value[1]} {describe(read_transaction(value))}"


def test_transcript(script: Script) -> None:
    script.run(Machine().run)
