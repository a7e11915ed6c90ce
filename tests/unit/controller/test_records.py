"""Images of brokers, controllers and partitions converted to records and back."""

from __future__ import annotations

import pytest

from controller.image import BrokerImage, ControllerImage, Endpoint, MetadataImage, PartitionImage
from controller.image_builder import apply_records
from controller.records import broker_record, controller_record, partition_record
from protocol.records.metadata import TopicRecord, decode_metadata_record, encode_metadata_record
from protocol.schema import Message

ID = b"i" * 16
D1, D2 = b"1" * 16, b"2" * 16


def again(*records: Message) -> MetadataImage:
    read = [decode_metadata_record(encode_metadata_record(record)) for record in records]
    return apply_records(MetadataImage(cluster_id="c"), read, offset=0, epoch=0)


@pytest.mark.parametrize(
    "broker",
    [
        BrokerImage(3, 17, ID, {}, {}, None, True, False, ()),
        BrokerImage(3, 17, ID, {"A": Endpoint("h", 65535, 1)}, {"f": (0, 2)}, "rack", False, True, (D1, D2), (D2,)),
        BrokerImage(3, 17, ID, {}, {}, "", False, False, (D1,), ()),
    ],
)
def test_a_broker(broker: BrokerImage) -> None:
    assert again(broker_record(broker)).brokers == {3: broker}


@pytest.mark.parametrize(
    "controller",
    [
        ControllerImage(3, ID, {}, {}),
        ControllerImage(3, ID, {"C": Endpoint("h", 65535, 1)}, {"f": (0, 2), "g": (1, 1)}),
    ],
)
def test_a_controller(controller: ControllerImage) -> None:
    assert again(controller_record(controller)).controllers == {3: controller}


@pytest.mark.parametrize(
    "partition",
    [
        PartitionImage(0, (1,), (1,), 1, 0, 0, (D1,)),
        PartitionImage(0, (1, 2), (), -1, 7, 9, (D1, D2), (1,), (3,), 1, (2,), (1,)),
    ],
)
def test_a_partition(partition: PartitionImage) -> None:
    image = again(TopicRecord(name="t", topic_id=ID), partition_record(ID, partition))
    assert image.partition("t", 0) == partition
