"""Transactional requests that must be refused, against Apache Kafka's responses.

Each scenario is run on Barnabas and on Apache Kafka, with a transactional id and a topic of its own, and returns the
errors of its requests. A client of `transaction.version` 0 and 1 sends `OLD` versions, one of 2 (KIP-890) `NEW`
ones. Responses that ask for a repetition are repeated. What must not be disturbed is compared, too: the transaction of
another id that is open meanwhile, and is committed at the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any, NamedTuple

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.list_offsets import ListOffsetsRequest
from protocol.messages.produce import ProduceRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from protocol.record_batch import build_batch
from tests.broker_process import BrokerProcess
from tests.oracles.kafka_server import KafkaServer
from tests.oracles.telling import wait_for_leaders
from tests.raw_client import RawClient

SETTINGS = {
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 3,
    "offsets.topic.num.partitions": 5,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 100,
}
RETRIED = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}
TIMEOUT_S = 60
LONGEST = 32_767
FOREIGN = 987_654_321


class Versions(NamedTuple):
    """The versions of a client's requests."""

    produce: int
    end: int
    offsets: int


OLD, NEW = Versions(11, 4, 4), Versions(12, 5, 5)


class Producer(NamedTuple):
    """A producer's id and epoch."""

    id: int
    epoch: int


