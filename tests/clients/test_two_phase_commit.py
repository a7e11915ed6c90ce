"""Two-phase commit (KIP-939): a prepared transaction of a real producer outlives producer, broker and coordinator.

No released client has the API of KIP-939 yet. An external coordinator is a `Decider`, which sends the requests that
such a client would: InitProducerId 6 and EndTxn 5.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from broker.coordinator.runtime.context import ProducerIdAndEpoch
from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.offset_fetch import OffsetFetchRequest
from tests.broker_process import BrokerProcess
from tests.chaos.cluster import Cluster, wait_until
from tests.clients.transactions import TIMEOUT_S, ConfluentProducer, read, values
from tests.oracles.apache_kafka import kafka_tool
from tests.raw_client import RawClient

ENABLED = {
    "transaction.two.phase.commit.enable": True,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 100,
    "transaction.state.log.num.partitions": 3,
}
THREE = {"default.replication.factor": 3, "min.insync.replicas": 2, "offsets.topic.num.partitions": 3}
NO_TIMEOUT_MS = 2**31 - 1
UNSTABLE = -2
ID = "id"
RETRIED = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)


class DirectNetwork:
    """Connections go to the brokers directly."""

    def gate(self, _node: int, address: tuple[str, int]) -> int:
        return address[1]


class Decider:
    """The external coordinator's requests, to the transaction coordinator of the moment."""

    def __init__(self, *bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def coordinator(self) -> tuple[int, str]:
        """Return the coordinator's id and address."""
        found = self._call(self._bootstrap, ApiKey.FIND_COORDINATOR, 6, key_type=1, coordinator_keys=[ID])
        [one] = found.coordinators
        return one.node_id, f"{one.host}:{one.port}"

    def keep(self) -> tuple[ProducerIdAndEpoch, ProducerIdAndEpoch]:
        """Start a producer that keeps the transaction; return the producer, and that of the transaction."""
        answer = self._to_coordinator(
            ApiKey.INIT_PRODUCER_ID,
            6,
            transactional_id=ID,
            transaction_timeout_ms=NO_TIMEOUT_MS,
            enable_2pc=True,
            keep_prepared_txn=True,
        )
        assert answer.error_code == ErrorCode.NONE, answer
        return (
            ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch),
            ProducerIdAndEpoch(answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch),
        )

    def end(self, producer: ProducerIdAndEpoch, *, commit: bool) -> None:
        answer = self._to_coordinator(
            ApiKey.END_TXN,
            5,
            transactional_id=ID,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            committed=commit,
        )
        assert answer.error_code == ErrorCode.NONE, answer

    def describe(self) -> tuple[str, int]:
        """Return the state of the transaction, and its timeout in ms."""
        answer = self._to_coordinator(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=[ID])
        [one] = answer.transaction_states
        return one.transaction_state, one.transaction_timeout_ms

    def offset(self, group: str, topic: str) -> int:
        """Return the group's committed offset of partition 0, -1 if there is none, UNSTABLE while it is pending."""
        wanted = OffsetFetchRequest.Group.Topic(name=topic, partition_indexes=[0])
        groups = [OffsetFetchRequest.Group(group_id=group, topics=[wanted])]
        answer = self._call(self._bootstrap, ApiKey.OFFSET_FETCH, 8, groups=groups, require_stable=True)
        [one] = answer.groups[0].topics[0].partitions
        return UNSTABLE if one.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT else int(one.committed_offset)

    def _to_coordinator(self, key: ApiKey, version: int, **fields: object) -> Any:
        return self._call((self.coordinator()[1],), key, version, **fields)

    def _call(self, addresses: tuple[str, ...], key: ApiKey, version: int, **fields: object) -> Any:
        """Return the response of one of the brokers; ask them in turn, and again while the coordinator moves."""
        answers: list[Any] = []

        def is_answered() -> bool:
            for address in addresses:
                try:
                    with closing(RawClient(address)) as client:
                        answer = client.call(key, version, **fields)
                except OSError:
                    continue
                parts = (answer, *getattr(answer, "coordinators", ()), *getattr(answer, "groups", ()))
                if {getattr(part, "error_code", ErrorCode.NONE) for part in parts}.isdisjoint(RETRIED):
                    answers.append(answer)
                    return True
            return False

        wait_until(is_answered, f"a response to {key.name}")
        return answers[0]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("three"), DirectNetwork(), ENABLED | THREE) as cluster:
        cluster.wait_until_whole()
        yield cluster
        assert not {node.id: found for node in cluster.nodes.values() if (found := node.complaints())}


