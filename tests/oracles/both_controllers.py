"""Our controller and Apache Kafka's, with the same requests from simulated brokers sent to both.

Ours is the commands and `BrokerHeartbeatManager` on an image; Kafka's is a server whose own broker
leads none of the tested partitions. Compared are error codes, broker states, and partition states.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any

from controller.broker_heartbeat_manager import BrokerHeartbeatManager
from controller.commands.alter_partition import alter_partition
from controller.commands.brokers import unregister_broker
from controller.commands.heartbeats import broker_heartbeat
from controller.commands.producer_ids import allocate_producer_ids
from controller.commands.reassignments import alter_partition_reassignments
from controller.commands.registration import register_broker
from controller.image import Endpoint, MetadataImage
from protocol.api import ApiKey
from protocol.errors import KafkaError
from protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from protocol.messages.alter_partition import AlterPartitionRequest
from protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from protocol.records.metadata import FeatureLevelRecord
from tests.oracles.kafka_server import CLUSTER_ID, KafkaServer
from tests.raw_client import RawClient
from tests.unit.controller.cluster import Cluster, new_registration, new_topic

EVERYTHING = 1 << 40
"""A metadata offset beyond every test's log."""

HIGHEST = (1 << 15) - 1
_PATIENCE_S = 30

_IDS = count(100)

# State of a partition: leader, leader epoch, ISR, ELR, last known leader.
State = tuple[int, int, list[int], list[int], list[int]]


