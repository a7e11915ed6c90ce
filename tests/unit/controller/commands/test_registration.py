"""BrokerRegistration."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from controller.commands.brokers import unfence_broker
from controller.commands.registration import SUPPORTED_FEATURES, register_broker
from controller.image import NO_LEADER, Endpoint
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.broker_registration import BrokerRegistrationRequest
from protocol.records.metadata import FeatureLevelRecord, RegisterBrokerRecord
from tests.unit.controller.cluster import Cluster, directory, new_registration

ELR = FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1)


def register(cluster: Cluster, request: BrokerRegistrationRequest, *alive: int) -> int:
    answer = cluster.apply(partial(register_broker, request=request, settings=cluster.settings, alive=alive))
    epoch: int = answer.broker_epoch
    return epoch


def refusal(cluster: Cluster, request: BrokerRegistrationRequest, *alive: int) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        register(cluster, request, *alive)
    return refused.value.code


def test_a_broker_registers_fenced_with_what_it_said() -> None:
    cluster = Cluster(brokers=0)
    request = new_registration(
        5, endpoints={"A": Endpoint("h", 1, 1)}, rack="r", directories=[directory(5, 1), directory(5, 0)]
    )
    epoch = register(cluster, request)
    assert cluster.image.brokers[5] == (
        *(5, epoch, b"i" * 16, {"A": ("h", 1, 1)}, SUPPORTED_FEATURES, "r", True, False),
        *((directory(5, 1), directory(5, 0)), None),
    )


def test_the_epoch_is_the_offset_of_the_record() -> None:
    cluster = Cluster(brokers=1)
    cluster.create("t")
    offset = cluster.image.offset
    assert register(cluster, new_registration(1)) == offset + 1
    assert isinstance(cluster.records[0], RegisterBrokerRecord)
    assert len(cluster.records) == 2


def test_to_say_the_same_again_changes_nothing() -> None:
    cluster = Cluster(brokers=0)
    epoch = register(cluster, new_registration(1))
    cluster.apply(lambda image: unfence_broker(image, 1, epoch, cluster.settings))
    assert register(cluster, new_registration(1), 1) == epoch
    assert cluster.records == ()


def test_the_same_incarnation_amends_what_it_said_and_keeps_its_epoch_and_leaderships() -> None:
    cluster = Cluster(brokers=0)
    epoch = register(cluster, new_registration(1))
    cluster.apply(lambda image: unfence_broker(image, 1, epoch, cluster.settings))
    cluster.create("t")
    assert register(cluster, new_registration(1, rack="r"), 1) == epoch
    broker = cluster.image.brokers[1]
    assert (broker.epoch, broker.fenced, broker.rack) == (epoch, False, "r")
    assert cluster.partition("t").leader == 1


def test_another_cluster_is_refused() -> None:
    request = new_registration(1, cluster_id="another")
    assert refusal(Cluster(), request) is ErrorCode.INCONSISTENT_CLUSTER_ID


def test_an_id_is_taken_while_its_owner_is_alive() -> None:
    cluster = Cluster(brokers=1)
    assert refusal(cluster, new_registration(1), 1) is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert register(cluster, new_registration(1), 2) > 0


def test_that_of_a_broker_that_starts_is_taken_too() -> None:
    cluster = Cluster(brokers=0)
    cluster.add_broker(1, fenced=True)
    assert refusal(cluster, new_registration(1), 1) is ErrorCode.DUPLICATE_BROKER_REGISTRATION


def test_its_next_run_may_have_it_once_it_has_stopped_in_order() -> None:
    cluster = Cluster(brokers=1)
    last = cluster.image.brokers[1].epoch
    assert refusal(cluster, new_registration(1, previous_broker_epoch=last - 1), 1)
    assert register(cluster, new_registration(1, previous_broker_epoch=last), 1) > last
    assert cluster.image.brokers[1].fenced


def test_nobody_comes_from_zookeeper() -> None:
    request = new_registration(2, is_migrating_zk_broker=True)
    assert refusal(Cluster(), request) is ErrorCode.BROKER_ID_NOT_REGISTERED


@pytest.mark.parametrize(
    "directories",
    [[], [bytes(16)], [directory(2), (99).to_bytes(16, "big")], [directory(2), directory(2)], [directory(1)]],
    ids=["none", "unassigned", "reserved", "twice", "another broker's"],
)
def test_directories_that_cannot_be_its_own_are_refused(directories: list[bytes]) -> None:
    request = new_registration(2, directories=directories)
    assert refusal(Cluster(), request) is ErrorCode.INVALID_REGISTRATION


def test_the_first_id_that_is_not_reserved_is_a_directory() -> None:
    assert register(Cluster(), new_registration(2, directories=[(100).to_bytes(16, "big")])) > 0


@pytest.mark.parametrize(
    ("name", "level", "supported"),
    [
        ("group.version", 1, {}),
        ("group.version", 2, {"group.version": (0, 1)}),
        ("metadata.version", 29, {"metadata.version": (30, 31)}),
        ("unheard.of", 1, {}),
        ("another", 1, {"metadata.version": (30, 30), "another": (0, 1), "later": (1, 2)}),
    ],
    ids=["unknown", "too high", "too low", "unheard of", "needed by the broker"],
)
def test_a_broker_that_does_not_know_what_the_cluster_uses_cannot_join(
    name: str, level: int, supported: dict[str, tuple[int, int]]
) -> None:
    cluster = Cluster()
    cluster.replay([FeatureLevelRecord(name=name, feature_level=level)])
    request = new_registration(2, features={"metadata.version": (1, 30), **supported})
    assert refusal(cluster, request) is ErrorCode.UNSUPPORTED_VERSION


def test_a_broker_has_to_know_some_metadata_version() -> None:
    cluster = Cluster()
    cluster.replay([FeatureLevelRecord(name="group.version", feature_level=1)])
    assert refusal(cluster, new_registration(2, features={})) is ErrorCode.INVALID_REGISTRATION


def stopped(cluster: Cluster, previous_broker_epoch: int) -> Any:
    """Return the partition of a broker that was the last in the ISR and has registered again."""
    cluster.replay([ELR])
    cluster.create("t")
    features = {"metadata.version": (1, 30), "eligible.leader.replicas.version": (0, 1)}
    register(cluster, new_registration(1, features=features, previous_broker_epoch=previous_broker_epoch))
    return cluster.partition("t")


def test_after_a_clean_stop_a_replica_stays_eligible() -> None:
    cluster = Cluster()
    partition = stopped(cluster, cluster.image.brokers[1].epoch)
    assert (partition.leader, partition.isr, partition.eligible_leader_replicas) == (NO_LEADER, (), (1,))


@pytest.mark.parametrize("previous", [-1, 99])
def test_after_any_other_stop_it_does_not(previous: int) -> None:
    partition = stopped(Cluster(), previous)
    assert (partition.leader, partition.isr, partition.eligible_leader_replicas) == (NO_LEADER, (), ())
