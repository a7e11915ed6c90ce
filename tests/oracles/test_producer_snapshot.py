"""Our producer snapshots match the definition in Apache Kafka's storage jar, field by field."""

from struct import pack

from protocol.checksum import crc32c
from storage.log.producer_snapshot import VERSION, encode_snapshot
from storage.log.producer_state import AppendedBatch, ProducerStateEntry, ProducerStateManager
from tests.oracles.definitions import kafka_definitions

CODES = {"int16": "h", "int32": "i", "int64": "q"}
VALUES = {
    "ProducerId": 1,
    "Epoch": 2,
    "LastSequence": 3,
    "LastOffset": 4,
    "OffsetDelta": 5,
    "Timestamp": 6,
    "CoordinatorEpoch": 7,
    "CurrentTxnFirstOffset": 8,
}


def test_a_snapshot_has_the_fields_of_kafkas_definition() -> None:
    definition = kafka_definitions()["ProducerSnapshot"]
    assert (definition["validVersions"], definition["flexibleVersions"]) == (str(VERSION), "none")
    crc, entries = definition["fields"]
    assert (crc["name"], crc["type"]) == ("Crc", "uint32")
    assert (entries["name"], entries["type"]) == ("ProducerEntries", "[]ProducerEntry")

    form = ">i" + "".join(CODES[field["type"]] for field in entries["fields"])
    body = pack(form, 1, *(VALUES[field["name"]] for field in entries["fields"]))
    entry = ProducerStateEntry(2, 7, 6, 8, [AppendedBatch(3, 4, 5, 6)])
    assert encode_snapshot(ProducerStateManager(9, {1: entry})) == pack(">hI", VERSION, crc32c(body)) + body