class Session:
    """The requests of one scenario to one broker; each returns its error."""

    def __init__(self, client: RawClient, name: str) -> None:
        """`name` is the topic, which exists, and the default transactional id."""
        self.client = client
        self.name = name

    def init(self, *, transactional_id: str | None = None, timeout_ms: int = 60_000, **recovered: int) -> Producer:
        """Return a new producer of the id."""
        name = self.name if transactional_id is None else transactional_id
        self._repeat(lambda: self._find(name, 1))
        answers = []

        def request() -> ErrorCode:
            answers.append(
                self.client.call(
                    ApiKey.INIT_PRODUCER_ID, 5, transactional_id=name, transaction_timeout_ms=timeout_ms, **recovered
                )
            )
            return ErrorCode(answers[-1].error_code)

        self.error = self._repeat(request)
        return Producer(answers[-1].producer_id, answers[-1].producer_epoch)

    def fence(self) -> None:
        """Send one InitProducerId of a new producer, and wait until the open transaction is aborted."""
        answer = self.client.call(ApiKey.INIT_PRODUCER_ID, 5, transactional_id=self.name, transaction_timeout_ms=60_000)
        assert answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        self.wait_for("CompleteAbort")

    def add(
        self, producer: Producer, *, transactional_id: str | None = None, topics: dict[str, list[int]] | None = None
    ) -> list[ErrorCode]:
        """Add partitions, by default the first of the topic; return their errors without repetitions."""
        codes: list[ErrorCode] = []

        def request() -> ErrorCode:
            answer = self.client.call(
                ApiKey.ADD_PARTITIONS_TO_TXN,
                3,
                v3_and_below_transactional_id=self.name if transactional_id is None else transactional_id,
                v3_and_below_producer_id=producer.id,
                v3_and_below_producer_epoch=producer.epoch,
                v3_and_below_topics=[
                    AddPartitionsToTxnRequest.Topic(name=topic, partitions=partitions)
                    for topic, partitions in (topics or {self.name: [0]}).items()
                ],
            )
            codes[:] = [
                ErrorCode(partition.partition_error_code)
                for topic in sorted(answer.results_by_topic_v3_and_below, key=lambda one: str(one.name))
                for partition in sorted(topic.results_by_partition, key=lambda one: int(one.partition_index))
            ]
            return codes[0]

        self._repeat(request)
        return codes

    def produce(
        self,
        producer: Producer,
        versions: Versions,
        *,
        transactional_id: str | None = None,
        second: Producer | None = None,
        **of_batch: Any,
    ) -> ErrorCode:
        """Produce a batch to the first partition, and in the same request one of `second` to the second."""
        fields: dict[str, Any] = {"base_sequence": 0, "is_transactional": True} | of_batch
        partitions = [
            ProduceRequest.Topic.Partition(
                index=index,
                records=build_batch(
                    [(None, b"value")],
                    timestamp_ms=int(time.time() * 1000),
                    producer_id=one.id,
                    producer_epoch=one.epoch,
                    **fields,
                ),
            )
            for index, one in enumerate((producer, second))
            if one is not None
        ]
        data = [ProduceRequest.Topic(name=self.name, partition_data=partitions)]

        def request() -> ErrorCode:
            answer = self.client.call(
                ApiKey.PRODUCE,
                versions.produce,
                transactional_id=self.name if transactional_id is None else transactional_id,
                acks=-1,
                timeout_ms=10_000,
                topic_data=data,
            )
            (first, *others) = sorted(answer.responses[0].partition_responses, key=lambda one: int(one.index))
            self.other_errors = [ErrorCode(one.error_code) for one in others]
            return ErrorCode(first.error_code)

        return self._repeat(request)

    def add_offsets(self, producer: Producer, group: str) -> ErrorCode:
        """Add a group's partition."""
        return self._repeat(
            lambda: ErrorCode(
                self.client.call(
                    ApiKey.ADD_OFFSETS_TO_TXN,
                    3,
                    transactional_id=self.name,
                    producer_id=producer.id,
                    producer_epoch=producer.epoch,
                    group_id=group,
                ).error_code
            )
        )

    def commit_offset(self, producer: Producer, versions: Versions, group: str, **member: Any) -> ErrorCode:
        """Commit an offset of the first partition in the transaction."""
        self._repeat(lambda: self._find(group, 0))
        offset = TxnOffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=7, committed_metadata=None)
        topics = [TxnOffsetCommitRequest.Topic(name=self.name, partitions=[offset])]
        return self._repeat(
            lambda: ErrorCode(
                self.client.call(
                    ApiKey.TXN_OFFSET_COMMIT,
                    versions.offsets,
                    transactional_id=self.name,
                    group_id=group,
                    producer_id=producer.id,
                    producer_epoch=producer.epoch,
                    topics=topics,
                    **member,
                )
                .topics[0]
                .partitions[0]
                .error_code
            )
        )

    def end(
        self, producer: Producer, versions: Versions, *, commit: bool = True, transactional_id: str | None = None
    ) -> tuple[ErrorCode, Producer]:
        """End the transaction; return the error, and the producer of the next one."""
        answers = []

        def request() -> ErrorCode:
            answers.append(
                self.client.call(
                    ApiKey.END_TXN,
                    versions.end,
                    transactional_id=self.name if transactional_id is None else transactional_id,
                    producer_id=producer.id,
                    producer_epoch=producer.epoch,
                    committed=commit,
                )
            )
            return ErrorCode(answers[-1].error_code)

        error = self._repeat(request)
        return error, Producer(answers[-1].producer_id, answers[-1].producer_epoch) if versions is NEW else producer

    def mark(self, producer: Producer, versions: Versions, *, topic: str | None = None, epoch: int = 0) -> ErrorCode:
        """Write a commit marker to the first partition; `epoch` is the coordinator's."""
        marker = WriteTxnMarkersRequest.Marker(
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            transaction_result=True,
            topics=[WriteTxnMarkersRequest.Marker.Topic(name=topic or self.name, partition_indexes=[0])],
            coordinator_epoch=epoch,
            transaction_version=2 if versions is NEW else 0,
        )
        answer = self.client.call(ApiKey.WRITE_TXN_MARKERS, 2, markers=[marker])
        return ErrorCode(answer.markers[0].topics[0].partitions[0].error_code)

    def end_offset(self, isolation: int) -> int:
        """Return the end of the first partition: the high watermark, or for isolation 1 the last stable offset."""
        partition = ListOffsetsRequest.Topic.Partition(partition_index=0, timestamp=-1)
        answer = self.client.call(
            ApiKey.LIST_OFFSETS,
            7,
            replica_id=-1,
            isolation_level=isolation,
            topics=[ListOffsetsRequest.Topic(name=self.name, partitions=[partition])],
        )
        return int(answer.topics[0].partitions[0].offset)

    def wait_for(self, state: str) -> None:
        """Return once the transaction is in a state; a decision is acknowledged before its markers are written."""
        deadline = time.monotonic() + TIMEOUT_S
        while (found := self._state()) != state:
            assert time.monotonic() < deadline, found

    def _state(self) -> str:
        answer = self.client.call(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=[self.name])
        return str(answer.transaction_states[0].transaction_state)

    def _find(self, key: str, key_type: int) -> ErrorCode:
        found = self.client.call(ApiKey.FIND_COORDINATOR, 4, key_type=key_type, coordinator_keys=[key])
        return ErrorCode(found.coordinators[0].error_code)

    def _repeat(self, request: Callable[[], ErrorCode]) -> ErrorCode:
        """Return the error of a request, which is repeated while it is one that clients repeat."""
        deadline = time.monotonic() + TIMEOUT_S
        while (error := request()) in RETRIED and time.monotonic() < deadline:
            time.sleep(0.02)
        return error


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The addresses of Barnabas and of Apache Kafka."""
    folder = tmp_path_factory.mktemp("both")
    kafka = KafkaServer(folder / "kafka", SETTINGS)
    with ExitStack() as stack:
        stack.callback(kafka.stop)
        ours = stack.enter_context(BrokerProcess(folder / "ours", SETTINGS))
        kafka.wait()
        yield ours.bootstrap, kafka.bootstrap
        ours.check_log()


def zombie_epochs(session: Session, versions: Versions) -> list[Any]:
    """Every request of a producer whose successor has been initialized."""
    zombie = session.init()
    first = [session.produce(zombie, versions) if versions is NEW else session.add(zombie)]
    session.init()
    return [
        *first,
        session.add(zombie),
        session.produce(zombie, versions),
        session.add_offsets(zombie, "group"),
        session.commit_offset(zombie, versions, "group"),
        session.end(zombie, versions),
        session.end(zombie, versions, commit=False),
        (session.init(producer_id=zombie.id, producer_epoch=zombie.epoch), session.error)[1],
    ]


def zombie_between_two_requests_of_its_successor(session: Session, versions: Versions) -> list[Any]:
    """The successor's first InitProducerId has aborted the transaction; it has not sent the second one yet."""
    zombie = session.init()
    found: list[Any] = [session.produce(zombie, versions)]
    session.fence()
    found.append(session.end(zombie, versions)[0])
    error, given = session.end(zombie, versions, commit=False)
    return [*found, error, given == zombie._replace(epoch=zombie.epoch + 1)]


