from pathlib import Path

import pytest

from protocol.primitives import uuid_parse
from storage.checkpoint import (
    CheckpointError,
    MetaProperties,
    format_clean_shutdown,
    format_leader_epochs,
    format_meta_properties,
    format_offsets,
    format_partition_metadata,
    parse_clean_shutdown,
    parse_leader_epochs,
    parse_meta_properties,
    parse_offsets,
    parse_partition_metadata,
)
from storage.log.leader_epochs import EpochEntry

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka_directory"
TOPIC_ID = uuid_parse("8fIgmtkLQ8O8kaAaX2ZesQ")


def golden(name: str) -> str:
    return (GOLDEN / name).read_text()


def test_kafkas_offset_checkpoints_are_read() -> None:
    offsets = parse_offsets(golden("recovery-point-offset-checkpoint"), "f")
    assert len(offsets) == 71
    assert offsets["txn", 0] == 17
    assert offsets["java-zstd", 0] == 5
    assert parse_offsets(golden("replication-offset-checkpoint"), "f") == offsets
    assert parse_offsets(golden("log-start-offset-checkpoint"), "f") == {}


def test_an_empty_checkpoint_has_no_offsets() -> None:
    assert parse_offsets(golden("cleaner-offset-checkpoint"), "f") == {}
    assert parse_leader_epochs("", "f") == []


def test_offsets_are_written_as_kafka_does() -> None:
    assert format_offsets({("a.b-c_d", 0): 7, ("t", 12): 2**40}) == "0\n2\na.b-c_d 0 7\nt 12 1099511627776\n"
    assert format_offsets({}) == "0\n0\n"


def test_kafkas_leader_epochs_are_read_and_written() -> None:
    text = golden("txn-0/leader-epoch-checkpoint")
    assert parse_leader_epochs(text, "f") == [EpochEntry(0, 0)]
    assert format_leader_epochs([EpochEntry(0, 0)]) == text
    assert format_leader_epochs([EpochEntry(1, 0), EpochEntry(3, 99)]) == "0\n2\n1 0\n3 99\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("1\n0\n", 1),
        ("x\n", 1),
        ("0\n", 2),
        ("0\ntwo\nt 0 1\n", 2),
        ("0\n2\nt 0 1\n", 2),
        ("0\n1\nt 0 1\nu 0 1\n", 2),
        ("0\n1\nt 0\n", 3),
        ("0\n2\nt 0 1\nt 1 2 3\n", 4),
        ("0\n1\nt x 1\n", 3),
        ("0\n1\nt 0 -1\n", 3),
        ("0\n1\nt 0 1\u00b2\n", 3),
        ("0\n1\n\0\0\0\0\n", 3),
    ],
)
def test_a_damaged_offset_checkpoint_names_file_and_line(text: str, line: int) -> None:
    with pytest.raises(CheckpointError, match=f"^/data/offsets, line {line}: ") as refused:
        parse_offsets(text, "/data/offsets")
    assert (refused.value.file, refused.value.line) == ("/data/offsets", line)


def test_a_damaged_leader_epoch_checkpoint_names_file_and_line() -> None:
    with pytest.raises(CheckpointError, match=r"^epochs, line 4: 3 fields instead of 2"):
        parse_leader_epochs("0\n2\n0 0\n1 5 9\n", "epochs")


def test_kafkas_partition_metadata_is_read_and_written() -> None:
    text = golden("txn-0/partition.metadata")
    assert parse_partition_metadata(text, "f") == TOPIC_ID
    assert format_partition_metadata(TOPIC_ID) == text


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("version: 0\n", 2),
        ("version: 1\ntopic_id: 8fIgmtkLQ8O8kaAaX2ZesQ", 1),
        ("version: 0\ntopic_id: 8fIgmtkLQ8O8kaAaX2Zes", 2),
        ("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", 2),
        ("version: 0\ntopic_id 8fIgmtkLQ8O8kaAaX2ZesQ", 2),
    ],
)
def test_damaged_partition_metadata_names_file_and_line(text: str, line: int) -> None:
    with pytest.raises(CheckpointError, match=f"^partition.metadata, line {line}: "):
        parse_partition_metadata(text, "partition.metadata")


def test_kafkas_meta_properties_are_read() -> None:
    meta = parse_meta_properties(golden("meta.properties"), "f")
    assert (meta.cluster_id, meta.node_id) == ("WV5yoIVIQ7q2wIB0pOwZQg", 1)
    assert meta.directory_id is not None


@pytest.mark.parametrize("directory_id", [TOPIC_ID, None])
def test_meta_properties_survive_a_round_trip(directory_id: bytes | None) -> None:
    meta = MetaProperties("a=b: c", 3, directory_id)
    assert parse_meta_properties(format_meta_properties(meta), "f") == meta


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("version=1\nnode.id=1\n", "line 1: cluster.id is missing"),
        ("version=1\ncluster.id=x\n", "line 1: node.id is missing"),
        ("#\nversion=0\ncluster.id=x\nnode.id=1\n", "line 2: version 0"),
        ("version=1\ncluster.id=x\nnode.id=one\n", "line 3: 'one'"),
        ("version=1\ncluster.id=x\nnode.id=1\ndirectory.id=y\n", "line 4: not a uuid"),
        ("version=1\ncluster.id=\\u12\nnode.id=1\n", "line 2: "),
    ],
)
def test_damaged_meta_properties_name_file_and_line(text: str, problem: str) -> None:
    with pytest.raises(CheckpointError, match=f"^meta.properties, {problem}"):
        parse_meta_properties(text, "meta.properties")


def test_kafkas_clean_shutdown_is_read_and_written() -> None:
    text = golden(".kafka_cleanshutdown")
    epoch = parse_clean_shutdown(text, "f")
    assert epoch > 0
    assert format_clean_shutdown(epoch) == text
    assert parse_clean_shutdown(format_clean_shutdown(), "f") == -1


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "1", '{"version":0}', '{"version":1,"brokerEpoch":2}', '{"version":0,"brokerEpoch":"2"}']
)
def test_a_damaged_clean_shutdown_names_its_file(text: str) -> None:
    with pytest.raises(CheckpointError, match=r"^\.kafka_cleanshutdown, line 1: "):
        parse_clean_shutdown(text, ".kafka_cleanshutdown")


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("x\n", "version"),
        ("0\n", "count"),
        ("0\n2\nt 0 1\n", "count"),
        ("0\n1\nt 0\n", "offset"),
        ("0\n1\nt x 1\n", "partition"),
        ("0\n1\nt 0 -1\n", "offset"),
        (f"0\n1\nt 0 {'9' * 5000}\n", "offset"),
        (f"0\n1\nt 0 {2**63}\n", "offset"),
        ("0\n2\nt 0 1\nt 0 2\n", "partition"),
    ],
)
def test_error_names_the_damaged_field(text: str, field: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        parse_offsets(text, "recovery-point-offset-checkpoint")
    assert (caught.value.field, caught.value.is_newer) == (field, False)


def test_version_of_a_later_kafka_is_distinguished_from_damage() -> None:
    with pytest.raises(CheckpointError) as caught:
        parse_offsets("1\n0\n", "recovery-point-offset-checkpoint")
    assert (caught.value.field, caught.value.is_newer) == ("version", True)


@pytest.mark.parametrize(("text", "field"), [("0\n2\n1 0\n1 5\n", "epoch"), ("0\n2\n1 5\n2 5\n", "start_offset")])
def test_leader_epochs_that_do_not_increase_are_damage(text: str, field: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        parse_leader_epochs(text, "leader-epoch-checkpoint")
    assert caught.value.field == field
