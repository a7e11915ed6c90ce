"""Storms of access control entries: administrators create, list and delete thousands of them without a pause.

Meanwhile a client that entries allow to do so authenticates, writes and reads within `SERVED_S`, a member of a group
stays in it, and the broker's memory is bounded.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.create_acls import CreateAclsRequest
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.delete_acls import DeleteAclsRequest
from protocol.messages.fetch import FetchRequest
from protocol.messages.produce import ProduceRequest
from protocol.record_batch import build_batch
from tests import proofs
from tests.broker_process import QUICK_GROUPS, BrokerProcess
from tests.clients.drills import PLAIN, SPARE_BYTES, Member, drill
from tests.raw_client import RawClient
from tests.token_client import UserConnection

ROUNDS = int(os.environ.get("BARNABAS_TEST_ACL_STORMS", "2"))
ADMINISTRATORS = 4
REQUESTS = 5
"""How many CreateAcls each administrator sends in a round, each followed by a DescribeAcls of all entries."""
ENTRIES = 100
"""How many entries each of them creates."""
BYTES_EACH = 4096
TOPIC = "orders"
TOPICS, GROUPS = 2, 3
ANY, LITERAL, PREFIXED = 1, 3, 4
READ, WRITE = 3, 4
ALLOW = 3


def entry(kind: int, name: str, operation: int, principal: str, *, host: str = "*", pattern: int = LITERAL) -> object:
    return CreateAclsRequest.Creation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=ALLOW,
    )


class Storm(UserConnection):
    """An administrator of entries for a principal of its own, half of which cover the topic of the other clients."""

    def __init__(self, bootstrap: str, number: int) -> None:
        super().__init__(bootstrap, "admin", "secret")
        self._principal = f"User:storm{number}"

    def send_round(self) -> None:
        """Send requests that create entries, list all, and delete those that were created."""
        for request in range(REQUESTS):
            hosts = [f"10.0.{request}.{number}" for number in range(ENTRIES // 2)]
            covering = [entry(TOPICS, TOPIC[:3], READ, self._principal, host=host, pattern=PREFIXED) for host in hosts]
            others = [entry(TOPICS, f"other-{host}", READ, self._principal) for host in hosts]
            self.send(ApiKey.CREATE_ACLS, 3, creations=covering + others)
            self.send(ApiKey.DESCRIBE_ACLS, 3, **_filter())
        deletion = DeleteAclsRequest.Filter(**_filter(self._principal))
        self.send(ApiKey.DELETE_ACLS, 3, filters=[deletion])

    def check_round(self) -> None:
        """Receive the responses: every entry was created, listed and deleted."""
        for request in range(REQUESTS):
            created = self.receive(ApiKey.CREATE_ACLS, 3)
            assert [result.error_code for result in created.results] == [ErrorCode.NONE] * ENTRIES
            listed = self.receive(ApiKey.DESCRIBE_ACLS, 3)
            mine = [acl for one in listed.resources for acl in one.acls if acl.principal == self._principal]
            assert len(mine) == (request + 1) * ENTRIES
        [deleted] = self.receive(ApiKey.DELETE_ACLS, 3).filter_results
        assert len(deleted.matching_acls) == REQUESTS * ENTRIES


def _filter(principal: str | None = None) -> dict[str, Any]:
    """Return the fields of a filter of all entries, or of all of a principal."""
    return {
        "resource_type_filter": ANY,
        "resource_name_filter": None,
        "pattern_type_filter": ANY,
        "principal_filter": principal,
        "host_filter": None,
        "operation": ANY,
        "permission_type": ANY,
    }


def serve_one(bootstrap: str) -> float:
    """Let alice authenticate, write a record and read it; return the time in seconds."""
    began = time.monotonic()
    with UserConnection(bootstrap, "alice", "secret") as client:
        written = ProduceRequest.Topic.Partition(index=0, records=memoryview(build_batch([(None, b"value")])))
        topics = [ProduceRequest.Topic(name=TOPIC, partition_data=[written])]
        answer = client.call(ApiKey.PRODUCE, 9, acks=-1, timeout_ms=10_000, topic_data=topics)
        [[produced]] = [topic.partition_responses for topic in answer.responses]
        assert produced.error_code == ErrorCode.NONE
        wanted = FetchRequest.Topic.Partition(
            partition=0, fetch_offset=produced.base_offset, partition_max_bytes=1 << 20
        )
        read = [FetchRequest.Topic(topic=TOPIC, partitions=[wanted])]
        answer = client.call(ApiKey.FETCH, 11, max_wait_ms=10_000, min_bytes=1, topics=read)
        [[fetched]] = [topic.partitions for topic in answer.responses]
        assert fetched.error_code == ErrorCode.NONE
        assert b"value" in bytes(fetched.records)
    return time.monotonic() - began


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f'{PLAIN} username="admin" password="secret" user_admin="secret" user_alice="secret";'
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
    }
    with BrokerProcess(tmp_path_factory.mktemp("broker"), {**QUICK_GROUPS, **settings}) as running:
        topic = CreateTopicsRequest.Topic(
            name=TOPIC, num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        allowed = [entry(TOPICS, TOPIC, operation, "User:alice") for operation in (READ, WRITE)]
        allowed.append(entry(GROUPS, "*", READ, "User:alice"))
        with UserConnection(running.bootstrap, "admin", "secret") as admin:
            admin.call(ApiKey.CREATE_TOPICS, 5, topics=[topic])
            admin.call(ApiKey.CREATE_ACLS, 3, creations=allowed)
        yield running
        assert running.stop() == 0
    running.check_log()


@pytest.fixture
def member(broker: BrokerProcess) -> Iterator[Member]:
    client: RawClient = UserConnection(broker.bootstrap, "alice", "secret")
    found = Member(client)
    yield found
    found.stop()


def test_storms_of_entries_do_not_keep_other_clients_waiting(broker: BrokerProcess, member: Member) -> None:
    def attack() -> None:
        for storm in storms:
            storm.send_round()
        for _ in storms:
            running.serve_another()
        for storm in storms:
            storm.check_round()

    most = ADMINISTRATORS * REQUESTS * ENTRIES
    serve_one(broker.bootstrap)
    with drill(
        "entries, created, listed and deleted",
        broker.pid,
        member,
        lambda: serve_one(broker.bootstrap),
        most,
        BYTES_EACH,
        SPARE_BYTES,
    ) as running:
        storms = [
            running.held.enter_context(closing(Storm(broker.bootstrap, number))) for number in range(ADMINISTRATORS)
        ]
        for _ in range(ROUNDS):
            attack()
    proofs.count("access control entries that were created and deleted", ROUNDS * most)