def epochs_of_the_future(session: Session, versions: Versions) -> list[Any]:
    producer = session.init()
    future = producer._replace(epoch=producer.epoch + 5)
    return [
        session.add(future),
        session.produce(future, versions),
        session.commit_offset(future, versions, "group"),
        session.end(future, versions),
    ]


def foreign_producer_ids(session: Session, versions: Versions) -> list[Any]:
    """Producer ids of nobody and of another transactional id."""
    mine = session.init()
    other = session.init(transactional_id=f"{session.name} other")
    found: list[Any] = []
    for foreign in (Producer(FOREIGN, 0), other):
        found += [
            session.add(foreign),
            session.produce(foreign, versions),
            session.add_offsets(foreign, "group"),
            session.commit_offset(foreign, versions, "group"),
            session.end(foreign, versions),
        ]
    return [*found, session.add(mine), session.end(mine, versions)[0]]


def unknown_transactional_ids(session: Session, versions: Versions) -> list[Any]:
    producer = session.init()
    return [
        found
        for name in ("nobody", "")
        for found in (
            session.add(producer, transactional_id=name),
            session.produce(producer, versions, transactional_id=name),
            session.end(producer, versions, transactional_id=name)[0],
        )
    ]


def longest_transactional_id(session: Session, versions: Versions) -> list[Any]:
    name = session.name + "x" * (LONGEST - len(session.name))
    producer = session.init(transactional_id=name)
    return [
        session.error,
        session.add(producer, transactional_id=name),
        session.produce(producer, versions, transactional_id=name),
        session.end(producer, versions, transactional_id=name)[0],
    ]


def end_twice(session: Session, versions: Versions) -> list[Any]:
    """A repeated EndTxn, one with the other result, and one without a transaction."""
    producer = session.init()
    found: list[Any] = [session.end(producer, versions)[0]]
    for commit in (True, False):
        added = session.add(producer)
        error, following = session.end(producer, versions, commit=commit)
        found += [
            added,
            error,
            session.end(producer, versions, commit=commit)[0],
            session.end(producer, versions, commit=not commit)[0],
            session.end(following, versions)[0],
        ]
        producer = following
    return found


