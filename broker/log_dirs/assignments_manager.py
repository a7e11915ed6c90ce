"""Reports replicas' log directories that differ from the metadata to the controller (KIP-858: `AssignmentsManager`).

They differ because this broker moved the replica, because it was moved by hand between two starts, or because the
directory is gone and its log was created anew, empty. The controller elects no replica whose directory it does not
know. So the directory of an empty new log is withheld while the partition has no leader: this broker may have been the
last in sync, and as leader of an empty log would make the others truncate theirs. If the disk comes back, nothing is
lost. If it does not, elect another replica (`kafka-leader-election --election-type unclean`); the election takes an
empty replica if there is no other. Apache Kafka reports at once, and so does this module if there is no other replica.

Reports without a successful response are sent again after `_PAUSE_S`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from controller.image import NO_LEADER
from protocol.errors import ErrorCode, KafkaError
from protocol.plural import count_of
from protocol.records.metadata import PartitionChangeRecord, PartitionRecord, RemoveTopicRecord

if TYPE_CHECKING:
    from broker.metadata.broker_lifecycle import Call
    from broker.replication.partition import Partition
    from controller.image import MetadataImage, PartitionImage
    from storage.log_manager import LogManager

    Key: TypeAlias = tuple[bytes, int]

_MAX_PER_REQUEST = 1000
_TIMEOUT_S = 30.0
_PAUSE_S = 1.0

_log = logging.getLogger("broker.moves")


class AssignmentsManager:
    """The directories of the replicas of a broker."""

    def __init__(
        self,
        node_id: int,
        broker_epoch: Callable[[], int],
        logs: LogManager,
        call: Call,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Report nothing before the broker is registered; `broker_epoch` returns the epoch of its registration."""
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._logs = logs
        self._call = call
        self._loop = loop
        self._pending: dict[Key, bytes] = {}
        self._withheld: dict[Key, bytes] = {}
        self._task: asyncio.Task[None] | None = None
        self._stopped = False

    def report_differences(self, image: MetadataImage, replicas: Iterable[Partition]) -> None:
        """Report, or withhold, every replica whose directory differs from `image`."""
        own_ids = {directory.directory_id for directory in self._logs.directories}
        differing: dict[Key, bytes] = {}
        for partition in replicas:
            directory_id = self._logs.directory_of(partition.log).directory_id
            state = image.partition(partition.topic, partition.index)
            if state is None or (known := state.directories[state.replicas.index(self._node_id)]) == directory_id:
                continue
            is_new = known not in own_ids and not partition.log.log_end_offset
            into = self._withheld if is_new and _may_be_last_replica(state) else differing
            into[partition.topic_id, partition.index] = directory_id
        self.report(differing)

    def report(self, assignments: Mapping[Key, bytes]) -> None:
        """Queue the directory ids of replicas, by topic id and partition index, for reporting."""
        for key, directory_id in assignments.items():
            self._pending[key] = directory_id
            self._withheld.pop(key, None)
        if self._pending and self._task is None and not self._stopped:
            self._task = self._loop.create_task(self._send_all())

    def apply(self, _old: MetadataImage, new: MetadataImage, records: Iterable[object]) -> None:
        """Report withheld replicas whose partition has a leader now; drop those of deleted topics."""
        for record in records if self._withheld else ():
            if isinstance(record, RemoveTopicRecord):
                self._withheld = {
                    key: directory_id for key, directory_id in self._withheld.items() if key[0] != record.topic_id
                }
            elif isinstance(record, (PartitionRecord, PartitionChangeRecord)):
                key = topic_id, index = record.topic_id, record.partition_id
                topic = new.topic_by_id(topic_id)
                if topic is not None and key in self._withheld and not _may_be_last_replica(topic.partitions[index]):
                    self.report({key: self._withheld[key]})

    def stop(self) -> None:
        """Send no more reports."""
        self._stopped = True
        if self._task is not None:
            self._task.cancel()

    async def _send_all(self) -> None:
        last_error = ErrorCode.NONE
        try:
            while batch := dict(islice(self._pending.items(), _MAX_PER_REQUEST)):
                code = await self._send(batch)
                if code not in (ErrorCode.NONE, last_error):
                    _log.warning(
                        "Assigning the directories of %s failed, will be retried: %s",
                        count_of(len(batch), "replica"),
                        code.name,
                    )
                last_error = code
                if code is ErrorCode.NONE:
                    self._pending = {
                        key: directory_id
                        for key, directory_id in self._pending.items()
                        if batch.get(key) != directory_id
                    }
                else:
                    await asyncio.sleep(_PAUSE_S)
        finally:
            self._task = None

    async def _send(self, assignments: Mapping[Key, bytes]) -> ErrorCode:
        from protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest

        found: dict[bytes, dict[bytes, list[int]]] = {}
        for (topic_id, index), directory_id in assignments.items():
            found.setdefault(directory_id, {}).setdefault(topic_id, []).append(index)
        request = AssignReplicasToDirsRequest(
            broker_id=self._node_id,
            broker_epoch=self._broker_epoch(),
            directories=[
                AssignReplicasToDirsRequest.Directory(
                    id=directory_id,
                    topics=[
                        AssignReplicasToDirsRequest.Directory.Topic(
                            topic_id=topic_id,
                            partitions=[
                                AssignReplicasToDirsRequest.Directory.Topic.Partition(partition_index=index)
                                for index in indexes
                            ],
                        )
                        for topic_id, indexes in topics.items()
                    ],
                )
                for directory_id, topics in found.items()
            ],
        )
        try:
            return ErrorCode((await self._call(request, _TIMEOUT_S)).error_code)
        except KafkaError as error:
            return error.code


def _may_be_last_replica(state: PartitionImage) -> bool:
    return state.leader == NO_LEADER and len(state.replicas) > 1
