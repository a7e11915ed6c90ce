"""Rule 25: pipelined requests are answered in order, fetch sessions are strict, metadata epochs never decrease.

Six connections each write a handful of requests at once, among them fetches of sessions, of which the broker's cache
holds two, and then read the responses. ``BARNABAS_TEST_PIPELINES`` is the number of rounds; the default fits into
everyday runs. `tests/properties/test_fetch_sessions.py` shows, in virtual time, that an evicted session gets a full
fetch.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.fetch import FetchRequest
from protocol.messages.list_offsets import ListOffsetsRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.produce import ProduceRequest
from protocol.record_batch import build_batch, iter_batches, iter_records
from tests.broker_process import BrokerProcess
from tests.raw_client import RawClient

ROUNDS = int(os.environ.get("BARNABAS_TEST_PIPELINES", "60"))
CONNECTIONS = 6
SESSIONS = 2
PARTITIONS = 3
TOPIC = "pipelined"
NOW_MS = time.time_ns() // 1_000_000  # older records would be deleted while the test runs


class Pipeline:
    """One connection: its sent requests, their expected responses, and the records it has read."""

    def __init__(self, bootstrap: str, random: Random, produced: dict[tuple[int, int], bytes]) -> None:
        self.client = RawClient(bootstrap)
        self.random = random
        self.produced = produced
        self.read: dict[tuple[int, int], bytes] = {}
        self.offsets = dict.fromkeys(range(PARTITIONS), 0)
        self.session_id = self.epoch = 0
        self.metadata_epoch = 0
        self.ends = dict.fromkeys(range(PARTITIONS), 0)
        self._sent = 0
        self._expected: list[tuple[int, ApiKey, int, Callable[[Any], None]]] = []

    def send_some(self) -> None:
        """Write up to a dozen requests; a fetch that starts a session comes last, since its response is needed."""
        kinds = [self.produce, self.list_latest, self.metadata, self.stranger]
        if self.session_id:
            kinds += [self.go_on, self.go_on, self.skip_an_epoch]
        for _ in range(self.random.randrange(12)):
            self.random.choice(kinds)()
        if not self.session_id or self.random.random() < 0.2:
            self.begin()

    def receive_all(self) -> None:
        for number, key, version, check in self._expected:
            response = self.client.receive(key, version)
            assert self.client.answered == number
            check(response)
        self._expected.clear()

    def _send(self, key: ApiKey, version: int, check: Callable[[Any], None], **fields: Any) -> None:
        self.client.send(key, version, **fields)
        self._sent += 1
        self._expected.append((self._sent, key, version, check))

    def produce(self) -> None:
        index = self.random.randrange(PARTITIONS)
        value = self.random.randbytes(self.random.choice([1, 100, 3000]))
        Topic = ProduceRequest.Topic  # noqa: N806
        part = Topic.Partition(index=index, records=build_batch([(None, value)], timestamp_ms=NOW_MS))

        def check(response: Any) -> None:
            [[answer]] = [topic.partition_responses for topic in response.responses]
            assert answer.error_code == ErrorCode.NONE
            assert answer.base_offset >= self.ends[index]
            self.ends[index] = answer.base_offset + 1
            self.produced[index, answer.base_offset] = value

        data = [Topic(name=TOPIC, partition_data=[part])]
        acks = self.random.choice([1, -1])
        self._send(ApiKey.PRODUCE, 9, check, transactional_id=None, acks=acks, timeout_ms=9000, topic_data=data)

    def list_latest(self) -> None:
        Topic = ListOffsetsRequest.Topic  # noqa: N806
        index = self.random.randrange(PARTITIONS)

        def check(response: Any) -> None:
            [[answer]] = [topic.partitions for topic in response.topics]
            assert answer.offset >= self.ends[index]  # records written earlier on this connection are stored

        topics = [Topic(name=TOPIC, partitions=[Topic.Partition(partition_index=index, timestamp=-1)])]
        self._send(ApiKey.LIST_OFFSETS, 7, check, replica_id=-1, topics=topics)

    def metadata(self) -> None:
        def check(response: Any) -> None:
            assert response.finalized_features_epoch >= self.metadata_epoch
            self.metadata_epoch = response.finalized_features_epoch

        self._send(ApiKey.API_VERSIONS, 3, check, client_software_name="raw", client_software_version="1")

    def begin(self) -> None:
        """Fetch all partitions, in a new session if the cache has room."""

        def check(response: Any) -> None:
            assert response.error_code == ErrorCode.NONE
            self.session_id, self.epoch = response.session_id, 1
            self.take_in(response)

        self._fetch(check, self.session_id, 0, range(PARTITIONS))

    def go_on(self) -> None:
        def check(response: Any) -> None:
            assert (response.error_code, response.session_id) == (ErrorCode.NONE, session)
            self.take_in(response)

        session = self.session_id
        self._fetch(check, session, self.epoch, self.random.sample(range(PARTITIONS), self.random.randrange(3)))
        self.epoch += 1

    def skip_an_epoch(self) -> None:
        self._refused(self.session_id, self.epoch + 1, ErrorCode.INVALID_FETCH_SESSION_EPOCH)

    def stranger(self) -> None:
        self._refused(self.random.randrange(1, 1 << 31), 5, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)

    def _refused(self, session_id: int, epoch: int, code: ErrorCode) -> None:
        def check(response: Any) -> None:
            assert (response.error_code, response.responses) == (code, [])

        self._fetch(check, session_id, epoch, [])

    def _fetch(self, check: Callable[[Any], None], session_id: int, epoch: int, named: Any) -> None:
        Topic = FetchRequest.Topic  # noqa: N806
        parts = [
            Topic.Partition(partition=index, fetch_offset=self.offsets[index], partition_max_bytes=1 << 20)
            for index in named
        ]
        self._send(
            ApiKey.FETCH,
            11,
            check,
            max_wait_ms=self.random.choice([0, 0, 5]),
            min_bytes=1,
            session_id=session_id,
            session_epoch=epoch,
            topics=[Topic(topic=TOPIC, partitions=parts)] if parts else [],
        )

    def take_in(self, response: Any) -> None:
        for topic in response.responses:
            for part in topic.partitions:
                assert part.error_code == ErrorCode.NONE
                data = part.records or b""
                for at, header in iter_batches(data):
                    for record in iter_records(data[at : at + header.size_bytes]):
                        self.read[part.partition_index, record.offset] = record.value or b""
                    self.offsets[part.partition_index] = max(self.offsets[part.partition_index], header.next_offset)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, {"max.incremental.fetch.session.cache.slots": SESSIONS}) as running:
        yield running
    running.check_log()


def create(client: RawClient, name: str, partitions: int = 1) -> None:
    Topic = CreateTopicsRequest.Topic  # noqa: N806
    new = Topic(name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[])
    client.call(ApiKey.CREATE_TOPICS, 5, topics=[new], timeout_ms=9000, validate_only=False)


def test_rule_25_pipelined_requests_are_answered_in_order_and_sessions_are_strict(broker: BrokerProcess) -> None:
    produced: dict[tuple[int, int], bytes] = {}
    with ExitStack() as open_clients:
        admin = open_clients.enter_context(closing(RawClient(broker.bootstrap)))
        create(admin, TOPIC, PARTITIONS)
        pipelines = [Pipeline(broker.bootstrap, Random(seed), produced) for seed in range(CONNECTIONS)]
        for pipeline in pipelines:
            open_clients.callback(pipeline.client.close)
        with_session = 0
        for number in range(ROUNDS):
            for pipeline in pipelines:
                pipeline.send_some()
            if number % 10 == 0:
                create(admin, f"other-{number}")  # so that the metadata changes
            for pipeline in pipelines:
                pipeline.receive_all()
            having = sum(pipeline.session_id != 0 for pipeline in pipelines)
            assert having <= SESSIONS
            with_session += having
        assert with_session > ROUNDS  # otherwise sessions were not exercised
        for pipeline in pipelines:
            before = -1
            while before < (before := len(pipeline.read)):
                pipeline.begin()
                pipeline.receive_all()
            assert pipeline.read == produced
            assert pipeline.metadata_epoch > 0


def test_rule_25_metadata_epoch_never_decreases_across_broker_restarts(broker: BrokerProcess) -> None:
    epochs = []
    for number in range(3):
        client = RawClient(broker.bootstrap)
        create(client, f"t-{number}")
        wanted = [MetadataRequest.Topic(name="t-0")]
        [topic] = client.call(ApiKey.METADATA, 9, topics=wanted).topics
        versions = client.call(ApiKey.API_VERSIONS, 3, client_software_name="raw", client_software_version="1")
        epochs.append((topic.partitions[0].leader_epoch, versions.finalized_features_epoch))
        client.close()
        broker.kill()
        broker.start()
    assert epochs == sorted(epochs)
    assert [metadata for _, metadata in epochs] == sorted({metadata for _, metadata in epochs})
