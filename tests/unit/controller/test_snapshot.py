"""Metadata images as records, and checkpoint files."""

from __future__ import annotations

from itertools import groupby

import pytest

from controller.image import ControllerImage, Endpoint, MetadataImage
from controller.image_builder import apply_records
from controller.raft.log import SnapshotId
from controller.raft.voters import Voter, VoterSet
from controller.records import acl_record, controller_record
from controller.snapshot import decode_snapshot, encode_snapshot, image_records, parse_snapshot_name
from protocol.errors import DecodeError
from protocol.records.metadata import (
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    ProducerIdsRecord,
    UserScramCredentialRecord,
)
from tests.typed import present
from tests.unit.controller.acls.entries import acl
from tests.unit.controller.cluster import Cluster


def contents(image: MetadataImage) -> dict[str, object]:
    """Return the content of an image without its offset and epoch."""
    return {
        name: getattr(image, name)
        for name in set(MetadataImage.__slots__) - {"epoch", "lasting_memo", "memo", "offset"}
    }


def quota(entity: dict[str, str | None], key: str, value: float) -> ClientQuotaRecord:
    parts = [ClientQuotaRecord.Entity(entity_type=kind, entity_name=name) for kind, name in entity.items()]
    return ClientQuotaRecord(entity=parts, key=key, value=value, remove=False)


def busy_cluster() -> Cluster:
    cluster = Cluster(brokers=2)
    cluster.add_broker(3, rack="r", directories=2, fenced=True)
    cluster.create("a", 3, 2, configs={"retention.ms": "5"})
    cluster.create("b", assignments={0: [1, 2]})
    topic, epoch = cluster.image.topic("b"), cluster.image.brokers[3].epoch
    cluster.replay(
        [
            FeatureLevelRecord(name="group.version", feature_level=1),
            FeatureLevelRecord(name="metadata.version", feature_level=30),
            controller_record(ControllerImage(7, b"i" * 16, {"C": Endpoint("h", 9093)}, {"kraft.version": (0, 1)})),
            ProducerIdsRecord(broker_id=1, next_producer_id=5000),
            quota({"user": "u", "client-id": None}, "producer_byte_rate", 5.5),
            quota({"ip": None}, "connection_creation_rate", 7.0),
            PartitionChangeRecord(
                partition_id=0,
                topic_id=present(topic).topic_id,
                leader=2,
                isr=[2],
                adding_replicas=[3],
                eligible_leader_replicas=[1],
                leader_recovery_state=1,
            ),
            BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=epoch, cordoned_log_dirs=[b"c" * 16]),
            UserScramCredentialRecord(
                name="u", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
            ),
            DelegationTokenRecord(
                owner="User:u",
                requester="User:v",
                renewers=["User:w"],
                issue_timestamp=1,
                max_timestamp=9,
                expiration_timestamp=5,
                token_id="t",
            ),
            acl_record(b"1" * 16, acl("allow User:a READ TOPIC:a*")),
            acl_record(b"2" * 16, acl("deny User:b ALL CLUSTER:kafka-cluster from 10.0.0.1")),
        ]
    )
    return cluster


def test_records_of_an_image_rebuild_it() -> None:
    image = busy_cluster().image
    again = apply_records(MetadataImage(cluster_id="cluster"), image_records(image), offset=0, epoch=1)
    assert contents(again) == contents(image)
    empty = contents(MetadataImage(cluster_id="another"))
    assert not [name for name, shown in contents(again).items() if shown == empty[name]]


def test_metadata_version_comes_first() -> None:
    first = next(image_records(busy_cluster().image))
    assert isinstance(first, FeatureLevelRecord)
    assert first.name == "metadata.version"


def test_record_types_are_in_kafkas_order() -> None:
    kinds = [type(record).__name__ for record in image_records(busy_cluster().image)]
    topics = ["TopicRecord", "PartitionRecord"]
    assert [kind for kind, _ in groupby(kinds)] == [
        *("FeatureLevelRecord", "RegisterBrokerRecord", "RegisterControllerRecord"),
        *topics * 2,
        *("ConfigRecord", "ClientQuotaRecord", "ProducerIdsRecord", "AccessControlEntryRecord"),
        "UserScramCredentialRecord",
        "DelegationTokenRecord",
    ]


@pytest.mark.parametrize("count", [0, 1, 999, 1000, 2500])
def test_a_file_holds_the_records_and_the_voters(count: int) -> None:
    voters = VoterSet([Voter(1, b"d" * 16)])
    data = b"".join(encode_snapshot([NoOpRecord()] * count, epoch=4, now_ms=1000, last_timestamp_ms=900, voters=voters))
    snapshot = decode_snapshot(data)
    assert snapshot.records == (NoOpRecord(),) * count
    assert snapshot.kraft_version == 1
    assert snapshot.voters is not None
    assert snapshot.voters.by_id == voters.by_id


def test_snapshot_without_voters_has_a_static_quorum() -> None:
    snapshot = decode_snapshot(b"".join(encode_snapshot([], epoch=0, now_ms=0, last_timestamp_ms=0)))
    assert (snapshot.kraft_version, snapshot.voters) == (0, None)


@pytest.mark.parametrize(
    "batches", [slice(0, -1), slice(1, None), slice(0, 0)], ids=["no footer", "no header", "empty"]
)
def test_incomplete_snapshot_is_rejected(batches: slice) -> None:
    parts = list(encode_snapshot([NoOpRecord()], epoch=0, now_ms=0, last_timestamp_ms=0))
    with pytest.raises(DecodeError):
        decode_snapshot(b"".join(parts[batches]))


def test_snapshot_names_contain_end_offset_and_epoch() -> None:
    name = SnapshotId(815, 3).file_name
    assert name == "00000000000000000815-0000000003.checkpoint"
    assert parse_snapshot_name(name) == (815, 3)
    assert parse_snapshot_name(name + ".part") is None
    assert parse_snapshot_name("bootstrap.checkpoint") is None