@pytest.mark.parametrize("commit", [True, False])
def test_prepared_transaction_is_ended_after_its_producer_and_broker_were_killed(tmp_path: Path, commit: bool) -> None:
    with BrokerProcess(tmp_path / "broker", ENABLED) as broker:
        crashed = ConfluentProducer(broker.bootstrap, ID)
        crashed.begin()
        crashed.send("t", 0, ["prepared"])
        crashed.send_offset("group", "t", 7)
        first, prepared = Decider(broker.bootstrap).keep()
        broker.kill()
        broker.start()
        decider = Decider(broker.bootstrap)
        second, still_prepared = decider.keep()
        assert (second, still_prepared) == (first._replace(epoch=first.epoch + 1), prepared)
        assert decider.describe() == ("Ongoing", NO_TIMEOUT_MS)
        assert (read(broker.bootstrap, "t"), decider.offset("group", "t")) == ([], UNSTABLE)
        decider.end(second, commit=commit)
        assert not commit or wait_for(broker.bootstrap, ["prepared"])
        wait_until(lambda: decider.offset("group", "t") == (7 if commit else -1), "the decision on the offset")
        producer = ConfluentProducer(broker.bootstrap, ID)
        producer.begin()
        producer.send("t", 0, ["next"])
        producer.commit()
        assert wait_for(broker.bootstrap, ["prepared", "next"] if commit else ["next"])
        assert broker.stop() == 0
        broker.check_log()


def test_producer_of_a_kept_transaction_is_fenced(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "broker", ENABLED) as broker:
        crashed = ConfluentProducer(broker.bootstrap, ID)
        crashed.begin()
        crashed.send("t", 0, ["prepared"])
        decider = Decider(broker.bootstrap)
        producer, _ = decider.keep()
        with pytest.raises(KafkaException, match="fenced"):
            crashed.commit()
        decider.end(producer, commit=True)
        assert wait_for(broker.bootstrap, ["prepared"])
        broker.check_log()


def test_prepared_transaction_can_be_terminated_by_kafkas_tool(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "broker", ENABLED) as broker:
        crashed = ConfluentProducer(broker.bootstrap, ID)
        crashed.begin()
        crashed.send("t", 0, ["prepared"])
        decider = Decider(broker.bootstrap)
        decider.keep()
        command = kafka_tool("org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", broker.bootstrap)
        done = subprocess.run(
            [*command, "forceTerminateTransaction", "--transactionalId", ID],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        wait_until(lambda: decider.describe()[0] in ("CompleteAbort", "Empty"), "the end of the transaction")
        assert read(broker.bootstrap, "t") == []
        broker.check_log()


def test_prepared_transaction_survives_the_loss_of_its_coordinator(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic("t", 1, 3)])["t"].result(TIMEOUT_S)
    crashed = ConfluentProducer(cluster.bootstrap, ID)
    crashed.begin()
    crashed.send("t", 0, ["prepared"])
    decider = Decider(*cluster.bootstrap.split(","))
    first, prepared = decider.keep()
    killed, _ = decider.coordinator()
    cluster.nodes[killed].kill()
    cluster.wait_for(lambda found: found.is_out_of_sync(killed), "the loss of the coordinator")
    second, still_prepared = decider.keep()
    assert (second, still_prepared) == (first._replace(epoch=first.epoch + 1), prepared)
    assert decider.coordinator()[0] != killed
    decider.end(second, commit=True)
    assert wait_for(cluster.bootstrap, ["prepared"])
    cluster.nodes[killed].start()
    cluster.wait_until_whole()


def wait_for(bootstrap: str, expected: list[str]) -> bool:
    """Wait until read_committed consumers read these values of the topic: markers follow the decision."""
    wait_until(lambda: values(read(bootstrap, "t")) == expected, f"{expected} committed")
    return True