def commit_after_a_timeout(session: Session, versions: Versions) -> list[Any]:
    producer = session.init(timeout_ms=100)
    first = session.produce(producer, versions) if versions is NEW else [session.add(producer)]
    session.wait_for("CompleteAbort")
    return [
        first,
        session.end(producer, versions)[0],
        session.end(producer, versions, commit=False)[0],
        session.produce(producer, versions, base_sequence=1),
        session.add(producer),
        (session.init(producer_id=producer.id, producer_epoch=producer.epoch), session.error)[1],
    ]


def partitions_that_do_not_exist(session: Session, versions: Versions) -> list[Any]:
    producer = session.init()
    return [
        session.add(producer, topics={session.name: [0, 1, 9], "nosuch": [0]}),
        session.add(producer, topics={"nosuch": [0, -1]}),
        session.add(producer, topics={"": [0], "a/b": [3]}),
        session.end(producer, versions)[0],
    ]


def twenty_thousand_partitions(session: Session, versions: Versions) -> list[Any]:
    """None of which exists, but for the two of the topic."""
    producer = session.init()
    found = session.add(producer, topics={session.name: list(range(20_000))})
    return [len(found), found[:3], set(found[2:]), session.add(producer), session.end(producer, versions)[0]]


def markers_of_a_client(session: Session, versions: Versions) -> list[Any]:
    """Markers of transactions that are open, over, unknown, and of a former coordinator."""
    producer = session.init()
    found: list[Any] = [
        session.add(producer),
        session.produce(producer, versions),
        session.mark(producer, versions, topic="nosuch"),
        session.mark(producer._replace(epoch=producer.epoch + 1), versions, epoch=3),
        session.mark(producer, versions),
        session.mark(producer._replace(epoch=producer.epoch + 1), versions, epoch=2),
        session.mark(Producer(FOREIGN, 0), versions, epoch=9),
        session.mark(Producer(FOREIGN, 0), versions, epoch=8),
    ]
    return [*found, session.produce(producer, versions, base_sequence=1), session.end_offset(0) - session.end_offset(1)]


def offsets_of_a_group_that_is_not_in_the_transaction(session: Session, versions: Versions) -> list[Any]:
    """Groups of other partitions of `__consumer_offsets`, and members that a group does not have."""
    producer = session.init()
    found: list[Any] = [session.add_offsets(producer, "group")]
    found += [session.commit_offset(producer, versions, group) for group in ("group", "g1", "g2", "g3", "g4", "")]
    found += [
        session.commit_offset(producer, versions, "group", member_id="nobody", generation_id=3),
        session.commit_offset(producer, versions, "group", member_id="", generation_id=3),
        session.commit_offset(producer, versions, "group", group_instance_id="nobody"),
    ]
    found.append(session.end(producer, versions)[0])
    session.wait_for("CompleteCommit")
    return [*found, session.commit_offset(producer, OLD, "group")]


def batches_that_are_not_in_a_transaction(session: Session, versions: Versions) -> list[Any]:
    """Control batches, batches without a transaction or a transactional id, and sequence numbers out of order."""
    producer = session.init()
    found = [] if versions is NEW else [session.add(producer)]
    return [
        *found,
        session.produce(producer, versions, is_control=True),
        session.produce(producer, versions, base_sequence=3),
        session.produce(producer, versions),
        session.produce(producer, versions, is_transactional=False, base_sequence=1),
        session.produce(producer, versions, base_sequence=5),
        session.produce(producer, versions, base_sequence=1),
        session.end(producer, versions)[0],
    ]


