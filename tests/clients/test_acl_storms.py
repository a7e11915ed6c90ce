"""Storms of access control entries: administrators create, list and delete thousands of them without a pause.

Meanwhile a client that entries allow to do so authenticates, writes and reads within `SERVED_S`, a member of a group
stays in it, and the memory of the brokers is bounded. Of three brokers each gets requests of administrators, and two
forward them to the active controller.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any, NamedTuple

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.create_acls import CreateAclsRequest
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.delete_acls import DeleteAclsRequest
from protocol.messages.fetch import FetchRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.produce import ProduceRequest
from protocol.record_batch import build_batch
from tests import proofs
from tests.broker_process import QUICK_GROUPS, BrokerProcess
from tests.chaos.cluster import CLIENTS, Cluster, NoGates, wait_until
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

    def check_round(self, *, at_once: bool) -> None:
        """Receive the responses: every entry was created, listed and deleted.

        Entries are listed `at_once` by the active controller, and by other brokers once they have applied them.
        """
        for request in range(REQUESTS):
            created = self.receive(ApiKey.CREATE_ACLS, 3)
            assert [result.error_code for result in created.results] == [ErrorCode.NONE] * ENTRIES
            listed = self.receive(ApiKey.DESCRIBE_ACLS, 3)
            mine = [acl for one in listed.resources for acl in one.acls if acl.principal == self._principal]
            assert (len(mine) == (request + 1) * ENTRIES) or (not at_once and len(mine) <= (request + 1) * ENTRIES)
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


class Stormed(NamedTuple):
    """The brokers of a storm."""

    addresses: list[str]
    pids: list[int]
    leader: str
    """The address of the topic's leader."""
    coordinator: str


SETTINGS: dict[str, object] = {
    **QUICK_GROUPS,
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.clients.plain.sasl.jaas.config": f'{PLAIN} user_admin="secret" user_alice="secret";',
    "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "INTERNAL",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",  # nodes, which do not authenticate
}


def prepared(addresses: list[str], pids: list[int]) -> Stormed:
    """Create the topic and the entries of alice; return the brokers once they serve both and groups."""
    topic = CreateTopicsRequest.Topic(
        name=TOPIC, num_partitions=1, replication_factor=len(pids), assignments=[], configs=[]
    )
    allowed = [entry(TOPICS, TOPIC, operation, "User:alice") for operation in (READ, WRITE)]
    allowed.append(entry(GROUPS, "*", READ, "User:alice"))
    found: list[str] = []
    with UserConnection(addresses[0], "admin", "secret") as admin:

        def serves() -> bool:
            described = admin.call(ApiKey.METADATA, 5, topics=[MetadataRequest.Topic(name=TOPIC)])
            coordinator = admin.call(ApiKey.FIND_COORDINATOR, 0, key="heartbeats")
            [[partition]] = [one.partitions for one in described.topics]
            hosts = {broker.node_id: f"{broker.host}:{broker.port}" for broker in described.brokers}
            found[:] = [hosts.get(partition.leader_id, ""), f"{coordinator.host}:{coordinator.port}"]
            return len(partition.isr_nodes) == len(pids) and "" not in found and not coordinator.error_code

        admin.call(ApiKey.CREATE_TOPICS, 5, topics=[topic])
        admin.call(ApiKey.CREATE_ACLS, 3, creations=allowed)
        wait_until(serves, "a leader and a coordinator")
    return Stormed(addresses, pids, *found)


@pytest.fixture(scope="module", params=[1, 3], ids=["one broker", "three brokers"])
def stormed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stormed]:
    folder = tmp_path_factory.mktemp("brokers")
    if request.param == 1:
        listeners = {"listeners": "CLIENTS://127.0.0.1:0,INTERNAL://127.0.0.1:0"}
        with BrokerProcess(folder / "one", {**SETTINGS, **listeners}) as broker:
            yield prepared([broker.bootstrap], [broker.pid])
            assert broker.stop() == 0
        broker.check_log()
        return
    with Cluster(folder / "three", NoGates(), {**SETTINGS, "default.replication.factor": 3}) as cluster:
        nodes = list(cluster.nodes.values())
        wait_until(lambda: all(node.is_ready for node in nodes), "three brokers that are ready")
        yield prepared([node.addresses[CLIENTS] for node in nodes], list(cluster.processes))
        assert [line for node in nodes for line in node.complaints()] == []


@pytest.fixture
def member(stormed: Stormed) -> Iterator[Member]:
    client: RawClient = UserConnection(stormed.coordinator, "alice", "secret")
    found = Member(client)
    yield found
    found.stop()


def test_storms_of_entries_do_not_keep_other_clients_waiting(stormed: Stormed, member: Member) -> None:
    count = len(stormed.pids)

    def serve() -> float:
        return serve_one(stormed.leader)

    def attack() -> None:
        for storm in storms:
            storm.send_round()
        for _ in storms:
            running.serve_another()
        for storm in storms:
            storm.check_round(at_once=count == 1)

    most = ADMINISTRATORS * REQUESTS * ENTRIES
    serve()
    with ExitStack() as drills:
        for number, pid in enumerate(stormed.pids):
            what = f"entries, created, listed and deleted; broker {number + 1} of {count}"
            running = drills.enter_context(drill(what, pid, member, serve, most, BYTES_EACH, SPARE_BYTES))
        storms = [
            running.held.enter_context(closing(Storm(stormed.addresses[number % count], number)))
            for number in range(ADMINISTRATORS)
        ]
        for _ in range(ROUNDS):
            attack()
    proofs.count("access control entries that were created and deleted", ROUNDS * most)