class BothControllers:
    """Two controllers. Broker epochs are kept by broker id, separately for each side."""

    def __init__(self, kafka: KafkaServer) -> None:
        self._controller, self._broker = RawClient(kafka.controller), RawClient(kafka.bootstrap)
        self._epochs: dict[int, int] = {}
        self._topic_ids: dict[str, bytes] = {}
        self._ours = Cluster(brokers=0)
        self._ours.image = MetadataImage(cluster_id=CLUSTER_ID)
        levels = self._broker.call(
            ApiKey.API_VERSIONS, 4, client_software_name="test", client_software_version="1"
        ).finalized_features
        self.features = {level.name: (0, HIGHEST) for level in levels}
        self._ours.replay(
            [FeatureLevelRecord(name=level.name, feature_level=level.max_version_level) for level in levels]
        )
        self._liveness = BrokerHeartbeatManager(session_timeout_ms=60_000, disconnect_grace_ms=300)
        self._liveness.become_active(self._ours.image, 0)

    def close(self) -> None:
        self._controller.close()
        self._broker.close()

    def register(self, broker_id: int, previous: bool = False, **fields: Any) -> int:
        """Register a broker with both; with `previous`, as after a clean shutdown. Return the error code of both.

        The request to Kafka's controller is retried: it keeps the id of a stopped broker until its last session ends.
        """
        # Offset 0 is not used on either side.
        ours, kafkas = self._ours_epoch(broker_id) if previous else 0, self._epochs.get(broker_id, 0) if previous else 0
        values = {
            "cluster_id": CLUSTER_ID,
            "incarnation_id": broker_id.to_bytes(16, "big"),
            "endpoints": {"PLAINTEXT": Endpoint("127.0.0.1", 1)},
            "directories": [directory(broker_id)],
            "features": self.features,
            **fields,
        }
        request = new_registration(broker_id, previous_broker_epoch=ours, **values)
        alive = self._liveness.alive(0)
        our_code = self._decide(partial(register_broker, request=request, settings=self._ours.settings, alive=alive))[0]
        request.previous_broker_epoch = kafkas

        def query() -> int:
            answer = self._controller.call(ApiKey.BROKER_REGISTRATION, 4, **_fields(request))
            if not answer.error_code:
                self._epochs[broker_id] = answer.broker_epoch
            code: int = answer.error_code
            return code

        _eventually_equal(query, our_code, self._keep_alive)
        return our_code

    def _keep_alive(self) -> None:
        """Send Kafka a heartbeat of each active broker."""
        for broker in self._ours.image.brokers.values():
            if broker.active:
                request = BrokerHeartbeatRequest(
                    broker_id=broker.broker_id,
                    broker_epoch=self._epochs[broker.broker_id],
                    current_metadata_offset=EVERYTHING,
                    want_fence=False,
                    want_shut_down=False,
                )
                self._controller.call(ApiKey.BROKER_HEARTBEAT, 1, **_fields(request))

    def new_id(self) -> int:
        """Return an unused broker id."""
        return next(_IDS)

    def join(self, count: int, **fields: Any) -> list[int]:
        """Register new brokers and unfence them; return their ids."""
        ids = [next(_IDS) for _ in range(count)]
        for broker_id in ids:
            assert self.register(broker_id, **fields) == 0
            assert self.beat(broker_id) == (0, True, False, False)
        return ids

    def leave_all(self) -> None:
        """Fence all brokers that joined."""
        for broker_id, broker in self._ours.image.brokers.items():
            if not broker.fenced:
                self.beat(broker_id, fence=True, stop=True)

    def beat(
        self,
        broker_id: int,
        *,
        lag: int | None = None,
        fence: bool = False,
        stop: bool = False,
        epoch: int = 0,
        offline: Sequence[bytes] = (),
    ) -> tuple[int, bool, bool, bool]:
        """Send both a heartbeat; return error code, caught up, fenced, to shut down.

        The broker has applied all metadata, or all but `lag` records before its registration; `epoch` is added to the
        registered epoch. If shutdown is not allowed yet, the request to Kafka is retried: Kafka's own broker may not
        have applied the metadata yet.
        """
        ours, kafkas = self._ours_epoch(broker_id), self._epochs.get(broker_id, 0)
        wishes: dict[str, Any] = {"want_fence": fence, "want_shut_down": stop, "offline_log_dirs": list(offline)}

        def request(known: int) -> BrokerHeartbeatRequest:
            offset = EVERYTHING if lag is None else known - lag
            return BrokerHeartbeatRequest(
                broker_id=broker_id, broker_epoch=known + epoch, current_metadata_offset=offset, **wishes
            )

        self._liveness.touch(broker_id, ours + epoch, request(ours).current_metadata_offset, None, 0)
        may_stop = self._liveness.may_stop(broker_id)
        code, answer = self._decide(
            partial(broker_heartbeat, request=request(ours), settings=self._ours.settings, may_stop=may_stop)
        )
        our_answer: Any = (code, answer.is_caught_up, answer.is_fenced, answer.should_shut_down) if answer else (code,)

        def query() -> tuple[Any, ...]:
            reported = self._controller.call(ApiKey.BROKER_HEARTBEAT, 1, **_fields(request(kafkas)))
            state = (reported.is_caught_up, reported.is_fenced, reported.should_shut_down)
            return (reported.error_code, *state) if answer else (reported.error_code,)

        _eventually_equal(query, our_answer)
        return our_answer if answer else (code, False, True, False)

    def create(self, assignments: Mapping[int, list[int]], **configs: str) -> str:
        """Create a topic in both; return its name."""
        name = f"t{next(_IDS)}"
        assert self._ours.create(name, assignments=assignments, configs=configs).error_code == 0
        topic = new_topic(name, assignments=assignments, configs=configs)
        reported = self._broker.call(ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout_ms=30_000).topics[0]
        assert reported.error_code == 0, reported.error_message
        self._topic_ids[name] = reported.topic_id
        return name

    def state(self, name: str, partition: int = 0) -> State:
        """Return the state of a partition, which must be equal in both."""
        found = self._ours.partition(name, partition)
        ours = (
            found.leader,
            found.leader_epoch,
            sorted(found.isr),
            sorted(found.eligible_leader_replicas),
            sorted(found.last_known_elr),
        )

        def query() -> State:
            topics = [DescribeTopicPartitionsRequest.Topic(name=name)]
            reported = self._broker.call(
                ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, topics=topics, response_partition_limit=2000
            )
            (one,) = [one for one in reported.topics[0].partitions if one.partition_index == partition] or [None]
            if one is None:
                return (-2, -2, [], [], [])
            return (
                one.leader_id,
                one.leader_epoch,
                sorted(one.isr_nodes),
                sorted(one.eligible_leader_replicas or ()),
                sorted(one.last_known_elr or ()),
            )

        _eventually_equal(query, ours)
        return ours

    def unregister(self, broker_id: int) -> int:
        """Unregister a broker from both; return the error code."""
        code, _ = self._decide(partial(unregister_broker, broker_id=broker_id, settings=self._ours.settings))
        assert code == self._controller.call(ApiKey.UNREGISTER_BROKER, 0, broker_id=broker_id).error_code
        return code

    def reassign(self, name: str, replicas: list[int] | None) -> int:
        """Reassign partition 0, or cancel its reassignment if `replicas` is None; return the error code of both."""
        requested = AlterPartitionReassignmentsRequest.Topic
        topics = [requested(name=name, partitions=[requested.Partition(partition_index=0, replicas=replicas)])]
        request = AlterPartitionReassignmentsRequest(topics=topics)
        _, answer = self._decide(partial(alter_partition_reassignments, request=request, settings=self._ours.settings))
        reported = self._controller.call(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, **_fields(request))
        ours, kafkas = (response.responses[0].partitions[0].error_code for response in (answer, reported))
        assert ours == kafkas, (ours, kafkas)
        return int(ours)

    def alter_isr(self, name: str, isr: list[int]) -> int:
        """Set the ISR of partition 0 as its leader; return the error code of both."""
        topic = self._ours.image.topic(name)
        assert topic is not None
        partition = topic.partitions[0]
        requested, state = AlterPartitionRequest.Topic, AlterPartitionRequest.Topic.Partition.BrokerState

        def request(topic_id: bytes, epochs: Mapping[int, int]) -> AlterPartitionRequest:
            wanted = requested.Partition(
                partition_index=0,
                leader_epoch=partition.leader_epoch,
                new_isr_with_epochs=[state(broker_id=one, broker_epoch=epochs[one]) for one in isr],
                partition_epoch=partition.partition_epoch,
            )
            return AlterPartitionRequest(
                broker_id=partition.leader,
                broker_epoch=epochs[partition.leader],
                topics=[requested(topic_id=topic_id, partitions=[wanted])],
            )

        epochs = {broker.broker_id: broker.epoch for broker in self._ours.image.brokers.values()}
        _, answer = self._decide(
            partial(alter_partition, request=request(topic.topic_id, epochs), settings=self._ours.settings)
        )
        reported = self._controller.call(
            ApiKey.ALTER_PARTITION, 3, **_fields(request(self._topic_ids[name], self._epochs))
        )
        ours, kafkas = (
            (one.error_code, one.leader_id, one.leader_epoch, one.isr, one.partition_epoch)
            for one in (response.topics[0].partitions[0] for response in (answer, reported))
        )
        assert ours == kafkas, (ours, kafkas)
        return int(ours[0])

    def assignment(self, name: str) -> tuple[list[int], list[int], list[int]]:
        """Return the replicas of partition 0, those being added and removed, which must be equal in both."""
        found = self._ours.partition(name, 0)
        ours = (list(found.replicas), sorted(found.adding_replicas), sorted(found.removing_replicas))

        def query() -> tuple[list[int], list[int], list[int]]:
            topics = [DescribeTopicPartitionsRequest.Topic(name=name)]
            reported = self._broker.call(
                ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, topics=topics, response_partition_limit=2000
            )
            moving = self._controller.call(
                ApiKey.LIST_PARTITION_REASSIGNMENTS,
                0,
                topics=[ListPartitionReassignmentsRequest.Topic(name=name, partition_indexes=[0])],
            )
            replicas = reported.topics[0].partitions[0].replica_nodes
            for topic in moving.topics:
                (one,) = topic.partitions
                return one.replicas, sorted(one.adding_replicas), sorted(one.removing_replicas)
            return replicas, [], []

        _eventually_equal(query, ours)
        return ours

    def allocate(self, broker_id: int, epoch: int = 0) -> tuple[int, int]:
        """Request producer ids from both; return the error code and the block size."""
        known = self._ours_epoch(broker_id) + epoch
        request = AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=known)
        code, answer = self._decide(partial(allocate_producer_ids, request=request))
        known = self._epochs.get(broker_id, 0) + epoch
        reported = self._controller.call(ApiKey.ALLOCATE_PRODUCER_IDS, 0, broker_id=broker_id, broker_epoch=known)
        ours = (code, answer.producer_id_len if answer else 0)
        assert ours == (reported.error_code, reported.producer_id_len)
        return ours

    def _ours_epoch(self, broker_id: int) -> int:
        broker = self._ours.image.brokers.get(broker_id)
        return 0 if broker is None else broker.epoch

    def _decide(self, command: Any) -> tuple[int, Any]:
        try:
            answer = self._ours.apply(command)
        except KafkaError as error:
            return int(error.code), None
        self._liveness.apply(self._ours.image, 0)
        return 0, answer


def directory(broker_id: int, number: int = 0) -> bytes:
    """Return the id of a broker's directory."""
    return b"dir" + (1000 * broker_id + number).to_bytes(13, "big")


def _fields(request: Any) -> dict[str, Any]:
    return {name: getattr(request, name) for cls in type(request).__mro__ for name in getattr(cls, "__slots__", ())}


def _eventually_equal(query: Callable[[], Any], ours: object, meanwhile: Callable[[], object] = lambda: None) -> None:
    """Return once Kafka gives the same result: its broker applies the controller's decisions with a delay."""
    deadline = time.monotonic() + _PATIENCE_S
    while (reported := query()) != ours and time.monotonic() < deadline:
        meanwhile()
        time.sleep(0.05)
    assert ours == reported, (ours, reported)