def batches_without_a_producer_id(session: Session, versions: Versions) -> list[Any]:
    """Batches of producer id -1 and other negative ones, which are accepted, before, in and after a transaction."""
    nobody, negative = Producer(-1, -1), Producer(-2, 0)
    ways: list[dict[str, Any]] = [{"base_sequence": -1}, {}, {"base_sequence": -1, "is_transactional": False}]

    def outcomes() -> list[Any]:
        return [
            *(session.produce(nobody, versions, **way) for way in ways),
            *(session.produce(nobody, versions, transactional_id="nobody", **way) for way in ways),
            session.produce(nobody._replace(epoch=0), versions, **ways[0]),
            *(session.produce(negative, versions, **way) for way in ways),
            session.end_offset(0),
            session.end_offset(1),
        ]

    producer = session.init()
    found = [outcomes(), session.add(producer), outcomes(), session.produce(producer, versions), outcomes()]
    for first, second in ((nobody, producer), (producer, negative), (producer, Producer(FOREIGN, 0))):
        found += [session.produce(first, versions, second=second), session.other_errors]
    found.append(session.end(producer, versions)[0])
    session.wait_for("CompleteCommit")
    return [*found, outcomes()]


Compare = Callable[[Callable[[Session, Versions], list[Any]]], None]


@pytest.fixture(params=[OLD, NEW], ids=["old", "new"])
def compare(request: pytest.FixtureRequest, both: tuple[str, str]) -> Compare:
    """Return a function that runs a scenario on both brokers and compares what it returns."""

    def run(scenario: Callable[[Session, Versions], list[Any]]) -> None:
        ours, kafkas = (run_on(bootstrap, scenario, request.param) for bootstrap in both)
        assert ours == kafkas

    return run


def run_on(bootstrap: str, scenario: Callable[[Session, Versions], list[Any]], versions: Versions) -> list[Any]:
    """Return what a scenario returns, while another producer has a transaction open, which it commits afterwards."""
    name = f"{scenario.__name__}-{versions.end}"
    with closing(RawClient(bootstrap)) as client:
        topic = CreateTopicsRequest.Topic(name=name, num_partitions=2, replication_factor=1, assignments=[], configs=[])
        client.call(ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout_ms=30_000)
        wait_for_leaders(bootstrap, [name])
        bystander, other = Session(client, name), f"{name} bystander"
        producer = bystander.init(transactional_id=other)
        bystander.add(producer, transactional_id=other, topics={name: [1]})
        found = scenario(Session(client, name), versions)
        assert bystander.end(producer, OLD, transactional_id=other)[0] == ErrorCode.NONE
    return found


def test_rule_15_requests_of_a_fenced_producer(compare: Compare) -> None:
    compare(zombie_epochs)


def test_rule_15_producer_is_fenced_by_the_first_request_of_its_successor_and_not_before_the_second_by_kafka(
    both: tuple[str, str],
) -> None:
    ours, kafkas = (run_on(bootstrap, zombie_between_two_requests_of_its_successor, NEW) for bootstrap in both)
    assert ours == [ErrorCode.NONE, ErrorCode.PRODUCER_FENCED, ErrorCode.PRODUCER_FENCED, False]
    assert kafkas == [ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE, ErrorCode.NONE, True]


def test_requests_with_an_epoch_that_no_producer_was_given(compare: Compare) -> None:
    compare(epochs_of_the_future)


def test_requests_with_the_producer_id_of_another(compare: Compare) -> None:
    compare(foreign_producer_ids)


def test_requests_with_an_unknown_or_empty_transactional_id(compare: Compare) -> None:
    compare(unknown_transactional_ids)


def test_transactional_id_of_32_kb(compare: Compare) -> None:
    compare(longest_transactional_id)


def test_transaction_that_is_ended_twice(compare: Compare) -> None:
    compare(end_twice)


def test_rule_14_requests_after_the_transaction_timed_out(compare: Compare) -> None:
    compare(commit_after_a_timeout)


def test_partitions_that_do_not_exist(compare: Compare) -> None:
    compare(partitions_that_do_not_exist)


def test_twenty_thousand_partitions_of_which_two_exist(compare: Compare) -> None:
    compare(twenty_thousand_partitions)


def test_markers_of_a_client(compare: Compare) -> None:
    compare(markers_of_a_client)


def test_offsets_of_groups_that_are_not_in_the_transaction(compare: Compare) -> None:
    compare(offsets_of_a_group_that_is_not_in_the_transaction)


def test_batches_without_a_producer_id(compare: Compare) -> None:
    compare(batches_without_a_producer_id)


def test_batches_that_are_not_part_of_a_transaction(compare: Compare) -> None:
    compare(batches_that_are_not_in_a_transaction)
