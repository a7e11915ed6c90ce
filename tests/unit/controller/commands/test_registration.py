"""BrokerRegistration and ControllerRegistration."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from controller.commands.brokers import unfence_broker
from controller.commands.registration import SUPPORTED_FEATURES, register_broker, register_controller
from controller.image import NO_LEADER, Endpoint
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.broker_registration import BrokerRegistrationRequest, RegisteredListener, SupportedFeature
from protocol.messages.controller_registration import ControllerRegistrationRequest
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


def test_broker_registers_fenced_with_the_fields_of_its_request() -> None:
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


def test_identical_broker_registration_writes_no_record() -> None:
    cluster = Cluster(brokers=0)
    epoch = register(cluster, new_registration(1))
    cluster.apply(lambda image: unfence_broker(image, 1, epoch, cluster.settings))
    assert register(cluster, new_registration(1), 1) == epoch
    assert cluster.records == ()


def test_registration_of_the_same_incarnation_updates_fields_and_keeps_epoch_and_leaderships() -> None:
    cluster = Cluster(brokers=0)
    epoch = register(cluster, new_registration(1))
    cluster.apply(lambda image: unfence_broker(image, 1, epoch, cluster.settings))
    cluster.create("t")
    assert register(cluster, new_registration(1, rack="r"), 1) == epoch
    broker = cluster.image.brokers[1]
    assert (broker.epoch, broker.fenced, broker.rack) == (epoch, False, "r")
    assert cluster.partition("t").leader == 1


def test_registration_with_another_cluster_id_is_rejected() -> None:
    request = new_registration(1, cluster_id="another")
    assert refusal(Cluster(), request) is ErrorCode.INCONSISTENT_CLUSTER_ID


def test_broker_id_is_taken_while_its_session_is_alive() -> None:
    cluster = Cluster(brokers=1)
    assert refusal(cluster, new_registration(1), 1) is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert register(cluster, new_registration(1), 2) > 0


def test_broker_id_of_a_starting_broker_is_taken() -> None:
    cluster = Cluster(brokers=0)
    cluster.add_broker(1, fenced=True)
    assert refusal(cluster, new_registration(1), 1) is ErrorCode.DUPLICATE_BROKER_REGISTRATION


def test_broker_id_is_free_after_a_controlled_shutdown() -> None:
    cluster = Cluster(brokers=1)
    last = cluster.image.brokers[1].epoch
    assert refusal(cluster, new_registration(1, previous_broker_epoch=last - 1), 1)
    assert register(cluster, new_registration(1, previous_broker_epoch=last), 1) > last
    assert cluster.image.brokers[1].fenced


def test_migrating_zookeeper_broker_is_rejected() -> None:
    request = new_registration(2, is_migrating_zk_broker=True)
    assert refusal(Cluster(), request) is ErrorCode.BROKER_ID_NOT_REGISTERED


@pytest.mark.parametrize(
    "directories",
    [[], [bytes(16)], [directory(2), (99).to_bytes(16, "big")], [directory(2), directory(2)], [directory(1)]],
    ids=["none", "unassigned", "reserved", "twice", "another broker's"],
)
def test_invalid_or_foreign_directory_ids_are_rejected(directories: list[bytes]) -> None:
    request = new_registration(2, directories=directories)
    assert refusal(Cluster(), request) is ErrorCode.INVALID_REGISTRATION


def test_first_unreserved_directory_id_is_accepted() -> None:
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
def test_broker_without_a_finalized_feature_cannot_register(
    name: str, level: int, supported: dict[str, tuple[int, int]]
) -> None:
    cluster = Cluster()
    cluster.replay([FeatureLevelRecord(name=name, feature_level=level)])
    request = new_registration(2, features={"metadata.version": (1, 30), **supported})
    assert refusal(cluster, request) is ErrorCode.UNSUPPORTED_VERSION


def test_broker_must_support_a_metadata_version() -> None:
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


def test_replica_is_in_the_elr_after_a_clean_shutdown() -> None:
    cluster = Cluster()
    partition = stopped(cluster, cluster.image.brokers[1].epoch)
    assert (partition.leader, partition.isr, partition.eligible_leader_replicas) == (NO_LEADER, (), (1,))


@pytest.mark.parametrize("previous", [-1, 99])
def test_replica_is_not_in_the_elr_after_an_unclean_shutdown(previous: int) -> None:
    partition = stopped(Cluster(), previous)
    assert (partition.leader, partition.isr, partition.eligible_leader_replicas) == (NO_LEADER, (), ())


def new_controller(port: int = 9093) -> ControllerRegistrationRequest:
    return ControllerRegistrationRequest(
        controller_id=7,
        incarnation_id=b"i" * 16,
        zk_migration_ready=False,
        listeners=[RegisteredListener(name="C", host="h", port=port, security_protocol=0)],
        features=[SupportedFeature(name="f", min_supported_version=0, max_supported_version=2)],
    )


def test_controller_registration_stores_the_request_fields() -> None:
    cluster = Cluster()
    answer = cluster.apply(partial(register_controller, request=new_controller()))
    assert (answer.error_code, answer.error_message) == (0, None)
    assert cluster.image.controllers == {7: (7, b"i" * 16, {"C": ("h", 9093, 0)}, {"f": (0, 2)})}


def test_identical_controller_registration_writes_no_record() -> None:
    cluster = Cluster()
    cluster.apply(partial(register_controller, request=new_controller()))
    cluster.apply(partial(register_controller, request=new_controller()))
    assert cluster.records == ()
    cluster.apply(partial(register_controller, request=new_controller(9094)))
    assert cluster.image.controllers[7].endpoints["C"].port == 9094
